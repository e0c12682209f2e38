// Tensors and their element types. A shader variant is compiled with exactly one DTYPE_* defined. The differences
// between the types are here, so that a shader's body is written once.
//
//   DTYPE_F32            32-bit floats
//   DTYPE_F16            16-bit floats; computed as 32-bit floats, and rounded to nearest when they are stored
//   DTYPE_I32            32-bit integers
//   DTYPE_BOOL           truth values, one byte each: loaded as 0 or 1
//   DTYPE_Q8, DTYPE_Q16  quantised values of 8 and 16 bits: loaded as unsigned values; a sign mask shifts signed values
//                        by half the range (see quant.glsl)
//   DTYPE_B8, _B16, _B32 elements of 8, 16 or 32 bits that are only moved
//
// READS(binding, Block, name) declares a tensor that is read, WRITES one that is written, and CHANGES one that is both.
// The push constant <name>_offset is the word where it begins. Elements of less than 32 bits are dense in words, so
// that no storage feature is needed, and every tensor is padded to whole vec4s. With NATIVE_16, 16-bit elements can
// also be stored one by one:
//
//   LOAD(name, at)         an element, as ACC
//   LOAD4(name, i)         elements 4 i to 4 i + 3, as ACC4
//   GATHER4(name, at)      the elements at four indexes (a uvec4), as ACC4
//   STORE4(name, i, v)     the same, from an ACC4
//   STORE(name, at, v)     one element of a tensor declared with CHANGES, while other invocations write its neighbours
//
// Quantised values need a `sign_mask` in scope. LOAD_WITH, LOAD4_WITH and STORE4_WITH take a mask as an argument, for
// shaders whose tensors differ. LOAD_FROM_WITH counts elements from the beginning of the buffer; a word has WORD_VALUES
// of them. FOUR is the type of four elements in memory; DECODE4 and ENCODE4 convert it to an ACC4 and back. IS_FLOAT is
// defined for floats, IS_QUANTISED for quantised values, and STORED_ALONE if an element can be stored independently of
// its neighbours: STORE_FROM(name, at, v) counts it from the beginning of the buffer.
//
// ROUNDED(v) is an ACC4 with the values that a store and a load would give. The shader declares ROUNDS(name) for any of
// its tensors before it, after the push constants.
//
// Four weights that are numbers are a WEIGHT4 in memory, of WEIGHT_WORDS words: as in the operand if elements are
// STORED_ALONE, otherwise as 32-bit numbers. WEIGHT4_OF converts from an ACC4, and FROM_WEIGHT4 back. WEIGHTS_ARE_BYTES
// is defined if weights are bytes: for quantised values, and with ARITHMETIC_INT8 for 32-bit floats.

#ifndef NNVK_TENSORS_GLSL
#define NNVK_TENSORS_GLSL

#include "quant.glsl"
#include "multiply_add.glsl"
#include "texels.glsl"

#define TENSOR_VIEWS(ACCESS, BINDING, Block, name)                             \
    layout(set = 0, binding = BINDING) ACCESS buffer Block { WORD name[]; };   \
    layout(set = 0, binding = BINDING) ACCESS buffer Block##_Fours { FOUR name##_vec4s[]; };
