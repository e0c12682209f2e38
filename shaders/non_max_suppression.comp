#version 450
// NON_MAX_SUPPRESSION before and after its suppression (nms.comp). A segment is a class of a batch. PASS_BOXES writes
// all boxes by their lower and upper corner, and PASS_CANDIDATES lists the candidates of each segment whose scores are
// high enough. If scores decay, PASS_DECAY picks, with a workgroup for each segment; if it cannot finish in its rounds,
// the next dispatch continues. PASS_OFFSETS finds the place of each segment's picks, and PASS_WRITE writes them,
// followed by zeros.

#extension GL_GOOGLE_include_directive : require

#include "include/boxes.glsl"
#include "include/indexing.glsl"
#include "include/sort.glsl"

layout(local_size_x_id = 0) in;

#if defined(PASS_BOXES)
layout(set = 0, binding = 0) readonly buffer Boxes { vec4 boxes[]; };
layout(set = 0, binding = 1) writeonly buffer Edges { vec4 edges[]; };
#elif defined(PASS_CANDIDATES)
layout(set = 0, binding = 0) readonly buffer Scores { float scores[]; };
layout(set = 0, binding = 1) readonly buffer Least { float least[]; };
ENTRIES(2, 3)
#elif defined(PASS_DECAY)
layout(set = 0, binding = 0) buffer Entries { uvec2 entries[]; };             // key and box of each candidate
layout(set = 0, binding = 1) readonly buffer Sizes { uint sizes[]; };
layout(set = 0, binding = 2) readonly buffer Edges { vec4 edges[]; };
layout(set = 0, binding = 3) readonly buffer Threshold { float threshold[]; };
layout(set = 0, binding = 4) readonly buffer Least { float least[]; };
layout(set = 0, binding = 5) buffer Picks { uint picks[]; };
layout(set = 0, binding = 6) writeonly buffer Kept { float kept[]; };
layout(set = 0, binding = 7) buffer Counts { uint counts[]; };
#elif defined(PASS_OFFSETS)
layout(set = 0, binding = 0) readonly buffer Counts { uint counts[]; };
layout(set = 0, binding = 1) writeonly buffer Offsets { uint offsets[]; };    // the last one is the end
layout(set = 0, binding = 2) writeonly buffer Total { uint total[]; };
#else
layout(set = 0, binding = 0) readonly buffer Offsets { uint offsets[]; };
layout(set = 0, binding = 1) readonly buffer Picks { uint picks[]; };
layout(set = 0, binding = 2) readonly buffer Scores { float scores[]; };      // of boxes, or of picks where they decay
layout(set = 0, binding = 3) writeonly buffer Selected { uint selected[]; };
layout(set = 0, binding = 4) writeonly buffer Kept { float kept[]; };
#endif

layout(push_constant) uniform Push {
#if defined(PASS_BOXES)
    uint boxes_offset;
    uint edges_offset;
    uint count;       // of boxes
#elif defined(PASS_CANDIDATES)
    uint scores_offset;
    uint least_offset;
    uint entries_offset;
    uint sizes_offset;
    uint count;       // of scores
    uint length;      // boxes of a segment
#elif defined(PASS_DECAY)
    uint entries_offset;
    uint sizes_offset;
    uint edges_offset;
    uint threshold_offset;
    uint least_offset;
    uint picks_offset;
    uint kept_offset;
    uint counts_offset;
    uint segments;
    uint sharing;     // segments that have the same boxes
    uint length;      // boxes of a segment
    uint limit;       // picks of a segment
    uint turns;       // picks of a dispatch
    uint resume;      // whether it continues an earlier dispatch
    float scale;      // of the square of an overlap in the exponent of the remaining score
#elif defined(PASS_OFFSETS)
    uint counts_offset;
    uint offsets_offset;
    uint total_offset;
    uint segments;
#else
    uint offsets_offset;
    uint picks_offset;
    uint scores_offset;
    uint selected_offset;
    uint kept_offset;
    uint count;       // rows of the output
    uint segments;
    uint classes;
    uint length;      // boxes of a segment
    uint limit;       // picks of a segment
#endif
};

#if defined(PASS_BOXES)

layout(constant_id = 3) const bool CENTRES = false;    // [x, y, width, height], and not two corners

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    vec4 box = boxes[boxes_offset / 4 + i];
    vec2 half_size = box.zw * 0.5;
    vec4 around = vec4(box.xy - half_size, box.xy + half_size);
    vec4 corners = vec4(mix(box.xy, box.zw, lessThan(box.zw, box.xy)), mix(box.xy, box.zw, lessThan(box.xy, box.zw)));
    edges[edges_offset / 4 + i] = CENTRES ? around : corners;
}

#elif defined(PASS_CANDIDATES)

layout(constant_id = 3) const bool EVERY = false;    // there is no least score, and NaN comes last

const uint KEY_OF_NAN = 1;

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint segment = i / length;
    float score = scores[scores_offset + i];
    if (EVERY || score > least[least_offset]) APPEND(segment, length, key_of(score, KEY_OF_NAN), i - segment * length)
}

