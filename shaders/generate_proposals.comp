#version 450
// GENERATE_PROPOSALS before and after its sort and suppression (sort.comp, nms.comp). PASS_KEYS computes the keys of
// the scores of all anchors at all positions. PASS_BOXES places and refines the anchors of the best ones; boxes that
// are too small or outside of the image are no candidates. PASS_WRITE writes the picks, batch by batch.

#extension GL_GOOGLE_include_directive : require

#include "include/boxes.glsl"
#include "include/indexing.glsl"
#include "include/sort.glsl"

layout(local_size_x_id = 0) in;

layout(constant_id = 3) const bool NCHW = false;

#if defined(PASS_KEYS)
layout(set = 0, binding = 0) readonly buffer Scores { float scores[]; };
layout(set = 0, binding = 1) readonly buffer Anchors { vec4 anchors[]; };
layout(set = 0, binding = 2) writeonly buffer Keys { uint keys[]; };
FLAG(3)
#elif defined(PASS_BOXES)
layout(set = 0, binding = 0) readonly buffer Sorted { uvec2 sorted[]; };
layout(set = 0, binding = 1) readonly buffer Deltas { float deltas[]; };
layout(set = 0, binding = 2) readonly buffer Anchors { vec4 anchors[]; };
layout(set = 0, binding = 3) readonly buffer Images { vec2 images[]; };
layout(set = 0, binding = 4) writeonly buffer Boxes { vec4 boxes[]; };
layout(set = 0, binding = 5) writeonly buffer Entries { uvec2 entries[]; };
#else
layout(set = 0, binding = 0) readonly buffer Scores { float scores[]; };
layout(set = 0, binding = 1) readonly buffer Boxes { vec4 boxes[]; };
layout(set = 0, binding = 2) readonly buffer Picks { uint picks[]; };
layout(set = 0, binding = 3) readonly buffer Counts { uint counts[]; };
layout(set = 0, binding = 4) writeonly buffer Kept { float kept[]; };
layout(set = 0, binding = 5) writeonly buffer Rois { vec4 rois[]; };
layout(set = 0, binding = 6) writeonly buffer Split { int split[]; };
layout(set = 0, binding = 7) writeonly buffer Total { uint total[]; };
#endif

layout(push_constant) uniform Push {
#if defined(PASS_KEYS)
    uint scores_offset;
    uint anchors_offset;
    uint keys_offset;
    uint flag_offset;
#elif defined(PASS_BOXES)
    uint sorted_offset;
    uint deltas_offset;
    uint anchors_offset;
    uint images_offset;
    uint boxes_offset;
    uint entries_offset;
#else
    uint scores_offset;
    uint boxes_offset;
    uint picks_offset;
    uint counts_offset;
    uint kept_offset;
    uint rois_offset;
    uint split_offset;
    uint total_offset;
#endif
    uint count;           // of invocations
    uint height;          // of the feature map
    uint width;
    uint per_position;    // anchors
#if defined(PASS_KEYS)
    uint every;           // score
#elif defined(PASS_BOXES)
    uint keep;            // entries of a batch
    float height_stride;
    float width_stride;
    float min_size;
#elif defined(PASS_WRITE)
    uint limit;           // picks of a batch
    uint batches;
#endif
};

// The address of a number of an anchor, in (batch, y, x, anchor) order; an anchor has `each` numbers.
uint locate(uint batch, uint anchor, uint each, uint number) {
    uint positions = height * width, position = anchor / per_position, channel = anchor % per_position * each + number;
    uint channels = per_position * each;
    return NCHW ? (batch * channels + channel) * positions + position : (batch * positions + position) * channels + channel;
}

#if defined(PASS_KEYS)

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    if (i < every) {
        uint all = height * width * per_position, batch = i / all;
        keys[keys_offset + i] = key_of(scores[scores_offset + locate(batch, i - batch * all, 1, 0)], NAN_LAST);
    }
    if (i < per_position) {
        vec4 anchor = anchors[anchors_offset / 4 + i];
        if (!is_ordered(anchor)) RAISE_FOR_BOX(flag, anchor, i)
    }
}

#elif defined(PASS_BOXES)

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint batch = i / keep, first = sorted_offset / 2 + batch * keep, rank = i - batch * keep;
    uvec2 entry = sorted[first + rank];
    uint position = entry.y / per_position;
    vec4 delta;
    for (int k = 0; k < 4; ++k) delta[k] = deltas[deltas_offset + locate(batch, entry.y, 4, k)];
    vec2 shift = vec2(position % width, position / width) * vec2(width_stride, height_stride);
    vec4 anchor = anchors[anchors_offset / 4 + entry.y % per_position] + shift.xyxy;
    vec2 image = images[images_offset / 2 + batch];
    vec4 box = refine(anchor, delta, image);
    vec2 size = box.zw - box.xy, centre = box.xy + size * 0.5;
    bool usable = size.x > min_size && size.y > min_size && centre.x < image.y && centre.y < image.x;
    boxes[boxes_offset / 4 + batch * height * width * per_position + entry.y] = box;
    // NaN has the last key, but it is picked first.
    uint low = 0, high = keep;
    while (low < high) {
        uint middle = (low + high) / 2;
        if (sorted[first + middle].x == 0) high = middle;
        else low = middle + 1;
    }
    uint place = rank < low ? keep - low + rank : rank - low;
    entries[entries_offset / 2 + batch * keep + place] = uvec2(usable, entry.y);
}

#else

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint batch = i / limit, number = i - batch * limit, row = number, all = 0;
    for (uint k = 0; k < batches; ++k) {
        row += k < batch ? counts[counts_offset + k] : 0;
        all += counts[counts_offset + k];
    }
    if (i == 0) total[total_offset] = all;
    if (number >= counts[counts_offset + batch]) return;
    uint anchor = picks[picks_offset + i];
    kept[kept_offset + row] = scores[scores_offset + locate(batch, anchor, 1, 0)];
    rois[rois_offset / 4 + row] = boxes[boxes_offset / 4 + batch * height * width * per_position + anchor];
    split[split_offset + row] = int(batch);
}

#endif
