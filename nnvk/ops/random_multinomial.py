"""RANDOM_MULTINOMIAL: classes drawn with the probabilities that logits stand for.

Draws come from Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), seeded and
consumed as Android does it, so that the same seeds give the same draws.
"""

from __future__ import annotations

import secrets

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_size
from nnvk.ops.signature import F16, F32, I32, Signature, i32, one_of, tensor
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counters: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Four random 32-bit words for each counter: uint64 arrays [n, 4] that hold 32-bit words."""
    c0, c1, c2, c3 = counters.astype(np.uint64).T
    k0, k1 = key
    for _ in range(_ROUNDS):
        first, second = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c2 = (second >> _HALF) ^ c1 ^ np.uint64(k0), (first >> _HALF) ^ c3 ^ np.uint64(k1)
        c1, c3 = second & _LOW, first & _LOW
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack((c0, c1, c2, c3), axis=1)


def uniform(count: int, seed: int, seed2: int) -> np.ndarray:
    """``count`` doubles in [0, 1): the two seeds, as 64 bits each, are Philox's key and its upper counter."""
    blocks = np.arange((count + 1) // 2, dtype=np.uint64)
    upper = np.broadcast_to(np.array([seed2 & 0xFFFFFFFF, seed2 >> 32 & 0xFFFFFFFF], np.uint64), (blocks.size, 2))
    counters = np.column_stack((blocks & _LOW, blocks >> _HALF, upper))
    words = philox(counters, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)).reshape(-1, 2)[:count]
    mantissas: np.ndarray = (words[:, 0] & np.uint64(0xFFFFF)) << _HALF | words[:, 1]
    return mantissas.astype(np.float64) * 2.0**-52


def _infer(call: Call) -> list[Shape]:
    batches, classes = call.input.shape
    if not classes:
        raise bad_data(f"input must have classes, got shape {[batches, classes]}")
    if call.samples < 1:
        raise bad_data(f"samples must be at least 1, got {call.samples}")
    check_size(call.seeds, (2,))
    return [(batches, call.samples)]


def _reference(call: Call) -> np.ndarray:
    logits = call.input.data.astype(np.float64)
    logits[~np.isfinite(logits)] = -np.inf  # never drawn
    largest = logits.max(axis=1, keepdims=True)
    without = np.flatnonzero(np.isneginf(largest))
    if without.size:
        raise bad_data(f"input must have a finite logit in every batch, got batch {without[0]} without")
    totals = np.cumsum(np.exp(logits - largest), axis=1)
    seed, seed2 = call.seeds.data.reshape(-1).tolist()
    if not seed and not seed2:
        seed, seed2 = secrets.randbits(64), secrets.randbits(64)
    draws = uniform(len(logits) * call.samples, seed, seed2).reshape(call.output.shape)
    rows = [
        np.searchsorted(total[:-1], draw * total[-1], side="right") for total, draw in zip(totals, draws, strict=True)
    ]
    return np.array(rows, np.int32).reshape(call.output.shape)


define(
    OperationCode.RANDOM_MULTINOMIAL,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.RANDOM | Effect.CHECKS_DATA),
    types={F32: 3, F16: 3},
    signatures=Signature(tensor("input", rank=2), i32("samples"), tensor("seeds", one_of(I32))),
    outputs=(tensor("output", one_of(I32)),),
    infer=_infer,
    reference=_reference,
)
