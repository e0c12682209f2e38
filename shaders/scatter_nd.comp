#version 450
// SCATTER_ND: each slice of the output is what was there, combined with the updates for it in their order, which are found
// by searching in the updates' entries, sorted by places (include/sort.glsl). An invocation computes four consecutive
// elements.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;

READS(0, Updates, updates)
layout(set = 0, binding = 1) readonly buffer Entries { uvec2 entries[]; };    // ~place, number of the update
WRITES(2, Dst, dst)
#ifdef ONTO_INPUT
READS(3, Src, src)
#endif

layout(push_constant) uniform Push {
    uint updates_offset;
    uint entries_offset;
    uint dst_offset;
#ifdef ONTO_INPUT
    uint src_offset;
#endif
    uint count;       // of fours of the output
    uint elements;    // of the output
    uint rows;        // updates
    uint inner;       // elements of a slice
    uint magic_inner;
};

ACC combine(ACC before, ACC update) {
#if defined(KIND_NONE)
    return update;
#elif defined(KIND_MUL)
    ACC result = before * update;
#elif defined(KIND_ADD)
    ACC result = before + update;
#elif defined(IS_FLOAT)
    // NaN stays.
#ifdef KIND_MAX
    return update > before || isnan(update) ? update : before;
#else
    return update < before || isnan(update) ? update : before;
#endif
#elif defined(KIND_MAX)
    return max(before, update);
#else
    return min(before, update);
#endif
#if defined(KIND_ADD) || defined(KIND_MUL)
#if defined(DTYPE_F16)
    return unpack_halves(pack_halves(vec4(result))).x;
#elif defined(DTYPE_BOOL)
    return min(result, 1);
#elif defined(DTYPE_B8)
    return result & 0xffu;
#elif defined(DTYPE_B16)
    return result & 0xffffu;
#else
    return result;
#endif
#endif
}

ACC element(uint index) {
    index = min(index, elements - 1);    // the last four may be more than there are
    uint place = divide(index, inner, magic_inner), rest = index - place * inner;
    uint low = 0, high = rows;
    while (low < high) {
        uint middle = (low + high) / 2;
        if (entries[entries_offset / 2 + middle].x > ~place) low = middle + 1;
        else high = middle;
    }
#ifdef ONTO_INPUT
    ACC value = LOAD(src, index);
#else
    ACC value = ACC(0);
#endif
    for (; low < rows; ++low) {
        uvec2 entry = entries[entries_offset / 2 + low];
        if (entry.x != ~place) break;
        value = combine(value, LOAD(updates, entry.y * inner + rest));
    }
    return value;
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    STORE4(dst, i, ACC4(element(4 * i), element(4 * i + 1), element(4 * i + 2), element(4 * i + 3)));
}
