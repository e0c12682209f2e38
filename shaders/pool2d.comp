#version 450
// AVERAGE_POOL_2D and MAX_POOL_2D on NHWC tensors. An invocation computes four consecutive elements of the output:
// four channels of one pixel where there is a multiple of four (VECTOR), else whatever four come.

#extension GL_GOOGLE_include_directive : require

#include "include/types.glsl"
#include "include/quant.glsl"
#include "include/activation.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool VECTOR = true;

#ifdef DTYPE_F32
layout(set = 0, binding = 0) readonly buffer Src { float src[]; };
layout(set = 0, binding = 0) readonly buffer SrcVectors { vec4 src_vectors[]; };
#else
layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
#endif
layout(set = 0, binding = 1) writeonly buffer Dst { LANES4 dst[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;    // of fours
    uint height;
    uint width;
    uint channels;
    uint out_height;
    uint out_width;
    uint filter_height;
    uint filter_width;
    uint stride_y;
    uint stride_x;
    uint pad_top;
    uint pad_left;
    ACC low;
    ACC high;
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
};

// The part of the input under an output pixel's window: rows x to y, columns z to w (ends excluded).
uvec4 window(uint y, uint x) {
    ivec2 start = ivec2(y * stride_y, x * stride_x) - ivec2(pad_top, pad_left);
    ivec2 end = min(start + ivec2(filter_height, filter_width), ivec2(height, width));
    start = max(start, ivec2(0));
    return uvec4(start.x, end.x, start.y, end.y);
}

#ifdef DTYPE_F32
#define LOWEST uintBitsToFloat(0xff800000u)    // minus infinity
vec4 load4(uint at) { return src_vectors[(src_offset + at) / 4]; }
float load1(uint at) { return src[src_offset + at]; }
#define MEAN(sum, area) ((sum) / float(area))
#else
#define LOWEST 0
ivec4 load4(uint at) { return unpack_bytes(src[src_offset + at / 4], sign_mask); }
int load1(uint at) { return LOAD_BYTE(src, src_offset, at, sign_mask); }
// Halves go away from the middle of the range, as TFLite has it for int8.
int mean(int sum, int area) {
    int about = sum - 128 * area;
    return sign(about) * ((abs(about) + area / 2) / area) + 128;
}
ivec4 mean(ivec4 sum, int area) {
    ivec4 about = sum - 128 * area;
    return sign(about) * ((abs(about) + area / 2) / area) + 128;
}
#define MEAN(sum, area) mean(sum, int(area))
#endif

#ifdef KIND_AVG
#define FIRST ACC(0)
#define FOLD(a, b) ((a) + (b))
#define RESULT(folded, area) MEAN(folded, area)
#else
#define FIRST ACC(LOWEST)
#define FOLD(a, b) max(a, b)
#define RESULT(folded, area) (folded)
#endif

ACC4 pool4(uvec4 at) {
    uvec4 rows = window(at.y, at.z);
    ACC4 folded = ACC4(FIRST);
    for (uint y = rows.x; y < rows.y; ++y)
        for (uint x = rows.z; x < rows.w; ++x)
            folded = FOLD(folded, load4(nhwc_index(at.x, y, x, at.w, height, width, channels)));
    return RESULT(folded, (rows.y - rows.x) * (rows.w - rows.z));
}

ACC pool1(uint index) {
    uvec4 at = nhwc_coordinates(index, out_height, out_width, channels);
    uvec4 rows = window(at.y, at.z);
    ACC folded = FIRST;
    for (uint y = rows.x; y < rows.y; ++y)
        for (uint x = rows.z; x < rows.w; ++x)
            folded = FOLD(folded, load1(nhwc_index(at.x, y, x, at.w, height, width, channels)));
    return RESULT(folded, (rows.y - rows.x) * (rows.w - rows.z));
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ACC4 result = VECTOR ? pool4(nhwc_coordinates(4 * i, out_height, out_width, channels))
                         : ACC4(pool1(4 * i), pool1(4 * i + 1), pool1(4 * i + 2), pool1(4 * i + 3));
    result = activate(result, low, high);
#ifdef DTYPE_F32
    dst[dst_offset / 4 + i] = result;
#else
    dst[dst_offset + i] = pack_bytes(result, sign_mask);
#endif
}
