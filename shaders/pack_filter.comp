#version 450
// Packs a filter (output channels, taps, channels) that is known only when the model runs, as kernels/filters.py
// packs a constant one; conv2d.comp says how. An invocation writes one word.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

READS(0, Src, src)
#ifdef IS_FLOAT
layout(set = 0, binding = 1) writeonly buffer Dst { float dst[]; };
const uint STEPS = 4;    // of K, in words: in fours, where a word holds one
#else
layout(set = 0, binding = 1) writeonly buffer Dst { uint dst[]; };
const uint STEPS = 1;
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint words;    // of the packed filter
    uint out_channels;
    uint taps;
    uint channels;
#ifdef DTYPE_Q8
    uint sign_mask;
    uint fill;    // the zero point, moved to the unsigned range
#endif
};

const uint BLOCK = 32;

void main() {
    uint index = flat_invocation();
    if (index >= words) return;
    uint quads = divide_up(channels, 4u);
    uint four = index / (BLOCK * STEPS);    // of K
#ifdef IS_FLOAT
    uint c = four % quads * 4u + index / 64u % 2u * 2u + index / 4u % 2u;
    uint lane = index / 8u % 8u;
#else
    uint c = four % quads * 4u;
    uint lane = index / 4u % 8u;
#endif
    uint tap = four / quads % taps;
    uint out_channel = four / (quads * taps) * BLOCK + lane * 4u + index % 4u;
    bool inside = out_channel < out_channels;
    uint row = inside ? (out_channel * taps + tap) * channels : 0u;
#ifdef IS_FLOAT
    dst[dst_offset + index] = inside && c < channels ? LOAD(src, row + min(c, channels - 1u)) : 0.0;
#else
    ivec4 values;
    for (uint i = 0; i < 4u; i++) {
        int value = LOAD(src, row + min(c + i, channels - 1u));
        values[i] = inside && c + i < channels ? value : int(fill);
    }
    dst[dst_offset + index] = pack_bytes(values, 0u);
#endif
}
