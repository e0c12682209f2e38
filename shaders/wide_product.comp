#version 450
// Sums of products of 16-bit steps with 8-bit weights, for convolutions of all kinds, in 64 bits: exact whatever the number
// of products (nnvk/driver/vulkan/lowering/wide_product.py). An invocation computes four consecutive elements of the output,
// NHWC, in one of several ways (WAY), by fours of products where depths are multiples of four (VECTOR).

#extension GL_GOOGLE_include_directive : require

#define DTYPE_Q16
#include "include/indexing.glsl"
#include "include/tensors.glsl"
#include "include/wide.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint WAY = 0;
layout(constant_id = 4) const bool VECTOR = false;
layout(constant_id = 5) const bool WIDE_BIAS = false;    // of 64 bits
layout(constant_id = 6) const uint ROUNDING = 0;

layout(constant_id = 7) const bool TRANSPOSED = false;    // elements of the input go to several of the output

// What an invocation computes, as lowering/wide_product.py numbers it.
const uint APART = 0;         // four elements one after the other
const uint TOGETHER = 1;      // four that see the same elements of the input
const uint CHANNELWISE = 2;   // four that each see a channel of their own, side by side
const uint TILED = 3;         // four that see the same, of four pixels in a row

// How sums are rescaled, as nnvk/ops/linear.py has it.
const uint TWICE = 0;    // of 32 bits
const uint SHORT = 1;
const uint ONCE = 2;

READS(0, Src, src)
layout(set = 0, binding = 1) readonly buffer Weights { uint weights[]; };
layout(set = 0, binding = 2) readonly buffer Bias { int bias[]; };
layout(set = 0, binding = 3) readonly buffer Multipliers { ivec2 multipliers[]; };    // mantissa, shift
WRITES(4, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint bias_offset;
    uint multipliers_offset;
    uint dst_offset;
    uint count;          // of fours
    uint elements;       // of the output
    uint height;
    uint width;
    uint channels;
    uint out_height;
    uint out_width;
    uint out_channels;
    uint filter_height;
    uint filter_width;
    uint stride_y;
    uint stride_x;
    uint dilation_y;
    uint dilation_x;
    uint pad_top;
    uint pad_left;
    uint depth;          // input channels that an output channel sees
    uint per_group;      // output channels that see the same
    uint filter_step;    // weights from one output channel to the next
    uint tap_step;       // from one tap to the next
    uint magic_height;
    uint magic_width;
    uint magic_channels;
    int low;
    int high;
};

const uint CHUNK = 256;    // products whose sum stays within 32 bits

int step_at(uint at) { return (LOAD_WITH(src, at, 0u) << 16) >> 16; }
ivec4 steps_at(uint at) {
    ivec2 words = ivec2(src_fours[src_offset / FOUR_WORDS + at / 4]);
    return ivec4(words.x << 16, words.x, words.y << 16, words.y) >> 16;
}
int weight_at(uint at) { return (LOAD_BYTE(weights, weights_offset, at, 0u) << 24) >> 24; }
ivec4 weights_at(uint at) { return unpack_signed_bytes(weights[weights_offset + at / 4]); }
int sum_of(ivec4 a) { return a.x + a.y + a.z + a.w; }

// A sum as 2^16 times one number of 32 bits and another.
void accumulate(ivec4 part, inout ivec4 high_, inout ivec4 low_) {
    high_ += part >> 16;
    low_ += part & 0xffff;
}

ivec4 of_four_filters(ivec4 x, ivec4 a, ivec4 b, ivec4 c, ivec4 d) {
    return ivec4(sum_of(x * a), sum_of(x * b), sum_of(x * c), sum_of(x * d));
}

// Products of four elements from `at` on with those of `lanes` filters from `filters` on.
ivec4 products(uint at, uvec4 filters, uint lanes) {
    ivec4 part = ivec4(0);
    if (WAY == CHANNELWISE) return steps_at(at) * weights_at(filters.x);
    if (VECTOR) {
        ivec4 x = steps_at(at);
        if (lanes > 1) {
            return of_four_filters(x, weights_at(filters.x), weights_at(filters.y), weights_at(filters.z),
                                   weights_at(filters.w));
        }
        part.x = sum_of(x * weights_at(filters.x));
    } else {
        int x = step_at(at);
        part.x = x * weight_at(filters.x);
        if (lanes > 1) {
            part.y = x * weight_at(filters.y);
            part.z = x * weight_at(filters.z);
            part.w = x * weight_at(filters.w);
        }
    }
    return part;
}

