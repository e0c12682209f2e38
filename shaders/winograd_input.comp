#version 450
// The input transform of a Winograd convolution (include/winograd.glsl): from tiles of an NHWC tensor to values at the
// points. dst is [points, tiles, channels padded to vec4s], of 32-bit floats.
//
// ACROSS invocations go through the channels of a tile together, each vec4 or PAIRS. Sums at the points mix the values
// of all windows of a tile, so the rounding errors of a very large value would exceed the results of windows that do not
// contain it. A tile is therefore marked by a NaN, which all of its sums become, in two cases: the largest value over
// all channels is not finite; or it is RATIO times as large as the largest value in some window, and larger than
// `harmless`. winograd_output.comp computes such tiles directly. For each window, the check uses a cell inside it: two
// neighbouring pixels in each direction, one of which is the window's middle.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#define MAY_DIVIDE_AS_FLOATS
#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

#include "include/winograd.glsl"

layout(constant_id = 5) const uint ACROSS = 1;
layout(constant_id = 6) const uint LOCAL = 64;
layout(constant_id = 7) const bool PAIRS = false;    // for devices with few registers; only with VECTORS
// With four lines of input each line of points is stored as soon as its two lines are there, and no more are held. For
// CPUs, which keep lines in memory anyway, the conditions would only take time.
layout(constant_id = 8) const bool LINE_BY_LINE = false;

