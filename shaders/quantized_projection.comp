#version 450
// The end of QUANTIZED_LSTM's projection: convert sums of the GEMM to quantised values of the output. An invocation
// computes four consecutive elements.

#extension GL_GOOGLE_include_directive : require

#include "include/texels.glsl"
#include "include/fixed_point.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

READ_VIEW(0, Sums, sums, int)
READ_VIEW(1, Bias, bias, int)
layout(set = 0, binding = 2) writeonly buffer Dst { uint dst[]; };

layout(push_constant) uniform Push {
    uint sums_offset;
    uint bias_offset;
    uint dst_offset;
    uint count;       // of vec4s of the output
    uint elements;    // of the output
    uint width;       // of a row of the output
    uint sums_row;    // elements from one row of sums to the next
    int mantissa;
    int shift;
    int zero;         // this, and the limits, moved to the unsigned range
    int low;
    int high;
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ivec4 results;
    for (uint k = 0; k < 4u; k++) {
        uint at = min(4u * i + k, elements - 1u);    // the last four may exceed the number of elements
        uint row = at / width, column = at - row * width;
        int sum = sums_at(sums_offset + row * sums_row + column) + bias_at(bias_offset + column);
        int level = saturate16(scaled(sum, mantissa, shift)) + zero;
        results[k] = clamp(clamp(level, 0, 255), low, high);
    }
    dst[dst_offset + i] = pack_bytes(results, 0x80808080u);
}
