#version 450
// A GEMM of rows of bytes with packed weights, with zero points subtracted. A workgroup computes 32 columns of a row.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef TILE_SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef ARITHMETIC_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif

layout(local_size_x_id = 0, local_size_y_id = 1) in;

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint due_offset;
    uint dst_offset;
    uint length;           // K
    uint sign_mask;
    int zero;              // of rows, moved to the unsigned range
    int weight_zero;
    uint quads;            // vec4s of columns
};

#include "include/byte_sums.glsl"

layout(set = 0, binding = 3) writeonly buffer Dst { ivec4 dst[]; };

void main() {
    uint row = gl_WorkGroupID.y, quad = gl_WorkGroupID.x * LANES + gl_LocalInvocationID.x;
    ivec4 sum = sums_of(row, gl_WorkGroupID.x);
    if (gl_LocalInvocationID.y == 0u && quad < quads) dst[(dst_offset >> 2) + row * quads + quad] = sum;
}
