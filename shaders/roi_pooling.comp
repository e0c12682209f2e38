#version 450
// ROI_POOLING: the largest element of a bin. An invocation computes four consecutive elements of the output. For very
// large bins, a dispatch continues with the result for the earlier rows.

#extension GL_GOOGLE_include_directive : require

#include "include/extremes.glsl"
#include "include/regions.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool NCHW = false;

READS(0, Src, src)
CHANGES(2, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint regions_offset;
    uint dst_offset;
    uint count;       // of vec4s of the output
    uint elements;    // of the output
    uint channels;
    uint out_height;
    uint out_width;
    uint height;      // of the feature map
    uint width;
    int done;         // rows of a bin that were looked at before
    int rows;         // that are looked at now
#ifdef IS_QUANTISED
    uint sign_mask;
    int zero;
#endif
};

ACC4 load(INT at) { return LOAD_ELEMENTS(src, at); }

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    find_bins(i, Sizes(elements, channels, out_height, out_width, height, width, NCHW), regions_offset);
    int stride_x = NCHW ? 1 : int(channels), stride_y = int(width) * stride_x;
    REAL from_x = pitch_x * REAL(bin_x) + start_x, to_x = pitch_x * REAL(bin_x + 1) + start_x;
    REAL from_y = pitch_y * REAL(bin_y) + start_y, to_y = pitch_y * REAL(bin_y + 1) + start_y;
    INT left = min(INT(floor(from_x)), INT(int(width))), right = min(INT(ceil(to_x)), INT(int(width)));
    INT top = min(INT(floor(from_y)), INT(int(height))), bottom = min(INT(ceil(to_y)), INT(int(height)));
#ifdef IS_QUANTISED
    ACC4 largest = ACC4(0), nothing = ACC4(zero);
#else
    ACC4 largest = ACC4(uintBitsToFloat(0xff800000u)), nothing = ACC4(0.0);
#endif
    if (done > 0) largest = LOAD4(dst, i);
    INT last_x = right - 1, last_y = bottom - 1;
    // Past the end of a bin that is smaller than others, its last element is read again.
    int end = min(MOST(bottom - top), done + rows);
    for (int row = done; row < end; ++row) {
        INT at = corner + max(min(top + row, last_y), 0) * stride_y;
        for (int column = 0; column < MOST(right - left); column += 4) {
            largest = larger(largest, load(at + max(min(left + column, last_x), 0) * stride_x));
            largest = larger(largest, load(at + max(min(left + column + 1, last_x), 0) * stride_x));
            largest = larger(largest, load(at + max(min(left + column + 2, last_x), 0) * stride_x));
            largest = larger(largest, load(at + max(min(left + column + 3, last_x), 0) * stride_x));
        }
    }
#ifdef VEC4S_CHANNELS
    if (left >= right || top >= bottom) largest = nothing;
#else
    bvec4 is_empty = bvec4(uvec4(greaterThanEqual(left, right)) | uvec4(greaterThanEqual(top, bottom)));
    largest = mix(largest, nothing, is_empty);
#endif
    STORE4(dst, i, largest);
}
