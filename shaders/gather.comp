#version 450
// GATHER and similar operations: select rows of a tensor by index. The tensor has (outer, size, inner) elements; the
// indices select along the middle dimension. A row whose index is out of range is zeros. An invocation writes four
// consecutive elements and checks their indices. gather_rows.comp copies rows that are whole quads of words.

#extension GL_GOOGLE_include_directive : require

#include "include/divide.glsl"
#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool SINGLE = false;    // `inner` is 1
layout(constant_id = 4) const bool OUTER = true;      // there is an outer dimension
layout(constant_id = 5) const bool LONG = false;      // four consecutive elements are of two rows at most
layout(constant_id = 6) const bool WRAPS = false;     // indices below 0 count from the end

READS(0, Src, src)
READ_VIEW(1, Indices, indices, int)
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
    uint count;       // of vec4s of the output
    uint elements;    // of the output
    uint taken;       // indices
    uint size;
    uint inner;
    uint magic_inner;
    uint magic_taken;
#ifdef INDICES_CHECKED
    uint unused;      // indices that are only checked, since rows have no elements
#endif
};

bool is_wrong = false;
uint wrong;

// The row that an index names; `size` or more if there is none.
uint row_of(int index) { return uint(index) + (WRAPS && index < 0 ? size : 0u); }

// The address where a row begins in the source; OUTSIDE if there is no such row.
const uint OUTSIDE = 0xffffffffu;

uint begin(uint row) {
    uint outer = OUTER ? divide(row, taken, magic_taken) : 0;
    int index = indices_at(indices_offset + row - outer * taken);
    uint found = row_of(index);
    bool is_outside = found >= size;
    is_wrong = is_wrong || is_outside;
    wrong = is_outside ? uint(index) : wrong;
    return is_outside ? OUTSIDE : (outer * size + found) * inner;
}

uint load(uint row_begin, uint at) {
    uint element = LOAD(src, row_begin == OUTSIDE ? 0 : row_begin + at);
    return row_begin == OUTSIDE ? 0 : element;
}

uint load(uint index) {
    index = min(index, elements - 1);    // the last four may exceed the number of elements
    uint row = SINGLE ? index : divide(index, inner, magic_inner);
    return load(begin(row), index - row * inner);
}

void main() {
    uint i = flat_invocation();
#ifdef INDICES_CHECKED
    if (i < unused && row_of(indices_at(indices_offset + i)) >= size) RAISE(indices_at(indices_offset + i))
#endif
    if (i >= count) return;
    uvec4 result;
    if (LONG) {
        uint row = divide(4 * i, inner, magic_inner);
        uint first = begin(row), next = begin(min(4 * i + 3, elements - 1) < (row + 1) * inner ? row : row + 1);
        uvec4 at = min(4 * i + uvec4(0, 1, 2, 3), uvec4(elements - 1)) - row * inner;
        for (int k = 0; k < 4; ++k) {
            bool is_next = at[k] >= inner;
            result[k] = load(is_next ? next : first, is_next ? at[k] - inner : at[k]);
        }
    } else {
        result = uvec4(load(4 * i), load(4 * i + 1), load(4 * i + 2), load(4 * i + 3));
    }
#ifdef INDICES_CHECKED
    if (is_wrong) RAISE(wrong)
#endif
    STORE4(dst, i, result);
}
