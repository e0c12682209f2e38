"""QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite import tables
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin


@builtin("QUANTIZE")
def quantize(c: Context) -> Value:
    """From real numbers, or from one quantisation to another."""
    source, out = c.input(), c.out()
    return tables.requantized(c, source, out) if tables.are_quantised(source.type, out) else c.quantized(source, out)


@builtin("DEQUANTIZE")
def dequantize(c: Context) -> Value:
    """Also what keeps weights in FLOAT16 or 8 bits: constants are converted now."""
    return c.widened(c.input())


@builtin("DENSIFY")
def densify(c: Context) -> Value:
    """A sparse constant is dense as soon as it is read."""
    return c.input()
