"""``.tflite`` files for the fuzzer that describe much in few bytes: shared constants, large numbers, nests of IF."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import files
import numpy as np
from tflite_net import Net, T, write

from nnvk.api import Device

_NUMBERS = (0, 1, 2, 3, -1, 5, 64, 1000, 65536, 10**6, 10**8, 10**9, 2**31 - 1, -(2**31))
_TYPES = ("FLOAT32", "FLOAT16", "INT32", "INT64", "UINT8", "INT8", "BOOL")
_MOST_LEVELS = 40


def execute(data: bytes, device: Device) -> str:
    """Import and compute the file of a seed. Says how far that got; raises what is a bug."""
    rng = np.random.default_rng(list(data))
    return files.execute(KINDS[int(rng.integers(len(KINDS)))](rng), device)


def _constant(rng: np.random.Generator, elements: int) -> T:
    type_ = str(rng.choice(_TYPES))
    scale = 0.5 if type_ in ("UINT8", "INT8") and rng.random() < 0.8 else None
    shape = [(elements,), (1, elements), (elements, 1)][int(rng.integers(3))]
    return T(type_, data=rng.integers(0, 2, shape), scale=scale)


def _numbers(rng: np.random.Generator, count: int) -> T:
    return T("INT32", data=rng.choice(_NUMBERS, count))


def _shared(rng: np.random.Generator) -> bytes:
    """Operators that each have a tensor of their own on one buffer, or one tensor many times."""
    constant = _constant(rng, int(rng.choice((1, 3, 1000, 100_000))))
    tensors = [constant]
    for _ in range(int(rng.choice((2, 20, 1000)))):
        apart = rng.random() < 0.7
        tensors.append(replace(constant, data=None, buffer_of=constant) if apart else constant)
    name = str(rng.choice(("ADD", "DEQUANTIZE", "NEG", "FULLY_CONNECTED", "LOGICAL_NOT", "CAST", "MUL", "RESHAPE")))
    source = T(str(rng.choice(_TYPES)), (1, 1) if rng.random() < 0.5 else (1, constant.data.size), scale=constant.scale)
    net = Net([source], [])
    if rng.random() < 0.3:
        net.outputs = [net.op(str(rng.choice(("CONCATENATION", "PACK", "ADD_N"))), tensors, T(constant.type))]
        return write(net)
    for tensor in tensors:
        inputs = [tensor] if name in ("DEQUANTIZE", "NEG", "LOGICAL_NOT", "CAST") else [source, tensor]
        net.outputs.append(net.op(name, inputs, T(str(rng.choice((constant.type, source.type, "FLOAT32"))))))
    return write(net)


def _large(rng: np.random.Generator) -> bytes:
    """Operators whose results have sizes that are constants."""
    net = Net([T("FLOAT32", (1, 2))], [])
    for _ in range(int(rng.integers(1, 4))):
        value = net.inputs[0] if rng.random() < 0.3 else _constant(rng, 1)
        rank = len(value.shape or ())
        shape = _numbers(rng, rank)
        pads = T("INT32", data=rng.choice(_NUMBERS[:8], (rank, 2)))
        one, zero = T(data=[1.0]), T(data=[0.0])
        name, inputs = (
            ("ONE_HOT", [T("INT32", data=[0, 1]), _numbers(rng, 1), one, zero]),
            ("RANGE", [_numbers(rng, 1), _numbers(rng, 1), _numbers(rng, 1)]),
            ("FILL", [shape, one]),
            ("TILE", [value, shape]),
            ("BROADCAST_TO", [value, shape]),
            ("PAD", [value, pads]),
            ("RESHAPE", [value, shape]),
            ("ZEROS_LIKE", [T("FLOAT32", tuple(rng.choice((1, 2, 1000, 4096), 3).tolist()))]),
            ("SELECT_V2", [T("BOOL", (int(rng.choice((1, 4096, 65536))), 1)), T(data=np.ones((1, 4096))), zero]),
            ("RESIZE_BILINEAR", [T("FLOAT32", (1, 2, 2, 1)), _numbers(rng, 2)]),
        )[int(rng.integers(10))]
        net.inputs += [tensor for tensor in inputs if tensor.is_free and tensor not in net.inputs]
        table = {"ONE_HOT": "OneHotOptions", "RESIZE_BILINEAR": "ResizeBilinearOptions"}.get(name)
        type_ = {"RANGE": "INT32", "ONE_HOT": "FLOAT32", "FILL": "FLOAT32", "SELECT_V2": "FLOAT32"}.get(name)
        result = T(type_ or inputs[0].type, scale=inputs[0].scale)
        net.outputs.append(net.op(name, inputs, result, table))
    return write(net)


def _nest(rng: np.random.Generator) -> bytes:
    """IF in IF in IF, several at each level, whose branches are the same model or two."""
    levels, width = int(rng.integers(1, _MOST_LEVELS)), int(rng.choice((1, 1, 2, 5)))
    shape = (int(rng.integers(1, 4)),)
    nets = []
    for level in range(levels):
        source = [T("BOOL", (1,)), T("FLOAT32", shape)]
        net, value = Net(source, []), source[1]
        for _ in range(width):
            last = 1 if rng.random() < 0.003 else levels
            branches = [min(level + int(rng.integers(1, 3)), last) for _ in range(2)]
            options = dict(zip(("ThenSubgraphIndex", "ElseSubgraphIndex"), branches, strict=True))
            value = net.op("IF", [source[0], source[0], value], T("FLOAT32", shape), "IfOptions", **options)
        net.outputs = [value]
        nets.append(net)
    leaf = Net([T("BOOL", (1,)), T("FLOAT32", shape)], [])
    leaf.outputs = [leaf.op("NEG", leaf.inputs[1:], T("FLOAT32", shape))]
    return write(*nets, leaf)


KINDS: list[Callable[[np.random.Generator], bytes]] = [_shared, _large, _nest]
