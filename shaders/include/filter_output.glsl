// How convolutions and FULLY_CONNECTED begin and end the sums of four neighbouring output channels: bias, scale,
// activation, store. To be included after the push constants (out_channels, low, high; sign_mask and output_zero
// of bytes; the tensors' offsets) and the specialisation constant VECTOR_STORES. Declares bindings 2 to 4.

#ifndef NNVK_FILTER_OUTPUT_GLSL
#define NNVK_FILTER_OUTPUT_GLSL

#include "types.glsl"
#include "quant.glsl"
#include "activation.glsl"
#include "indexing.glsl"

#ifdef DTYPE_F32
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3) writeonly buffer Dst { float dst[]; };
layout(set = 0, binding = 3) writeonly buffer DstVectors { vec4 dst_vectors[]; };
#else
layout(set = 0, binding = 2) readonly buffer Bias { int bias[]; };
layout(set = 0, binding = 3) writeonly buffer Dst { uint dst[]; };
layout(set = 0, binding = 4) readonly buffer Multipliers { ivec4 multipliers[]; };    // four mantissas, four shifts
#endif

// What four output channels need; loaded once for all pixels.
struct Output {
    uint channel;    // the first of the four; past the last channel nothing is stored
    ACC4 bias;
#ifdef DTYPE_Q8
    ivec4 mantissa;
    ivec4 shift;
#endif
};

Output output_of(uint channel) {
    uint last = out_channels - 1u;
    ACC4 start = ACC4(bias[bias_offset + min(channel, last)], bias[bias_offset + min(channel + 1u, last)],
                      bias[bias_offset + min(channel + 2u, last)], bias[bias_offset + min(channel + 3u, last)]);
#ifdef DTYPE_F32
    return Output(channel, start);
#else
    uint at = (multipliers_offset >> 2) + (min(channel, last) >> 2 << 1);
    return Output(channel, start, multipliers[at], multipliers[at + 1u]);
#endif
}

// Pixels of bytes are padded to whole words.
void store_output(uint pixel, Output channels4, ACC4 sum) {
    uint channel = channels4.channel;
    if (channel >= out_channels) return;
#ifdef DTYPE_F32
    vec4 result = activate(sum, low, high);
    uint at = dst_offset + pixel * out_channels + channel;
    if (VECTOR_STORES) {
        dst_vectors[at >> 2] = result;
    } else {
        dst[at] = result.x;
        if (channel + 1u < out_channels) dst[at + 1u] = result.y;
        if (channel + 2u < out_channels) dst[at + 2u] = result.z;
        if (channel + 3u < out_channels) dst[at + 3u] = result.w;
    }
#else
    ivec4 scaled = multiply_by_quantized_multiplier(sum, channels4.mantissa, channels4.shift) + output_zero;
    dst[dst_offset + pixel * divide_up(out_channels, 4u) + (channel >> 2)] =
        pack_bytes(activate(scaled, low, high), sign_mask);
#endif
}

#endif
