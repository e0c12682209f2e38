// Winograd convolutions of 3 x 3. A tile of DOWN x 4 output pixels is evaluated at (DOWN + 2) x 6 points, where each
// product of a value and a weight counts for all pixels of the tile (lowering/gemm/winograd.py). Along a side of four
// pixels the points are 0, +-sqrt(1/2), +-sqrt(2) and infinity, along a side of two 0, +-1 and infinity.

#ifndef NNVK_WINOGRAD_GLSL
#define NNVK_WINOGRAD_GLSL

layout(constant_id = 3) const uint DOWN = 2;        // output pixels of a tile, along the height; 2 or 4
layout(constant_id = 4) const bool VECTORS = true;    // the input's channels are a multiple of four

const uint RIGHT = 4;                                 // and along the width
const uint TALL = DOWN + 2u, WIDE = RIGHT + 2u;       // of the input that a tile sees
const uint MOST = 6;
const float NEAR = 0.70710678118654752, FAR = 1.41421356237309505;    // points

// The position of a tile: an image, and the tile's first output pixel in it.
struct Tile {
    uint image;
    uint y;
    uint x;
};

Tile tile_of(uint tile, uvec2 tiles, uvec2 magics) {    // down and across
    uint row = divide(tile, tiles.y, magics.y), image = divide(row, tiles.x, magics.x);
    return Tile(image, (row - image * tiles.x) * DOWN, (tile - row * tiles.y) * RIGHT);
}

// The values at the points along a side of the input of a tile.
void to_six_points(inout vec4 v[MOST]) {
    vec4 even = multiply_add(-2.0, v[2], v[4]), odd = multiply_add(-2.0, v[1], v[3]);
    vec4 even_far = multiply_add(-0.5, v[2], v[4]), odd_far = multiply_add(-0.5, v[1], v[3]);
    v[0] = multiply_add(-2.5, v[2], v[4]) + v[0];
    v[5] = multiply_add(-2.5, v[3], v[5]) + v[1];
    v[1] = multiply_add(NEAR, odd, even);
    v[2] = multiply_add(-NEAR, odd, even);
    v[3] = multiply_add(FAR, odd_far, even_far);
    v[4] = multiply_add(-FAR, odd_far, even_far);
}

void to_four_points(inout vec4 v[MOST]) {
    vec4 second = v[1];
    v[0] = v[2] - v[0];
    v[1] = v[2] + second;
    v[3] = v[3] - second;
    v[2] = v[2] - second;
}

// The pixels along a side of a tile, from sums at the points.
void from_six_points(inout vec4 v[MOST]) {
    vec4 near = v[1] + v[2], near_odd = NEAR * (v[1] - v[2]), far = v[3] + v[4], far_odd = FAR * (v[3] - v[4]);
    v[0] = v[0] + near + far;
    v[1] = near_odd + far_odd;
    v[2] = multiply_add(0.5, near, 2.0 * far);
    v[3] = multiply_add(0.5, near_odd, 2.0 * far_odd) + v[5];
}

// The same for two pixels and one of four points after the other, so that no more than two lines are held.
void add_point(uint point, vec4 v, inout vec4 first, inout vec4 second) {
    if (point == 0u) first = v;
    if (point == 1u || point == 2u) first = first + v;
    if (point == 1u) second = v;
    if (point == 2u) second = second - v;
    if (point == 3u) second = second + v;
}

// The bits without the sign. As integers they have the order of the magnitudes, with NaN above all.
uvec4 magnitudes(vec4 v) { return floatBitsToUint(v) & MAGNITUDE; }

uint largest_of(uvec4 v) { return max(max(v.x, v.y), max(v.z, v.w)); }

#endif
