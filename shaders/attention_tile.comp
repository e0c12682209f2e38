#version 450
// Attention of many rows of queries (ATTENTION). A workgroup computes a tile of ROWS rows of a matrix: the products with
// all keys, their softmax, and the sums of values with these shares. It takes KEYS keys at a time, whose shares are in
// shared memory: sums of earlier keys are scaled down if later ones have a larger score.
//
// Four rows have a team of invocations. An invocation first computes the scores of these rows and four keys, which all
// invocations have brought to shared memory, some columns at a time. Then it makes shares of a part of a row. At last it
// adds up a slice of the values, in some of their columns, for its four rows again. Slices are added up at the end.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/math.glsl"
#include "include/softmax.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint ROWS = 16;      // a multiple of four
layout(constant_id = 4) const uint TEAM = 16;      // a power of two, at least four
layout(constant_id = 5) const uint ACROSS = 8;     // invocations that share the columns of a row of values
layout(constant_id = 6) const uint OWN_VEC4S = 1;  // four columns each, of an invocation; 1 if there are several slices
// Vec4s of depth, and of keys, that are loaded before they are used.
layout(constant_id = 7) const uint TOGETHER = 1;
layout(constant_id = 8) const bool ONE_ROUND = false;    // there are no more than KEYS keys
layout(constant_id = 9) const bool RAGGED = true;        // the number of keys is no multiple of four
layout(constant_id = 10) const bool MASKED = false;
layout(constant_id = 11) const bool DEPTH_VEC4S = false;    // rows of queries and keys begin at a vec4, and are whole ones
layout(constant_id = 12) const bool VALUES_VEC4S = false;
layout(constant_id = 13) const bool DST_VEC4S = false;
layout(constant_id = 14) const bool MASK_VEC4S = false;
layout(constant_id = 15) const uint STEPS = 8;           // vec4s of depth
layout(constant_id = 16) const bool AHEAD = false;       // registers suffice to load values, and keys, before their turn
layout(constant_id = 17) const bool ZEROS = false;       // rows without shares are zeros, not NaN
const uint MOST_VEC4S = 4, MOST_TOGETHER = 4;
const uint ROWS_TOGETHER = TOGETHER > 1 ? 4 : 1;    // of queries, whose vec4s are in registers at once
const uint LOCAL = ROWS / 4 * TEAM;
const uint KEYS = 4 * TEAM;
const uint STAGE = ROWS / 4;          // vec4s of depth of keys that fit where shares will be
const uint LINE = KEYS + 1;           // of such a vec4 of all keys; writers use different banks
const uint LANES = TEAM / 4;          // invocations that make shares of a row, of four vec4s each
const uint SLICES = TEAM / ACROSS;    // of values

READS(0, Query, query)
READS(1, Keys, keys)
READS(2, Values, values)
READS(3, Mask, mask)
CHANGES(4, Dst, dst)
READ_VIEW(5, Strides, strides, uvec4)

layout(push_constant) uniform Push {
    uint query_offset;
    uint keys_offset;
    uint values_offset;
    uint mask_offset;
    uint dst_offset;
    uint strides_offset;
    uint query_first;    // element
    uint keys_first;
    uint values_first;
    uint dst_first;
    uint rows;       // of queries
    uint depth;      // columns of queries and keys
    uint columns;    // of values
    uint count;      // keys
    uint masked;     // the same
    float scale;     // of scores, before the mask
    float factor;    // beta
};

#define LOAD_CACHED4(name, i) LOAD4(name, i)
#define GATHER_CACHED4(name, at) GATHER4(name, at)
#include "include/attention.glsl"

// Keys at first, then scores and shares, and in the end the sums of all slices.
shared vec4 shares[STAGE * LINE];
shared vec4 queries[ROWS * STEPS];
shared float partial[LOCAL];    // largest scores, and in the end sums of shares
shared float shrunk[ROWS];      // by what sums of earlier keys are multiplied