#define READS(BINDING, Block, name)        \
    READ_VIEW(BINDING, Block, name, WORD)  \
    READ_VIEW(BINDING, Block##_Fours, name##_vec4s, FOUR)
#define WRITES(BINDING, Block, name) ELEMENT_VIEW(BINDING, Block, name) TENSOR_VIEWS(writeonly, BINDING, Block, name)
#define CHANGES(BINDING, Block, name)                                                            \
    ELEMENT_VIEW(BINDING, Block, name) TENSOR_VIEWS(, BINDING, Block, name)                      \
    WORD name##_at(uint at) { return name[at]; }                                                 \
    FOUR name##_vec4s_at(uint at) { return name##_vec4s[at]; }

#if defined(DTYPE_F32) || defined(DTYPE_F16)
#define IS_FLOAT
#elif defined(DTYPE_Q8) || defined(DTYPE_Q16)
#define IS_QUANTISED
#endif

#if defined(IS_QUANTISED) || defined(ARITHMETIC_INT8)
#define WEIGHTS_ARE_BYTES
#endif

#if defined(DTYPE_F32)
#define ACC float
#define ACC4 vec4
#define WORD float
#define FOUR vec4
#define FOUR_WORDS 4
#elif defined(DTYPE_I32)
#define ACC int
#define ACC4 ivec4
#define WORD int
#define FOUR ivec4
#define FOUR_WORDS 4
#elif defined(DTYPE_B32)
#define ACC uint
#define ACC4 uvec4
#define WORD uint
#define FOUR uvec4
#define FOUR_WORDS 4
#elif defined(DTYPE_F16)
#define ACC float
#define ACC4 vec4
#define WORD uint
#define FOUR uvec2
#define FOUR_WORDS 2
#define DECODE4_WITH(four, mask) unpack_float16(four)
#define ENCODE4_WITH(v, mask) pack_float16(v)
#define DECODE_WITH(word, at, mask) half_of(word, at)
#ifdef NATIVE_16
#define ELEMENT float16_t
#endif
#elif defined(DTYPE_Q16)
#define ACC int
#define ACC4 ivec4
#define WORD uint
#define FOUR uvec2
#define FOUR_WORDS 2
#define DECODE4_WITH(four, mask) unpack_shorts(four, mask)
#define ENCODE4_WITH(v, mask) pack_shorts(v, mask)
#define DECODE_WITH(word, at, mask) short_of((word) ^ (mask), at)
#elif defined(DTYPE_B16)
#define ACC uint
#define ACC4 uvec4
#define WORD uint
#define FOUR uvec2
#define FOUR_WORDS 2
#define DECODE4_WITH(four, mask) uvec4(unpack_shorts(four, 0u))
#define ENCODE4_WITH(v, mask) pack_shorts(ivec4(v), 0u)
#define DECODE_WITH(word, at, mask) uint(short_of(word, at))
#ifdef NATIVE_16
#define ELEMENT uint16_t
#endif
#elif defined(DTYPE_Q8)
#define ACC int
#define ACC4 ivec4
#define WORD uint
#define FOUR uint
#define FOUR_WORDS 1
#define DECODE4_WITH(four, mask) unpack_bytes(four, mask)
#define ENCODE4_WITH(v, mask) pack_bytes(v, mask)
#define DECODE_WITH(word, at, mask) byte_of((word) ^ (mask), at)
#elif defined(DTYPE_BOOL)
#define ACC int
#define ACC4 ivec4
#define WORD uint
#define FOUR uint
#define FOUR_WORDS 1
#define DECODE4_WITH(four, mask) min(unpack_bytes(four, 0u), 1)
#define ENCODE4_WITH(v, mask) pack_bytes(v, 0u)
#define DECODE_WITH(word, at, mask) min(byte_of(word, at), 1)
#elif defined(DTYPE_B8)
#define ACC uint
#define ACC4 uvec4
#define WORD uint
#define FOUR uint
#define FOUR_WORDS 1
#define DECODE4_WITH(four, mask) uvec4(unpack_bytes(four, 0u))
#define ENCODE4_WITH(v, mask) pack_bytes(ivec4(v), 0u)
#define DECODE_WITH(word, at, mask) uint(byte_of(word, at))
#endif

#ifdef ELEMENT
#define ELEMENT_VIEW(BINDING, Block, name) \
    layout(set = 0, binding = BINDING) writeonly buffer Block##_Elements { ELEMENT name##_elements[]; };
#else
#define ELEMENT_VIEW(BINDING, Block, name)
#endif

#if FOUR_WORDS == 4
#define STORED_ALONE
#define STORE_FROM(name, at, v) (name)[at] = (v)
#elif defined(ELEMENT)
#define STORED_ALONE
#define STORE_FROM(name, at, v) name##_elements[at] = ELEMENT(v)
#endif

#if FOUR_WORDS == 4
#define WORD_VALUES 1
#define DECODE4_WITH(four, mask) (four)
#define ENCODE4_WITH(v, mask) (v)
#define LOAD_FROM_WITH(name, at, mask) name##_at(at)
#elif FOUR_WORDS == 2
#define WORD_VALUES 2
#define LOAD_FROM_WITH(name, at, mask) DECODE_WITH(name##_at((at) >> 1), at, mask)
#else
#define WORD_VALUES 4
#define LOAD_FROM_WITH(name, at, mask) DECODE_WITH(name##_at((at) >> 2), at, mask)
#endif

#ifdef DTYPE_F16
// Compilers such as Mesa's remove a conversion to 16 bits and back, unless bits that they do not know come between. An
// offset is below 2^30, which only the host knows. (Exclusive or would cancel itself in two consecutive roundings.)
#define ROUNDS(name) uint unknown_zero = name##_offset >> 31;
#define HIDDEN(bits) ((bits) | unknown_zero)
#define ROUNDED(v) unpack_float16(HIDDEN(pack_float16(v)))
#else
#define ROUNDS(name)
#define ROUNDED(v) (v)
#endif

#if defined(STORED_ALONE)
#define STORE(name, at, v) STORE_FROM(name, name##_offset * WORD_VALUES + (at), v)
#elif FOUR_WORDS == 2
#define STORE(name, at, v) REPLACE((name)[name##_offset + ((at) >> 1)], ((at) & 1u) << 4, 0xffffu, ENCODE4(ACC4(v)).x)
#else
#define STORE(name, at, v) REPLACE((name)[name##_offset + ((at) >> 2)], ((at) & 3u) << 3, 0xffu, ENCODE4(ACC4(v)))
#endif

#ifdef STORED_ALONE
#define WEIGHT4 FOUR
#define WEIGHT_WORDS FOUR_WORDS
#define WEIGHT4_OF(v) ENCODE4_WITH(v, 0u)
#define FROM_WEIGHT4(four) DECODE4_WITH(four, 0u)
#else
#define WEIGHT4 ACC4
#define WEIGHT_WORDS 4
#define WEIGHT4_OF(v) (v)
#define FROM_WEIGHT4(four) (four)
#endif

#define LOAD_WITH(name, at, mask) LOAD_FROM_WITH(name, name##_offset * WORD_VALUES + (at), mask)
#define GATHER4_WITH(name, at, mask)                                                            \
    ACC4(LOAD_WITH(name, (at).x, mask), LOAD_WITH(name, (at).y, mask), LOAD_WITH(name, (at).z, mask), \
         LOAD_WITH(name, (at).w, mask))
#define LOAD4_WITH(name, i, mask) DECODE4_WITH(name##_vec4s_at(name##_offset / FOUR_WORDS + (i)), mask)
#define STORE4_WITH(name, i, v, mask) name##_vec4s[name##_offset / FOUR_WORDS + (i)] = ENCODE4_WITH(v, mask)

#define DECODE4(four) DECODE4_WITH(four, sign_mask)
#define ENCODE4(v) ENCODE4_WITH(v, sign_mask)
#define LOAD(name, at) LOAD_WITH(name, at, sign_mask)
#define GATHER4(name, at) GATHER4_WITH(name, at, sign_mask)
#define LOAD4(name, i) LOAD4_WITH(name, i, sign_mask)
#define STORE4(name, i, v) STORE4_WITH(name, i, v, sign_mask)

#endif
