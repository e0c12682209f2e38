// Complaints about data: a shader that meets what breaks a rule goes on with something harmless, and says so. The host
// reads the flag with the outputs, and the execution fails with the complaint that `Lowering.flag` was given.
//
// FLAG(binding) declares the tensor `flag`; the push constants must have a `flag_offset`.

#ifndef NNVK_FLAG_GLSL
#define NNVK_FLAG_GLSL

#define FLAG(BINDING) layout(set = 0, binding = BINDING) writeonly buffer Flag { uint flag[]; };

// Complain of an integer, or of a float by its bits.
#define COMPLAIN(number)                       \
    {                                          \
        flag[flag_offset] = 1u;                \
        flag[flag_offset + 1u] = uint(number); \
    }

#endif
