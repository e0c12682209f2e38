"""Concatenated operands of recurrent cells: the weights and vectors of all gates, and inputs."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, widened
from nnvk.driver.vulkan.lowering.copies.move import FILL, MOVE, fill, move
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Tensor
from nnvk.ops.lstm_cell import GATES
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType

GATES_SHADERS = (MOVE, FILL, CONVERT)
"""The shaders that this module may dispatch."""

Gates = Sequence[Tensor | None]
"""An operand for each gate of a cell, or None. An LSTM has four gates, an RNN one."""


def by_gate(tensors: Mapping[str, Tensor]) -> Gates:
    """The operands of an LSTM's gates, in order."""
    return [tensors.get(gate) for gate in GATES]


def floats(*shape: int) -> OperandType:
    """The float32 type with these dimensions."""
    return OperandType(OperandCode.TENSOR_FLOAT32, shape)


def matrix(g: Lowering, units: int, parts: Sequence[Gates]) -> Tensor:
    """Weights [units, width] of all gates as one matrix [units * gates, all widths], padded to vec4s of rows.

    ``parts`` are side by side: the weights of the input, and of an auxiliary input. Missing weights are 0.
    """
    gates = len(parts[0])
    widths = [next(gate.shape[1] for gate in part if gate is not None) for part in parts]
    firsts, width = list(itertools.accumulate(widths, initial=0)), sum(widths)
    rows = round_up(units * gates, 4)
    spots = [
        _Spot(tensor, gate * width + first, gates * width, 1)
        for part, first in zip(parts, firsts, strict=False)
        for gate, tensor in enumerate(part)
        if tensor is not None
    ]
    whole = rows == units * gates and len(spots) == gates * len(parts)
    return _together(g, "weights", _type_of(parts[0], rows, width), spots, whole=whole)


def columns(g: Lowering, weights: Tensor, first: int, past: int) -> Tensor:
    """A range of columns of a constant matrix, as a separate matrix."""

    def make() -> Tensor:
        type_ = weights.type.with_dimensions((weights.shape[0], past - first))
        taken = g.intermediate("columns", type_, weights.data[:, first:past])
        g.users[taken.index] = g.users_of(weights)
        return taken

    return g.once(("columns", weights.index, first, past), make)


def vectors(g: Lowering, units: int, sections: Sequence[Gates], last: Tensor | None = None, tail: int = 0) -> Tensor:
    """Vectors [units] of all gates, one number of each gate beside the other, section after section, padded to vec4s.

    ``last`` comes behind them, in ``tail`` numbers. Missing vectors are 0.
    """
    gates = len(sections[0]) if sections else 1
    size = round_up(units * gates, 4)
    spots = [
        _Spot(tensor, number * size + gate, 0, gates)
        for number, section in enumerate(sections)
        for gate, tensor in enumerate(section)
        if tensor is not None
    ]
    if last is not None:
        spots.append(_Spot(last, len(sections) * size, 0, 1))
    total = max(4, len(sections) * size + round_up(tail, 4))
    type_ = _type_of((spot.tensor for spot in spots), total)
    return _together(g, "vectors", type_, spots, whole=sum(spot.tensor.size for spot in spots) == total)


def beside(g: Lowering, *tensors: Tensor) -> Tensor:
    """Concatenate sequences [time, batches, width] along the last axis."""
    time, batches, _ = tensors[0].shape
    widths = [tensor.shape[2] for tensor in tensors]
    firsts, width = itertools.accumulate(widths, initial=0), sum(widths)
    spots = [_Spot(tensor, first, width, 1) for tensor, first in zip(tensors, firsts, strict=False)]
    return _together(g, "inputs", floats(time, batches, width), spots, whole=True)


# --- one tensor of several ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spot:
    """The place of a tensor in a concatenated one: a box of rows and columns, in elements."""

    tensor: Tensor
    first: int
    row_stride: int
    stride: int


def _together(g: Lowering, name: str, type_: OperandType, spots: Sequence[_Spot], *, whole: bool) -> Tensor:
    """Concatenate tensors, at planning and only once if they are constant. If they are not the ``whole``, the rest is
    0.
    """
    if all(spot.tensor.is_constant for spot in spots):
        form = (name, type_, tuple((spot.tensor.index, spot.first, spot.row_stride, spot.stride) for spot in spots))
        made = g.once(form, lambda: g.intermediate(name, type_, _put_together(type_, spots)))
        g.users[made.index] = min((g.users_of(spot.tensor) for spot in spots), default=sys.maxsize)
        return made
    target = g.intermediate(name, type_)
    if not whole:
        fill(g, g.tensor(target), np.zeros(1, type_.dtype))
    for spot in spots:
        if spot.tensor.size:
            rows, columns = _box(spot.tensor)
            source, strides = g.tensor(widened(g, spot.tensor)), [spot.row_stride, spot.stride]
            move(g, moved(target), source, g.tensor(target), [rows, columns], [columns, 1], strides, 0, spot.first)
    return target


def _put_together(type_: OperandType, spots: Sequence[_Spot]) -> np.ndarray:
    """Concatenate constants."""
    data = np.zeros(type_.dimensions, type_.dtype)
    flat, size = data.reshape(-1), data.itemsize
    for spot in spots:
        strides = (spot.row_stride * size, spot.stride * size)
        view = np.lib.stride_tricks.as_strided(flat[spot.first :], _box(spot.tensor), strides)
        view[...] = spot.tensor.data.reshape(view.shape)
    return data


def _box(tensor: Tensor) -> tuple[int, int]:
    """The rows and columns of a tensor of any rank."""
    return math.prod(tensor.shape[:-1]), tensor.shape[-1]


def _type_of(tensors: Iterable[Tensor | None], *shape: int) -> OperandType:
    """The type of a concatenation of tensors of one type. Floats become float32."""
    first = next((tensor for tensor in tensors if tensor is not None), None)
    return floats(*shape) if first is None or first.dtype.kind == "f" else first.type.with_dimensions(shape)
