#version 450
// MEAN and ROUNDED_MEAN over any axes. The kept dimensions and the reduced ones are folded to at most four each. An
// invocation computes four consecutive elements of the output, or several invocations compute them together
// (fold.glsl). If very many elements go into one, PASS_SUM computes the sums of parts (PARTIAL), and PASS_COMBINE their
// mean.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"
#define FOLD_LANES_ID 3
#include "include/fold.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 8) const bool ROUNDED = false;    // ROUNDED_MEAN, whose output has a quantisation of its own
#ifdef PASS_SUM
layout(constant_id = 5) const bool PARTIAL = false;
layout(constant_id = 6) const uint FOLD_RANK = 4;     // the number of reduced dimensions
layout(constant_id = 7) const bool ROWS = false;      // four elements of the output are neighbours in the source too
#endif

#if defined(PASS_COMBINE)
READ_VIEW(0, Src, src, ACC4)
#else
READS(0, Src, src)
#endif
WRITES(1, Dst, dst)
#ifdef PASS_SUM
layout(set = 0, binding = 1) writeonly buffer Dst_Sums { ACC4 dst_sums[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;      // of vec4s of the output
    uint reduced;    // elements that go into one
    uint parts;      // of the reduced elements
#ifdef PASS_SUM
    uint part;       // elements of one of them
    uint elements;   // of the output
    uint keep_size_1;
    uint keep_size_2;
    uint keep_size_3;
    uint keep_stride_0;
    uint keep_stride_1;
    uint keep_stride_2;
    uint keep_stride_3;
    uint fold_size_1;
    uint fold_size_2;
    uint fold_size_3;
    uint fold_stride_0;
    uint fold_stride_1;
    uint fold_stride_2;
    uint fold_stride_3;
#endif
#ifdef IS_QUANTISED
    uint sign_mask;
    int zero;        // the level that sums are relative to
    int dst_zero;    // the level that means are relative to
    int mantissa;    // of the factor that makes a mean of a sum
    int shift;
#endif
};

const uint BLOCK = 64;

#ifdef PASS_SUM

uint kept(uint index) {
    index = min(index, elements - 1);    // the last four may exceed the number of elements
    uint z = index % keep_size_3;
    index /= keep_size_3;
    uint y = index % keep_size_2;
    index /= keep_size_2;
    return index / keep_size_1 * keep_stride_0 + index % keep_size_1 * keep_stride_1 + y * keep_stride_2 + z * keep_stride_3;
}

uint folded(uint index) {
    if (FOLD_RANK == 1) return index * fold_stride_3;
    uint z = index % fold_size_3;
    index /= fold_size_3;
    if (FOLD_RANK == 2) return index * fold_stride_2 + z * fold_stride_3;
    uint y = index % fold_size_2;
    index /= fold_size_2;
    return index / fold_size_1 * fold_stride_0 + index % fold_size_1 * fold_stride_1 + y * fold_stride_2 + z * fold_stride_3;
}

#ifdef IS_FLOAT
ACC4 load(uvec4 at) { return ROWS ? LOAD4(src, at.x / 4) : GATHER4(src, at); }
#else
ACC4 load(uvec4 at) { return (ROWS ? LOAD4(src, at.x / 4) : GATHER4(src, at)) - zero; }
#endif

#endif

#ifdef DTYPE_Q16
#define HIGHEST 65535
#else
#define HIGHEST 255
#endif

#ifdef IS_FLOAT
vec4 finish(vec4 sum) { return quotient_of(sum, vec4(reduced)); }
#else
ivec4 finish(ivec4 sum) {
    ivec4 mean = ROUNDED ? multiply_by_quantized_multiplier(sum, mantissa, shift) : abs(sum) / int(reduced) * sign(sum);
    return clamp(mean + dst_zero, 0, HIGHEST);
}
#endif

ACC4 added(ACC4 a, ACC4 b) { return a + b; }

void main() {
    uint item = own_four();
#ifdef PASS_SUM
    uint items = count * parts;
#else
    uint items = count;
#endif
    if (LANES == 1 && item >= items) return;
    uint own = min(item, items - 1), share = own_share(items);    // barriers must be uniform
    ACC4 sum = ACC4(0);
#ifdef PASS_SUM
    uint i = own / parts;
    uint start = own % parts * part;
    uint end = min(start + part, reduced);
    uvec4 at = uvec4(kept(4 * i), kept(4 * i + 1), kept(4 * i + 2), kept(4 * i + 3));
    for (uint k = start + share; k < end;) {
        ACC4 block = ACC4(0);    // sums of sums of few elements lose less than one long sum
        uint stop = min(k + BLOCK * LANES, end);
        if (LANES > 1) {
            // Four elements are loaded together, because loads take long; elements past the end are zero.
            for (; k < stop; k += 4 * LANES) {
                ACC4 some[4];
                [[unroll]] for (uint j = 0; j < 4; ++j) {
                    uint l = k + j * LANES;
                    some[j] = load(at + folded(min(l, end - 1)));
                    if (l >= end) some[j] = ACC4(0);
                }
                block += (some[0] + some[1]) + (some[2] + some[3]);
            }
        } else {
            for (; k < stop; ++k) block += load(at + folded(k));
        }
        sum += block;
    }
#else
    for (uint k = share; k < parts; k += LANES) sum += src_at(src_offset / 4 + own * parts + k);
#endif
    FOLD_LANES(sum, added)
    if (item >= items || own_lane() != 0) return;
#ifdef PASS_SUM
    if (PARTIAL) {
        dst_sums[dst_offset / 4 + item] = sum;
        return;
    }
    item /= parts;
#endif
    STORE4(dst, item, finish(sum));
}
