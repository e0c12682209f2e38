#version 450
// Hard suppression: pick boxes of a segment, the best first, that do not overlap an earlier pick by the threshold or
// more (or, if requested, by more than the threshold). The passes handle SPAN candidates at a time. PASS_TEST marks
// candidates that overlap a pick of an earlier span, one per invocation. PASS_PICK picks among the others, with a
// workgroup for each segment.

#extension GL_GOOGLE_include_directive : require

#include "include/boxes.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool ABOVE = false;    // the threshold itself is no reason
layout(constant_id = 4) const bool AGAIN = false;    // a box that is not suppressed by itself is picked again
layout(constant_id = 5) const bool EMPTY = false;    // the overlap of a box without area is 0, not 0 / 0

#ifdef PASS_PICK
layout(constant_id = 6) const uint LOCAL = 64;       // invocations of a workgroup, at most SPAN
#endif

const uint SPAN = 512, PART = 1024;

layout(set = 0, binding = 0) readonly buffer Entries { uvec2 entries[]; };    // sorted; key 0 is no candidate
layout(set = 0, binding = 1) readonly buffer Sizes { uint sizes[]; };         // candidates of a segment
layout(set = 0, binding = 2) readonly buffer Boxes { vec4 boxes[]; };         // by the positions of entries
layout(set = 0, binding = 6) readonly buffer Threshold { float threshold[]; };
#ifdef PASS_TEST
layout(set = 0, binding = 3) readonly buffer Picks { uint picks[]; };
layout(set = 0, binding = 4) readonly buffer Counts { uint counts[]; };
layout(set = 0, binding = 5) writeonly buffer Suppressed { uint suppressed[]; };
#else
layout(set = 0, binding = 3) writeonly buffer Picks { uint picks[]; };
layout(set = 0, binding = 4) buffer Counts { uint counts[]; };
layout(set = 0, binding = 5) buffer Suppressed { uint suppressed[]; };
#endif

layout(push_constant) uniform Push {
    uint entries_offset;
    uint sizes_offset;
    uint boxes_offset;
    uint picks_offset;
    uint counts_offset;
    uint suppressed_offset;
    uint threshold_offset;
    uint segments;
    uint sharing;     // segments that have the same boxes
    uint per_boxes;   // boxes of those
    uint length;      // entries of a segment
    uint limit;       // picks of a segment
    uint span;        // which candidates are decided on
#ifdef PASS_TEST
    uint parts;       // of earlier picks that are tested
#endif
};

uvec2 candidate_at(uint segment, uint candidate) {
    return entries[entries_offset / 2 + segment * length + span * SPAN + candidate];
}
vec4 box_at(uint segment, uint position) {
    return boxes[boxes_offset / 4 + segment / sharing * per_boxes + position];
}
// The largest number of picks.
uint limit_of(uint segment) { return min(min(sizes[sizes_offset + segment], length), limit); }
// Whether a picked box suppresses another one.
bool suppresses(vec4 best, vec4 box, float least) {
    return reach(EMPTY ? overlap_areas_or_0(best, box) : overlap_areas(best, box), least, ABOVE);
}
// The number of candidates in this span.
uint candidates_of(uint segment) {
    uint size = min(sizes[sizes_offset + segment], length), before = span * SPAN;
    return min(size - min(size, before), SPAN);
}

#ifdef PASS_TEST

void main() {
    uint i = flat_invocation();
    uint candidate = i % SPAN, part = i / SPAN % parts, segment = i / (SPAN * parts);
    if (segment >= segments) return;
    uint count = counts[counts_offset + segment], last = min(count, (part + 1) * PART);
    if (count >= limit_of(segment) || candidate >= candidates_of(segment)) return;
    uvec2 entry = candidate_at(segment, candidate);
    if (entry.x == 0) return;
    vec4 box = box_at(segment, entry.y);
    float least = threshold[threshold_offset];
    for (uint k = part * PART; k < last; ++k) {
        if (suppresses(box_at(segment, picks[picks_offset + segment * limit + k]), box, least)) {
            suppressed[suppressed_offset + segment * SPAN + candidate] = 1;
            break;
        }
    }
}

#else

shared vec4 candidates[SPAN];
shared uint alive[SPAN / 32];

// The first remaining candidate from `at` on, or SPAN.
uint next_alive(uint at) {
    for (uint word = at / 32; word < SPAN / 32; ++word) {
        uint bits = alive[word];
        if (word == at / 32) bits &= 0xffffffffu << (at & 31);
        if (bits != 0) return word * 32 + findLSB(bits);
    }
    return SPAN;
}

void main() {
    uint segment = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
    if (segment >= segments) return;
    uint count = span == 0 ? 0 : counts[counts_offset + segment], size = candidates_of(segment);
    if (lane == 0 && span == 0) counts[counts_offset + segment] = 0;
    uint most = limit_of(segment);
    float least = threshold[threshold_offset];
    if (count >= most || size == 0) return;
    if (lane < SPAN / 32) alive[lane] = 0;
    barrier();
    for (uint k = lane; k < SPAN; k += LOCAL) {
        uint mark = suppressed_offset + segment * SPAN + k;
        if (k < size) {
            uvec2 entry = candidate_at(segment, k);
            candidates[k] = box_at(segment, entry.y);
            if (entry.x != 0 && (span == 0 || suppressed[mark] == 0)) atomicOr(alive[k / 32], 1u << (k & 31));
        }
        suppressed[mark] = 0;    // for the next span
    }
    barrier();
    // An invocation clears only the bits of its own candidates, and only after the picked one, so the other invocations
    // find the same candidate whether they look before or after it.
    uint picked = next_alive(0);
    while (picked < SPAN && count < most) {
        if (lane == 0) picks[picks_offset + segment * limit + count] = candidate_at(segment, picked).y;
        ++count;
        vec4 best = candidates[picked];
        if (AGAIN && !suppresses(best, best, least)) {
            for (; count + lane < most; count += LOCAL)
                picks[picks_offset + segment * limit + count + lane] = candidate_at(segment, picked).y;
            count = most;
        }
        for (uint k = picked / LOCAL * LOCAL + lane; k < size; k += LOCAL) {
            uint bit = 1u << (k & 31);
            if (k > picked && (alive[k / 32] & bit) != 0 && suppresses(best, candidates[k], least))
                atomicAnd(alive[k / 32], ~bit);
        }
        barrier();
        picked = next_alive(picked + 1);
    }
    if (lane == 0) counts[counts_offset + segment] = count;
}

#endif
