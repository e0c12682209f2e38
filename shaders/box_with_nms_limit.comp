#version 450
// BOX_WITH_NMS_LIMIT. An image is a run of boxes of the same batch, and a segment is a class of an image. The number of
// images is not known before, so a segment has room for all boxes.
//
// PASS_PREPARE checks the boxes and lists their scores by class. PASS_RUNS finds the images. PASS_PICK picks boxes of
// segments, the best first, and lowers the scores of boxes that overlap them; a workgroup handles a class and some
// images. If it cannot finish in its share of rounds, the next dispatch continues. PASS_SELECT counts the picks of each
// segment that are among the best of their image. PASS_OFFSETS finds where the detections of an image begin. PASS_WRITE
// writes scores and boxes, and PASS_LABELS classes and batches; they are separate because small devices bind few
// buffers at once.

#extension GL_GOOGLE_include_directive : require

#include "include/boxes.glsl"
#include "include/indexing.glsl"
#include "include/sort.glsl"

layout(local_size_x_id = 0) in;

const uint UNORDERED = 0x80000000u;    // of the number of picks: their scores do not descend

#if defined(PASS_PREPARE)
layout(set = 0, binding = 0) readonly buffer Scores { float scores[]; };
layout(set = 0, binding = 1) readonly buffer Rois { vec4 rois[]; };
layout(set = 0, binding = 2) writeonly buffer Work { uvec2 work[]; };
FLAG(3)
#elif defined(PASS_RUNS)
layout(set = 0, binding = 0) writeonly buffer Runs { uint runs[]; };
#else
// The number of runs, then the beginning of each run and the end of the last one, then the run of each box.
layout(set = 0, binding = 0) readonly buffer Runs { uint runs[]; };
#endif
#if defined(PASS_RUNS)
layout(set = 0, binding = 1) readonly buffer Split { int split[]; };
#elif defined(PASS_PICK)
layout(set = 0, binding = 1) readonly buffer Rois { vec4 rois[]; };
layout(set = 0, binding = 2) buffer Work { uvec2 work[]; };                  // score and box of each candidate
layout(set = 0, binding = 3) writeonly buffer Picks { uvec2 picks[]; };      // the same, picked
layout(set = 0, binding = 4) buffer Picked { uint picked[]; };               // how many, of each segment
layout(set = 0, binding = 5) buffer State { uint state[]; };
#elif defined(PASS_SELECT)
layout(set = 0, binding = 1) readonly buffer Picks { uvec2 picks[]; };
layout(set = 0, binding = 2) readonly buffer Picked { uint picked[]; };
layout(set = 0, binding = 3) writeonly buffer Selected { uvec2 selected[]; };
layout(set = 0, binding = 4) writeonly buffer Totals { uint totals[]; };
#elif defined(PASS_OFFSETS)
layout(set = 0, binding = 1) buffer Totals { uint totals[]; };
layout(set = 0, binding = 2) writeonly buffer Total { uint total[]; };
#elif defined(PASS_WRITE) || defined(PASS_LABELS)
layout(set = 0, binding = 1) readonly buffer Picks { uvec2 picks[]; };
layout(set = 0, binding = 2) readonly buffer Picked { uint picked[]; };
layout(set = 0, binding = 3) readonly buffer Selected { uvec2 selected[]; };
layout(set = 0, binding = 4) readonly buffer Totals { uint totals[]; };
#if defined(PASS_WRITE)
layout(set = 0, binding = 5) readonly buffer Boxes { uint boxes[]; };
layout(set = 0, binding = 6) writeonly buffer Kept { float kept[]; };
layout(set = 0, binding = 7) writeonly buffer Corners { uint corners[]; };
#else
layout(set = 0, binding = 5) readonly buffer Split { int split[]; };
layout(set = 0, binding = 6) writeonly buffer Labels { int labels[]; };
layout(set = 0, binding = 7) writeonly buffer Batches { int batches[]; };
#endif
#endif

layout(push_constant) uniform Push {
#if defined(PASS_PREPARE)
    uint scores_offset;
    uint rois_offset;
    uint work_offset;
    uint flag_offset;
#else
    uint runs_offset;
#endif
#if defined(PASS_RUNS)
    uint split_offset;
#elif defined(PASS_PICK)
    uint rois_offset;
    uint work_offset;
    uint picks_offset;
    uint picked_offset;
    uint state_offset;
#elif defined(PASS_SELECT)
    uint picks_offset;
    uint picked_offset;
    uint selected_offset;
    uint totals_offset;
#elif defined(PASS_OFFSETS)
    uint totals_offset;
    uint total_offset;
#elif defined(PASS_WRITE) || defined(PASS_LABELS)
    uint picks_offset;
    uint picked_offset;
    uint selected_offset;
    uint totals_offset;
#if defined(PASS_WRITE)
    uint boxes_offset;
    uint kept_offset;
    uint corners_offset;
#else
    uint split_offset;
    uint labels_offset;
    uint batches_offset;
#endif
#endif
    uint count;      // of boxes of a class
    uint classes;    // without the background
#if defined(PASS_PICK) || defined(PASS_SELECT)
    int limit;       // picks of a segment, and of an image; negative: any
#endif
#if defined(PASS_PICK)
    uint rounds;     // of a dispatch
    uint resume;     // whether it continues an earlier dispatch
    float least_first;
    float iou_threshold;
    float sigma;
    float least;
#endif
};

