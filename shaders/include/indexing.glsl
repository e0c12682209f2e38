// Flat indexes and coordinates of dense row-major tensors.

#ifndef NNVK_INDEXING_GLSL
#define NNVK_INDEXING_GLSL

#include "divide.glsl"

uint divide_up(uint a, uint b) { return (a + b - 1u) / b; }

// The number of an invocation, for dispatches that fold a long range into x and y, because a dimension may have no more
// than 65,535 workgroups. It is a macro, because in a function before the shader's local_size_x_id gl_WorkGroupSize
// would be the default, 1.
#define flat_invocation() \
    (gl_GlobalInvocationID.y * (gl_NumWorkGroups.x * gl_WorkGroupSize.x) + gl_GlobalInvocationID.x)

uint nhwc_index(uint n, uint y, uint x, uint c, uint height, uint width, uint channels) {
    return ((n * height + y) * width + x) * channels + c;
}

uint nchw_index(uint n, uint y, uint x, uint c, uint height, uint width, uint channels) {
    return ((n * channels + c) * height + y) * width + x;
}

// Remainders are the difference between a number and a product, because integer division is the slowest operation.

// The (n, y, x, c) of a flat NHWC index.
uvec4 nhwc_coordinates(uint index, uint height, uint width, uint channels) {
    uint pixel = index / channels;
    uint row = pixel / width;
    uint n = row / height;
    return uvec4(n, row - n * height, pixel - row * width, index - pixel * channels);
}

// The same, with the magic numbers to divide by height, width and channels.
uvec4 nhwc_coordinates(uint index, uint height, uint width, uint channels, uvec3 magics) {
    uint pixel = divide(index, channels, magics.z);
    uint row = divide(pixel, width, magics.y);
    uint n = divide(row, height, magics.x);
    return uvec4(n, row - n * height, pixel - row * width, index - pixel * channels);
}

// The (n, y, x, c) of a flat NCHW index.
uvec4 nchw_coordinates(uint index, uint height, uint width, uint channels) {
    uint row = index / width;
    uint plane = row / height;
    uint n = plane / channels;
    return uvec4(n, row - plane * height, index - row * width, plane - n * channels);
}

#endif
