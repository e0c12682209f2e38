#version 450
// DETECTION_POSTPROCESSING before and after its suppression (nms.comp). PASS_BOXES moves the anchors by the deltas.
// Regular suppression uses the candidates of each class, from PASS_CLASSES. Fast suppression uses the anchors by their
// best scores, from PASS_ANCHORS. PASS_PICKS lists the picks for sorting: all picks (regular), or the classes of each
// pick (fast). PASS_WRITE writes the scores and boxes of detections, and PASS_LABELS their classes and numbers, with
// zeros after the last detection. They are separate because small devices bind few buffers at once.

#extension GL_GOOGLE_include_directive : require

#include "include/boxes.glsl"
#include "include/indexing.glsl"
#include "include/sort.glsl"

layout(local_size_x_id = 0) in;

layout(constant_id = 3) const bool REGULAR = false;

#if defined(PASS_BOXES)
layout(set = 0, binding = 0) readonly buffer Deltas { float deltas[]; };
layout(set = 0, binding = 1) readonly buffer Anchors { vec4 anchors[]; };
layout(set = 0, binding = 2) writeonly buffer Boxes { vec4 boxes[]; };
#elif defined(PASS_LABELS)
layout(set = 0, binding = 0) readonly buffer Counts { uint counts[]; };
layout(set = 0, binding = 1) readonly buffer Entries { uvec2 entries[]; };
layout(set = 0, binding = 2) readonly buffer Sizes { uint sizes[]; };
layout(set = 0, binding = 3) writeonly buffer Labels { int labels[]; };
layout(set = 0, binding = 4) writeonly buffer Found { int found[]; };
#else
layout(set = 0, binding = 0) readonly buffer Scores { float scores[]; };
#if defined(PASS_CLASSES) || defined(PASS_ANCHORS)
ENTRIES(1, 2)
#else
layout(set = 0, binding = 1) readonly buffer Picks { uint picks[]; };
layout(set = 0, binding = 2) readonly buffer Counts { uint counts[]; };
#endif
#endif
#if defined(PASS_PICKS)
ENTRIES(3, 4)
#elif defined(PASS_WRITE)
layout(set = 0, binding = 3) readonly buffer Entries { uvec2 entries[]; };
layout(set = 0, binding = 4) readonly buffer Sizes { uint sizes[]; };
layout(set = 0, binding = 5) readonly buffer Boxes { vec4 boxes[]; };
layout(set = 0, binding = 6) writeonly buffer Kept { float kept[]; };
layout(set = 0, binding = 7) writeonly buffer Corners { vec4 corners[]; };
#endif

layout(push_constant) uniform Push {
#if defined(PASS_BOXES)
    uint deltas_offset;
    uint anchors_offset;
    uint boxes_offset;
    uint count;       // of anchors, of all batches
    uint per_batch;
    uint encoding;    // numbers of an anchor's deltas
    float scale_y;
    float scale_x;
    float scale_h;
    float scale_w;
#else
#if !defined(PASS_LABELS)
    uint scores_offset;
#endif
#if defined(PASS_PICKS) || defined(PASS_WRITE)
    uint picks_offset;
#endif
#if !defined(PASS_CLASSES) && !defined(PASS_ANCHORS)
    uint counts_offset;
#endif
    uint entries_offset;
    uint sizes_offset;
#if defined(PASS_WRITE)
    uint boxes_offset;
    uint kept_offset;
    uint corners_offset;
#elif defined(PASS_LABELS)
    uint labels_offset;
    uint found_offset;
#endif
    uint count;       // of possible entries, or of rows of the output
#if !defined(PASS_LABELS)
    uint per_batch;   // anchors
#endif
    uint classes;     // the background's among them
#if defined(PASS_CLASSES) || defined(PASS_ANCHORS)
    float threshold;
#else
    uint limit;       // picks of a segment
#endif
#if defined(PASS_WRITE) || defined(PASS_LABELS)
    uint rows;        // of a batch
    uint entries_of;  // entries of a batch, or of a pick
#endif
#if defined(PASS_LABELS)
    int first_label;  // of the first class after the background
#endif
#endif
};

