// Device assertions about data. If data break a rule, a shader continues with a harmless value and raises a flag. The
// host reads the flag with the outputs, and the execution fails with the assertion that `Lowering.flag` was given.
//
// FLAG(binding) declares the tensor `flag`; the push constants must have a `flag_offset`. A shader with several rules
// has a FLAG_AS(binding, Block, name) for each rule.

#ifndef NNVK_FLAG_GLSL
#define NNVK_FLAG_GLSL

#define FLAG(BINDING) FLAG_AS(BINDING, Flag, flag)
#define FLAG_AS(BINDING, Block, name) layout(set = 0, binding = BINDING) buffer Block { uint name[]; };

// Whether an assertion is the first one, whose numbers are reported.
#define IS_FIRST(name) (atomicCompSwap(name[name##_offset], 0u, 1u) == 0u)

// Raise the flag with an integer and an index.
#define RAISE_AT(name, index, number)                \
    if (IS_FIRST(name)) {                            \
        name[name##_offset + 1u] = uint(index);      \
        name[name##_offset + 2u] = uint(number);     \
    }

// Raise the flag with an integer, or with the bits of a float.
#define RAISE(number)                                                  \
    {                                                                  \
        if (IS_FIRST(flag)) flag[flag_offset + 1u] = uint(number);     \
    }

#endif
