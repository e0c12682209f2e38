// Sorts by descending keys: common code of the passes of a sort, and the keys (lowering/selection/sort.py).
//
// A key is an unsigned integer with the order of the number that it represents. An entry is a key and its original
// position, so all entries are different; among equal keys the lower position comes first. Key 0 represents elements
// that do not take part, and comes last.

#ifndef NNVK_SORT_GLSL
#define NNVK_SORT_GLSL

#include "special_values.glsl"

const uvec2 NO_ENTRY = uvec2(0u, 0xffffffffu);    // comes last

// ENTRIES(binding, binding) declares the rows and their sizes, which are 0 at first. The push constants must have an
// `entries_offset` and a `sizes_offset`.
#define ENTRIES(FIRST, SECOND)                                                           \
    layout(set = 0, binding = FIRST) writeonly buffer Entries { uvec2 entries[]; };      \
    layout(set = 0, binding = SECOND) buffer Sizes { uint sizes[]; };

#define APPEND(row, length, key, position)                                               \
    entries[entries_offset / 2u + (row) * (length) + atomicAdd(sizes[sizes_offset + (row)], 1u)] = uvec2(key, position);

// Whether an entry comes before another one.
bool before(uvec2 a, uvec2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }

// The keys of numbers. -0 is 0, and NaN has the given key.
const uint NAN_FIRST = 0xffffffffu, NAN_LAST = 0u;

uint key_of(float x, uint nan) {
    uint bits = x == 0.0 ? 0u : floatBitsToUint(x);
    if (is_nan(x)) return nan;
    return bits < 0x80000000u ? bits | 0x80000000u : ~bits;
}
uint key_of(float x) { return key_of(x, NAN_FIRST); }
uint key_of(int x) { return uint(x) ^ 0x80000000u; }

#endif
