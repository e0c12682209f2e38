"""Logic on the bits of integers, and random numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnvk.api import OperandCode, OperationCode
from nnvk.importers.decompositions.arithmetic import broadcast_shape
from nnvk.importers.decompositions.random import normal, uniform
from nnvk.importers.emitter import F32, I32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.extension.bits import Kind
from nnvk.types.extension import ExtendedOperationCode

_KINDS = {"BITWISE_XOR": Kind.XOR, "RIGHT_SHIFT": Kind.SHIFT_RIGHT}
_WORD = 0xFFFFFFFF


@builtin(*_KINDS)
def bits(c: Context) -> Value:
    """Map BITWISE_XOR and RIGHT_SHIFT of INT32."""
    first, second = c.input(0), c.input(1)
    if not first.code is second.code is OperandCode.TENSOR_INT32:
        raise Unmapped(f"its inputs must be INT32, got {first.type} and {second.type}")
    shape = broadcast_shape(first, second)
    both = c.broadcast(first, shape), c.broadcast(second, shape)
    return c.emit(ExtendedOperationCode.BITS, *both, int(_KINDS[c.operator.name]), out=I32)


@builtin("BITCAST")
def bitcast(c: Context) -> Value:
    """Map BITCAST between FLOAT32 and INT32."""
    source, out = c.input(), c.out().with_dimensions(())
    if {source.code, out.code} != {F32.code, I32.code}:
        raise Unmapped(f"bits are of FLOAT32 and INT32, got {source.type} and {out}")
    return c.emit(ExtendedOperationCode.BITCAST, source, out=out)


def _seeds(c: Context, options: Any) -> Value:
    seeds = [(number & _WORD ^ 1 << 31) - (1 << 31) for number in (options.Seed(), options.Seed2())]
    return c.constant(np.array(seeds), I32)


@builtin("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL")
def random_numbers(c: Context) -> Value:
    """Map RANDOM_UNIFORM and RANDOM_STANDARD_NORMAL. TFLite has another generator, so that its numbers differ."""
    shape, seeds = c.ints(0, "the shape"), _seeds(c, c.options("RandomOptions"))
    if not shape or min(shape) < 1:
        raise Unmapped(f"the shape (input 0) must have positive sizes, got {shape}")
    count = math.prod(shape)
    numbers = uniform(c, count, seeds)[0] if c.operator.name == "RANDOM_UNIFORM" else normal(c, count, seeds)
    return c.reshape(numbers, shape)


@builtin("MULTINOMIAL")
def multinomial(c: Context) -> Value:
    """Map MULTINOMIAL to RANDOM_MULTINOMIAL."""
    samples = c.integer(1, "the number of samples")
    return c.emit(
        OperationCode.RANDOM_MULTINOMIAL, c.real(c.input()), samples, _seeds(c, c.options("RandomOptions")), out=I32
    )
