#version 450
// LSH_PROJECTION: signatures of items by locality-sensitive hashing, with one bit for each seed.
//
//   PASS_HASH        fingerprints of a seed and of each item, as signed numbers, times the items' weights
//   PASS_ESTIMATE    sums over the items in any order, and whether sums in another order surely have the same signs
//   PASS_SUM         sums over the items, in their order, because the sign may depend on it
//   PASS_SIGNATURE   the bits of signatures: whether the sums are positive

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/double.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

#ifdef PASS_HASH

layout(constant_id = 3) const uint LENGTH = 8;    // bytes of a key: of a seed, and of an item

layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
layout(set = 0, binding = 1) readonly buffer Seeds { uint seeds[]; };
layout(set = 0, binding = 2) writeonly buffer Terms { DOUBLE terms[]; };
#ifdef WEIGHTS_GIVEN
layout(set = 0, binding = 3) readonly buffer Weights { uint weights[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint seeds_offset;
    uint terms_offset;
#ifdef WEIGHTS_GIVEN
    uint weights_offset;
#endif
    uint count;     // of terms
    uint first;     // item
    uint in_row;    // seeds
};

// The parts of the key.
uint seed, item;

uint item_word(uint offset) {
    uint at = item * (LENGTH - 4) + offset, place = src_offset + (at >> 2), shift = (at & 3u) << 3;
    return (src[place] >> shift) | (src[place + 1] << 1 << (31u - shift));
}

// The word of a key, without branches, because there would be very many.
uint key_word(uint offset) {
    uint word = item_word(max(offset, 4u) - 4u), shift = 8u * (offset & 3u);
    return offset >= 4u ? word : (seed >> shift) | (word << 1 << (31u - shift));
}

#include "include/farmhash.glsl"

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint row = i / in_row;
    item = first + row;
    seed = seeds[seeds_offset + i - row * in_row];
    DOUBLE term = double_of(fingerprint64());
#ifdef WEIGHTS_GIVEN
    term = product(term, weights[weights_offset + item]);
#endif
    terms[terms_offset / 2 + i] = term;
}

#elif defined(PASS_ESTIMATE)

layout(constant_id = 3) const uint LOCAL = 64;    // invocations of a workgroup, which compute a sum together

layout(set = 0, binding = 0) readonly buffer Terms { DOUBLE terms[]; };
layout(set = 0, binding = 1) writeonly buffer Sums { DOUBLE sums[]; };
layout(set = 0, binding = 2) writeonly buffer Open { uint open[]; };    // whether the sign of a sum depends on the order

layout(push_constant) uniform Push {
    uint terms_offset;
    uint sums_offset;
    uint open_offset;
    uint count;          // of sums
    uint items;          // that are added
    uint error_power;    // 2^-error_power is at least four times `items` rounding errors
};

// Two sums: of the terms, and of their magnitudes.
#define LANES_VALUE uvec4
#include "include/lanes.glsl"

DOUBLE magnitude(DOUBLE a) { return DOUBLE(a.x, a.y & 0x7fffffffu); }
uvec4 sums_of(uvec4 a, uvec4 b) { return uvec4(sum(a.xy, b.xy), sum(a.zw, b.zw)); }

void main() {
    uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
    if (i >= count) return;    // whole workgroups, so that the barriers are uniform
    uvec4 total = uvec4(0u);
    for (uint k = lane; k < items; k += LOCAL) {
        DOUBLE term = terms[terms_offset / 2 + k * count + i];
        total = sums_of(total, uvec4(term, magnitude(term)));
    }
    OF_ALL_LANES(lane, total, sums_of)
    if (lane != 0) return;
    // Two orders of `items` additions differ by at most twice `items` rounding errors of the sum of magnitudes.
    DOUBLE size = total.zw, error = DOUBLE(size.x, size.y - (error_power << 20));
    bool is_certain = exponent_of(size) != SPECIAL && exponent_of(size) > error_power;
    is_certain = is_certain && is_less(error, magnitude(total.xy));
    sums[sums_offset / 2 + i] = total.xy;
    open[open_offset + i] = uint(!is_certain);
}

#elif defined(PASS_SUM)

layout(constant_id = 3) const bool ESTIMATED = false;    // PASS_ESTIMATE came before, and some sums are certain

layout(set = 0, binding = 0) readonly buffer Terms { DOUBLE terms[]; };
layout(set = 0, binding = 1) buffer Sums { DOUBLE sums[]; };
layout(set = 0, binding = 2) readonly buffer Open { uint open[]; };

layout(push_constant) uniform Push {
    uint terms_offset;
    uint sums_offset;
    uint open_offset;
    uint count;       // of sums
    uint items;       // that are added
    uint skipped;     // items of `terms` before them
    uint has_begun;   // whether other items were added before
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    if (ESTIMATED && open[open_offset + i] == 0u) return;
    DOUBLE total = DOUBLE(0u);
    if (has_begun != 0u) total = sums[sums_offset / 2 + i];
    for (uint k = skipped; k < skipped + items; ++k) total = sum(total, terms[terms_offset / 2 + k * count + i]);
    sums[sums_offset / 2 + i] = total;
}

#else

layout(set = 0, binding = 0) readonly buffer Sums { DOUBLE sums[]; };
layout(set = 0, binding = 1) writeonly buffer Dst { uint dst[]; };

layout(push_constant) uniform Push {
    uint sums_offset;
    uint dst_offset;
    uint count;       // of signatures
    uint bits;        // of a signature
    uint numbered;    // whether the signature's number goes ahead of its bits
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint signature = numbered != 0 ? i : 0;
    for (uint k = 0; k < bits; ++k)
        signature = (signature << 1) | uint(is_positive(sums[sums_offset / 2 + i * bits + k]));
    dst[dst_offset + i] = signature;
}

#endif
