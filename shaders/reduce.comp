#version 450
// The REDUCE family: fold the middle one of three dimensions to parts, and at last to a single element. An invocation
// computes four consecutive elements of the output, or one element ALONG the vec4s of the innermost dimension. Several
// invocations can compute them together (fold.glsl).

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/along.glsl"
#include "include/extremes.glsl"
#include "include/indexing.glsl"
#define FOLD_LANES_ID 3
#include "include/fold.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 5) const bool ROWS = false;    // `inner` is a multiple of four: vec4s are folded side by side
layout(constant_id = 6) const bool ALONG = false;    // `inner` is 1, and a workgroup has whole vec4s of the output
layout(constant_id = 7) const uint BLOCK = 8;       // sums of sums of few elements lose less than a long one

READS(0, Src, src)
WRITES(1, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of elements of the output if ALONG, otherwise of its vec4s
    uint elements;    // of the output
    uint size;        // of the dimension
    uint parts;       // the number of parts that it is folded to
    uint part;        // elements that go into one
    uint inner;       // elements inside the dimension
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
};

const uint AT_ONCE = 4;    // loads of an invocation that shares elements, because loads take long

// Combining with NEUTRAL changes nothing.
#if defined(KIND_MAX)
#define COMBINE(a, b) larger(a, b)
#ifdef IS_FLOAT
#define NEUTRAL uintBitsToFloat(0xff800000u)    // minus infinity
#else
#define NEUTRAL 0
#endif
#elif defined(KIND_MIN)
#define COMBINE(a, b) smaller(a, b)
#ifdef IS_FLOAT
#define NEUTRAL uintBitsToFloat(0x7f800000u)    // infinity
#else
#define NEUTRAL 255
#endif
#elif defined(KIND_PROD)
#define COMBINE(a, b) ((a) * (b))
#define NEUTRAL 1.0
#else
#define COMBINE(a, b) ((a) + (b))
#define NEUTRAL -0.0
#endif

ACC4 combined(ACC4 a, ACC4 b) { return COMBINE(a, b); }

ACC load1(uint at) { return LOAD(src, at); }
ACC4 load4(uint at) { return LOAD4(src, at / 4); }

// Where the fold for an element of the output starts, and the range of its elements.
struct Range {
    uint start;
    uint first;
    uint last;
};

Range range_of(uint index) {
    index = min(index, elements - 1);    // the last four may exceed the number of elements
    uint row = index / inner;
    uint outer = row / parts;
    uint first = (row - outer * parts) * part;
    return Range(outer * size * inner + (index - row * inner), first, min(first + part, size));
}

// The fold for an element of the output, or for four neighbours, by one invocation.
#define FOLD(type, load)                                                                     \
    type fold_alone(uint index, type result) {                                               \
        Range range = range_of(index);                                                       \
        uint start = range.start, last = range.last, k = range.first + 1;                    \
        result = load(start + range.first * inner);                                          \
        for (uint stop = min(range.first + BLOCK, last); k < stop; ++k)                      \
            result = COMBINE(result, load(start + k * inner));                               \
        while (k < last) {                                                                   \
            type block = load(start + k * inner);                                            \
            uint stop = min(k + BLOCK, last);                                                \
            for (++k; k < stop; ++k) block = COMBINE(block, load(start + k * inner));        \
            result = COMBINE(result, block);                                                 \
        }                                                                                    \
        return result;                                                                       \
    }

FOLD(ACC, load1)
FOLD(ACC4, load4)

ACC4 fold_alone(uint i) {
    if (ROWS) return fold_alone(4 * i, ACC4(0));
    return ACC4(fold_alone(4 * i, ACC(0)), fold_alone(4 * i + 1, ACC(0)), fold_alone(4 * i + 2, ACC(0)),
                fold_alone(4 * i + 3, ACC(0)));
}

ACC4 some_of(ACC4 some[AT_ONCE]) { return COMBINE(COMBINE(some[0], some[1]), COMBINE(some[2], some[3])); }

// The fold of a share of the elements that go into four elements of the output.
ACC4 fold_share(uint i, uint share) {
    Range range = range_of(4 * i), range_y = range_of(4 * i + 1), range_z = range_of(4 * i + 2), range_w = range_of(4 * i + 3);
    uvec4 start = uvec4(range.start, range_y.start, range_z.start, range_w.start);
    uvec4 first = uvec4(range.first, range_y.first, range_z.first, range_w.first);
    uvec4 last = uvec4(range.last, range_y.last, range_z.last, range_w.last);
    start += first * inner;
    uvec4 own = last - first;
    ACC4 result = ACC4(NEUTRAL);
    uint most = min(part, size);
    for (uint k = share; k < most;) {
        ACC4 block = ACC4(NEUTRAL);
        for (uint stop = min(k + BLOCK * LANES, most); k < stop; k += AT_ONCE * LANES) {
            ACC4 some[AT_ONCE];
            [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
                uvec4 at = uvec4(k + j * LANES);
                uvec4 loaded = start + min(at, own - 1) * inner;
                some[j] = ROWS ? LOAD4(src, loaded.x / 4) : GATHER4(src, loaded);
                some[j] = mix(ACC4(NEUTRAL), some[j], lessThan(at, own));
            }
            block = COMBINE(block, some_of(some));
        }
        result = COMBINE(result, block);
    }
    return result;
}

// The folds of the four elements of vec4s that go into an element of the output.
ACC4 fold_along(uint index, uint share) {
    Range range = range_of(index);
    Along own = along(range.start + range.first, range.last - range.first);
    ACC4 result = ACC4(NEUTRAL);
    for (uint k = share; k < own.vec4s;) {
        ACC4 block = ACC4(NEUTRAL);
        for (uint stop = min(k + BLOCK * LANES, own.vec4s); k < stop; k += AT_ONCE * LANES) {
            ACC4 some[AT_ONCE];
            [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
                uint number = k + j * LANES;
                some[j] = LOAD4(src, own.first + min(number, own.vec4s - 1));
                some[j] = mix(ACC4(NEUTRAL), some[j], are_own(own, number));
            }
            block = COMBINE(block, some_of(some));
        }
        result = COMBINE(result, block);
    }
    return result;
}

ACC across(ACC4 four) { return COMBINE(COMBINE(four.x, four.y), COMBINE(four.z, four.w)); }

void main() {
    uint item = own_four();
    if (LANES == 1 && !ALONG) {
        if (item < count) STORE4(dst, item, fold_alone(item));
        return;
    }
    uint own_item = min(item, count - 1), share = own_share(count);    // barriers must be uniform
    ACC4 result = ALONG ? fold_along(own_item, share) : fold_share(own_item, share);
    FOLD_LANES(result, combined)
    if (!ALONG) {
        if (item < count && own_lane() == 0) STORE4(dst, item, result);
        return;
    }
    // Elements of less than 32 bits are stored four at a time.
    uint at = gl_LocalInvocationID.x;
    barrier();
    shares[at] = result;
    barrier();
    if (item >= count || item % 4 != 0 || own_lane() != 0) return;
    STORE4(dst, item / 4, ACC4(across(shares[at]), across(shares[at + 1]), across(shares[at + 2]), across(shares[at + 3])));
}
