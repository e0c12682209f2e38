#version 450
// SVDF's filters over time. Each filter has a memory; the newest value is the result of its feature vector for the
// input (`features`, computed before). A unit sums RANK neighbouring filters, and their memory moves on by one place.
// An invocation handles one unit of one batch.

#extension GL_GOOGLE_include_directive : require

#include "include/texels.glsl"
#include "include/indexing.glsl"
#include "include/multiply_add.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint ACTIVATION = 0;

READ_VIEW(0, Features, features, float)
READ_VIEW(1, Before, before, float)
READ_VIEW(2, Weights, weights, float)
READ_VIEW(3, Bias, bias, float)
layout(set = 0, binding = 4) writeonly buffer After { float after[]; };
layout(set = 0, binding = 5) writeonly buffer Dst { float dst[]; };

layout(push_constant) uniform Push {
    uint features_offset;
    uint before_offset;
    uint weights_offset;
    uint bias_offset;
    uint after_offset;
    uint dst_offset;
    uint count;           // of units of all batches
    uint units;
    uint rank;
    uint memory;          // the memory of a filter
    uint features_row;    // elements from one batch to the next
    float low;
    float high;
};

#include "include/activations.glsl"

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint batch = i / units, unit = i - batch * units;
    float sum = 0.0;
    for (uint k = 0; k < rank; k++) {
        uint filter_ = unit * rank + k;
        uint at = (batch * units * rank + filter_) * memory, weight = filter_ * memory;
        float filtered = 0.0;
        for (uint place = 0; place < memory; place++) {
            float value = place + 1u < memory ? before_at(before_offset + at + place)
                                              : features_at(features_offset + batch * features_row + filter_);
            filtered = multiply_add(value, weights_at(weights_offset + weight + place), filtered);
            if (place > 0u) after[after_offset + at + place - 1u] = value;
        }
        after[after_offset + at + memory - 1u] = 0.0;    // room for the next
        sum += filtered;
    }
    dst[dst_offset + i] = activation(sum + bias_at(bias_offset + unit));
}
