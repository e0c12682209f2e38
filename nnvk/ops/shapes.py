"""Rules on ranks, axes and quantisation that operations on the shape of a tensor share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, Tensor
from nnvk.ops.quant import is_quantised
from nnvk.ops.signature import F16, F32, I32, Q8, Q8S
from nnvk.types.codes import OperandCode
from nnvk.types.operand import Shape

# Leading types of the operations that move elements, by the feature level that brought them.
MOVED: Mapping[OperandCode, int] = {F32: 1, F16: 3, Q8: 1, Q8S: 4}
MOVED_2: Mapping[OperandCode, int] = {F32: 2, F16: 3, Q8: 2, Q8S: 4}
MOVED_3: Mapping[OperandCode, int] = {F32: 3, F16: 3, Q8: 3, Q8S: 4}
MOVED_INT_3: Mapping[OperandCode, int] = {**MOVED_3, I32: 3}
MOVED_INT_7: Mapping[OperandCode, int] = dict.fromkeys((F32, F16, I32, Q8, Q8S), 7)


def check_shape(tensor: Tensor, shape: Shape) -> None:
    """Raise BAD_DATA unless a tensor has this shape."""
    if tensor.shape != shape:
        raise bad_data(f"{tensor.name} must have shape {list(shape)}, got {list(tensor.shape)}")


def check_size(tensor: Tensor, shape: Shape) -> None:
    """Raise BAD_DATA unless a tensor has as many elements as one of this shape, all that Android asks of some."""
    count = math.prod(shape)
    if tensor.size != count:
        raise bad_data(
            f"{tensor.name} must have {count} elements, as {list(shape)} has, got shape {list(tensor.shape)}"
        )


def axis_index(name: str, axis: int, rank: int) -> int:
    """An axis that may count from the end, as one from 0; BAD_DATA unless it is in [-rank, rank)."""
    if not -rank <= axis < rank:
        raise bad_data(f"{name} must be in [{-rank}, {rank}), got {axis}")
    return axis % rank


def vector(tensor: Tensor, length: int | None = None, *, any_rank: bool = False) -> list[int]:
    """The numbers of an integer tensor of rank 1; BAD_DATA unless it has that rank (and length).

    ``any_rank``: the tensor's shape does not matter, only how many elements it has, in row-major order.
    """
    if (tensor.rank != 1 and not any_rank) or length not in (None, tensor.size):
        expected = "rank 1" if length is None else f"shape [{length}]"
        raise bad_data(f"{tensor.name} must have {expected}, got shape {list(tensor.shape)}")
    numbers: list[int] = tensor.data.reshape(-1).tolist()
    return numbers


def at_least_1d(shape: Shape) -> Shape:
    """A shape, with [1] for the empty one: NNAPI has no tensor of rank 0."""
    return shape or (1,)


def check_same_quantisation(source: Tensor, result: Tensor) -> None:
    """Raise BAD_DATA where a quantised tensor does not have the scale and zero point of the one it comes from."""
    if is_quantised(source.code) and (source.scale, source.zero_point) != (result.scale, result.zero_point):
        raise bad_data(
            f"{result.name} must have the scale and zero point of {source.name}, {source.type}, got {result.type}"
        )


def check_same_rank(source: Tensor, result: Tensor, more: int = 0) -> None:
    """Raise BAD_DATA where a tensor's rank, as far as both are known, is not ``more`` than that of another one."""
    first, second = source.known_dimensions, result.known_dimensions
    if first is not None and second is not None and len(second) != len(first) + more:
        wanted = f"that of {source.name}" if not more else f"{more} more than {source.name}"
        raise bad_data(
            f"{result.name} must have rank {len(first) + more}, {wanted}, {list(first)}, got shape {list(second)}"
        )


def keeps_rank(call: Call) -> None:
    """The rule of operations whose output has the quantisation and the rank of their input, whatever else is known."""
    check_same_quantisation(call.input, call.output)
    check_same_rank(call.input, call.output)


def keeps_quantisation(name: str = "input") -> Callable[[Call], None]:
    """The rule of operations that move elements: every output of the type of ``name`` keeps its quantisation."""

    def check(call: Call) -> None:
        source = getattr(call, name)
        for result in call.outputs:
            if result.code == source.code:
                check_same_quantisation(source, result)

    return check