const uvec4 EACH = uvec4(0, 1, 2, 3);

// Four columns of a row of queries or keys that begins at `at`: zeros where there are no more columns.
#define FOUR_OF_DEPTH(name, at, step, place)                                                                     \
    ((step) >= STEPS ? vec4(0.0)                                                                                 \
     : DEPTH_VEC4S   ? LOAD4(name, (at) / 4 + (step))                                                            \
                     : mix(GATHER4(name, (at) + min(4 * (step) + EACH, uvec4(depth - 1)) * (place).column),      \
                           vec4(0.0), greaterThanEqual(4 * (step) + EACH, uvec4(depth))))

void bring_queries(uint lane) {
    Place place = place_of(0, query_first);
    for (uint n = lane; n < ROWS * STEPS; n += LOCAL) {
        uint row = n / STEPS, step = n - row * STEPS;
        uint at = min(gl_WorkGroupID.x * ROWS + row, rows - 1) * place.row + place.first;
        queries[n] = FOUR_OF_DEPTH(query, at, step, place);
    }
}

// Keys on their way to shared memory.
vec4 brought[4];

void load_keys(Place place, uint lane, uint first, uint first_step) {
    [[unroll]] for (uint l = 0; l < 4; l++) {
        uint n = l * LOCAL + lane, key = n / STAGE, step = first_step + n % STAGE;
        uint at = min(first + key, count - 1) * place.row + place.first;
        brought[l] = FOUR_OF_DEPTH(keys, at, step, place);
    }
}

// Neighbouring invocations have the keys 4 k + j of neighbouring k.
void store_keys(uint lane) {
    [[unroll]] for (uint l = 0; l < 4; l++) {
        uint n = l * LOCAL + lane, key = n / STAGE;
        shares[n % STAGE * LINE + key % 4 * TEAM + key / 4] = brought[l];
    }
}

// The products of four rows of queries and four keys.
vec4 scores[4];

void add_scores(uint block, uint place, uint first_step) {
    uint steps = min(STAGE, STEPS - first_step);
    for (uint i = 0; i < steps; i += TOGETHER) {
        vec4 key[4 * MOST_TOGETHER];
        [[unroll]] for (uint t = 0; t < TOGETHER; t++)
            [[unroll]] for (uint j = 0; j < 4; j++) key[4 * t + j] = shares[(i + t) * LINE + j * TEAM + place];
        [[unroll]] for (uint part = 0; part < 4 / ROWS_TOGETHER; part++) {
            uint first = part * ROWS_TOGETHER;
            vec4 own[4 * MOST_TOGETHER];
            [[unroll]] for (uint t = 0; t < TOGETHER; t++)
                [[unroll]] for (uint r = 0; r < ROWS_TOGETHER; r++)
                    own[4 * t + r] = queries[(block * 4 + first + r) * STEPS + min(first_step + i + t, STEPS - 1)];
            [[unroll]] for (uint t = 0; t < TOGETHER; t++)
                [[unroll]] for (uint c = 0; c < 4; c++)
                    [[unroll]] for (uint r = 0; r < ROWS_TOGETHER; r++)
                        [[unroll]] for (uint j = 0; j < 4; j++)
                            scores[first + r][j] =
                                multiply_add(own[4 * t + r][c], key[4 * t + j][c], scores[first + r][j]);
        }
    }
}

void make_scores(uint lane, uint block, uint place, uint first) {
    Place keys_place = place_of(1, keys_first);
    [[unroll]] for (uint r = 0; r < 4; r++) scores[r] = vec4(0.0);
    if (AHEAD) load_keys(keys_place, lane, first, 0);
    for (uint step = 0; step < STEPS; step += STAGE) {
        if (!AHEAD) load_keys(keys_place, lane, first, step);
        store_keys(lane);
        barrier();
        if (AHEAD && STEPS > STAGE) load_keys(keys_place, lane, first, step + STAGE);
        add_scores(block, place, step);
        barrier();
    }
}

