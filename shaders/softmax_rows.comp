#version 450
// SOFTMAX along the innermost axis, in one pass over each row. With WIDE a workgroup handles a row, otherwise an
// invocation. As in attention, the input may first be multiplied by a number (SCALED) and added to a broadcast mask
// (MASKED). The exponentials stay in registers if an invocation has few vec4s; otherwise they are stored in the output
// and divided by the sum afterwards.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"
#include "include/math.glsl"
#include "include/softmax.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool WIDE = false;
layout(constant_id = 4) const uint LOCAL = 64;
layout(constant_id = 5) const bool SCALED = false;
layout(constant_id = 6) const bool MASKED = false;
layout(constant_id = 7) const bool SPREAD = false;    // the mask has one element for a row
layout(constant_id = 8) const bool VEC4S = false;     // rows are whole vec4s, and the mask's too
layout(constant_id = 10) const bool ZEROS = false;    // rows without shares are zeros, not NaN
const uint MAX_VEC4S = 4;
// The vec4s of a row that an invocation has. With more than MAX_VEC4S they are not kept in registers.
layout(constant_id = 9) const uint OWN_VEC4S = MAX_VEC4S + 1;

READS(0, Src, src)
READS(1, Mask, mask)
CHANGES(2, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint mask_offset;
    uint dst_offset;
    uint rows;
    uint length;    // of a row
    uint size_1;    // rows are those of dimensions 0 to 2; sizes except the outermost
    uint size_2;
    uint mask_stride_0;
    uint mask_stride_1;
    uint mask_stride_2;
    uint mask_stride_3;
    float scale;
    float factor;    // beta
};

#include "include/lanes.glsl"

float value(uint at, uint masked_at) {
    float x = LOAD(src, at);
    if (SCALED) x = x * scale;
    if (MASKED) x = x + LOAD(mask, masked_at);
    return x;
}

vec4 value4(uint at, uint masked_at) {
    vec4 x = LOAD4(src, at / 4);
    if (SCALED) x = x * scale;
    if (MASKED) {
        vec4 more = SPREAD ? vec4(LOAD(mask, masked_at)) : LOAD4(mask, masked_at / 4);
        x = x + more;
    }
    return x;
}

const uint BLOCK = 32;    // sums of sums of few elements lose less than one long sum

// An invocation's share of a row: each `lanes`-th element or vec4, from `lane` on.
struct Share {
    uint lane;
    uint lanes;
    uint count;     // elements of the row, or vec4s
    uint first;     // index in src and dst of the row's first element
    uint masked;    // and in the mask
};

float largest_of_row(uint lane, float largest) {
    if (WIDE) {
        OF_ALL_LANES(lane, largest, max)
        barrier();
    }
    return largest;
}

float sum_of_row(uint lane, float sum) {
    if (WIDE) {
        OF_ALL_LANES(lane, sum, sum_of)
    }
    return sum;
}

vec4 share_of(vec4 exponentials, float sum) {
    return ZEROS && !has_shares(sum) ? vec4(0.0) : exponentials / sum;
}

vec4 four_of(Share row, uint k) { return value4(row.first + 4 * k, row.masked + 4 * k * mask_stride_3); }
float element_of(Share row, uint k) { return value(row.first + k, row.masked + k * mask_stride_3); }

void through_registers(Share row) {
    vec4 held[MAX_VEC4S], most = vec4(LOWEST), sums = vec4(0.0);
    [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) {
        uint k = row.lane + i * row.lanes;
        held[i] = vec4(LOWEST);
        if (k < row.count) held[i] = four_of(row, k);
        most = max(most, held[i]);
    }
    float less = about(largest_of_row(row.lane, largest_of_four(most)));
    [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) {
        held[i] = exact_exp4((held[i] - less) * factor);
        if (row.lane + i * row.lanes < row.count) sums += held[i];
    }
    float sum = sum_of_row(row.lane, sum_of_four(sums));
    [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) {
        uint k = row.lane + i * row.lanes;
        if (k < row.count) STORE4(dst, row.first / 4 + k, share_of(held[i], sum));
    }
}

void through_output(Share row) {
    float largest = LOWEST;
    if (VEC4S) {
        vec4 most = vec4(LOWEST);
        for (uint k = row.lane; k < row.count; k += row.lanes) most = max(most, four_of(row, k));
        largest = largest_of_four(most);
    } else {
        for (uint k = row.lane; k < row.count; k += row.lanes) largest = max(largest, element_of(row, k));
    }
    float less = about(largest_of_row(row.lane, largest)), sum = 0.0;
    for (uint k = row.lane; k < row.count;) {
        vec4 block = vec4(0.0);
        for (uint stop = min(k + BLOCK * row.lanes, row.count); k < stop; k += row.lanes) {
            if (VEC4S) {
                vec4 own = exact_exp4((four_of(row, k) - less) * factor);
                STORE4(dst, row.first / 4 + k, own);
                block += own;
            } else {
                float own = exact_exp((element_of(row, k) - less) * factor);
                STORE(dst, row.first + k, own);
                block.x += own;
            }
        }
        sum += VEC4S ? sum_of_four(block) : block.x;
    }
    sum = sum_of_row(row.lane, sum);
    for (uint k = row.lane; k < row.count; k += row.lanes) {
        if (VEC4S) {
            STORE4(dst, row.first / 4 + k, share_of(LOAD4(dst, row.first / 4 + k), sum));
        } else {
            STORE(dst, row.first + k, share_of(vec4(LOAD(dst, row.first + k)), sum).x);
        }
    }
}

void main() {
    uint row = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : flat_invocation();
    if (row >= rows) return;    // whole workgroups where WIDE, so that the barriers are uniform
    uint plane = row / size_2, volume = plane / size_1;
    Share share;
    share.lane = WIDE ? gl_LocalInvocationID.x : 0;
    share.lanes = WIDE ? LOCAL : 1;
    share.count = VEC4S ? length / 4 : length;
    share.first = row * length;
    uvec3 at = uvec3(volume, plane - volume * size_1, row - plane * size_2);
    share.masked = at.x * mask_stride_0 + at.y * mask_stride_1 + at.z * mask_stride_2;
    if (OWN_VEC4S <= MAX_VEC4S) through_registers(share);
    else through_output(share);
}
