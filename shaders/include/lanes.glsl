// Reductions over the invocations of a workgroup. Include this after the specialisation constant LOCAL, the number of
// invocations, which is a power of two. LANES_VALUE is the type of the values, if it is not float.

#ifndef NNVK_LANES_GLSL
#define NNVK_LANES_GLSL

#ifndef LANES_VALUE
#define LANES_VALUE float
#endif

// Lanes whose values one lane reduces in a round. Waiting for shared memory takes longer than reading a few more
// values.
const uint TAKEN = 8;
const uint TAKERS = LOCAL > TAKEN ? LOCAL / TAKEN : 0u;
const uint LEFT = TAKERS != 0u ? TAKERS : LOCAL, FIRST_LEFT = TAKERS != 0u ? LOCAL : 0u;

shared LANES_VALUE partial[LOCAL + TAKERS];    // of all lanes, followed by the partial results

// Replace each lane's value by that of all lanes. There must be a barrier before the next use.
#define OF_ALL_LANES(lane, value, combine)                                                                \
    {                                                                                                     \
        partial[lane] = value;                                                                            \
        barrier();                                                                                        \
        if (TAKERS != 0u) {                                                                               \
            if (lane < TAKERS) {                                                                          \
                [[unroll]] for (uint other = 1u; other < TAKEN; other++)                                  \
                    value = combine(value, partial[other * TAKERS + lane]);                               \
                partial[LOCAL + lane] = value;                                                            \
            }                                                                                             \
            barrier();                                                                                    \
        }                                                                                                 \
        value = partial[FIRST_LEFT];                                                                      \
        for (uint other = 1u; other < LEFT; other++) value = combine(value, partial[FIRST_LEFT + other]); \
    }

float sum_of(float a, float b) { return a + b; }

#endif
