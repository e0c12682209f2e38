#version 450
// ARGMAX and ARGMIN: the position of the largest or smallest element along an axis, of equal ones the first. NaN is
// larger and smaller than all. An invocation searches for four consecutive elements of the output. If the axis is the
// last one, an invocation may search a row ALONG its vec4s. Several invocations can share an axis (fold.glsl).

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/along.glsl"
#include "include/indexing.glsl"

// The best element so far, and its position, for each of four.
struct Best {
    ACC4 value;
    ivec4 at;
};
#define FOLD_LANES_ID 3
#define FOLD_VALUE Best
#include "include/fold.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 5) const bool ALONG = false;
layout(constant_id = 6) const bool ROWS = false;    // `inner` is a multiple of four: vec4s are searched side by side

READS(0, Src, src)
layout(set = 0, binding = 1) writeonly buffer Dst { ivec4 dst[]; };
layout(set = 0, binding = 1) writeonly buffer Dst_Elements { int dst_elements[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of rows if ALONG, otherwise of vec4s of the output
    uint elements;    // of the output
    uint size;        // of the input along the axis
    uint inner;       // elements from one position along the axis to the next
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
};

const uint AT_ONCE = 4;    // loads of an invocation that shares an axis, because loads take long

bvec4 is_better(ACC4 candidate, ACC4 best) {
#ifdef KIND_MAX
    bvec4 better = greaterThan(candidate, best);
#else
    bvec4 better = lessThan(candidate, best);
#endif
#ifdef IS_FLOAT
    better = bvec4(uvec4(better) | (uvec4(is_nan(candidate)) & uvec4(not(is_nan(best)))));
#endif
    return better;
}

Best chosen(Best one, Best other, bvec4 is_other) {
    return Best(mix(one.value, other.value, is_other), mix(one.at, other.at, is_other));
}

// The better of two results, or the first of equal ones.
Best better_of(Best one, Best other) {
    uvec4 equal_ones = uvec4(not(is_better(one.value, other.value))) & uvec4(lessThan(other.at, one.at));
    return chosen(one, other, bvec4(uvec4(is_better(other.value, one.value)) | equal_ones));
}

// The first of the elements that the search for an element of the output compares.
uint start(uint index) {
    index = min(index, elements - 1);    // the last four may be more than there are
    return index / inner * inner * size + index % inner;
}

ACC4 load(uvec4 at) { return ROWS ? LOAD4(src, at.x / 4) : GATHER4(src, at); }

Best search(uvec4 at, uint share) {
    Best best = Best(load(at), ivec4(0));
    uint last = size - 1;
    if (LANES > 1) {
        for (uint k = share; k < size; k += AT_ONCE * LANES) {
            ACC4 some[AT_ONCE];
            [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) some[j] = load(at + inner * min(k + j * LANES, last));
            [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
                ivec4 position = ivec4(min(k + j * LANES, last));
                best = chosen(best, Best(some[j], position), is_better(some[j], best.value));
            }
        }
    } else {
        for (uint k = 1; k < size; ++k) {
            at += inner;
            ACC4 candidate = load(at);
            best = chosen(best, Best(candidate, ivec4(k)), is_better(candidate, best.value));
        }
    }
    return best;
}

// The bests of the four elements of a row's vec4s.
Best search_along(uint first, uint share) {
    Best best = Best(ACC4(LOAD(src, first)), ivec4(0));
    Along row = along(first, size);
    for (uint k = share; k < row.vec4s; k += AT_ONCE * LANES) {
        ACC4 some[AT_ONCE];
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) some[j] = LOAD4(src, row.first + min(k + j * LANES, row.vec4s - 1));
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
            uint number = min(k + j * LANES, row.vec4s - 1);
            uvec4 better = uvec4(is_better(some[j], best.value)) & uvec4(are_own(row, number));
            best = chosen(best, Best(some[j], ivec4(positions_of(row, number))), bvec4(better));
        }
    }
    return best;
}

void main() {
    uint item = own_four();
    if (LANES == 1 && item >= count) return;
    uint own = min(item, count - 1), share = own_share(count);    // barriers must be uniform
    Best best;
    if (ALONG) best = search_along(own * size, share);
    else best = search(uvec4(start(4 * own), start(4 * own + 1), start(4 * own + 2), start(4 * own + 3)), share);
    FOLD_LANES(best, better_of)
    if (item >= count || own_lane() != 0) return;
    if (ALONG) {
        best = better_of(best, Best(best.value.zwxy, best.at.zwxy));
        dst_elements[dst_offset + item] = better_of(best, Best(best.value.yxwz, best.at.yxwz)).at.x;
    } else {
        dst[dst_offset / 4 + item] = best.at;
    }
}
