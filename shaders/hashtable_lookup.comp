#version 450
// HASHTABLE_LOOKUP's search: the row of each requested key, or -1, and whether the key exists. An invocation searches
// for four keys, and checks that four keys of the table are in ascending order.

#extension GL_GOOGLE_include_directive : require

#include "include/texels.glsl"
#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/quant.glsl"

layout(local_size_x_id = 0) in;

READ_VIEW(0, Lookup, lookup, int)
READ_VIEW(1, Key, key, int)
layout(set = 0, binding = 2) writeonly buffer Rows { ivec4 rows[]; };
layout(set = 0, binding = 3) writeonly buffer Hits { uint hits[]; };
FLAG(4)

layout(push_constant) uniform Push {
    uint lookup_offset;
    uint key_offset;
    uint rows_offset;
    uint hits_offset;
    uint flag_offset;
    uint lookups;
    uint keys;
};

// The first row with a key, or -1.
int row_of(int wanted) {
    uint low = 0, high = keys;
    while (low < high) {
        uint middle = (low + high) / 2;
        if (key_at(key_offset + middle) < wanted) low = middle + 1;
        else high = middle;
    }
    return low < keys && key_at(key_offset + low) == wanted ? int(low) : -1;
}

void main() {
    uint i = flat_invocation();
    for (uint k = 4 * i + 1; k < min(4 * i + 5, keys); ++k)
        if (key_at(key_offset + k) < key_at(key_offset + k - 1)) RAISE(key_at(key_offset + k))
    if (4 * i >= lookups) return;
    ivec4 found;
    for (uint k = 0; k < 4; ++k) found[k] = row_of(lookup_at(lookup_offset + min(4 * i + k, lookups - 1)));
    rows[rows_offset / 4 + i] = found;
    hits[hits_offset + i] = pack_bytes(ivec4(greaterThanEqual(found, ivec4(0))), 0u);
}