// The row or column of the input under a tap; a very large number where it is before the first, or there is none.
uint source_of(uint place, uint tap, uint stride, uint dilation, uint before) {
    if (!TRANSPOSED) return place * stride + tap * dilation - before;
    uint distance = place + before - tap;
    return int(distance) < 0 || distance % stride != 0 ? 0xffffffffu : distance / stride;
}

// Sums for output channels from that of a place on, one or four.
void sums(uvec4 place, uint lanes, out ivec4 high_, out ivec4 low_) {
    high_ = low_ = ivec4(0);
    uint first = place.w / per_group * depth, step_ = VECTOR ? 4 : 1;
    uvec4 filters = (place.w + uvec4(0, 1, 2, 3)) * filter_step;
    for (uint row = 0; row < filter_height; ++row) {
        uint y = source_of(place.y, row, stride_y, dilation_y, pad_top);
        if (y >= height) continue;
        for (uint column = 0; column < filter_width; ++column) {
            uint x = source_of(place.z, column, stride_x, dilation_x, pad_left);
            if (x >= width) continue;
            uint at = nhwc_index(place.x, y, x, first, height, width, channels);
            uvec4 taps = filters + (row * filter_width + column) * tap_step;
            for (uint from = 0; from < depth; from += CHUNK) {
                ivec4 part = ivec4(0);
                uint to = min(from + CHUNK, depth);
                for (uint d = from; d < to; d += step_) part += products(at + d, taps + d, lanes);
                accumulate(part, high_, low_);
            }
        }
    }
}

// The same of four pixels from that of a place on, one after the other in a row of the output.
void tiled_sums(uvec4 place, out ivec4 high_[4], out ivec4 low_[4]) {
#define EACH_PIXEL(DO) DO(0) DO(1) DO(2) DO(3)
#define BEGIN(p) high_[p] = low_[p] = ivec4(0);
    EACH_PIXEL(BEGIN)
    uint first = place.w / per_group * depth;
    uvec4 filters = (place.w + uvec4(0, 1, 2, 3)) * filter_step;
    for (uint row = 0; row < filter_height; ++row) {
        uint y = place.y * stride_y + row * dilation_y - pad_top;
        if (y >= height) continue;
        for (uint column = 0; column < filter_width; ++column) {
            uvec4 x = (place.z + uvec4(0, 1, 2, 3)) * stride_x + column * dilation_x - pad_left;
            bvec4 inside = lessThan(x, uvec4(width));
            x = min(x, uvec4(width - 1u));
            uvec4 at = ((place.x * height + y) * width + x) * channels + first;
            uvec4 taps = filters + (row * filter_width + column) * tap_step;
            for (uint from = 0; from < depth; from += CHUNK) {
                ivec4 part[4];
#define ZERO(p) part[p] = ivec4(0);
                EACH_PIXEL(ZERO)
                uint to = min(from + CHUNK, depth);
                for (uint d = from; d < to; d += 4) {
                    ivec4 a = weights_at(taps.x + d), b = weights_at(taps.y + d), c = weights_at(taps.z + d),
                          e = weights_at(taps.w + d);
#define MULTIPLY(p) part[p] += of_four_filters(steps_at(at[p] + d), a, b, c, e);
                    EACH_PIXEL(MULTIPLY)
                }
#define ADD_UP(p) accumulate(inside[p] ? part[p] : ivec4(0), high_[p], low_[p]);
                EACH_PIXEL(ADD_UP)
            }
        }
    }
}

// To the right by 1 to 63 bits, with the sign; the low word of that.
int signed_shift_right(WIDE x, uint n) {
    return n < 32u ? int((x.x >> n) | (x.y << (32u - n))) : int(x.y) >> (n - 32u);
}

