#version 450
// Sort rows by descending keys (include/sort.glsl), by merging. PASS_LISTS makes sorted lists of SPAN consecutive keys
// or entries, one list per invocation, or PASS_BLOCKS of BLOCK of them, one list per workgroup. PASS_MERGE merges pairs
// of neighbouring lists of a row; an invocation writes some entries. Entries after the first `keep` ones are dropped.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/sort.glsl"

layout(local_size_x_id = 0) in;

#ifndef PASS_MERGE

#ifdef PASS_LISTS
const uint SPAN = 16;
#else
layout(constant_id = 3) const uint BLOCK = 1024;    // a power of two
layout(constant_id = 4) const uint LOCAL = 64;      // invocations of a workgroup
#endif

#ifdef FROM_KEYS
layout(set = 0, binding = 0) readonly buffer Keys { uint keys[]; };
#else
layout(set = 0, binding = 0) readonly buffer Entries { uvec2 entries[]; };
layout(set = 0, binding = 2) readonly buffer Sizes { uint sizes[]; };
#endif
layout(set = 0, binding = 1) writeonly buffer Dst { uvec2 dst[]; };

layout(push_constant) uniform Push {
#ifdef FROM_KEYS
    uint keys_offset;
#else
    uint entries_offset;
    uint sizes_offset;
#endif
    uint dst_offset;
    uint count;     // of lists
    uint lists;     // of a row
    uint length;    // of a row
    uint keep;      // entries of a list
};

#ifdef FROM_KEYS
uint size_of(uint row) { return length; }
uvec2 load(uint row, uint position) { return uvec2(keys[keys_offset + row * length + position], position); }
#else
uint size_of(uint row) { return sizes[sizes_offset + row]; }
uvec2 load(uint row, uint position) { return entries[entries_offset / 2 + row * length + position]; }
#endif

#ifdef PASS_LISTS

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint row = i / lists, first = (i - row * lists) * SPAN, last = size_of(row);
    if (first >= last) return;
    uvec2 e[SPAN];
#define FETCH(k) e[k] = first + k < last ? load(row, first + k) : NO_ENTRY;
    FETCH(0) FETCH(1) FETCH(2) FETCH(3) FETCH(4) FETCH(5) FETCH(6) FETCH(7)
    FETCH(8) FETCH(9) FETCH(10) FETCH(11) FETCH(12) FETCH(13) FETCH(14) FETCH(15)
    // Batcher's odd-even merge sort.
#define ORDER(a, b)                              \
    {                                            \
        bool swap = before(e[b], e[a]);          \
        uvec2 other = swap ? e[a] : e[b];        \
        e[a] = swap ? e[b] : e[a];               \
        e[b] = other;                            \
    }
    ORDER(0, 1) ORDER(2, 3) ORDER(4, 5) ORDER(6, 7) ORDER(8, 9) ORDER(10, 11) ORDER(12, 13) ORDER(14, 15)
    ORDER(0, 2) ORDER(1, 3) ORDER(4, 6) ORDER(5, 7) ORDER(8, 10) ORDER(9, 11) ORDER(12, 14) ORDER(13, 15)
    ORDER(1, 2) ORDER(5, 6) ORDER(9, 10) ORDER(13, 14)
    ORDER(0, 4) ORDER(1, 5) ORDER(2, 6) ORDER(3, 7) ORDER(8, 12) ORDER(9, 13) ORDER(10, 14) ORDER(11, 15)
    ORDER(2, 4) ORDER(3, 5) ORDER(10, 12) ORDER(11, 13)
    ORDER(1, 2) ORDER(3, 4) ORDER(5, 6) ORDER(9, 10) ORDER(11, 12) ORDER(13, 14)
    ORDER(0, 8) ORDER(1, 9) ORDER(2, 10) ORDER(3, 11) ORDER(4, 12) ORDER(5, 13) ORDER(6, 14) ORDER(7, 15)
    ORDER(4, 8) ORDER(5, 9) ORDER(6, 10) ORDER(7, 11)
    ORDER(2, 4) ORDER(3, 5) ORDER(6, 8) ORDER(7, 9) ORDER(10, 12) ORDER(11, 13)
    ORDER(1, 2) ORDER(3, 4) ORDER(5, 6) ORDER(7, 8) ORDER(9, 10) ORDER(11, 12) ORDER(13, 14)
    uint to = dst_offset / 2 + i * keep;
    uint end = min(keep, last - first);
