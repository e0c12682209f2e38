// What the invocations of a workgroup find together. To be included after the specialisation constant LOCAL, their number,
// which is a power of two; LANES_VALUE is the type of what each of them has found, if that is no float.

#ifndef NNVK_LANES_GLSL
#define NNVK_LANES_GLSL

#ifndef LANES_VALUE
#define LANES_VALUE float
#endif

// Lanes whose values one lane takes in a step: waiting for shared memory takes longer than a few values more.
const uint RADIX = 8;
const uint TAKEN = LOCAL > RADIX ? LOCAL / RADIX : 0u, TAKEN_AGAIN = TAKEN > RADIX ? TAKEN / RADIX : 0u;
const uint LEFT = TAKEN_AGAIN != 0u ? TAKEN_AGAIN : TAKEN != 0u ? TAKEN : LOCAL;
const uint FIRST_LEFT = TAKEN_AGAIN != 0u ? LOCAL + TAKEN : TAKEN != 0u ? LOCAL : 0u;

// Values of all lanes, behind them those of as many as have TAKEN some, and behind them once more.
shared LANES_VALUE partial[LOCAL + TAKEN + TAKEN_AGAIN];

#define TAKE_SOME(lane, value, combine, from, count)                                      \
    if (lane < count) {                                                                   \
        value = partial[from + lane];                                                     \
        [[unroll]] for (uint other = 1u; other < RADIX; other++)                          \
            value = combine(value, partial[from + other * count + lane]);                 \
        partial[from + RADIX * count + lane] = value;                                     \
    }                                                                                     \
    barrier();

// Makes of each lane's value that of all lanes. There has to be a barrier before the next time.
#define OF_ALL_LANES(lane, value, combine)                                                \
    {                                                                                     \
        partial[lane] = value;                                                            \
        barrier();                                                                        \
        if (TAKEN != 0u) { TAKE_SOME(lane, value, combine, 0u, TAKEN) }                   \
        if (TAKEN_AGAIN != 0u) { TAKE_SOME(lane, value, combine, LOCAL, TAKEN_AGAIN) }    \
        value = partial[FIRST_LEFT];                                                      \
        for (uint other = 1u; other < LEFT; other++) value = combine(value, partial[FIRST_LEFT + other]); \
    }

float sum_of(float a, float b) { return a + b; }

#endif