READS(0, Src, src)
#if FOUR_WORDS == 4
READ_VIEW(0, Src_Twos, src_vec2s, vec2)
#define LOAD2(at) src_vec2s_at((src_offset + (at)) >> 1)
#else
#define LOAD2(at) unpack_float16(uvec2(src_at(src_offset + ((at) >> 1)), 0u)).xy
#endif
layout(set = 0, binding = 1) writeonly buffer Dst { vec4 dst[]; };
layout(set = 0, binding = 1) writeonly buffer Dst_Twos { vec2 dst_vec2s[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint tiles;
    uint tiles_down;
    uint tiles_across;
    uint magic_down;    // to divide by the tiles along the height and width
    uint magic_across;
    uint height;
    uint width;
    uint channels;
    uint src_pitch;    // from a pixel to the next
    int pad_top;
    int pad_left;
    uint out_height;
    uint out_width;
    float harmless;
};

const float RATIO = 16.0;
const uint CELLS_DOWN = DOWN == 2u ? 1u : 3u, CELLS_RIGHT = 3u;
const uint CELLS = CELLS_DOWN * CELLS_RIGHT, MOST_CELLS = 9;
const uint REST = CELLS;    // pixels outside of all cells
const uint TILES = LOCAL / ACROSS;
const uint EACH = PAIRS ? 2u : 4u;    // channels of an invocation at once; others are zeros, which compilers remove

shared uint largest[ACROSS == 1u ? 1u : TILES * (MOST_CELLS + 1u)];

// The number of the cell that a pixel of a tile lies in.
uint cell_of(uint y, uint x) {
    if (DOWN == 2u) return y == 1u || y == 2u ? x / 2u : REST;
    return y / 2u * CELLS_RIGHT + x / 2u;
}

// Whether there is a window that uses a cell. The second and third of four windows along a side share a cell.
bool is_seen(uint cell, Tile tile) {
    uvec2 at = uvec2(cell / CELLS_RIGHT, cell % CELLS_RIGHT);
    return all(lessThan(uvec2(tile.y, tile.x) + at + at / 2u, uvec2(out_height, out_width)));
}

void store(uint at, vec4 v) {
    if (PAIRS) dst_vec2s[dst_offset / 2u + at] = v.xy;
    else dst[dst_offset / 4u + at] = v;
}

bool is_drowned(uint highest, uint lowest) {
    float high = uintBitsToFloat(min(highest, INFINITE - 1u)), low = uintBitsToFloat(min(lowest, INFINITE - 1u));
    return highest >= INFINITE || (high > harmless && high > RATIO * low);
}

void main() {
    uint lane = gl_LocalInvocationIndex % ACROSS, slot = gl_LocalInvocationIndex / ACROSS;
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, number = group * TILES + slot;
    bool exists = number < tiles;
    if (ACROSS == 1u && !exists) return;
    Tile tile = tile_of(min(number, tiles - 1u), uvec2(tiles_down, tiles_across), uvec2(magic_down, magic_across));
    uint vec4s = divide_up(channels, 4u);
    uint image = tile.image * height * width * src_pitch;
    ivec2 start = ivec2(tile.y, tile.x) - ivec2(pad_top, pad_left);

    uint found[MOST_CELLS + 1];
    [[unroll]] for (uint i = 0; i <= REST; i++) found[i] = 0u;
    uint steps = vec4s * (4u / EACH);    // of a tile's channels at a point
    for (uint step = lane; step < steps; step += ACROSS) {
        uint channel = step * EACH, to = number * steps + step;
        vec4 values[MOST][MOST];
        [[unroll]] for (uint i = 0; i < TALL; i++) {
            uint y = mix(i, (i & 1u) * 2u + i / 2u, LINE_BY_LINE);    // 0, 2, 1, 3
            vec4 line[MOST];
            [[unroll]] for (uint x = 0; x < WIDE; x++) {
                uvec2 at = uvec2(start + ivec2(y, x));
                bool inside = all(bvec2(at.x < height, at.y < width));
                uint from = mix(0u, image + (at.x * width + at.y) * src_pitch, inside) + channel;
                if (PAIRS) {
                    line[x] = vec4(LOAD2(from), 0.0, 0.0);
                } else if (VECTORS) {
                    line[x] = LOAD4_WITH(src, from >> 2, 0u);
                } else {
                    uint last = channels - channel - 1u;
                    uvec4 offsets = uvec4(0u, 1u, 2u, 3u);
                    line[x] = GATHER4_WITH(src, from + min(offsets, uvec4(last)), 0u);
                    line[x] = mix(vec4(0.0), line[x], lessThanEqual(offsets, uvec4(last)));
                }
                line[x] = mix(vec4(0.0), line[x], bvec4(inside));
                uint cell = cell_of(y, x);
                found[cell] = max(found[cell], largest_of(magnitudes(line[x])));
            }
            to_six_points(line);
            [[unroll]] for (uint x = 0; x < WIDE; x++) values[y][x] = line[x];
            if (LINE_BY_LINE && (ACROSS == 1u || exists)) {
                [[unroll]] for (uint x = 0; x < WIDE; x++) {
                    if (i == 1u) store(to + x * tiles * steps, values[2][x] - values[0][x]);
                    if (i == 2u) store(to + (WIDE + x) * tiles * steps, values[2][x] + values[1][x]);
                    if (i == 2u) store(to + (2u * WIDE + x) * tiles * steps, values[2][x] - values[1][x]);
                    if (i == 3u) store(to + (3u * WIDE + x) * tiles * steps, values[3][x] - values[1][x]);
                }
            }
        }
        if (!LINE_BY_LINE) {
            [[unroll]] for (uint x = 0; x < WIDE; x++) {
                vec4 line[MOST];
                [[unroll]] for (uint y = 0; y < TALL; y++) line[y] = values[y][x];
                if (DOWN == 2u) to_four_points(line);
                else to_six_points(line);
                if (ACROSS == 1u || exists) {
                    [[unroll]] for (uint y = 0; y < TALL; y++) store(to + (y * WIDE + x) * tiles * steps, line[y]);
                }
            }
        }
    }

    if (ACROSS > 1u) {
        for (uint i = gl_LocalInvocationIndex; i < TILES * (REST + 1u); i += LOCAL) largest[i] = 0u;
        barrier();
        [[unroll]] for (uint i = 0; i <= REST; i++) atomicMax(largest[slot * (REST + 1u) + i], found[i]);
        barrier();
    }
    uint highest = 0u, lowest = INFINITE;
    [[unroll]] for (uint i = 0; i <= REST; i++) {
        uint here = ACROSS > 1u ? largest[slot * (REST + 1u) + i] : found[i];
        highest = max(highest, here);
        if (i < CELLS) lowest = mix(lowest, min(lowest, here), is_seen(i, tile));
    }
    // Mark a point that counts for all pixels, in channels that this invocation has stored.
    if (all(bvec3(exists, lane == 0u, is_drowned(highest, lowest))))
        store(((WIDE + 1u) * tiles + number) * steps, vec4(uintBitsToFloat(0x7fc00000u)));
}
