#version 450
// The output transform of a Winograd convolution (include/winograd.glsl): from sums at the points, [points, tiles,
// output channels padded to vec4s], to the pixels of tiles, with the epilogue of a GEMM. An invocation computes four
// output channels of a tile.
//
// If a sum is not a number, because the tile is marked or because of an overflow, the tile is computed directly from
// `src`, an NHWC tensor, and the weights, [output channels, 3, 3, channels].

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#define MAY_DIVIDE_AS_FLOATS
#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
// The number of output channels is a multiple of four.
layout(constant_id = 5) const bool VECTOR_STORES = true;
layout(constant_id = 6) const bool PAIRS = false;    // the four channels are transformed by pairs: registers are few

#include "include/winograd.glsl"

READ_VIEW(0, Sums, sums, vec4)
READ_VIEW(0, Sums_Twos, sums_vec2s, vec2)
READ_VIEW(1, Weights, weights, float)
READ_VIEW(1, Weights_Fours, weights_vec4s, vec4)
#ifdef EPILOGUE_FUSED
READS(6, Src, src)
#else
READS(4, Src, src)
#endif

layout(push_constant) uniform Push {
    uint sums_offset;
    uint weights_offset;
    uint bias_offset;
    uint dst_offset;
#ifdef EPILOGUE_FUSED
    uint extra_offset;
    uint parameters_offset;
#endif
    uint src_offset;
    uint tiles;
    uint tiles_down;
    uint tiles_across;
    uint magic_down;    // to divide by the tiles along the height and width
    uint magic_across;
    uint height;
    uint width;
    uint channels;
    uint src_pitch;    // from a pixel of the input to the next
    int pad_top;
    int pad_left;
    uint out_height;
    uint out_width;
    uint out_channels;
    uint magic_vec4s;    // to divide by the vec4s of output channels
    uint pitches;
    ACC low;
    ACC high;
};

#include "include/filter_output.glsl"

const uint PASSES = PAIRS ? 2u : 1u;

// The input's channels c to c + 3 of a pixel that begins at an index.
vec4 load_channels(uint from, uint c) {
    if (VECTORS) return LOAD4_WITH(src, (from + c) >> 2, 0u);
    uvec4 places = c + uvec4(0u, 1u, 2u, 3u);
    vec4 loaded = GATHER4_WITH(src, from + min(places, uvec4(channels - 1u)), 0u);
    return mix(vec4(0.0), loaded, lessThan(places, uvec4(channels)));
}

vec4 load_weights(uint from, uint c) {
    if (VECTORS) return weights_vec4s_at((from + c) >> 2);
    uvec4 at = from + min(c + uvec4(0u, 1u, 2u, 3u), uvec4(channels - 1u));
    return vec4(weights_at(at.x), weights_at(at.y), weights_at(at.z), weights_at(at.w));
}

// The sum over a window for four output channels. The window may begin in the padding.
vec4 direct_sum(uint image, ivec2 start, uint output_channel) {
    vec4 sum = vec4(0.0);
    for (uint tap = 0; tap < 9u; tap++) {
        uvec2 at = uvec2(start + ivec2(tap / 3u, tap % 3u));
        if (any(bvec2(at.x >= height, at.y >= width))) continue;
        uint from = ((image * height + at.x) * width + at.y) * src_pitch;
        uvec4 filters = min(output_channel + uvec4(0u, 1u, 2u, 3u), uvec4(out_channels - 1u));
        filters = weights_offset + (filters * 9u + tap) * channels;
        for (uint c = 0; c < channels; c += 4u) {
            vec4 value = load_channels(from, c);
            [[unroll]] for (uint i = 0; i < 4u; i++) sum[i] += dot(value, load_weights(filters[i], c));
        }
    }
    return sum;
}

void main() {
    uint vec4s = divide_up(out_channels, 4u), at = flat_invocation(), number = divide(at, vec4s, magic_vec4s);
    if (number >= tiles) return;
    vec4 values[2][MOST][MOST];    // of four channels, or of each pair
    [[unroll]] for (uint pair = 0; pair < PASSES; pair++) {
        [[unroll]] for (uint y = 0; y < TALL; y++) {
            vec4 line[MOST];
            [[unroll]] for (uint i = 0; i < WIDE; i++) {
                uint x = mix((i - 4u) * 5u, i + 1u, i < 4u);    // in the order in which they are needed
                uint from = (y * WIDE + x) * tiles * vec4s + at;
                if (PAIRS) line[x] = vec4(sums_vec2s_at(sums_offset / 2u + from * 2u + pair), 0.0, 0.0);
                else line[x] = sums_at(sums_offset / 4u + from);
            }
            from_six_points(line);
            [[unroll]] for (uint x = 0; x < RIGHT; x++) {
                if (DOWN == 4u) values[pair][y][x] = line[x];
                else add_point(y, line[x], values[pair][0][x], values[pair][1][x]);
            }
        }
        if (DOWN == 4u) {
            [[unroll]] for (uint x = 0; x < RIGHT; x++) {
                vec4 line[MOST];
                [[unroll]] for (uint y = 0; y < TALL; y++) line[y] = values[pair][y][x];
                from_six_points(line);
                [[unroll]] for (uint y = 0; y < DOWN; y++) values[pair][y][x] = line[y];
            }
        }
    }

    // Not before the transform, because it leaves few registers for other values.
    uint channel = (at - number * vec4s) * 4u;
    Output target = output_of(channel);
    Tile tile = tile_of(number, uvec2(tiles_down, tiles_across), uvec2(magic_down, magic_across));
    ivec2 start = ivec2(tile.y, tile.x) - ivec2(pad_top, pad_left);
    uint first = (tile.image * out_height + tile.y) * out_width + tile.x;
    uint largest = 0u;
    [[unroll]] for (uint x = 0; x < RIGHT; x++) {
        [[unroll]] for (uint y = 0; y < DOWN; y++) {
            if (PAIRS) values[0][y][x].zw = values[1][y][x].xy;
            largest = max(largest, largest_of(magnitudes(values[0][y][x])));
        }
    }
    if (largest >= INFINITE) {
        for (uint i = 0; i < DOWN * RIGHT; i++) {
            uint y = i / RIGHT, x = i % RIGHT;
            if (any(bvec2(tile.y + y >= out_height, tile.x + x >= out_width))) continue;
            store_output(first + y * out_width + x, target,
                         target.bias + direct_sum(tile.image, start + ivec2(y, x), channel));
        }
        return;
    }
    [[unroll]] for (uint y = 0; y < DOWN; y++) {
        [[unroll]] for (uint x = 0; x < RIGHT; x++) {
            bool exists = all(bvec2(tile.y + y < out_height, tile.x + x < out_width));
            store_output(mix(NO_PIXEL, first + y * out_width + x, exists), target, target.bias + values[0][y][x]);
        }
    }
}
