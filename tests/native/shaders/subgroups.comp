#version 450
// state[0]: the size of subgroups; state[1]: how many the workgroup has.
#extension GL_KHR_shader_subgroup_basic : require

layout(local_size_x = 128) in;
layout(set = 0, binding = 0) buffer State { uint state[]; };

void main() {
    if (gl_LocalInvocationIndex == 0u) {
        state[0] = gl_SubgroupSize;
        state[1] = gl_NumSubgroups;
    }
}