#if defined(PASS_BOXES)

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    vec4 anchor = anchors[anchors_offset / 4 + i % per_batch];
    uint from = deltas_offset + i * encoding;
    vec2 moved = vec2(exact_quotient(deltas[from], scale_y), exact_quotient(deltas[from + 1], scale_x));
    vec2 size = vec2(exact_quotient(deltas[from + 2], scale_h), exact_quotient(deltas[from + 3], scale_w));
    vec2 centre = anchor.xy + anchor.zw * moved;
    vec2 half_size = anchor.zw * vec2(rounded_exp(size.x), rounded_exp(size.y)) * 0.5;
    vec4 box = vec4(centre - half_size, centre + half_size);
    boxes[boxes_offset / 4 + i] = box;
}

#else

#if !defined(PASS_LABELS)
float score_at(uint batch, uint anchor, uint class_) {
    return scores[scores_offset + (batch * per_batch + anchor) * classes + class_];
}
#endif

#if defined(PASS_CLASSES)

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint segment = i / per_batch, batch = segment / (classes - 1), anchor = i - segment * per_batch;
    float score = score_at(batch, anchor, segment - batch * (classes - 1) + 1);
    if (score > threshold) APPEND(segment, per_batch, key_of(score), anchor)
}

#elif defined(PASS_ANCHORS)

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint batch = i / per_batch, anchor = i - batch * per_batch;
    float best = score_at(batch, anchor, 1);
    for (uint class_ = 2; class_ < classes; ++class_) best = larger(best, score_at(batch, anchor, class_));
    if (best > threshold) APPEND(batch, per_batch, key_of(best), anchor)
}

#elif defined(PASS_PICKS)

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    if (REGULAR) {    // (batch, class, pick) in an order of its own for each batch
        uint segment = i / limit, pick = i - segment * limit, batch = segment / (classes - 1);
        uint class_ = segment - batch * (classes - 1), length = (classes - 1) * limit;
        if (pick >= counts[counts_offset + segment]) return;
        float score = score_at(batch, picks[picks_offset + segment * limit + pick], class_ + 1);
        APPEND(batch, length, key_of(score), class_ * limit + pick)
    } else {          // (batch, pick, class) in one for each pick
        uint row = i / (classes - 1), batch = row / limit, class_ = i - row * (classes - 1);
        if (row - batch * limit >= counts[counts_offset + batch]) return;
        float score = score_at(batch, picks[picks_offset + row], class_ + 1);
        APPEND(row, classes - 1, key_of(score, NAN_LAST), class_)
    }
}

#else

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint batch = i / rows, row = i - batch * rows;
    uint pick, class_, from, all;
    bool is_found;
    if (REGULAR) {
        all = min(sizes[sizes_offset + batch], entries_of);
        is_found = row < all;
        uint entry = is_found ? entries[entries_offset / 2 + batch * entries_of + row].y : 0;
        class_ = entry / limit;
        pick = batch * (classes - 1) * limit + entry;
    } else {
        uint number = row / entries_of, picked = counts[counts_offset + batch];
        is_found = number < picked;
        pick = batch * limit + min(number, limit - 1);
        class_ = is_found ? entries[entries_offset / 2 + pick * entries_of + row % entries_of].y : 0;
        all = picked * entries_of;
    }
#if defined(PASS_WRITE)
    uint anchor = is_found ? picks[picks_offset + pick] : 0;
    kept[kept_offset + i] = is_found ? score_at(batch, anchor, class_ + 1) : 0.0;
    corners[corners_offset / 4 + i] = is_found ? boxes[boxes_offset / 4 + batch * per_batch + anchor] : vec4(0.0);
#else
    labels[labels_offset + i] = is_found ? int(class_) + first_label : 0;
    if (row == 0) found[found_offset + batch] = int(all);
#endif
}

#endif
#endif
