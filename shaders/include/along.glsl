// Consecutive elements of a tensor that are read by vec4s, wherever they begin. The first and the last vec4 may have
// elements of others, too.

#ifndef NNVK_ALONG_GLSL
#define NNVK_ALONG_GLSL

struct Along {
    uint first;         // vec4
    uint vec4s;
    uint extent;        // the number of elements
    uvec4 positions;    // of the elements of the first vec4; those before the first element are larger than any extent
};

Along along(uint start, uint extent) {
    uint before = start % 4u;
    return Along(start / 4u, (before + extent + 3u) / 4u, extent, uvec4(0u, 1u, 2u, 3u) - before);
}

// The positions of the elements of a vec4, by its number from the first one.
uvec4 positions_of(Along elements, uint number) { return elements.positions + 4u * number; }

// Whether these are own elements. Vec4s past the last one have none.
bvec4 are_own(Along elements, uint number) {
    return lessThan(positions_of(elements, number), uvec4(elements.extent));
}

#endif
