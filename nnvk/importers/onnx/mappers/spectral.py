"""Fourier transforms: DFT and STFT."""

from __future__ import annotations

import math

import numpy as np

from nnvk.importers import charged
from nnvk.importers.decompositions.fourier import to_real, transform
from nnvk.importers.decompositions.moving import axis_of, elements_at
from nnvk.importers.emitter import F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode

Op = OperationCode


@operator("DFT")
def dft(c: Context) -> Tensor:
    """Map DFT along one axis. One-sided transforms give, or take, half of the symmetric spectrum."""
    source = c.tensor(0)
    inverse, onesided = bool(c.node.integer("inverse", 0)), bool(c.node.integer("onesided", 0))
    axis = c.node.integer("axis", 1) if c.node.version < 20 else int(c.scalar(2, "the axis")) if c.has(2) else -2
    axis = axis_of(axis, source.rank)
    if axis == source.rank - 1 or source.shape[-1] not in (1, 2):
        raise Unmapped(f"an input of shape {list(source.shape)} has no signal along axis {axis}")
    if onesided and source.shape[-1] != (2 if inverse else 1):
        raise Unmapped(f"one-sided, it takes {'complex' if inverse else 'real'} numbers, got {list(source.shape)}")
    size = source.shape[axis]
    length = 2 * (size - 1) if onesided and inverse else size
    if c.has(1):
        length = int(c.scalar(1, "the length"))
    if length < 1:
        raise Unmapped(f"the length must be 1 or more, got {length}")
    before, behind = source.shape[:axis], source.shape[axis + 1 : -1]
    shape = math.prod(before), size, math.prod(behind), source.shape[-1]
    value = c.reshape(c.real_number(0), shape)
    if onesided and inverse:
        result = to_real(c, value, length)
    else:
        result = transform(c, value, length, length // 2 + 1 if onesided else length, inverse=inverse)
    return c.give(result, (*before, result.shape[1], *behind, result.shape[3]), source.dtype)


@operator("STFT")
def stft(c: Context) -> Tensor:
    """Map STFT: transforms of windows at equal distances."""
    signal = c.tensor(0)
    if signal.rank != 3 or signal.shape[2] not in (1, 2):
        raise Unmapped(f"the signal must have shape [batches, length, 1 or 2], got {list(signal.shape)}")
    batches, size, parts = signal.shape
    step = int(c.scalar(1, "the step"))
    length = c.tensor(2).shape[0] if c.has(2) else size
    if c.has(3):
        length = int(c.scalar(3, "the length of a frame"))
    if step < 1 or not 1 <= length <= size:
        raise Unmapped(f"frames of {length} elements, {step} apart, do not fit a signal of {size}")
    firsts = charged.arange(0, size - length + 1, step)
    source = c.real_number(0)
    frames = elements_at(c, source, 1, charged.outer(np.add, firsts, charged.arange(length)).reshape(-1))
    frames = c.reshape(frames, (batches * len(firsts), length, 1, parts))
    if c.has(2):
        if c.tensor(2).shape != (length,):
            raise Unmapped(f"the window must have shape [{length}], got {list(c.tensor(2).shape)}")
        window = c.reshape(c.real_number(2), (1, length, 1, 1))
        frames = c.emit(Op.MUL, frames, window, NONE, out=F32)
    onesided = c.node.integer("onesided", 1) and parts == 1
    spectra = transform(c, frames, length, length // 2 + 1 if onesided else length)
    return c.give(spectra, (batches, len(firsts), spectra.shape[1], 2), signal.dtype)
