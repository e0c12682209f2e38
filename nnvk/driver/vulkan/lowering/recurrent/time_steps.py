"""Time steps of unrolled layers: operations that multiply different rows of one tensor by the same weights.

Some converters unroll a recurrent layer into one cell for each time step, which reads its inputs from the sequence. The
first cell then multiplies the inputs of all time steps, because a GEMM of many rows is hardly slower than one of one
row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.ops.call import Tensor

T = TypeVar("T")

_LARGEST = 1 << 20
"""The most elements of the result for all time steps, which stays in memory until the last cell has read it."""


@dataclass(frozen=True, slots=True)
class TimeSteps:
    """The tensor that has the inputs of all time steps of a layer."""

    inputs: Tensor
    """[rows, length]."""
    row: int
    """The first row of the current time step."""

    def once(self, g: Lowering, made_with: object, make: Callable[[Tensor], T]) -> T:
        """The result of ``make`` for the inputs of all time steps, made once for each ``made_with``.

        ``made_with``: everything else that the result depends on.
        """

        def make_and_count() -> T:
            g.applied[Pass.HORIZONTAL] += 1
            return make(self.inputs)

        return g.once(("time steps", g.tensor(self.inputs), made_with), make_and_count)


def time_steps_of(g: Lowering, source: Tensor, weights: Tensor, bias: Tensor | None = None) -> TimeSteps | None:
    """The time steps of the layer in which one cell multiplies ``source`` by ``weights`` [columns, length].

    ``bias`` is added to the products. None if only this cell uses these weights, or if nobody reads most of the rows.
    """
    _, length = weights.shape
    taken = g.taken_from(source) if g.device.runs(Pass.HORIZONTAL) else None
    if taken is None:
        return None
    users = min(g.users_of(each) for each in (weights, bias) if each is not None)
    layer = layer_of(source, weights, taken.whole.nbytes // source.dtype.itemsize, taken.first, users)
    if layer is None:
        return None
    rows, row = layer
    inputs = g.intermediate("time steps", source.type.with_dimensions((rows, length)))
    g.alias(taken.whole, inputs)
    return TimeSteps(inputs, row)


def layer_of(source: Tensor, weights: Tensor, elements: int, first: int, users: int) -> tuple[int, int] | None:
    """The rows of the inputs of all time steps, and the first row of the time step that has ``source``.

    ``source`` has elements of a tensor of so many ``elements``, from ``first`` on; ``users`` operations multiply by
    ``weights`` [columns, length]. None if only this one does so, or if nobody reads most of the rows.
    """
    columns, length = weights.shape
    if not weights.size:
        return None
    (rows, left), own = divmod(elements, length), source.size // length
    pays = own < own * users and own < rows <= 2 * own * users
    return (rows, first // length) if pays and not left and not first % length and rows * columns <= _LARGEST else None
