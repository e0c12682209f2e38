#version 450
// Attention of a few rows of queries (ATTENTION): the products of a row with all keys, their softmax, and the sum of the
// values with these shares. A workgroup computes a row of a matrix, so shares stay in shared memory. It takes CHUNK
// keys at a time: sums of earlier chunks are scaled down if a later one has a larger score. With OWN, more keys and
// values follow in tensors of their own, as those of the token that a cache does not have yet.
//
// Keys, values and the mask may have 32 bits where the others have 16 (CACHE_F32).

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/math.glsl"
#include "include/softmax.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint LOCAL = 64;
layout(constant_id = 4) const uint ACROSS = 8;     // invocations that share the columns of a row of values
layout(constant_id = 5) const uint OWN_VEC4S = 1;  // four columns each, of an invocation
layout(constant_id = 6) const bool OWN = false;
layout(constant_id = 7) const bool MASKED = false;
layout(constant_id = 8) const bool QUERY_VEC4S = false;    // rows begin at a vec4, and are whole ones
layout(constant_id = 9) const bool KEYS_VEC4S = false;
layout(constant_id = 10) const bool VALUES_VEC4S = false;
layout(constant_id = 11) const bool DST_VEC4S = false;
layout(constant_id = 12) const bool MASK_VEC4S = false;
layout(constant_id = 13) const bool ZEROS = false;    // rows without shares are zeros, not NaN
const uint MOST_VEC4S = 4;
const uint CHUNK = 1024;
const uint MOST_OWN = 64;    // keys

