"""FarmHash's Fingerprint64, vectorised over keys of one length.

Written from Google's farmhash (namespace ``farmhashna``). Its results are fixed for all time, which is why
LSH_PROJECTION can be defined by it.
"""

from __future__ import annotations

import numpy as np

_MASK = 2**64 - 1
_K0, _K1, _K2 = (np.uint64(k) for k in (0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F))

Words = np.ndarray
"""One uint64 per key; arithmetic wraps around."""


def _rotate(value: Words, bits: int) -> Words:
    """Rotate to the right."""
    rotated: Words = (value >> np.uint64(bits)) | (value << np.uint64(64 - bits))
    return rotated


def _shift_mix(value: Words) -> Words:
    mixed: Words = value ^ (value >> np.uint64(47))
    return mixed


def _mix(u: Words, v: Words, multiplier: Words | np.uint64) -> Words:
    """Hash two words to one (HashLen16)."""
    a = _shift_mix((u ^ v) * multiplier)
    return _shift_mix((v ^ a) * multiplier) * multiplier


class _Keys:
    """Keys, one per row of a uint8 array."""

    def __init__(self, keys: np.ndarray) -> None:
        self._keys = keys
        self.length = keys.shape[1]
        self.multiplier = np.uint64((int(_K2) + 2 * self.length) & _MASK)

    def byte(self, offset: int) -> Words:
        return self._keys[:, offset].astype(np.uint64)

    def word(self, offset: int, size: int = 8) -> Words:
        """The little-endian word of ``size`` bytes at an offset; a negative one counts from the end."""
        offset %= self.length
        words: Words = np.ascontiguousarray(self._keys[:, offset : offset + size]).view(f"<u{size}")
        return words[:, 0].astype(np.uint64)


def fingerprint64(keys: np.ndarray) -> np.ndarray:
    """The uint64 fingerprint of each row of ``keys``, a uint8 array [number of keys, bytes of each]."""
    table = _Keys(np.asarray(keys, np.uint8))
    if table.length <= 16:
        return _up_to_16(table, len(keys))
    if table.length <= 32:
        return _up_to_32(table)
    if table.length <= 64:
        return _up_to_64(table)
    return _longer(table)


def _up_to_16(keys: _Keys, count: int) -> Words:
    length, multiplier = keys.length, keys.multiplier
    if length >= 8:
        a, b = keys.word(0) + _K2, keys.word(-8)
        return _mix(_rotate(b, 37) * multiplier + a, (_rotate(a, 25) + b) * multiplier, multiplier)
    if length >= 4:
        return _mix(np.uint64(length) + (keys.word(0, 4) << np.uint64(3)), keys.word(-4, 4), multiplier)
    if length:
        y = keys.byte(0) + (keys.byte(length // 2) << np.uint64(8))
        z = np.uint64(length) + (keys.byte(length - 1) << np.uint64(2))
        short: Words = _shift_mix(y * _K2 ^ z * _K0) * _K2
        return short
    return np.full(count, _K2)


def _ends(keys: _Keys, a: Words) -> tuple[Words, Words]:
    """The first stage for keys of 17 to 64 bytes, which hashes their first and last 16 bytes."""
    b, c, d = keys.word(8), keys.word(-8) * keys.multiplier, keys.word(-16) * _K2
    return _rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c


def _up_to_32(keys: _Keys) -> Words:
    return _mix(*_ends(keys, keys.word(0) * _K1), keys.multiplier)


def _up_to_64(keys: _Keys) -> Words:
    multiplier = keys.multiplier
    a = keys.word(0) * _K2
    y, other = _ends(keys, a)
    z = _mix(y, other, multiplier)
    e, f = keys.word(16) * multiplier, keys.word(24)
    g, h = (y + keys.word(-32)) * multiplier, (z + keys.word(-24)) * multiplier
    return _mix(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, multiplier)


class _State:
    """The 56 bytes of state while keys longer than 64 bytes are hashed."""

    def __init__(self, keys: _Keys) -> None:
        seed = 81
        y = (seed * int(_K1) + 113) & _MASK
        mixed = (y * int(_K2) + 113) & _MASK
        first = keys.word(0)
        self.keys = keys
        self.x: Words = np.uint64((seed * int(_K2)) & _MASK) + first
        self.y: Words = np.full_like(first, y)
        self.z: Words = np.full_like(first, ((mixed ^ (mixed >> 47)) * int(_K2)) & _MASK)
        self.v = (np.zeros_like(first), np.zeros_like(first))
        self.w = (np.zeros_like(first), np.zeros_like(first))

    def _pair(self, offset: int, a: Words, b: Words) -> tuple[Words, Words]:
        """Hash 32 bytes and two seeds to two words (WeakHashLen32WithSeeds)."""
        first, second, third, fourth = (self.keys.word(offset + 8 * n) for n in range(4))
        a = a + first
        b = _rotate(b + a + fourth, 21)
        total = a + second + third
        return total + fourth, b + _rotate(total, 44) + a

    def absorb(self, offset: int, multiplier: Words | np.uint64, weight: int) -> None:
        """Hash 64 bytes into the state. ``weight`` is 9 for the last 64 bytes, otherwise 1."""
        word, scale = self.keys.word, np.uint64(weight)
        x = _rotate(self.x + self.y + self.v[0] + word(offset + 8), 37) * multiplier
        y = _rotate(self.y + self.v[1] + word(offset + 48), 42) * multiplier
        x ^= self.w[1] * scale
        y += self.v[0] * scale + word(offset + 40)
        z = _rotate(self.z + self.w[0], 33) * multiplier
        self.v = self._pair(offset, self.v[1] * multiplier, x + self.w[0])
        self.w = self._pair(offset + 32, z + self.w[1], y + word(offset + 16))
        self.x, self.y, self.z = z, y, x


def _longer(keys: _Keys) -> Words:
    state = _State(keys)
    end = (keys.length - 1) // 64 * 64
    for offset in range(0, end, 64):
        state.absorb(offset, _K1, 1)
    multiplier = _K1 + ((state.z & np.uint64(0xFF)) << np.uint64(1))
    lead = state.w[0] + np.uint64((keys.length - 1) & 63)
    state.v = (state.v[0] + lead, state.v[1])
    state.w = (lead + state.v[0], state.w[1])
    state.absorb(keys.length - 64, multiplier, 9)
    v, w = state.v, state.w
    return _mix(
        _mix(v[0], w[0], multiplier) + _shift_mix(state.y) * _K0 + state.z,
        _mix(v[1], w[1], multiplier) + state.x,
        multiplier,
    )
