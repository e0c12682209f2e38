#version 450
// Fill a tensor with one word: a float, or four equal bytes.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) writeonly buffer Dst { uvec4 dst[]; };

layout(push_constant) uniform Push {
    uint dst_offset;
    uint count;    // of vectors of four words
    uint word;
};

void main() {
    uint i = flat_invocation();
    if (i < count) dst[dst_offset / 4 + i] = uvec4(word);
}
