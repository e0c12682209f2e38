// The windows of convolutions, for shaders that verify them (lowering/gemm/verification/exact.py). It is no code of
// those that compute them. Include this after the push constants, which have the geometry: rows, out_height, out_width,
// height, width, pad_top, pad_left.

#ifndef NNVK_WINDOWS_GLSL
#define NNVK_WINDOWS_GLSL

layout(constant_id = 5) const uint STRIDE_Y = 1;
layout(constant_id = 6) const uint STRIDE_X = 1;
layout(constant_id = 7) const uint DILATION_Y = 1;
layout(constant_id = 8) const uint DILATION_X = 1;
// The convolution is transposed: the strides are those of the output, and a window has the inputs that come to a pixel.
layout(constant_id = 13) const bool TRANSPOSED = false;

// The image of a pixel, and the line and column where its window begins.
ivec3 window_of(uint row) {
    row = min(row, rows - 1u);
    uint line = row / out_width, image = line / out_height;
    ivec2 at = ivec2(line - image * out_height, row - line * out_width);
    if (TRANSPOSED) return ivec3(image, at + ivec2(pad_top, pad_left));
    return ivec3(image, at * ivec2(STRIDE_Y, STRIDE_X) - ivec2(pad_top, pad_left));
}

const uint OUTSIDE = 0xffffffffu;    // the address of inputs in the padding

// The index of an element of the input, in the pixel that a tap of a window takes.
uint address_of(ivec3 window, uint ky, uint kx, uint channels, uint element) {
    ivec2 at = window.yz + ivec2(ky * DILATION_Y, kx * DILATION_X);
    bool inside = true;
    if (TRANSPOSED) {
        ivec2 apart = window.yz - ivec2(ky, kx), strides = ivec2(STRIDE_Y, STRIDE_X);
        at = max(apart, ivec2(0)) / strides;
        inside = all(equal(at * strides, apart));
    }
    inside = inside && all(lessThan(uvec2(at), uvec2(height, width)));
    uint address = ((uint(window.x) * height + uint(at.x)) * width + uint(at.y)) * channels + element;
    return mix(OUTSIDE, address, inside);
}

#endif