// Of 64 bits, by 15 bits of the mantissa, halves up.
int rescale_short(WIDE x, ivec2 multiplier) {
    int reduced = multiplier.x < 0x7fff0000 ? (multiplier.x + (1 << 15)) >> 16 : 0x7fff;
    uint right = uint(15 - multiplier.y);
    return signed_shift_right(add(multiply(x, WIDE(uint(reduced), 0u)), shift_left(WIDE(1u, 0u), right - 1u)), right);
}

// Of 48 bits, which saturate, with one rounding, halves up.
int rescale_once(WIDE x, ivec2 multiplier) {
    int top = int(x.y);
    if (top > 0x7fff || top < -0x8000) x = top > 0 ? WIDE(0xffffffffu, 0x7fffu) : WIDE(1u, uint(-0x8000));
    if (x == WIDE(0u, uint(-0x8000))) x.x = 1u;
    uint right = uint(31 - multiplier.y);
    WIDE low = add(multiply(x.x & 0xffffu, uint(multiplier.x)), shift_left(WIDE(1u, 0u), right - 1u));
    int high_word, low_word;
    imulExtended(int((x.y << 16) | (x.x >> 16)), multiplier.x, high_word, low_word);
    WIDE product = add(WIDE(uint(low_word), uint(high_word)), shift_right(low, 16u));
    int result = signed_shift_right(product, right - 16u), beyond = int(product.y) >> min(right - 16u, 31u);
    return beyond == result >> 31 ? result : beyond ^ 0x7fffffff;    // far out, on its side
}

int finish(uint channel, int high_, int low_) {
    WIDE sum = add(WIDE(uint(high_) << 16, uint(high_ >> 16)), WIDE(uint(low_), 0u));
    ivec2 multiplier = multipliers[multipliers_offset / 2 + channel];
    if (WIDE_BIAS) {
        uint at = bias_offset + 2 * channel;
        sum = add(sum, WIDE(uint(bias[at]), uint(bias[at + 1])));
    } else {
        int addend = bias[bias_offset + channel];
        sum = add(sum, WIDE(uint(addend), uint(addend >> 31)));
    }
    int result;
    if (ROUNDING == TWICE) result = multiply_by_quantized_multiplier(int(sum.x), multiplier.x, multiplier.y);
    if (ROUNDING == SHORT) result = rescale_short(sum, multiplier);
    if (ROUNDING == ONCE) result = rescale_once(sum, multiplier);
    return clamp(result, low, high);
}

ivec4 finish(uint channel, ivec4 high_, ivec4 low_) {
    return ivec4(finish(channel, high_.x, low_.x), finish(channel + 1, high_.y, low_.y),
                 finish(channel + 2, high_.z, low_.z), finish(channel + 3, high_.w, low_.w));
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec3 magics = uvec3(magic_height, magic_width, magic_channels);
    if (WAY == TILED) {
        uint tiles = divide_up(out_width, 4), fours = out_channels / 4;
        uvec4 place = nhwc_coordinates(i, out_height, tiles, fours, magics);
        place.zw *= 4;
        ivec4 high_[4], low_[4];
        tiled_sums(place, high_, low_);
        uint to = (((place.x * out_height + place.y) * out_width + place.z) * out_channels + place.w) / 4;
#define PUT(p) \
    if (place.z + p < out_width) STORE4_WITH(dst, to + p * fours, finish(place.w, high_[p], low_[p]) & 0xffff, 0u);
        EACH_PIXEL(PUT)
        return;
    }
    ivec4 result, high_, low_;
    if (WAY != APART) {
        uvec4 place = nhwc_coordinates(4 * i, out_height, out_width, out_channels, magics);
        sums(place, 4, high_, low_);
        result = finish(place.w, high_, low_);
    } else {
        for (uint k = 0; k < 4; ++k) {
            uint index = min(4 * i + k, elements - 1);    // the last four may be more than there are
            uvec4 place = nhwc_coordinates(index, out_height, out_width, out_channels, magics);
            sums(place, 1, high_, low_);
            result[k] = finish(place.w, high_.x, low_.x);
        }
    }
    STORE4_WITH(dst, i, result & 0xffff, 0u);
}
