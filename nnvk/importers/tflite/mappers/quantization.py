"""QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from nnvk.importers.decompositions.arithmetic import with_number
from nnvk.importers.emitter import F32, I32, NONE
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite import tables
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin
from nnvk.types.codes import OperationCode


@builtin("QUANTIZE")
def quantize(c: Context) -> Value:
    """Map QUANTIZE, from real numbers or from another quantisation. INT32 goes by real numbers, within a level."""
    source, out = c.input(), c.out()
    if source.code is I32.code and out.scale and source.type.scale:
        levels = c.emit(OperationCode.CAST, source, out=F32)
        distance = with_number(c, OperationCode.SUB, levels, float(source.type.zero_point), NONE)
        return c.quantized(with_number(c, OperationCode.MUL, distance, float(source.type.scale), NONE), out)
    return tables.requantized(c, source, out) if tables.are_quantised(source.type, out) else c.quantized(source, out)


@builtin("DEQUANTIZE")
def dequantize(c: Context) -> Value:
    """Map DEQUANTIZE. Constants, such as weights in FLOAT16 or 8 bits, are converted at import."""
    return c.widened(c.input())


@builtin("DENSIFY")
def densify(c: Context) -> Value:
    """Map DENSIFY. Sparse constants become dense when they are read."""
    return c.input()
