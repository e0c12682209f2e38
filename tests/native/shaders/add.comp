#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 3) const float SCALE = 1.0;
layout(binding = 0) readonly buffer Src { float src[]; };
layout(binding = 1) buffer Dst { float dst[]; };
layout(push_constant) uniform Push { uint count; uint src_offset; uint dst_offset; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) dst[dst_offset + i] += SCALE * src[src_offset + i];
}
