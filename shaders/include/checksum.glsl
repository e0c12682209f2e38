// The factors of checksums (lowering/gemm/verification/checksum.py): odd numbers, of which those of different words
// look random, so that no change of one number and hardly one of several leaves a sum modulo 2^32 as it is.

#ifndef NNVK_CHECKSUM_GLSL
#define NNVK_CHECKSUM_GLSL

// Multiplies all that belongs to a word of results. The product alone would make these numbers an arithmetic progression.
// The shifts, to the right and to the left, mix all bits.
uint checksum_factor(uint number) {
    number = (number + 1u) * 0x85ebca77u;
    number ^= number >> 15;
    return (number ^ number << 13) | 1u;
}
uvec4 checksum_factor(uvec4 numbers) {
    numbers = (numbers + 1u) * 0x85ebca77u;
    numbers ^= numbers >> 15;
    return (numbers ^ numbers << 13) | 1u;
}

// The sum of four numbers, one for each byte of a word, each times an odd number of its own.
uint sum_of_bytes(uvec4 x) { return x.x + (x.y + (x.y << 7)) + (x.z + (x.z << 13)) + (x.w + (x.w << 19)); }

// The products of a word of results, and of one of the other tensor of an epilogue, with odd numbers of their own.
uint of_result(uint word) { return word + (word << 11); }
uint of_extra(uint word) { return word + (word << 23); }

// Numbers for the parameters by which sums become bytes: of each channel, and of all.
uvec4 of_multipliers(ivec4 mantissa, ivec4 shift) { return uvec4(mantissa) + (uvec4(shift) << 16); }
uint of_limits(int low, int high, int zero) { return of_result(uint(low) ^ uint(high) << 8 ^ uint(zero) << 16); }

// Multiplies all that a pixel, or a line of one, adds to a sum.
uint position_factor(uint position) {
    position = (position + 1u) * 0x9e3779b1u;
    return (position ^ position >> 15) | 1u;
}
const uint OF_LINES = 0x20000000u;

// The same of a column. It has 15 bits, so that GPUs multiply bytes by it at their full rate, and CPUs as numbers of 16 bits,
// for which their vectors take half the time. No two of 2^14 columns have the same one.
uint column_factor(uint column) {
    column = (column + 1u) * 0x9e3779b1u & 0x3fffu;
    return ((column ^ column >> 7) << 1 | 1u) & 0x7fffu;
}

// The same, or 0 from a column on. It has no selection, behind which llvmpipe no longer knows that the number has 15 bits.
uint column_factor_below(uint end, uint column) { return column_factor(column) & uint(int(column - end) >> 31); }

uint sum_of_products(uvec4 a, uvec4 b) {
    uvec4 products = a * b;
    return products.x + products.y + products.z + products.w;
}

#endif
