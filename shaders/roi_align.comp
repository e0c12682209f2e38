#version 450
// ROI_ALIGN: bilinear interpolation at the sampling points of a bin, and their mean. An invocation computes four
// consecutive elements of the output.

#extension GL_GOOGLE_include_directive : require

#include "include/regions.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool NCHW = false;

READS(0, Src, src)
WRITES(2, Dst, dst)

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
#ifdef IS_QUANTISED
    uint sign_mask;
    int zero;
    uint dst_mask;
    int dst_zero;
#endif
};

// The elements on both sides of a point, and the weight of the second one.
REAL neighbours(REAL first, REAL distance, float number, uint size, out INT below, out INT above) {
    REAL point = first + distance * number;
    INT last = INT(int(size) - 1);
    below = min(INT(floor(point)), last);
    above = min(below + 1, last);
    REAL share = point - REAL(below);
    return mix(share, REAL(0.0), SAME(below, last));
}

ACC4 load(INT at) { return LOAD_ELEMENTS(src, at); }

#ifdef IS_QUANTISED

// The weight of a quantised element, rounded to 1/255, halves away from 0. It is divided exactly only if it may be a
// half.
INT weight_of(REAL weight) {
    const float SCALE = 1.0 / 255.0;
    REAL scaled = weight * 255.0;
    INT result = INT(floor(scaled + 0.5));
    for (bool unsure = ANY(LESS(abs(fract(scaled) - 0.5), REAL(0.001))); unsure; unsure = false)
        result = INT(round_half_away(exact_quotient(weight, REAL(SCALE))));
    return result;
}

#endif

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    find_bins(i, Sizes(elements, channels, out_height, out_width, height, width, NCHW), regions_offset);
    int stride_x = NCHW ? 1 : int(channels), stride_y = int(width) * stride_x;
    REAL first_x = pitch_x * REAL(bin_x) + start_x, first_y = pitch_y * REAL(bin_y) + start_y;
    first_x = first_x + distance_x * 0.5;
    first_y = first_y + distance_y * 0.5;
    ACC4 sum = ACC4(0);
    for (int row = 0; row < MOST(ratio_y); ++row) {
        INT top, bottom, left, right;
        REAL down = neighbours(first_y, distance_y, float(row), height, top, bottom);
        REAL up = 1.0 - down;
        top = corner + top * stride_y;
        bottom = corner + bottom * stride_y;
        for (int column = 0; column < MOST(ratio_x); ++column) {
            REAL along = neighbours(first_x, distance_x, float(column), width, left, right);
            REAL back = 1.0 - along;
            REAL a = up * back, b = up * along, c = down * back, d = down * along;
            left *= stride_x;
            right *= stride_x;
#ifdef IS_QUANTISED
            ivec4 point = (load(top + left) - zero) * weight_of(a) + (load(top + right) - zero) * weight_of(b) +
                (load(bottom + left) - zero) * weight_of(c) + (load(bottom + right) - zero) * weight_of(d);
#else
            vec4 point = load(top + left) * a;
            point = point + load(top + right) * b;
            point = point + load(bottom + left) * c;
            point = point + load(bottom + right) * d;
#endif
#ifdef VEC4S_ANY
            bvec4 has = bvec4(uvec4(lessThan(ivec4(row), ratio_y)) & uvec4(lessThan(ivec4(column), ratio_x)));
            point = mix(ACC4(0), point, has);
#endif
            sum = sum + point;
        }
    }
#ifdef IS_QUANTISED
    ivec4 levels = multiply_by_quantized_multiplier(sum, ivec4(mantissa), ivec4(shift)) + dst_zero;
    STORE4_WITH(dst, i, clamp(levels, 0, 255), dst_mask);
#else
    STORE4(dst, i, exact_quotient(sum, vec4(REAL(ratio_x * ratio_y))));
#endif
}
