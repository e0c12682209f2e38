#version 450
// Pack filters that the model computes, as lowering/gemm/weights.py packs constant ones; gemm.comp describes the order.
// The filters are (parts, output channels, taps, channels) with any strides. Groups of contiguous parts may have a
// separate stride from one group to the next. An invocation writes four words.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

READS(0, Src, src)
#ifdef IS_QUANTISED
layout(set = 0, binding = 1) writeonly buffer Dst { uvec4 dst[]; };
const uint VECTORS = 1;    // of K, in vectors: in a vec4 of K
#else
layout(set = 0, binding = 1) writeonly buffer Dst { WEIGHT4 dst[]; };
const uint VECTORS = 4;
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of vectors of the packed filters
    uint out_channels;
    uint taps;
    uint channels;
    uint first;       // index in src
    uint parts_side_by_side;
    uint outer_stride;
    uint part_stride;
    uint output_stride;
    uint tap_stride;
    uint channel_stride;
#ifdef IS_QUANTISED
    uint sign_mask;
    int fill;    // the zero point, moved to the unsigned range
#endif
};

const uint BLOCK = 32;
const uint LANES = BLOCK / 4;

#ifndef IS_QUANTISED
const ACC fill = ACC(0);
#endif

void main() {
    uint index = flat_invocation();
    if (index >= count) return;
    uint four = index / (LANES * VECTORS);    // of K, of all taps, blocks and parts
    uint quads = divide_up(channels, 4u), blocks = divide_up(out_channels, BLOCK);
    uint tap = four / quads;
    uint block = tap / taps;
    uint part = block / blocks;
#ifdef IS_QUANTISED
    uint lane = index % LANES;
#else
    uint lane = index / 2u % LANES;
    uint row = index / (2u * LANES) % 2u * 2u + index % 2u;
#endif
    uint output_channel = (block - part * blocks) * BLOCK + lane * 4u, outer = part / parts_side_by_side;
    uint c = (four - tap * quads) * 4u;
    uint from = first + outer * outer_stride + (part - outer * parts_side_by_side) * part_stride;
    from += (tap - block * taps) * tap_stride;
    uvec4 outputs = output_channel + uvec4(0u, 1u, 2u, 3u);
    bvec4 inside = lessThan(outputs, uvec4(out_channels));
    uvec4 rows = from + min(outputs, uvec4(out_channels - 1u)) * output_stride;
#ifdef IS_QUANTISED
    ivec4 words = ivec4(0);
    for (uint i = 0; i < 4u; i++) {
        ivec4 values = GATHER4(src, rows + min(c + i, channels - 1u) * channel_stride);
        words |= mix(ivec4(fill), values, bvec4(uvec4(inside) & uint(c + i < channels))) << (8u * i);
    }
    dst[dst_offset / 4u + index] = uvec4(words);
#else
    ACC4 values = GATHER4(src, rows + min(c + row, channels - 1u) * channel_stride);
    values = mix(ACC4(fill), values, bvec4(uvec4(inside) & uint(c + row < channels)));
    dst[dst_offset / WEIGHT_WORDS + index] = WEIGHT4_OF(values);
#endif
}
