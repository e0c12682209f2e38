"""QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite import tables
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin


@builtin("QUANTIZE")
def quantize(c: Context) -> Value:
    """Map QUANTIZE, from real numbers or from another quantisation."""
    source, out = c.input(), c.out()
    return tables.requantized(c, source, out) if tables.are_quantised(source.type, out) else c.quantized(source, out)


@builtin("DEQUANTIZE")
def dequantize(c: Context) -> Value:
    """Map DEQUANTIZE. Constants, such as weights in FLOAT16 or 8 bits, are converted at import."""
    return c.widened(c.input())


@builtin("DENSIFY")
def densify(c: Context) -> Value:
    """Map DENSIFY. Sparse constants become dense when they are read."""
    return c.input()
