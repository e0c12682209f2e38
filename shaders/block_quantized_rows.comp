#version 450
// BLOCK_QUANTIZED_EMBEDDING_LOOKUP: rows of weights of 4 bits, which are unpacked. An invocation writes four consecutive
// elements, whose rows are zeros if their index is out of range, and checks the indices.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/divide.glsl"
#include "include/flag.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
// Four consecutive elements are of one row.
layout(constant_id = 3) const bool ONE_ROW = true;
// Levels of a block; a constant, because integer division is slow.
layout(constant_id = 4) const uint BLOCK_SIZE = 32;
layout(constant_id = 5) const bool ZERO_POINTS = false;

const uint WORD_LEVELS = 8;

READ_VIEW(0, Lookup, lookup, int)
READ_VIEW(1, Weights, weights, uint)
READS(2, Scales, scales)
READ_VIEW(3, Zeros, zeros, uint)
WRITES(4, Dst, dst)
#ifdef INDICES_CHECKED
FLAG(5)
#endif

layout(push_constant) uniform Push {
    uint lookup_offset;
    uint weights_offset;
    uint scales_offset;
    uint zeros_offset;
    uint dst_offset;
#ifdef INDICES_CHECKED
    uint flag_offset;
#endif
    uint count;      // of vec4s of the output
    uint taken;      // indices
    uint rows;
    uint columns;
    uint magic_columns;
    uint words;      // of a row
    uint blocks;     // of a row
};

float level(uint word, uint place) { return float((word >> (4u * (place % WORD_LEVELS))) & 15u); }

// The row of an index; rows where there is none.
uint row_at(uint place) {
    uint found = uint(lookup_at(lookup_offset + min(place, taken - 1u)));
#ifdef INDICES_CHECKED
    if (found >= rows) RAISE(found)
#endif
    return min(found, rows);
}

float weight(uint row, uint column) {
    uint inside = min(row, rows - 1u), block = column / BLOCK_SIZE;
    float zero = 8.0;
    if (ZERO_POINTS) {
        uint at = inside * divide_up(blocks, WORD_LEVELS) + block / WORD_LEVELS;
        zero = level(zeros_at(zeros_offset + at), block);
    }
    uint word = weights_at(weights_offset + inside * words + column / WORD_LEVELS);
    float result = (level(word, column) - zero) * LOAD_WITH(scales, inside * blocks + block, 0u);
    return row < rows ? result : 0.0;
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint place = divide(4u * i, columns, magic_columns), column = 4u * i - place * columns;
    uint row = row_at(place);
    vec4 result;
    [[unroll]] for (uint k = 0; k < 4u; k++) {
        result[k] = weight(row, column);
        column++;
        if (!ONE_ROW && column == columns && k < 3u) {
            column = 0u;
            place++;
            row = row_at(place);
        }
    }
    STORE4_WITH(dst, i, result, 0u);
}
