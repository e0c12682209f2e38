#version 450
// TREE_ENSEMBLE: decision trees, of which each adds the weights of one leaf to the results of a row.
//
//   PASS_LEAVES   an invocation follows a row through a tree, and stores its leaf
//   PASS_SUM, PASS_MIN, PASS_MAX   an invocation combines the weights of one target in all leaves of a row, tree by tree

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/quant.glsl"
#include "include/texels.glsl"

layout(local_size_x_id = 0) in;

#ifdef PASS_LEAVES

READ_VIEW(0, Src, src, float)
READ_VIEW(1, Nodes, nodes, int)
READ_VIEW(2, Thresholds, thresholds, float)
READ_VIEW(3, Roots, roots, int)
layout(set = 0, binding = 4) writeonly buffer Found { int found[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint nodes_offset;
    uint thresholds_offset;
    uint roots_offset;
    uint found_offset;
    uint count;       // rows times trees
    uint trees;
    uint features;
};

const uint FIELDS = 5;    // of a node

bool holds(int comparison, float value, float threshold) {
    bvec3 order = bvec3(value < threshold, value == threshold, value > threshold);
    if (comparison == 0) return order.x || order.y;
    if (comparison == 1) return order.x;
    if (comparison == 2) return order.y || order.z;
    if (comparison == 3) return order.z;
    return order.y == (comparison == 4);
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint row = src_offset + i / trees * features;
    int at = roots_at(roots_offset + i % trees);
    while (at >= 0) {
        uint node = nodes_offset + uint(at) * FIELDS;
        float value = src_at(row + uint(nodes_at(node)));
        bool chosen = is_nan(value) ? nodes_at(node + 4) != 0
                                    : holds(nodes_at(node + 1), value, thresholds_at(thresholds_offset + uint(at)));
        at = nodes_at(node + (chosen ? 2 : 3));
    }
    found[found_offset + i] = -1 - at;
}

#else

READ_VIEW(0, Found, found, int)
READ_VIEW(1, Leaves, leaves, int)
READ_VIEW(2, Targets, targets, int)
READ_VIEW(3, Weights, weights, float)
layout(set = 0, binding = 4) writeonly buffer Dst { float dst[]; };

layout(push_constant) uniform Push {
    uint found_offset;
    uint leaves_offset;
    uint targets_offset;
    uint weights_offset;
    uint dst_offset;
    uint count;       // rows times targets
    uint trees;
    uint of_row;      // targets of a row
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint row = found_offset + i / of_row * trees;
    int target = int(i % of_row);
    float result = 0.0;
    bool has = false;
    for (uint tree = 0; tree < trees; ++tree) {
        uint leaf = leaves_offset + uint(found_at(row + tree));
        int end = leaves_at(leaf + 1);
        for (int place = leaves_at(leaf); place < end; ++place) {
            if (targets_at(targets_offset + uint(place)) != target) continue;
            float weight = weights_at(weights_offset + uint(place));
#if defined(PASS_SUM)
            result += weight;
#elif defined(PASS_MIN)
            if (!has || weight < result) result = weight;
#else
            if (!has || weight > result) result = weight;
#endif
            has = true;
        }
    }
    dst[dst_offset + i] = result;
}

#endif
