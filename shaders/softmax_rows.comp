#version 450
// SOFTMAX along the innermost axis, in one pass over each row, which a workgroup takes or (not WIDE) an invocation. The input
// may be multiplied by a number (SCALED) and added to a mask that is broadcast (MASKED) before, as attention has it. What is
// added up is kept in the output, and divided by the sum then.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"
#include "include/math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool WIDE = false;
layout(constant_id = 4) const uint LOCAL = 64;
layout(constant_id = 5) const bool SCALED = false;
layout(constant_id = 6) const bool MASKED = false;
layout(constant_id = 7) const bool SPREAD = false;    // the mask has one element for a row
layout(constant_id = 8) const bool FOURS = false;     // rows are whole fours, and the mask's too

READS(0, Src, src)
READS(1, Mask, mask)
CHANGES(2, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint mask_offset;
    uint dst_offset;
    uint rows;
    uint length;    // of a row
    uint size_1;    // rows are those of dimensions 0 to 2; sizes but for the outermost
    uint size_2;
    uint mask_stride_0;
    uint mask_stride_1;
    uint mask_stride_2;
    uint mask_stride_3;
    float scale;
    float factor;    // beta
};

#include "include/lanes.glsl"

#define LOWEST uintBitsToFloat(0xff800000u)    // minus infinity

float value(uint at, uint masked_at) {
    precise float x = LOAD(src, at);
    if (SCALED) x = x * scale;
    if (MASKED) x = x + LOAD(mask, masked_at);
    return x;
}

vec4 value4(uint at, uint masked_at) {
    precise vec4 x = LOAD4(src, at / 4);
    if (SCALED) x = x * scale;
    if (MASKED) {
        vec4 more = SPREAD ? vec4(LOAD(mask, masked_at)) : LOAD4(mask, masked_at / 4);
        x = x + more;
    }
    return x;
}

vec4 exact_exp4(vec4 x) { return vec4(exact_exp(x.x), exact_exp(x.y), exact_exp(x.z), exact_exp(x.w)); }

const uint BLOCK = 32;    // sums of sums of few elements lose less than one long sum

void main() {
    uint row = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : flat_invocation();
    uint lane = WIDE ? gl_LocalInvocationID.x : 0, step = WIDE ? LOCAL : 1;
    if (row >= rows) return;    // whole workgroups where WIDE, so that the barriers below are uniform
    uint first = row * length, plane = row / size_2, volume = plane / size_1;
    uint from = volume * mask_stride_0 + (plane - volume * size_1) * mask_stride_1 + (row - plane * size_2) * mask_stride_2;
    uint count = FOURS ? length / 4 : length;

    float largest = LOWEST;
    if (FOURS) {
        vec4 most = vec4(LOWEST);
        for (uint k = lane; k < count; k += step) most = max(most, value4(first + 4 * k, from + 4 * k * mask_stride_3));
        largest = max(max(most.x, most.y), max(most.z, most.w));
    } else {
        for (uint k = lane; k < count; k += step) largest = max(largest, value(first + k, from + k * mask_stride_3));
    }
    if (WIDE) {
        OF_ALL_LANES(largest, max)
        barrier();
    }

    float sum = 0.0;
    float about = largest == LOWEST ? 0.0 : largest;    // a row may be masked out by minus infinity altogether
    for (uint k = lane; k < count;) {
        vec4 block = vec4(0.0);
        for (uint stop = min(k + BLOCK * step, count); k < stop; k += step) {
            if (FOURS) {
                vec4 own = exact_exp4((value4(first + 4 * k, from + 4 * k * mask_stride_3) - about) * factor);
                STORE4(dst, first / 4 + k, own);
                block += own;
            } else {
                float own = exact_exp((value(first + k, from + k * mask_stride_3) - about) * factor);
                STORE(dst, first + k, own);
                block.x += own;
            }
        }
        sum += FOURS ? (block.x + block.y) + (block.z + block.w) : block.x;
    }
    if (WIDE) {
        OF_ALL_LANES(sum, sum_of)
    }
    for (uint k = lane; k < count; k += step) {
        if (FOURS) {
            STORE4(dst, first / 4 + k, LOAD4(dst, first / 4 + k) / sum);
        } else {
            STORE(dst, first + k, LOAD(dst, first + k) / sum);
        }
    }
}
