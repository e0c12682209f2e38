// The dot product of the four bytes of two words. ARITHMETIC_DOT uses one instruction (SPV_KHR_integer_dot_product,
// GL_EXT_spirv_intrinsics).

#ifndef NNVK_BYTE_DOT_GLSL
#define NNVK_BYTE_DOT_GLSL

#ifdef ARITHMETIC_DOT
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4451)
uint packed_dot(uint a, uint b, spirv_literal int format);
#define dot_of_bytes(a, b) packed_dot(a, b, 0)
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int signed_packed_dot(uint a, uint b, spirv_literal int format);
#define sum_of_signed_bytes(a) signed_packed_dot(a, ONES, 0)
#else
uint dot_of_bytes(uint a, uint b) {
    uvec4 shifts = uvec4(0u, 8u, 16u, 24u), products = (uvec4(a) >> shifts & 0xffu) * (uvec4(b) >> shifts & 0xffu);
    return products.x + products.y + products.z + products.w;
}
#endif

const uint ONES = 0x01010101u;    // to add up bytes

uvec4 dots_of_bytes(uint a, uvec4 b) {
    return uvec4(dot_of_bytes(a, b.x), dot_of_bytes(a, b.y), dot_of_bytes(a, b.z), dot_of_bytes(a, b.w));
}

#endif
