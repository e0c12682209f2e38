// The places of the matrices that attention reads and writes. Each tensor has matrices in two dimensions of batches, which
// are those of workgroups as well: gl_WorkGroupID.z and y. Its strides, in the tensor `strides`, are in elements: of both
// dimensions, of rows, and of columns. Include this after the push constant `masked` (keys that the mask is added to, from
// the first one on) and the constant MASK_VEC4S. LOAD_CACHED4 and GATHER_CACHED4 load four elements of the mask.

#ifndef NNVK_ATTENTION_GLSL
#define NNVK_ATTENTION_GLSL

struct Place {
    uint first;
    uint row;       // elements from row to row
    uint column;
};

// `number`: of the tensor's strides.
Place place_of(uint number, uint first) {
    uvec4 own = strides_at(strides_offset / 4 + number);
    return Place(first + gl_WorkGroupID.z * own.x + gl_WorkGroupID.y * own.y, own.z, own.w);
}

// The mask of four keys, with zeros behind its last one.
vec4 mask_of(Place place, uint row, uint k) {
    uint at = place.first + row * place.row;
    if (MASK_VEC4S) return LOAD_CACHED4(mask, (at + k) / 4);
    uvec4 keys = k + uvec4(0, 1, 2, 3);
    vec4 found = GATHER_CACHED4(mask, at + min(keys, uvec4(masked - 1)) * place.column);
    return mix(vec4(0.0), found, lessThan(keys, uvec4(masked)));
}

#endif