#elif defined(PASS_DECAY)

layout(constant_id = 3) const bool ABOVE = false;    // the threshold itself is no reason to go, and a pick goes
layout(constant_id = 4) const uint LOCAL = 64;       // invocations of a workgroup

shared uint best_key[3], best_box[3];

float score_of(uint key) { return uintBitsToFloat(key >= 0x80000000u ? key ^ 0x80000000u : ~key); }

// The key of a candidate's remaining score after another box was picked; 0 if the candidate is suppressed.
uint remaining(uvec2 candidate, uint pick, vec4 best, vec4 box, float most, float at_least) {
    vec2 areas = overlap_areas_or_0(best, box);
    uint key = candidate.x;
    // This is a loop, because some devices compute both sides of an if.
    for (bool touches = areas.x != 0.0 || is_nan(areas.y) || is_infinite(scale); touches; touches = false) {
        float over = exact_quotient(areas.x, areas.y);
        float score = score_of(key) * rounded_exp(scale * over * over);
        key = score > at_least ? key_of(score) : 0;
    }
    bool goes = reach(areas, most, ABOVE) || (ABOVE && candidate.y == pick);
    return goes ? 0 : key;
}

void main() {
    uint segment = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
    if (segment >= segments) return;
    uint size = min(sizes[sizes_offset + segment], length), end = min(limit, size);
    uint first = entries_offset / 2 + segment * length, boxes = edges_offset / 4 + segment / sharing * length;
    uint to = segment * limit, number = resume != 0 ? counts[counts_offset + segment] : 0, slot = 0;
    float most = threshold[threshold_offset], at_least = least[least_offset];
    uint pick = number > 0 ? picks[picks_offset + to + number - 1] : 0;
    if (lane < 3) {
        best_key[lane] = 0;
        best_box[lane] = 0xffffffffu;
    }
    barrier();
    for (uint turn = 0; turn < turns && number < end; ++turn) {
        vec4 best = edges[boxes + pick];
        uint key = 0, box = 0xffffffffu;
        for (uint k = lane; k < size; k += LOCAL) {
            uvec2 candidate = entries[first + k];
            if (candidate.x == 0) continue;
            if (number > 0) {
                uint left = remaining(candidate, pick, best, edges[boxes + candidate.y], most, at_least);
                if (left != candidate.x) entries[first + k].x = left;
                candidate.x = left;
            }
            if (candidate.x > key || (candidate.x == key && key > 0 && candidate.y < box)) box = candidate.y;
            key = max(key, candidate.x);
        }
        if (lane == 0) {
            uint next = (slot + 1) % 3;
            best_key[next] = 0;
            best_box[next] = 0xffffffffu;
        }
        if (key > 0) atomicMax(best_key[slot], key);
        barrier();
        uint highest = best_key[slot];
        if (key > 0 && key == highest) atomicMin(best_box[slot], box);
        barrier();
        if (highest == 0) {
            end = number;
        } else {
            pick = best_box[slot];
            if (lane == 0) {
                picks[picks_offset + to + number] = pick;
                kept[kept_offset + to + number] = score_of(highest);
            }
            ++number;
        }
        slot = (slot + 1) % 3;
    }
    if (lane == 0) counts[counts_offset + segment] = number;
}

#elif defined(PASS_OFFSETS)

const uint LOCAL = 128;
shared uint sums[LOCAL];

void main() {
    uint lane = gl_LocalInvocationID.x, each = divide_up(segments, LOCAL);
    uint first = min(lane * each, segments), last = min(first + each, segments), sum = 0;
    for (uint segment = first; segment < last; ++segment) sum += counts[counts_offset + segment];
    sums[lane] = sum;
    barrier();
    sum = 0;
    for (uint k = 0; k < lane; ++k) sum += sums[k];
    for (uint segment = first; segment < last; ++segment) {
        offsets[offsets_offset + segment] = sum;
        sum += counts[counts_offset + segment];
    }
    if (lane == LOCAL - 1) {
        offsets[offsets_offset + segments] = sum;
        total[total_offset] = sum;
    }
}

#else

layout(constant_id = 3) const bool DECAYED = false;

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec3 row = uvec3(0);
    float score = 0.0;
    if (i < offsets[offsets_offset + segments]) {
        uint low = 0, high = segments - 1;    // the last segment that begins here or before
        while (low < high) {
            uint middle = (low + high + 1) / 2;
            if (offsets[offsets_offset + middle] <= i) low = middle;
            else high = middle - 1;
        }
        uint rank = low * limit + i - offsets[offsets_offset + low], box = picks[picks_offset + rank];
        row = uvec3(low / classes, low % classes, box);
        score = scores[scores_offset + (DECAYED ? rank : low * length + box)];
    }
    for (int k = 0; k < 3; ++k) selected[selected_offset + 3 * i + k] = row[k];
    kept[kept_offset + i] = score;
}

#endif
