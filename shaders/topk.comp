#version 450
// TOPK_V2 before and after the sort of its rows. PASS_KEYS computes the key of each element, from the last of a row to
// the first, so that the last of equal elements comes first. PASS_TAKE copies the elements that the sorted entries
// name.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/sort.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;

READS(0, Src, src)
#ifdef PASS_KEYS
layout(set = 0, binding = 1) writeonly buffer Keys { uint keys[]; };
#else
READ_VIEW(1, Entries, entries, uvec2)
WRITES(2, Dst, dst)
layout(set = 0, binding = 3) writeonly buffer Indices { ivec4 indices[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
#ifdef PASS_KEYS
    uint keys_offset;
#else
    uint entries_offset;
    uint dst_offset;
    uint indices_offset;
#endif
    uint count;       // of elements, or of vec4s of the output
    uint length;      // of a row
#ifdef PASS_TAKE
    uint elements;    // of the output
    uint k;           // of a row
#endif
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
};

#ifdef PASS_KEYS

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint row = i / length, position = i - row * length;
    keys[keys_offset + i] = key_of(LOAD(src, row * length + (length - 1 - position)));
}

#else

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec4 at = min(4 * i + uvec4(0, 1, 2, 3), elements - 1);    // the last four may exceed the number of elements
    uvec4 place, row = at / k;
    for (int n = 0; n < 4; ++n) place[n] = length - 1 - entries_at(entries_offset / 2 + at[n]).y;
    STORE4(dst, i, GATHER4(src, row * length + place));
    indices[indices_offset / 4 + i] = ivec4(place);
}

#endif
