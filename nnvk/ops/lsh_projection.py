"""LSH_PROJECTION: signatures by locality-sensitive hashing."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.farmhash import fingerprint64
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import F16, F32, I32, Q8, Signature, i32, one_of, optional_tensor, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

SPARSE_DEPRECATED, DENSE, SPARSE = 1, 2, 3


def _infer(call: Call) -> list[Shape]:
    functions, bits = call.hash.shape
    if not call.input.shape or not call.input.size:
        raise bad_data(f"input must have rank 1 or more and elements, got shape {list(call.input.shape)}")
    if call.weight is not None:
        check_shape(call.weight, call.input.shape[:1])
    if call.type not in (SPARSE_DEPRECATED, DENSE, SPARSE):
        raise bad_data(f"type must be 1 (sparse, deprecated), 2 (dense) or 3 (sparse), got {call.type}")
    if call.type == DENSE:
        return [(functions * bits,)]
    offset_bits = max(functions - 1, 0).bit_length() if call.type == SPARSE else 0
    if bits + offset_bits > 32:
        raise bad_data(
            f"hash must leave signatures of at most 32 bits, got {bits + offset_bits} for {[functions, bits]}"
        )
    return [(functions,)]


def _signs(call: Call) -> np.ndarray:
    """One bit per seed: whether the weighted sum of the items' fingerprints under this seed is positive."""
    items = np.ascontiguousarray(call.input.data)
    rows = items.view(np.uint8).reshape(len(items), -1)
    weights = np.ones(len(items)) if call.weight is None else call.weight.data.astype(np.float64)
    seeds = call.hash.data.astype("<f4").reshape(-1, 1)
    keys = np.empty((len(items), 4 + rows.shape[1]), np.uint8)
    keys[:, 4:] = rows
    bits = np.empty(len(seeds), np.int64)
    for number, seed in enumerate(seeds):
        keys[:, :4] = seed.view(np.uint8)
        values = fingerprint64(keys).view(np.int64).astype(np.float64)
        # Summed in order, as Android does: the sign may hang on it.
        bits[number] = np.cumsum(weights * values)[-1] > 0
    functions, width = call.hash.shape
    return bits.reshape(functions, width)


def _reference(call: Call) -> np.ndarray:
    signs = _signs(call)
    if call.type == DENSE:
        return signs.reshape(-1).astype(np.int32)
    functions, bits = signs.shape
    signatures: np.ndarray = (signs << np.arange(bits)[::-1]).sum(axis=1)
    if call.type == SPARSE:
        signatures += np.arange(functions) << bits
    return signatures.astype(np.uint32).view(np.int32)


define(
    OperationCode.LSH_PROJECTION,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={F32: 1, F16: 3},
    signatures=Signature(
        tensor("hash", rank=2),
        tensor("input", one_of(F32, F16, I32, Q8)),
        optional_tensor("weight", rank=1),
        i32("type"),
    ),
    outputs=(tensor("output", one_of(I32)),),
    infer=_infer,
    reference=_reference,
)
