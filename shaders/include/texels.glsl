// Buffers that are read. READ_VIEW(binding, Block, name, TYPE) declares one as an array of words, or of vectors of two
// or four words, and `name_at(i)` is its element i. There may be several views of a binding.
//
// With TEXELS, elements are read from the same memory as a texel buffer, whose texels have four words. Some devices
// load these far faster. llvmpipe gathers texels for all lanes at once, but loads from storage buffers lane by lane,
// with a store and a dependent load for each lane. From Mesa 25 on it calls a function through a pointer for each
// fetch, which returns the texels in memory. A fetch then takes twice as long as before, but still less than the loads.
// Every buffer is bound in both ways (native/dispatch.hpp).

#ifndef NNVK_TEXELS_GLSL
#define NNVK_TEXELS_GLSL

layout(constant_id = 19) const bool TEXELS = false;

const int FIRST_TEXELS = 16;    // binding

uvec4 texel(usamplerBuffer texels, uint i) { return texelFetch(texels, int(i)); }
uvec2 half_texel(usamplerBuffer texels, uint i) {
    uvec4 whole = texelFetch(texels, int(i >> 1));
    return mix(whole.xy, whole.zw, bvec2((i & 1u) != 0u));
}
uint texel_word(usamplerBuffer texels, uint i) {
    uvec4 whole = texelFetch(texels, int(i >> 2));
    uvec2 part = mix(whole.xy, whole.zw, bvec2((i & 2u) != 0u));
    return mix(part.x, part.y, (i & 1u) != 0u);
}

void load_texel(usamplerBuffer texels, uint i, out uvec4 value) { value = texel(texels, i); }
void load_texel(usamplerBuffer texels, uint i, out ivec4 value) { value = ivec4(texel(texels, i)); }
void load_texel(usamplerBuffer texels, uint i, out vec4 value) { value = uintBitsToFloat(texel(texels, i)); }
void load_texel(usamplerBuffer texels, uint i, out uvec2 value) { value = half_texel(texels, i); }
void load_texel(usamplerBuffer texels, uint i, out vec2 value) { value = uintBitsToFloat(half_texel(texels, i)); }
void load_texel(usamplerBuffer texels, uint i, out uint value) { value = texel_word(texels, i); }
void load_texel(usamplerBuffer texels, uint i, out int value) { value = int(texel_word(texels, i)); }
void load_texel(usamplerBuffer texels, uint i, out float value) { value = uintBitsToFloat(texel_word(texels, i)); }

#define READ_VIEW(BINDING, Block, name, TYPE)                                                      \
    layout(set = 0, binding = BINDING) readonly buffer Block { TYPE name[]; };                     \
    layout(set = 0, binding = FIRST_TEXELS + BINDING) uniform usamplerBuffer name##_texels;        \
    TYPE name##_at(uint i) {                                                                       \
        TYPE value;                                                                                \
        if (TEXELS) load_texel(name##_texels, i, value);                                           \
        else value = name[i];                                                                      \
        return value;                                                                              \
    }

#endif
