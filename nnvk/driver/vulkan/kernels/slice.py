"""SLICE, STRIDED_SLICE, REVERSE and SPLIT: parts of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnvk.driver.vulkan.lowering.arrange import ARRANGE, RANK, arrange, up_to_rank
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import dense_strides
from nnvk.ops.call import Call, Tensor
from nnvk.ops.rearrange import reversed_axis
from nnvk.ops.slice import slice_bounds, strided_axes
from nnvk.types.codes import OperationCode


def _sliced(call: Call) -> list[range]:
    return [range(begin, begin + size) for begin, size in slice_bounds(call)]


def _reversed(call: Call) -> list[range]:
    ranges = [range(size) for size in call.input.shape]
    axis = reversed_axis(call)
    ranges[axis] = ranges[axis][::-1]
    return ranges


_RANGES: dict[OperationCode, Callable[[Call], list[range]]] = {
    OperationCode.REVERSE: _reversed,
    OperationCode.SLICE: _sliced,
    OperationCode.STRIDED_SLICE: strided_axes,
}


@kernel(*_RANGES, shaders=(ARRANGE,), refuse=up_to_rank(RANK))
def lower(call: Call, g: Lowering) -> None:
    """One dispatch."""
    _take(g, call.input, call.output, _RANGES[call.code](call))


@kernel(OperationCode.SPLIT, shaders=(ARRANGE,), refuse=up_to_rank(RANK))
def lower_split(call: Call, g: Lowering) -> None:
    """A dispatch an output."""
    axis = call.axis % call.input.rank
    size = call.input.shape[axis] // call.num_splits
    for number, output in enumerate(call.outputs):
        ranges = [range(size) for size in call.input.shape]
        ranges[axis] = range(number * size, (number + 1) * size)
        _take(g, call.input, output, ranges)


def _take(g: Lowering, source: Tensor, target: Tensor, ranges: Sequence[range]) -> None:
    """The elements of ``source`` at these indexes along each axis."""
    strides = dense_strides(source.shape)
    box = [(len(taken), taken.step * stride) for taken, stride in zip(ranges, strides, strict=True)]
    first = sum(taken.start * stride for taken, stride in zip(ranges, strides, strict=True))
    arrange(g, moved(source), g.tensor(source), g.tensor(target), box, first)