// Leave the scores of four rows and four keys in shared memory: minus infinity for keys that do not exist.
void leave_scores(uint block, uint place, uint first) {
    uint first_key = first + 4 * place;
    Place mask_place;
    if (MASKED) mask_place = place_of(3, 0);
    [[unroll]] for (uint r = 0; r < 4; r++) {
        vec4 score = scores[r] * scale;
        uint row = min(gl_WorkGroupID.x * ROWS + block * 4 + r, rows - 1);
        if (MASKED && first_key < count) score += mask_of(mask_place, row, first_key);
        if (RAGGED) score = mix(score, vec4(LOWEST), greaterThanEqual(first_key + EACH, uvec4(count)));
        else if (first_key >= count) score = vec4(LOWEST);
        shares[(block * 4 + r) * TEAM + place] = score;
    }
}

// The state of the row of which an invocation makes shares.
float largest = LOWEST, sum = 0.0;

// Replace a part of the scores of a row by shares.
void make_shares(uint lane) {
    uint row = lane / LANES, at = row * TEAM + lane % LANES;
    vec4 held[4], most = vec4(LOWEST);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        held[i] = shares[at + i * LANES];
        most = max(most, held[i]);
    }
    partial[lane] = largest_of_four(most);
    barrier();
    float before = largest;
    [[unroll]] for (uint other = 0; other < LANES; other++) largest = max(largest, partial[row * LANES + other]);
    float less = about(largest);
    if (!ONE_ROUND) {
        float less_now = exact_exp((before - less) * factor);
        sum *= less_now;
        if (lane % LANES == 0) shrunk[row] = less_now;
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        held[i] = exact_exp4((held[i] - less) * factor);
        shares[at + i * LANES] = held[i];
        sum += sum_of_four(held[i]);
    }
}

// The sums of an invocation: of four rows by some vec4s of columns.
vec4 sums[4 * MOST_VEC4S];

// The values of `number` times four keys, SLICES vec4s of shares apart, from the k-th vec4 on. Shares of keys that do not
// exist are 0, but values may be infinite.
#define LOAD_VALUES(value, place, k, number, four)                                                       \
    {                                                                                                    \
        uint width = VALUES_VEC4S ? place.row / 4 : place.row, key = first + 4 * (k);                    \
        uint begin = VALUES_VEC4S ? place.first / 4 + four : place.first, from = begin + key * width;    \
        [[unroll]] for (uint t = 0; t < number; t++) {                                                   \
            [[unroll]] for (uint j = 0; j < 4; j++) {                                                    \
                bool exists = !RAGGED || key + 4 * t * SLICES + j < count;                               \
                uint at = exists ? from + (4 * t * SLICES + j) * width : begin;                          \
                value[4 * t + j] = VALUES_VEC4S ? LOAD4(values, at) : GATHER4(values, at + within(four));\
                if (!exists) value[4 * t + j] = vec4(0.0);                                               \
            }                                                                                            \
        }                                                                                                \
    }

// Four columns of a row of values.
uvec4 within(uint four) { return min(4 * four + EACH, uvec4(columns - 1)); }

#define ADD_VALUES(value, k, number, i)                                                              \
    [[unroll]] for (uint t = 0; t < number; t++) {                                                   \
        [[unroll]] for (uint r = 0; r < 4; r++) {                                                    \
            vec4 share = shares[(block * 4 + r) * TEAM + (k) + t * SLICES];                          \
            [[unroll]] for (uint j = 0; j < 4; j++)                                                  \
                sums[4 * (i) + r] = multiply_add(share[j], value[4 * t + j], sums[4 * (i) + r]);     \
        }                                                                                            \
    }

// Those that are loaded before the scores are made.
vec4 early[4 * MOST_TOGETHER];

void load_early(uint slice, uint column, uint first) {
    // Those that are not there are not taken, but loads must not go beyond the tensor.
    Place place = place_of(2, values_first);
    if (first + 4 * (slice + (TOGETHER - 1) * SLICES) < count) LOAD_VALUES(early, place, slice, TOGETHER, column)
}