#define PUT(k) if (k < end) dst[to + k] = e[k];
    PUT(0) PUT(1) PUT(2) PUT(3) PUT(4) PUT(5) PUT(6) PUT(7)
    PUT(8) PUT(9) PUT(10) PUT(11) PUT(12) PUT(13) PUT(14) PUT(15)
}

#else

shared uvec2 e[BLOCK];

void main() {
    uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
    if (i >= count) return;    // whole workgroups, so that the barriers are uniform
    uint row = i / lists, first = (i - row * lists) * BLOCK, last = size_of(row);
    if (first >= last) return;
    for (uint k = lane; k < BLOCK; k += LOCAL) e[k] = first + k < last ? load(row, first + k) : NO_ENTRY;
    // A bitonic sort: lists of `half_` entries become lists of `size`. The first step compares an entry of the first
    // list with one of the second list from its end.
    for (uint size = 2u; size <= BLOCK; size *= 2u) {
        for (uint half_ = size / 2u; half_ > 0u; half_ /= 2u) {
            barrier();
            for (uint pair = lane; pair < BLOCK / 2u; pair += LOCAL) {
                uint a = 2u * pair - (pair & (half_ - 1u));
                uint b = 2u * half_ == size ? a ^ (size - 1u) : a + half_;
                uvec2 x = e[a], y = e[b];
                if (before(y, x)) {
                    e[a] = y;
                    e[b] = x;
                }
            }
        }
    }
    barrier();
    uint to = dst_offset / 2 + i * keep, end = min(keep, last - first);
    for (uint k = lane; k < min(end, BLOCK); k += LOCAL) dst[to + k] = e[k];
}

#endif

#else

layout(constant_id = 3) const uint ENTRIES = 32;    // entries that an invocation writes

layout(set = 0, binding = 0) readonly buffer Src { uvec2 src[]; };
layout(set = 0, binding = 1) writeonly buffer Dst { uvec2 dst[]; };
#ifdef FROM_ENTRIES
layout(set = 0, binding = 2) readonly buffer Sizes { uint sizes[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
#ifdef FROM_ENTRIES
    uint sizes_offset;
#endif
    uint count;     // of invocations
    uint lists;     // of a row
    uint length;    // of a row
    uint span;      // elements of a row that a list is made from
    uint stride;    // from list to list
    uint keep;      // entries of a list of the result
};

#ifdef FROM_KEYS
uint size_of(uint row) { return length; }
#else
uint size_of(uint row) { return sizes[sizes_offset + row]; }
#endif

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint parts = divide_up(keep, ENTRIES), pairs = divide_up(lists, 2);
    uint list = i / parts, start = (i - list * parts) * ENTRIES;
    uint row = list / pairs, left = (list - row * pairs) * 2, first = left * span, last = size_of(row);
    uint a_size = min(last - min(first, last), min(span, stride)), a = src_offset / 2 + (row * lists + left) * stride;
    uint b_size = min(last - min(first + span, last), min(span, stride)), b = a + stride;
    uint end = min(min(start + ENTRIES, keep), a_size + b_size);
    if (start >= end) return;
    // The number of the first `start` entries that come from the first list.
    uint low = start > b_size ? start - b_size : 0, high = min(start, a_size);
    while (low < high) {
        uint middle = (low + high) / 2;
        if (before(src[a + middle], src[b + start - 1 - middle])) low = middle + 1;
        else high = middle;
    }
    uint x = low, y = start - low, to = dst_offset / 2 + list * keep;
    uvec2 from_a = x < a_size ? src[a + x] : NO_ENTRY, from_b = y < b_size ? src[b + y] : NO_ENTRY;
    for (uint k = start; k < end; ++k) {
        bool is_a = y >= b_size || (x < a_size && before(from_a, from_b));
        dst[to + k] = is_a ? from_a : from_b;
        x += is_a ? 1 : 0;
        y += is_a ? 0 : 1;
        uvec2 next = (is_a ? x < a_size : y < b_size) ? src[is_a ? a + x : b + y] : NO_ENTRY;
        from_a = is_a ? next : from_a;
        from_b = is_a ? from_b : next;
    }
}

#endif
