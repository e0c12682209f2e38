#version 450
// GATHER, and what else takes rows of a tensor by their numbers: of (outer, size, inner) elements, with the middle
// dimension in the order that indices say. An invocation writes four consecutive elements, and checks an index.

#extension GL_GOOGLE_include_directive : require

#include "include/divide.glsl"
#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool ROWS = false;    // `inner` is a multiple of four

READS(0, Src, src)
layout(set = 0, binding = 1) readonly buffer Indices { int indices[]; };
WRITES(2, Dst, dst)
#ifdef INDICES_CHECKED
FLAG(3)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint indices_offset;
    uint dst_offset;
#ifdef INDICES_CHECKED
    uint flag_offset;
#endif
    uint count;       // of fours of the output
    uint elements;    // of the output
    uint taken;       // indices
    uint size;
    uint inner;
    uint magic_inner;
    uint magic_taken;
};

// The element of the source for one of the output; OUTSIDE where a row is missing.
const uint OUTSIDE = 0xffffffffu;

uint locate(uint index) {
    uint row = divide(index, inner, magic_inner);
    uint outer = divide(row, taken, magic_taken);
    int found = indices[indices_offset + row - outer * taken];
    bool inside = uint(found) < size;
    return inside ? (outer * size + uint(found)) * inner + index - row * inner : OUTSIDE;
}

uint load(uint index) {
    uint at = locate(min(index, elements - 1));    // the last four may be more than there are
    return at == OUTSIDE ? 0u : LOAD(src, at);
}

void main() {
    uint i = flat_invocation();
#ifdef INDICES_CHECKED
    if (i < taken && uint(indices[indices_offset + i]) >= size) COMPLAIN(indices[indices_offset + i])
#endif
    if (i >= count) return;
    uvec4 result;
    if (ROWS) {
        uint at = locate(4 * i);
        result = at == OUTSIDE ? uvec4(0) : LOAD4(src, at / 4);
    } else {
        result = uvec4(load(4 * i), load(4 * i + 1), load(4 * i + 2), load(4 * i + 3));
    }
    STORE4(dst, i, result);
}
