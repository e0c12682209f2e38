// FarmHash's Fingerprint64 of keys of one length, 5 bytes or more, in 64-bit integers of two words.
// nnvk/ops/farmhash.py describes it. A shader that includes this has a function `uint key_word(uint)`, the four bytes
// of the key at an offset, and a constant LENGTH, the bytes of a key.

#ifndef NNVK_FARMHASH_GLSL
#define NNVK_FARMHASH_GLSL

#include "wide.glsl"

const WIDE K0 = WIDE(0x97cb3127u, 0xc3a5c85cu), K1 = WIDE(0xbe98f273u, 0xb492b66fu), K2 = WIDE(0x2f90404fu, 0x9ae16a3bu);

WIDE word(uint offset) { return WIDE(key_word(offset), key_word(offset + 4u)); }
WIDE word_from_end(uint distance) { return word(LENGTH - distance); }

WIDE shift_mix(WIDE a) { return a ^ WIDE(a.y >> 15, 0u); }

// Combine two words into one.
WIDE join(WIDE u, WIDE v, WIDE multiplier) {
    WIDE a = shift_mix(multiply(u ^ v, multiplier));
    return multiply(shift_mix(multiply(v ^ a, multiplier)), multiplier);
}

WIDE up_to_16(WIDE multiplier) {
    if (LENGTH < 8) {
        WIDE first = shift_left(WIDE(key_word(0), 0u), 3u), last = WIDE(key_word(LENGTH - 4), 0u);
        return join(add(WIDE(LENGTH, 0u), first), last, multiplier);
    }
    WIDE a = add(word(0), K2), b = word_from_end(8);
    return join(add(multiply(rotate(b, 37u), multiplier), a), multiply(add(rotate(a, 25u), b), multiplier), multiplier);
}

// The beginning of the hash of keys of 17 to 64 bytes: their first and last 16 bytes.
void ends(WIDE a, WIDE multiplier, out WIDE u, out WIDE v) {
    WIDE b = word(8), c = multiply(word_from_end(8), multiplier), d = multiply(word_from_end(16), K2);
    u = add(add(rotate(add(a, b), 43u), rotate(c, 30u)), d);
    v = add(add(a, rotate(add(b, K2), 18u)), c);
}

WIDE up_to_32(WIDE multiplier) {
    WIDE u, v;
    ends(multiply(word(0), K1), multiplier, u, v);
    return join(u, v, multiplier);
}

WIDE up_to_64(WIDE multiplier) {
    WIDE a = multiply(word(0), K2), y, other;
    ends(a, multiplier, y, other);
    WIDE z = join(y, other, multiplier);
    WIDE e = multiply(word(16), multiplier), f = word(24);
    WIDE g = multiply(add(y, word_from_end(32)), multiplier), h = multiply(add(z, word_from_end(24)), multiplier);
    return join(add(add(rotate(add(e, f), 43u), rotate(g, 30u)), h), add(add(e, rotate(add(f, a), 18u)), g), multiplier);
}

// The state of the hash of keys longer than 64 bytes.
struct State {
    WIDE x, y, z;
    WIDE v[2], w[2];
};

// Combine 32 bytes and two seeds into two words.
void absorb_pair(uint offset, WIDE a, WIDE b, out WIDE result[2]) {
    a = add(a, word(offset));
    WIDE fourth = word(offset + 24), total = add(add(a, word(offset + 8)), word(offset + 16));
    b = rotate(add(add(b, a), fourth), 21u);
    result[0] = add(total, fourth);
    result[1] = add(add(b, rotate(total, 44u)), a);
}

// Add 64 bytes to the state. `weight` is 1, and 9 for the last bytes.
void absorb(inout State s, uint offset, WIDE multiplier, uint weight) {
    WIDE scale = WIDE(weight, 0u);
    WIDE x = multiply(rotate(add(add(s.x, s.y), add(s.v[0], word(offset + 8))), 37u), multiplier);
    WIDE y = multiply(rotate(add(add(s.y, s.v[1]), word(offset + 48)), 42u), multiplier);
    x ^= multiply(s.w[1], scale);
    y = add(y, add(multiply(s.v[0], scale), word(offset + 40)));
    WIDE z = multiply(rotate(add(s.z, s.w[0]), 33u), multiplier);
    absorb_pair(offset, multiply(s.v[1], multiplier), add(x, s.w[0]), s.v);
    absorb_pair(offset + 32, add(z, s.w[1]), add(y, word(offset + 16)), s.w);
    s.x = z;
    s.y = y;
    s.z = x;
}

WIDE longer() {
    const WIDE SEED = WIDE(81u, 0u), ADDED = WIDE(113u, 0u), NOTHING = WIDE(0u);
    State s;
    s.x = add(multiply(SEED, K2), word(0));
    s.y = add(multiply(SEED, K1), ADDED);
    s.z = multiply(shift_mix(add(multiply(s.y, K2), ADDED)), K2);
    s.v[0] = s.v[1] = s.w[0] = s.w[1] = NOTHING;
    uint end = (LENGTH - 1) / 64 * 64;
    for (uint offset = 0; offset < end; offset += 64) absorb(s, offset, K1, 1u);
    WIDE multiplier = add(K1, WIDE((s.z.x & 0xffu) << 1, 0u));
    s.w[0] = add(s.w[0], WIDE((LENGTH - 1) & 63, 0u));
    s.v[0] = add(s.v[0], s.w[0]);
    s.w[0] = add(s.w[0], s.v[0]);
    absorb(s, LENGTH - 64, multiplier, 9u);
    return join(add(add(join(s.v[0], s.w[0], multiplier), multiply(shift_mix(s.y), K0)), s.z),
                add(join(s.v[1], s.w[1], multiplier), s.x), multiplier);
}

WIDE fingerprint64() {
    WIDE multiplier = add(K2, WIDE(2 * LENGTH, 0u));
    if (LENGTH <= 16) return up_to_16(multiplier);
    if (LENGTH <= 32) return up_to_32(multiplier);
    if (LENGTH <= 64) return up_to_64(multiplier);
    return longer();
}

#endif
