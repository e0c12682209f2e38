#version 450
// LSH_PROJECTION: signatures of items by locality-sensitive hashing, with one bit for each seed.
//
//   PASS_HASH        fingerprints of a seed and of each item, as signed numbers, times the items' weights
//   PASS_SUM         sums over the items, in their order, because the sign may depend on it
//   PASS_SIGNATURE   the bits of signatures: whether the sums are positive

#extension GL_GOOGLE_include_directive : require

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

#elif defined(PASS_SUM)

layout(set = 0, binding = 0) readonly buffer Terms { DOUBLE terms[]; };
layout(set = 0, binding = 1) buffer Sums { DOUBLE sums[]; };

layout(push_constant) uniform Push {
    uint terms_offset;
    uint sums_offset;
    uint count;    // of sums
    uint items;    // that are added
    uint first;    // item
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    DOUBLE total = DOUBLE(0u);
    if (first > 0) total = sums[sums_offset / 2 + i];
    for (uint k = 0; k < items; ++k) total = sum(total, terms[terms_offset / 2 + k * count + i]);
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
