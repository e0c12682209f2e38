// The products that a dispatch verifies (lowering/gemm/verification/checksum_dispatch.py). Behind their filters lies a
// table in vec4s: the first region of each product but the first one, a region being what a workgroup verifies, and
// then PRODUCT_VEC4S for each product. The tensors of a product are so many words behind those of the first one.
//
// Include this after the tensor `filters`, its push constant, and the push constants `table` and `products`.

#ifndef NNVK_CHECKSUM_TABLE_GLSL
#define NNVK_CHECKSUM_TABLE_GLSL

// The product that a region belongs to.
uint product_of(uint region) {
    uint product = 0u, vec4s = (products + 2u) / 4u;    // all but the first one
    for (uint i = 0; i < vec4s; i++) {
        bvec4 begun = lessThanEqual(filters_vec4s_at((filters_offset + table) / 4u + i), uvec4(region));
        product += uint(begun.x) + uint(begun.y) + uint(begun.z) + uint(begun.w);
    }
    return product;
}

// The words of the table of a product. All of them add up to 0, unless they have changed: a size that is wrong may ask for
// billions of iterations.
bool load_product(uint product, out uvec4 words_of[PRODUCT_VEC4S]) {
    uint from = (filters_offset + table) / 4u + (products + 2u) / 4u + product * PRODUCT_VEC4S;
    [[unroll]] for (uint i = 0; i < PRODUCT_VEC4S; i++) words_of[i] = filters_vec4s_at(from + i);
    uvec4 sums = uvec4(0u);
    [[unroll]] for (uint i = 0; i < PRODUCT_VEC4S; i++) sums += words_of[i];
    return sums.x + sums.y + sums.z + sums.w == 0u;
}

#endif