#if defined(PASS_PREPARE)

void main() {
    uint i = flat_invocation(), every = classes + 1;
    if (i >= count * every) return;
    uint row = i / every, class_ = i - row * every;
    vec4 box = rois[rois_offset / 4 + i];
    if (!is_ordered(box)) RAISE_FOR_BOX(flag, box, i)
    if (class_ > 0) work[work_offset / 2 + (class_ - 1) * count + row] = uvec2(floatBitsToUint(scores[scores_offset + i]), row);
}

#elif defined(PASS_RUNS)

const uint LOCAL = 128;
shared uint sums[LOCAL];

bool begins(uint row) { return row == 0 || split[split_offset + row] != split[split_offset + row - 1]; }

void main() {
    uint lane = gl_LocalInvocationID.x, each = divide_up(count, LOCAL);
    uint first = min(lane * each, count), last = min(first + each, count), number = 0;
    for (uint row = first; row < last; ++row) number += begins(row) ? 1 : 0;
    sums[lane] = number;
    barrier();
    number = 0;
    for (uint k = 0; k < lane; ++k) number += sums[k];
    for (uint row = first; row < last; ++row) {
        if (begins(row)) runs[runs_offset + 1 + number++] = row;
        runs[runs_offset + 2 + count + row] = number - 1;
    }
    if (lane == LOCAL - 1) {
        runs[runs_offset] = number;
        runs[runs_offset + 1 + number] = count;
    }
}

#elif defined(PASS_PICK)

layout(constant_id = 3) const int KERNEL = 0;     // hard, linear, Gaussian
layout(constant_id = 4) const uint LOCAL = 64;    // invocations of a workgroup

const uint SAVED = 6;
shared uint best_key[3], best_box[3];

vec4 box_at(uint class_, uint row) { return rois[rois_offset / 4 + row * (classes + 1) + class_ + 1]; }

// The remaining score of a box after another box was picked.
float decayed(float score, vec4 best, vec4 box) {
    vec2 areas = overlap_areas(best, box);
    float result = score;
    // Boxes that do not touch keep their scores. This is a loop, because some devices compute both sides of an if.
    bool touches = !(areas.x == 0.0 && areas.y > 0.0 && iou_threshold > 0.0 && (KERNEL != 2 || sigma > 0.0));
    for (; touches; touches = false) {
        float over = exact_quotient(areas.x, areas.y);
        float decay;
        if (KERNEL == 0) decay = over < iou_threshold ? 1.0 : 0.0;
        else if (KERNEL == 1) decay = over < iou_threshold ? 1.0 : 1.0 - over;
        else decay = rounded_exp(exact_quotient(-over * over, sigma));
        result = score * decay;
    }
    return result;
}

