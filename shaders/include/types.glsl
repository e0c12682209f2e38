// Element types. A shader variant is compiled with exactly one DTYPE_* defined; what differs between the
// types is here, so that a shader's body is written once.
//
//   DTYPE_F32   32-bit floats, four to a vec4 view
//   DTYPE_I32   32-bit integers, four to an ivec4 view
//   DTYPE_Q8    dense bytes, read as 32-bit words: TENSOR_QUANT8_ASYMM as it is, TENSOR_QUANT8_ASYMM_SIGNED
//               moved by 128 to the unsigned range with a sign mask (see quant.glsl)
//
// ACC4 and ACC are the types of four accumulators and of one; LANES4 is the type that four elements have
// where they lie in a tensor.

#ifndef NNVK_TYPES_GLSL
#define NNVK_TYPES_GLSL

#if defined(DTYPE_F32)
#define ACC float
#define ACC4 vec4
#define LANES4 vec4
#elif defined(DTYPE_I32)
#define ACC int
#define ACC4 ivec4
#define LANES4 ivec4
#elif defined(DTYPE_Q8)
#define ACC int
#define ACC4 ivec4
#define LANES4 uint
#endif

#endif