void add_values(uint block, uint slice, uint column, uint first) {
    Place place = place_of(2, values_first);
    if (!ONE_ROUND) {
        [[unroll]] for (uint r = 0; r < 4; r++) {
            float less_now = shrunk[block * 4 + r];
            [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) sums[4 * i + r] *= less_now;
        }
    }
    uint vec4s = min(KEYS, count - first + 3) / 4, k = slice;
    if (AHEAD && k + (TOGETHER - 1) * SLICES < vec4s) {
        ADD_VALUES(early, k, TOGETHER, 0)
        k += TOGETHER * SLICES;
    }
    for (; k + (TOGETHER - 1) * SLICES < vec4s; k += TOGETHER * SLICES) {
        [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) {
            vec4 value[4 * MOST_TOGETHER];
            uint four = min(column + i * ACROSS, (columns - 1) / 4);
            LOAD_VALUES(value, place, k, TOGETHER, four)
            ADD_VALUES(value, k, TOGETHER, i)
        }
    }
    if (TOGETHER > 1) {
        for (; k < vec4s; k += SLICES) {
            [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) {
                vec4 value[4];
                uint four = min(column + i * ACROSS, (columns - 1) / 4);
                LOAD_VALUES(value, place, k, 1, four)
                ADD_VALUES(value, k, 1, i)
            }
        }
    }
}

float sum_of_row(uint row) {
    float all = partial[row * LANES];
    [[unroll]] for (uint other = 1; other < LANES; other++) all += partial[row * LANES + other];
    return all;
}

// Stores the sums of a row, divided by the sum of its shares.
void store(Place place, uint row_of_tile, uint four, vec4 sums_of_row, float all) {
    vec4 result = ZEROS && !has_shares(all) ? vec4(0.0) : sums_of_row / all;
    uint row = gl_WorkGroupID.x * ROWS + row_of_tile;
    if (row >= rows || 4 * four >= columns) return;
    uint to = place.first + row * place.row + 4 * four;
    if (DST_VEC4S) {
        STORE4(dst, to / 4, result);
        return;
    }
    [[unroll]] for (uint j = 0; j < 4; j++)
        if (4 * four + j < columns) STORE(dst, to + j, result[j]);
}

void main() {
    uint lane = gl_LocalInvocationID.x, block = lane / TEAM, place = lane % TEAM;
    uint slice = place / ACROSS, column = place - slice * ACROSS;
    [[unroll]] for (uint n = 0; n < 4 * OWN_VEC4S; n++) sums[n] = vec4(0.0);
    bring_queries(lane);
    for (uint first = 0; first < count; first += KEYS) {
        if (AHEAD) load_early(slice, column, first);
        make_scores(lane, block, place, first);
        leave_scores(block, place, first);
        barrier();
        make_shares(lane);
        barrier();
        if (slice < SLICES) add_values(block, slice, column, first);
        barrier();
    }
    partial[lane] = sum;
    Place dst_place = place_of(4, dst_first);
    if (SLICES > 1) {
        [[unroll]] for (uint r = 0; r < 4; r++) shares[r * LOCAL + lane] = sums[r];
        barrier();
        for (uint n = lane; n < ROWS * ACROSS; n += LOCAL) {
            uint row = n / ACROSS, four = n - row * ACROSS, at = row % 4 * LOCAL + row / 4 * TEAM + four;
            vec4 result = shares[at];
            [[unroll]] for (uint other = 1; other < SLICES; other++) result += shares[at + other * ACROSS];
            store(dst_place, row, four, result, sum_of_row(row));
        }
    } else {
        barrier();
        [[unroll]] for (uint r = 0; r < 4; r++) {
            float all = sum_of_row(block * 4 + r);
            [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++)
                if (slice == 0) store(dst_place, block * 4 + r, column + i * ACROSS, sums[4 * i + r], all);
        }
    }
}