void main() {
    uint class_ = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x, number = runs[runs_offset];
    uint run = gl_WorkGroupID.y, saved = state_offset + (gl_WorkGroupID.y * classes + class_) * (SAVED + LOCAL);
    // The state of the segment: the number of picks, the last pick and its key, and the number of candidates of the
    // invocation.
    uint taken = 0, last = 0, last_key = 0xffffffffu, mine = 0, ordered = 0;
    bool is_new = true;
    if (resume != 0) {
        run = state[saved];
        is_new = state[saved + 1] != 0;
        taken = state[saved + 2];
        last = state[saved + 3];
        last_key = state[saved + 4];
        ordered = state[saved + 5];
        mine = state[saved + SAVED + lane];
    }
    if (lane < 3) {
        best_key[lane] = 0;
        best_box[lane] = 0xffffffffu;
    }
    barrier();
    uint spent = 0, slot = 0;
    while (run < number && spent < rounds) {
        uint start = runs[runs_offset + 1 + run], stop = runs[runs_offset + 2 + run];
        // An invocation's candidates are in every LOCAL-th place from its own place on; the remaining ones move up.
        uint base = work_offset / 2 + class_ * count + start + lane;
        if (is_new) mine = start + lane < stop ? (stop - start - lane - 1) / LOCAL + 1 : 0;
        vec4 best = is_new ? vec4(0.0) : box_at(class_, last);
        uint kept = 0, key = 0, box = 0xffffffffu;
        for (uint k = 0; k < mine; ++k) {
            uvec2 candidate = work[base + k * LOCAL];
            float score = uintBitsToFloat(candidate.x);
            bool stays;
            if (is_new) {
                stays = score > least_first;
            } else {
                score = decayed(score, best, box_at(class_, candidate.y));
                stays = candidate.y != last && !(score < least);
            }
            if (stays) {
                work[base + kept * LOCAL] = uvec2(floatBitsToUint(score), candidate.y);
                ++kept;
                uint own = key_of(score);
                if (own > key) box = candidate.y;    // of equal ones the first, which is the lowest
                key = max(own, key);
            }
        }
        mine = kept;
        spent += (stop - start) / LOCAL * 2 + 4;
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
        uint picks_at = class_ * count + start;
        bool is_over = highest == 0 || taken == uint(limit);
        if (!is_over) {
            last = best_box[slot];
            // The owner of the box knows its score.
            if (key == highest && box == last) {
                for (uint k = 0; k < mine; ++k) {
                    uvec2 candidate = work[base + k * LOCAL];
                    if (candidate.y == last) picks[picks_offset / 2 + picks_at + taken] = candidate;
                }
            }
            ++taken;
            uint final_key = highest == NAN_FIRST ? NAN_LAST : highest;
            if (final_key > last_key) ordered = UNORDERED;
            last_key = final_key;
            is_new = false;
        } else {
            if (lane == 0) picked[picked_offset + class_ * count + run] = taken | ordered;
            run += gl_NumWorkGroups.y;
            is_new = true;
            taken = 0;
            ordered = 0;
            last_key = 0xffffffffu;
        }
        slot = (slot + 1) % 3;
    }
    if (lane == 0) {
        state[saved] = run;
        state[saved + 1] = is_new ? 1 : 0;
        state[saved + 2] = taken;
        state[saved + 3] = last;
        state[saved + 4] = last_key;
        state[saved + 5] = ordered;
    }
    state[saved + SAVED + lane] = mine;
}

#elif defined(PASS_OFFSETS)

const uint LOCAL = 128;
shared uint sums[LOCAL];

void main() {
    uint lane = gl_LocalInvocationID.x, number = runs[runs_offset], each = divide_up(number, LOCAL);
    uint first = min(lane * each, number), last = min(first + each, number), sum = 0;
    for (uint run = first; run < last; ++run) sum += totals[totals_offset + run];
    sums[lane] = sum;
    barrier();
    sum = 0;
    for (uint k = 0; k < lane; ++k) sum += sums[k];
    for (uint run = first; run < last; ++run) {
        uint own = totals[totals_offset + run];
        totals[totals_offset + run] = sum;
        sum += own;
    }
    if (lane == LOCAL - 1) total[total_offset] = sum;
}

#else

uint key_at(uint class_, uint place) {
    return key_of(uintBitsToFloat(picks[picks_offset / 2 + class_ * count + place].x), NAN_LAST);
}

#if defined(PASS_SELECT)

const uint LOCAL = 128, DIGITS = 256;
shared uint bins[DIGITS];
shared uint sums[LOCAL];
shared uint longest, total, chosen, above;

// The sum of the values of all earlier invocations; `sum` gets the sum of all.
uint prefix(uint value, out uint sum) {
    uint lane = gl_LocalInvocationID.x;
    barrier();
    sums[lane] = value;
    barrier();
    for (uint distance = 1; distance < LOCAL; distance *= 2) {
        uint other = lane >= distance ? sums[lane - distance] : 0;
        barrier();
        sums[lane] += other;
        barrier();
    }
    sum = sums[LOCAL - 1];
    return sums[lane] - value;
}

// Count the digit at `shift` of a pick's key, if the `known` bits of the key equal those of `key`.
void count_digit(uint index, uint run, uint start, uint key, uint known, int shift) {
    uint class_ = index / longest, place = index - class_ * longest;
    if (class_ >= classes || place >= (picked[picked_offset + class_ * count + run] & ~UNORDERED)) return;
    uint own = key_at(class_, start + place);
    if (((own ^ key) & known) == 0) atomicAdd(bins[(own >> shift) & (DIGITS - 1)], 1);
}

