// Folds of elements into vec4s of results. LANES invocations of a workgroup fold the same vec4 together, each a share
// of it, and others fold the neighbouring vec4s (lowering/reductions/folds.py). Include this after FOLD_LANES_ID, the
// number of the specialisation constant LANES; LOCAL follows it. FOLD_VALUE is the type of a result, if it is not ACC4.

#ifndef NNVK_FOLD_GLSL
#define NNVK_FOLD_GLSL

#ifndef FOLD_VALUE
#define FOLD_VALUE ACC4
#endif

layout(constant_id = FOLD_LANES_ID) const uint LANES = 1;
layout(constant_id = FOLD_LANES_ID + 1) const uint LOCAL = 64;    // invocations of a workgroup

const uint ACROSS = LOCAL / LANES;

uint own_four() {
    return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * ACROSS + gl_LocalInvocationID.x % ACROSS;
}

uint own_lane() { return gl_LocalInvocationID.x / ACROSS; }

shared FOLD_VALUE shares[LOCAL];

// The first element of this invocation's share, which is every LANES-th element. An invocation without a vec4 has an
// empty share.
uint own_share(uint vec4s) { return own_four() < vec4s ? own_lane() : 0x80000000u; }

// Fold the results of all lanes into the first lane. Whole workgroups must call this.
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
