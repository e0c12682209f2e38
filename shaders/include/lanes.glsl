// What the invocations of a workgroup find together. To be included after the specialisation constant LOCAL, their number,
// which is a power of two; LANES_VALUE is the type of what each of them has found, if that is no float.

#ifndef NNVK_LANES_GLSL
#define NNVK_LANES_GLSL

#ifndef LANES_VALUE
#define LANES_VALUE float
#endif

// Lanes whose values one lane takes at once: waiting for shared memory takes longer than a few values more.
const uint TAKEN = 8;
const uint TAKERS = LOCAL > TAKEN ? LOCAL / TAKEN : 0u;
const uint LEFT = TAKERS != 0u ? TAKERS : LOCAL, FIRST_LEFT = TAKERS != 0u ? LOCAL : 0u;

shared LANES_VALUE partial[LOCAL + TAKERS];    // of all lanes, and behind them of those who have taken some

// Makes of each lane's value that of all lanes. There has to be a barrier before the next time.
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
