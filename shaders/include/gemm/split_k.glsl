// SUMS_SPLIT: several workgroups compute slices of K of one tile, so that a device with many units has enough work if
// there are few tiles. Each workgroup stores its sums. The last one, which each invocation determines separately, adds
// up the K slices in order, so the result does not depend on which one is last. Include this after VEC4S, SUMS, the
// vectors of sums of an invocation, and MAX_SUMS.

#ifndef NNVK_GEMM_SPLIT_K_GLSL
#define NNVK_GEMM_SPLIT_K_GLSL

#ifdef SUMS_SPLIT
layout(constant_id = 10) const uint SPLIT_K = 2;
#else
const uint SPLIT_K = 1;
#endif

// The vec4s of K of a K slice.
struct Stretch {
    uint first;
    uint end;
};

// A slice of the `vec4s` of K, for a tile that handles `together` of them at once.
Stretch stretch_of(uint k_slice, uint vec4s, uint together) {
#ifdef SUMS_SPLIT
    uint each = divide_up(divide_up(vec4s, together), SPLIT_K) * together;
    return Stretch(min(k_slice * each, vec4s), min((k_slice + 1u) * each, vec4s));
#else
    return Stretch(0u, vec4s);
#endif
}

// The beginning of sums. K slices begin with zero, because the bias counts once.
ACC4 start_of(Output target) {
#ifdef SUMS_SPLIT
    return ACC4(0);
#else
    return target.bias;
#endif
}

#ifdef SUMS_SPLIT
const uint INVOCATIONS = gl_WorkGroupSize.x * gl_WorkGroupSize.y;

#ifdef ARITHMETIC_HALF
// Sums are stored as 16-bit floats, like factors and results, and scaled so that they do not overflow.
#define LEFT_OF(sum) pack_float16((sum) * left_scale)
#define with_left(sum, left) (unpack_float16(left) * (1.0 / left_scale) + (sum))
#else
#define LEFT_OF(sum) (sum)
#define with_left(sum, left) with_total(sum, left)
#endif

// Neighbouring invocations write neighbouring vectors.
uint place_of_sum(uint tile, uint k_slice, uint number) {
    return sums_offset / LEFT_WORDS + ((tile * SPLIT_K + k_slice) * SUMS + number) * INVOCATIONS + gl_LocalInvocationIndex;
}

void leave(Place place, TOTAL sums[MAX_SUMS]) {
    [[unroll]] for (uint n = 0; n < SUMS; n++) left_sums[place_of_sum(place.tile, place.k_slice, n)] = LEFT_OF(sums[n]);
}

// Whether all K slices have stored their sums. The counters are zero again afterwards.
bool comes_last(Place place) {
    uint at = counters_offset + place.tile * INVOCATIONS + gl_LocalInvocationIndex;
    memoryBarrierBuffer();
    bool last = atomicAdd(counters[at], 1u) == SPLIT_K - 1u;
    memoryBarrierBuffer();
    if (last) counters[at] = 0u;
    return last;
}

// K slices whose sums an invocation loads together, so that it waits for them once. It has fewer registers if the tile has
// said so by SUMS_TOGETHER.
#ifndef SUMS_TOGETHER
#define SUMS_TOGETHER 16
#endif
const uint SLICES_TOGETHER = SUMS < SUMS_TOGETHER ? SUMS_TOGETHER / SUMS : 1, MAX_SLICES_TOGETHER = 16;
const uint SLICES_LEFT = SPLIT_K % SLICES_TOGETHER;

// A function that adds the stored sums of COUNT K slices from `first` on. COUNT is a constant and no parameter, because
// `stored` is in registers only if all of its indexes are constants.
#define ADD_SLICES(NAME, COUNT)                                                                             \
    void NAME(Place place, uint first, inout TOTAL sums[MAX_SUMS]) {                                        \
        LEFT stored[MAX_SLICES_TOGETHER][MAX_SUMS];                                                         \
        [[unroll]] for (uint p = 0; p < COUNT; p++) {                                                       \
            [[unroll]] for (uint n = 0; n < SUMS; n++)                                                      \
                stored[p][n] = left_sums[place_of_sum(place.tile, first + p, n)];                           \
        }                                                                                                   \
        [[unroll]] for (uint p = 0; p < COUNT; p++) {                                                       \
            [[unroll]] for (uint n = 0; n < SUMS; n++) sums[n] = with_left(sums[n], stored[p][n]);          \
        }                                                                                                   \
    }
ADD_SLICES(add_slices_together, SLICES_TOGETHER)
ADD_SLICES(add_slices_left, SLICES_LEFT)

// The sum over all K slices, and the bias.
void add_up(Place place, Output targets[MAX_VEC4S], out TOTAL sums[MAX_SUMS]) {
    [[unroll]] for (uint n = 0; n < SUMS; n++) sums[n] = TOTAL_FROM(targets[n % VEC4S].bias);
    const uint whole = SPLIT_K - SLICES_LEFT;
    for (uint p = 0; p < whole; p += SLICES_TOGETHER) add_slices_together(place, p, sums);
    add_slices_left(place, whole, sums);
}
#endif

#endif
