// The end of a workgroup that verifies results by a checksum: the sum of what all invocations know, and the report of a
// difference. Include this after the push constants (`flag_offset`) and the tensors `checks` and
// `flag`. CHECK_PLACE(i) may be defined, where check words are apart.

#ifndef NNVK_CHECKSUM_VERDICT_GLSL
#define NNVK_CHECKSUM_VERDICT_GLSL

#define LOCAL_SIZE gl_WorkGroupSize.x

// The sum of the check words, and the sum that is due, as far as an invocation knows them.
struct Sums {
    uint stored;
    uint due;
};

#ifdef SUMS_WORKGROUP
shared uvec2 parts_of_sums[LOCAL_SIZE];

// Invocations add up ADDENDS each of COUNT sums in shared memory. Steps are few, because all invocations wait for each other
// and for their loads. COUNT is a constant and no parameter, so that drivers unroll the loop.
const uint ADDENDS = 16, SECOND = (LOCAL_SIZE + ADDENDS - 1u) / ADDENDS, THIRD = (SECOND + ADDENDS - 1u) / ADDENDS;
#define ADD_UP(COUNT)                                                                                \
    {                                                                                                \
        const uint LANES = ((COUNT) + ADDENDS - 1u) / ADDENDS;                                       \
        barrier();                                                                                   \
        if (gl_LocalInvocationID.x < LANES) {                                                        \
            uvec2 others[ADDENDS];                                                                   \
            [[unroll]] for (uint n = 1; n < ADDENDS; n++)                                            \
                others[n] = n * LANES < (COUNT) ? parts_of_sums[gl_LocalInvocationID.x + n * LANES]  \
                                                : uvec2(0u);                                         \
            [[unroll]] for (uint n = 1; n < ADDENDS; n++) {                                          \
                sums.stored += others[n].x;                                                          \
                sums.due += others[n].y;                                                             \
            }                                                                                        \
            parts_of_sums[gl_LocalInvocationID.x] = uvec2(sums.stored, sums.due);                    \
        }                                                                                            \
    }
#endif

#ifndef CHECK_PLACE
#define CHECK_PLACE(i) (i)
#endif

// The sum of `count` check words at the places CHECK_PLACE behind the first one, as far as an invocation adds them up. It
// waits once for several of them.
uint sum_of_checks(uint first, uint count) {
    const uint TOGETHER = 4;
    uint sum = 0u;
#ifdef SUMS_SUBGROUP
    // The words lie side by side. A vector loads vec4s.
    uint begin = checks_first + first, end = begin + count;
    for (uint i = begin / 4u + gl_LocalInvocationID.x; i * 4u < end; i += LOCAL_SIZE) {
        uvec4 places = i * 4u + uvec4(0u, 1u, 2u, 3u), loaded = checks_wide_at(i);
        loaded = mix(uvec4(0u), loaded, lessThan(places - begin, uvec4(count)));
        sum += loaded.x + loaded.y + loaded.z + loaded.w;
    }
    return sum;
#endif
    for (uint i = gl_LocalInvocationID.x; i < count; i += TOGETHER * LOCAL_SIZE) {
        uint loaded[TOGETHER];
        [[unroll]] for (uint n = 0; n < TOGETHER; n++)
            loaded[n] = checks_at(checks_first + first + CHECK_PLACE(min(i + n * LOCAL_SIZE, count - 1u)));
        [[unroll]] for (uint n = 0; n < TOGETHER; n++) sum += mix(0u, loaded[n], i + n * LOCAL_SIZE < count);
    }
    return sum;
}

// Add up what all invocations of a workgroup know; the first one has the sums.
void add_up(inout Sums sums) {
#ifdef SUMS_SUBGROUP
    // A workgroup is a subgroup.
    [[unroll]] for (uint lanes = LOCAL_SIZE / 2u; lanes > 0u; lanes /= 2u) {
        sums.stored += subgroupShuffleXor(sums.stored, lanes);
        sums.due += subgroupShuffleXor(sums.due, lanes);
    }
#else
    parts_of_sums[gl_LocalInvocationID.x] = uvec2(sums.stored, sums.due);
    ADD_UP(LOCAL_SIZE)
    if (SECOND > 1u) ADD_UP(SECOND)
    if (THIRD > 1u) ADD_UP(THIRD)
#endif
}

// Compare both sums of a region of a product, and report the first difference of an execution with the pixel where it
// begins.
void compare(Sums sums, uint region_of_product, uint pixel) {
    // The host knows the sum over all regions.
    atomicAdd(flag[flag_offset + 5u], (region_of_product + 1u) * checksum_factor(number));
    if (sums.stored != sums.due) {
        if (IS_FIRST(flag)) {
            flag[flag_offset + 1u] = number;
            flag[flag_offset + 2u] = pixel;
            flag[flag_offset + 3u] = sums.stored;
            flag[flag_offset + 4u] = sums.due;
        }
    }
}

#endif
