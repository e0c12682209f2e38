// The end of a workgroup that verifies results by a checksum: the sum of what all invocations know, and the report of a
// difference. Include this after the push constants (`flag_offset`, `number`) and the tensor `flag`.

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
#endif

// Compare both sums of a workgroup, and report the first difference of an execution with the pixel where it begins.
void compare(Sums sums, uint pixel) {
#ifdef SUMS_SUBGROUP
    // A workgroup is a subgroup.
    [[unroll]] for (uint lanes = LOCAL_SIZE / 2u; lanes > 0u; lanes /= 2u) {
        sums.stored += subgroupShuffleXor(sums.stored, lanes);
        sums.due += subgroupShuffleXor(sums.due, lanes);
    }
#else
    parts_of_sums[gl_LocalInvocationID.x] = uvec2(sums.stored, sums.due);
    [[unroll]] for (uint lanes = LOCAL_SIZE / 2u; lanes > 0u; lanes /= 2u) {
        barrier();
        if (gl_LocalInvocationID.x < lanes) {
            uvec2 more = parts_of_sums[gl_LocalInvocationID.x + lanes];
            sums.stored += more.x;
            sums.due += more.y;
            parts_of_sums[gl_LocalInvocationID.x] = uvec2(sums.stored, sums.due);
        }
    }
#endif
    if (gl_LocalInvocationID.x != 0u) return;
    atomicAdd(flag[flag_offset + 5u], 1u);    // the host knows how many there are
    if (sums.stored != sums.due) {
        if (IS_FIRST_COMPLAINT(flag)) {
            flag[flag_offset + 1u] = number;
            flag[flag_offset + 2u] = pixel;
            flag[flag_offset + 3u] = sums.stored;
            flag[flag_offset + 4u] = sums.due;
        }
    }
}

#endif