void main() {
    uint lane = gl_LocalInvocationID.x, number = runs[runs_offset];
    for (uint run = gl_WorkGroupID.x; run < number; run += gl_NumWorkGroups.x) {
        uint start = runs[runs_offset + 1 + run];
        if (lane == 0) {
            longest = 0;
            total = 0;
        }
        barrier();
        for (uint class_ = lane; class_ < classes; class_ += LOCAL) {
            uint size = picked[picked_offset + class_ * count + run] & ~UNORDERED;
            atomicMax(longest, size);
            atomicAdd(total, size);
        }
        barrier();
        // Find the key of the last selected pick, digit by digit, and the number of selected picks with this key.
        uint key = 0, wanted = uint(limit), known = 0;
        bool is_limited = limit >= 0 && total > wanted;
        for (int shift = 24; is_limited && shift >= 0; shift -= 8) {
            for (uint k = lane; k < DIGITS; k += LOCAL) bins[k] = 0;
            barrier();
            for (uint k = lane; k < classes * longest; k += 4 * LOCAL) {
                count_digit(k, run, start, key, known, shift);
                count_digit(k + LOCAL, run, start, key, known, shift);
                count_digit(k + 2 * LOCAL, run, start, key, known, shift);
                count_digit(k + 3 * LOCAL, run, start, key, known, shift);
            }
            barrier();
            // Go down from the highest digit to the first one with enough picks.
            uint high = bins[DIGITS - 1 - 2 * lane], low = bins[DIGITS - 2 - 2 * lane], sum;
            uint before_ = prefix(high + low, sum);
            if (before_ < wanted && before_ + high >= wanted) {
                chosen = DIGITS - 1 - 2 * lane;
                above = before_;
            } else if (before_ + high < wanted && before_ + high + low >= wanted) {
                chosen = DIGITS - 2 - 2 * lane;
                above = before_ + high;
            }
            barrier();
            key |= chosen << shift;
            wanted -= above;
            known |= (DIGITS - 1) << shift;
            barrier();
        }
        // Count the picks of each class, and find their places.
        uint all = 0;
        for (uint first = 0; first < classes; first += LOCAL) {
            uint class_ = first + lane, size = 0, more = 0, equal = 0;
            if (class_ < classes) {
                size = picked[picked_offset + class_ * count + run];
                bool is_ordered = (size & UNORDERED) == 0;
                size &= ~UNORDERED;
                if (!is_limited) {
                    more = size;
                } else if (is_ordered) {
                    for (uint low = 0, high = size; low < high;) {
                        uint middle = (low + high) / 2;
                        if (key_at(class_, start + middle) > key) low = more = middle + 1;
                        else high = middle;
                    }
                    for (uint low = more, high = size; low < high;) {
                        uint middle = (low + high) / 2;
                        if (key_at(class_, start + middle) == key) {
                            low = middle + 1;
                            equal = low - more;
                        } else {
                            high = middle;
                        }
                    }
                } else {
                    for (uint k = 0; k < size; ++k) {
                        uint own = key_at(class_, start + k);
                        more += own > key ? 1 : 0;
                        equal += own == key ? 1 : 0;
                    }
                }
            }
            uint sum;
            uint before_ = prefix(equal, sum);
            uint taken = more + min(equal, wanted - min(before_, wanted));
            wanted -= min(sum, wanted);
            before_ = prefix(taken, sum);
            if (class_ < classes) selected[selected_offset / 2 + class_ * count + run] = uvec2(taken, all + before_);
            all += sum;
        }
        if (lane == 0) totals[totals_offset + run] = all;
        barrier();
    }
}

#else

#if defined(PASS_WRITE)
layout(constant_id = 3) const uint WORDS = 4;    // of a box
#endif

void main() {
    uint i = flat_invocation();
    if (i >= count * classes) return;
    uint class_ = i / count, place = i - class_ * count, run = runs[runs_offset + 2 + count + place];
    uint start = runs[runs_offset + 1 + run], rank = place - start;
    uint size = picked[picked_offset + class_ * count + run];
    if (rank >= (size & ~UNORDERED)) return;
    uvec2 pick = picks[picks_offset / 2 + i];
    if (size >= UNORDERED) {
        uint own = key_at(class_, place), before_ = 0;
        for (uint k = 0; k < (size & ~UNORDERED); ++k) {
            uint other = key_at(class_, start + k);
            before_ += other > own || (other == own && k < rank) ? 1 : 0;
        }
        rank = before_;
    }
    uvec2 those = selected[selected_offset / 2 + class_ * count + run];
    if (rank >= those.x) return;
    uint to = totals[totals_offset + run] + those.y + rank;
#if defined(PASS_WRITE)
    kept[kept_offset + to] = uintBitsToFloat(pick.x);
    for (uint k = 0; k < WORDS; ++k)
        corners[corners_offset + to * WORDS + k] = boxes[boxes_offset + (pick.y * (classes + 1) + class_ + 1) * WORDS + k];
#else
    labels[labels_offset + to] = int(class_) + 1;
    batches[batches_offset + to] = split[split_offset + pick.y];
#endif
}

#endif
#endif
