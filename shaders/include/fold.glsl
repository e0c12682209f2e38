// Elements that are folded into vec4s of results: LANES invocations of a workgroup fold the same four together, each
// its share, beside others that fold the neighbouring vec4s (lowering/folds.py). To be included after the number of the
// specialisation constant FOLD_LANES_ID, which LOCAL follows.

#ifndef NNVK_FOLD_GLSL
#define NNVK_FOLD_GLSL

layout(constant_id = FOLD_LANES_ID) const uint LANES = 1;
layout(constant_id = FOLD_LANES_ID + 1) const uint LOCAL = 64;    // invocations of a workgroup

const uint ACROSS = LOCAL / LANES;

uint own_four() {
    return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * ACROSS + gl_LocalInvocationID.x % ACROSS;
}

uint own_lane() { return gl_LocalInvocationID.x / ACROSS; }

shared ACC4 shares[LOCAL];

// The first of the elements that are this invocation's, of which every LANES-th is; none where it has none of so many
// vec4s.
uint own_share(uint vec4s) { return own_four() < vec4s ? own_lane() : 0x80000000u; }

// Fold what all lanes have: the first one has it all then. To be called by whole workgroups.
#define FOLD_LANES(result, FOLD)                                                                   \
    if (LANES > 1) {                                                                               \
        uint own = gl_LocalInvocationID.x;                                                         \
        shares[own] = result;                                                                      \
        barrier();                                                                                 \
        for (uint half_ = LANES / 2; half_ > 0; half_ /= 2) {                                      \
            if (own_lane() < half_) shares[own] = FOLD(shares[own], shares[own + half_ * ACROSS]); \
            barrier();                                                                             \
        }                                                                                          \
        result = shares[own];                                                                      \
    }

#endif
