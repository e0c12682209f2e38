#version 450
// LOCAL_RESPONSE_NORMALIZATION along any axis: divide an element by a power of the sum of squares in a window around
// it, along its slice. An invocation computes four consecutive elements of the output. For long windows, PASS_SUMS
// first sums the squares of blocks; BLOCKS selects this.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"
#include "include/pow.glsl"
#include "include/slices.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool BLOCKS = false;

READS(0, Src, src)
#ifdef PASS_SUMS
layout(set = 0, binding = 1) writeonly buffer Sums { float sums[]; };
#else
READ_VIEW(1, Sums, sums, float)
WRITES(2, Dst, dst)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint sums_offset;
#ifndef PASS_SUMS
    uint dst_offset;
    uint elements;
    uint radius;
    float bias;
    float alpha;
    float beta;
#endif
    uint count;     // of sums, or of vec4s
    uint length;
    uint inner;
    uint block;     // elements of a block
    uint blocks;    // of a slice
};

#ifdef PASS_SUMS

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint slice = i / blocks, first = (i - slice * blocks) * block;
    uint start = slice_start(slice, length, inner);
    float sum = 0.0;
    for (uint k = first; k < min(first + block, length); ++k) {
        float x = LOAD(src, start + k * inner);
        sum += x * x;
    }
    sums[sums_offset + i] = sum;
}

#else

// For four elements: the beginning of their slices in src, and their positions in the slices.
struct Four {
    uvec4 start;
    uvec4 position;
    uvec4 slice;
};

uvec3 place_of(uint index) {
    index = min(index, elements - 1);    // the last four may exceed the number of elements
    uint line = index / inner, outer = line / length, within = index - line * inner;
    return uvec3(outer * length * inner + within, line - outer * length, outer * inner + within);
}

Four four_of(uint i) {
    uvec3 x = place_of(4 * i), y = place_of(4 * i + 1), z = place_of(4 * i + 2), w = place_of(4 * i + 3);
    return Four(uvec4(x.x, y.x, z.x, w.x), uvec4(x.y, y.y, z.y, w.y), uvec4(x.z, y.z, z.z, w.z));
}

uint longest(uvec4 from, uvec4 to) {
    uvec4 lengths = to - min(from, to);
    return max(max(lengths.x, lengths.y), max(lengths.z, lengths.w));
}

// The sum of the squares of each slice between two positions.
vec4 squares(uvec4 start, uvec4 from, uvec4 to) {
    vec4 sum = vec4(0.0);
    for (uint k = 0, most = longest(from, to); k < most; ++k) {
        vec4 x = GATHER4(src, start + min(from + k, length - 1u) * inner);
        sum += mix(vec4(0.0), x * x, lessThan(from + k, to));
    }
    return sum;
}

vec4 block_squares(uvec4 slice, uvec4 from, uvec4 to) {
    vec4 sum = vec4(0.0);
    for (uint k = 0, most = longest(from, to); k < most; ++k) {
        uvec4 at = sums_offset + slice * blocks + min(from + k, blocks - 1u);
        sum += mix(vec4(0.0), vec4(sums_at(at.x), sums_at(at.y), sums_at(at.z), sums_at(at.w)), lessThan(from + k, to));
    }
    return sum;
}

// The sum of squares around each of four elements.
vec4 around(uint i) {
    vec4 sum = vec4(0.0);
    if (NEIGHBOURS == IN_FOUR_SLICES && !BLOCKS) {
        uvec3 place = place_of(4 * i);
        uint past = min(place.y + radius + 1, length);
        for (uint k = place.y - min(place.y, radius); k < past; ++k) {
            vec4 x = LOAD4(src, (place.x + k * inner) / 4);
            sum += x * x;
        }
        return sum;
    }
    if (NEIGHBOURS == IN_ONE_SLICE && !BLOCKS) {
        uvec3 place = place_of(4 * i);
        uvec4 position = place.y + uvec4(0, 1, 2, 3);
        uvec4 from = position - min(position, uvec4(radius)), to = position + radius + 1;
        uint past = min(to.w, length);
        for (uint k = from.x; k < past; ++k) {
            float x = LOAD(src, place.x + k);
            sum += mix(vec4(0.0), vec4(x * x), bvec4(uvec4(lessThanEqual(from, uvec4(k))) & uvec4(lessThan(uvec4(k), to))));
        }
        return sum;
    }
    Four four = four_of(i);
    uvec4 from = four.position - min(four.position, uvec4(radius));
    uvec4 to = min(four.position + radius + 1, uvec4(length));
    if (!BLOCKS) return squares(four.start, from, to);
    uvec4 first = (from + block - 1) / block, last = max(to / block, first);
    sum = squares(four.start, from, min(first * block, to)) + block_squares(four.slice, first, last);
    return sum + squares(four.start, max(last * block, min(first * block, to)), to);
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    vec4 x = LOAD4(src, i), base = bias + alpha * around(i);
    STORE4(dst, i, quotient_of(x, vec4(exact_pow(base.x, beta), exact_pow(base.y, beta), exact_pow(base.z, beta),
                                       exact_pow(base.w, beta))));
}

#endif