#if defined(CACHE_F32) && defined(DTYPE_F16)
#define CACHED(BINDING, Block, name)        \
    READ_VIEW(BINDING, Block, name, float)  \
    READ_VIEW(BINDING, Block##_Fours, name##_vec4s, vec4)
#define LOAD_CACHED4(name, i) name##_vec4s_at(name##_offset / 4 + (i))
#define GATHER_CACHED4(name, at)                                                \
    vec4(name##_at(name##_offset + (at).x), name##_at(name##_offset + (at).y),  \
         name##_at(name##_offset + (at).z), name##_at(name##_offset + (at).w))
#else
#define CACHED(BINDING, Block, name) READS(BINDING, Block, name)
#define LOAD_CACHED4(name, i) LOAD4(name, i)
#define GATHER_CACHED4(name, at) GATHER4(name, at)
#endif

READS(0, Query, query)
CACHED(1, Keys, keys)
CACHED(2, Values, values)
READS(3, OwnKeys, ownkeys)
READS(4, OwnValues, ownvalues)
CACHED(5, Mask, mask)
CHANGES(6, Dst, dst)
READ_VIEW(7, Strides, strides, uvec4)

layout(push_constant) uniform Push {
    uint query_offset;
    uint keys_offset;
    uint values_offset;
    uint ownkeys_offset;
    uint ownvalues_offset;
    uint mask_offset;
    uint dst_offset;
    uint strides_offset;
    uint query_first;    // element
    uint keys_first;
    uint values_first;
    uint ownkeys_first;
    uint ownvalues_first;
    uint depth;      // columns of queries and keys
    uint columns;    // of values
    uint count;      // keys
    uint own_count;
    uint masked;     // keys that the mask is added to, from the first one on
    float scale;     // of scores, before the mask
    float factor;    // beta
};

#include "include/lanes.glsl"

shared vec4 shares[(CHUNK + MOST_OWN) / 4];
shared vec4 others[LOCAL];

#include "include/attention.glsl"

// Places are found right before they are used, so that they take few registers.
Place query_place, keys_place, values_place, ownkeys_place, ownvalues_place, mask_place, dst_place;

// The products of the query and four keys from the k-th on, of which there are `count`.
#define PRODUCTS(keys, FOUR_AT, FOUR_OF)                                                                  \
    vec4 products_with_##keys(uint row, uint k, uint count) {                                             \
        uvec4 at = min(k + uvec4(0, 1, 2, 3), uvec4(count - 1)) * keys##_place.row + keys##_place.first;  \
        vec4 sum = vec4(0.0);                                                                             \
        if (KEYS_VEC4S && QUERY_VEC4S) {                                                                  \
            at /= 4;                                                                                      \
            for (uint i = 0; i < depth / 4; i++) {                                                        \
                vec4 own = LOAD4(query, row / 4 + i);                                                     \
                [[unroll]] for (uint j = 0; j < 4; j++) {                                                 \
                    vec4 key = FOUR_AT(keys, at[j] + i);                                                  \
                    [[unroll]] for (uint c = 0; c < 4; c++) sum[j] = multiply_add(own[c], key[c], sum[j]);\
                }                                                                                         \
            }                                                                                             \
            return sum;                                                                                   \
        }                                                                                                 \
        for (uint i = 0; i < depth; i++)                                                                  \
            sum = multiply_add(LOAD(query, row + i), FOUR_OF(keys, at + i * keys##_place.column), sum);   \
        return sum;                                                                                       \
    }

PRODUCTS(keys, LOAD_CACHED4, GATHER_CACHED4)
PRODUCTS(ownkeys, LOAD4, GATHER4)

// Four columns of the k-th value.
#define VALUES_OF(values, FOUR_AT, FOUR_OF)                                                  \
    vec4 four_of_##values(uint k, uint four) {                                               \
        uint at = k * values##_place.row + values##_place.first;                             \
        if (VALUES_VEC4S) return FOUR_AT(values, at / 4 + four);                             \
        return FOUR_OF(values, at + min(4 * four + uvec4(0, 1, 2, 3), uvec4(columns - 1)));  \
    }

VALUES_OF(values, LOAD_CACHED4, GATHER_CACHED4)
VALUES_OF(ownvalues, LOAD4, GATHER4)

// The state of a workgroup's row. Each invocation has a part of the sums.
float largest = LOWEST, sum = 0.0;
vec4 sums[MOST_VEC4S] = vec4[](vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));

// Keep the scores of four keys, from the k-th of `last` on, and find the largest ones.
#define TAKE_SCORES(keys, row, k, last, number, to, most)                           \
    {                                                                               \
        vec4 score = products_with_##keys(query_row, k, last) * scale;              \
        if (MASKED && (number) < masked) score += mask_of(mask_place, row, number); \
        if ((k) + 3 >= (last)) {                                                    \
            uvec4 each = (k) + uvec4(0, 1, 2, 3);                                   \
            score = mix(score, vec4(LOWEST), greaterThanEqual(each, uvec4(last)));  \
        }                                                                           \
        shares[to] = score;                                                         \
        most = max(most, score);                                                    \
    }

#define ADD_VALUE(values, k, share)                                         \
    [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) {                       \
        uint four = min(column + i * ACROSS, (columns - 1) / 4);            \
        sums[i] = multiply_add(share, four_of_##values(k, four), sums[i]);  \
    }

// Add up the values of the keys before `last`, from `first` on, by the shares that are there from `at` on. Slices of
// invocations take turns.
#define ADD_VALUES(values, first, last, at)                                                           \
    {                                                                                                 \
        uint whole = ((last) - (first)) / 4;                                                          \
        for (uint k = slice; k < whole; k += LOCAL / ACROSS) {                                        \
            vec4 share = shares[(at) + k];                                                            \
            [[unroll]] for (uint j = 0; j < 4; j++) ADD_VALUE(values, (first) + 4 * k + j, share[j])  \
        }                                                                                             \
        if (slice == 0) {                                                                             \
            vec4 share = 4 * whole < (last) - (first) ? shares[(at) + whole] : vec4(0.0);             \
            for (uint k = (first) + 4 * whole; k < (last); k++) {                                     \
                ADD_VALUE(values, k, share.x)                                                         \
                share = share.yzww;                                                                   \
            }                                                                                         \
        }                                                                                             \
    }

// Take the keys from the first one of a chunk on, and then the own ones, if there are any.
void take(uint first, uint last, uint own_last, uint lane) {
    uint vec4s = (last - first + 3) / 4, all_vec4s = vec4s + (own_last + 3) / 4, row = gl_WorkGroupID.x;
    query_place = place_of(0, query_first);
    keys_place = place_of(1, keys_first);
    if (OWN) ownkeys_place = place_of(3, ownkeys_first);
    if (MASKED) mask_place = place_of(5, 0);
    uint query_row = query_place.first + row * query_place.row;
    vec4 most = vec4(LOWEST);
    for (uint k = lane; k < vec4s; k += LOCAL) {
        uint key = first + 4 * k;
        TAKE_SCORES(keys, row, key, last, key, k, most)
    }
    if (OWN)
        for (uint k = lane; vec4s + k < all_vec4s; k += LOCAL)
            TAKE_SCORES(ownkeys, row, 4 * k, own_last, count + 4 * k, vec4s + k, most)
    float before = largest, of_all = largest_of_four(most);
    OF_ALL_LANES(lane, of_all, max)
    largest = max(before, of_all);
    float less = about(largest), shrunk = exact_exp((before - less) * factor);
    sum *= shrunk;
    [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) sums[i] *= shrunk;
    for (uint k = lane; k < all_vec4s; k += LOCAL) {
        vec4 share = exact_exp4((shares[k] - less) * factor);
        shares[k] = share;
        sum += sum_of_four(share);
    }
    barrier();
    values_place = place_of(2, values_first);
    if (OWN) ownvalues_place = place_of(4, ownvalues_first);
    uint slice = lane / ACROSS, column = lane - slice * ACROSS;
    if (slice < LOCAL / ACROSS) {
        ADD_VALUES(values, first, last, 0)
        if (OWN) ADD_VALUES(ownvalues, 0, own_last, vec4s)
    }
    barrier();
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    for (uint first = 0; first < count; first += CHUNK) {
        uint last = min(first + CHUNK, count);
        take(first, last, OWN && last == count ? own_count : 0, lane);
    }
    OF_ALL_LANES(lane, sum, sum_of)
    dst_place = place_of(6, 0);
    uint to = dst_place.first + gl_WorkGroupID.x * dst_place.row;
    [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) {
        uint four = lane % ACROSS + i * ACROSS;
        vec4 result = sums[i];
        if (LOCAL / ACROSS > 1) {
            others[lane] = result;
            barrier();
            for (uint slice = 1; slice < LOCAL / ACROSS; slice++) result += others[slice * ACROSS + lane % ACROSS];
            barrier();
        }
        if (lane < ACROSS && 4 * four < columns) {
            result = ZEROS && !has_shares(sum) ? vec4(0.0) : result / sum;
            if (DST_VEC4S) {
                STORE4(dst, to / 4 + four, result);
            } else {
                [[unroll]] for (uint j = 0; j < 4; j++)
                    if (4 * four + j < columns) STORE(dst, to + 4 * four + j, result[j]);
            }
        }
    }
}
