// What the invocations of a workgroup find together. To be included after the specialisation constant LOCAL, their number.

#ifndef NNVK_LANES_GLSL
#define NNVK_LANES_GLSL

shared float partial[LOCAL];

// Makes of each lane's value that of all lanes. Few lanes wait less where each takes all values by itself.
#define OF_ALL_LANES(value, combine)                                            \
    partial[lane] = value;                                                      \
    barrier();                                                                  \
    if (LOCAL <= 8) {                                                           \
        value = partial[0];                                                     \
        for (uint other = 1; other < LOCAL; ++other) value = combine(value, partial[other]); \
    } else {                                                                    \
        for (uint half_ = LOCAL / 2; half_ > 0; half_ /= 2) {                   \
            if (lane < half_) partial[lane] = combine(partial[lane], partial[lane + half_]); \
            barrier();                                                          \
        }                                                                       \
        value = partial[0];                                                     \
    }

float sum_of(float a, float b) { return a + b; }

#endif
