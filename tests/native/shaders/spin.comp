#version 450
// Keeps the device busy for a time that grows with the number of workgroups and their steps, 65,535 at most: llvmpipe
// ends all loops of an invocation after as many rounds.
layout(local_size_x = 1) in;
layout(binding = 0) buffer State { uint state; };
layout(push_constant) uniform Push { uint steps; };
void main() {
    uint x = gl_WorkGroupID.x + 1;
    for (uint i = 0; i < steps; ++i) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    atomicXor(state, x);
}
