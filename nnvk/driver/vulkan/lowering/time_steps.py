"""Steps of unrolled layers: operations that multiply rows of one tensor, each its own, by the same weights.

A cell that a converter has unrolled takes its inputs out of a sequence, step after step. What all steps make of them
is computed at once, by the first one's turn: a product of many rows is hardly slower than that of one.
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
"""Elements of what all steps make of their inputs: it stays in memory until the last one has taken its part."""


@dataclass(frozen=True, slots=True)
class TimeSteps:
    """The tensor that the steps of a layer take their inputs from, one after the other."""

    inputs: Tensor
    """[rows, length]."""
    row: int
    """The first row of the step that asks."""

    def once(self, g: Lowering, made_with: object, make: Callable[[Tensor], T]) -> T:
        """The result of ``make`` for all steps' inputs, made once; ``made_with`` is everything else that it takes."""

        def make_and_count() -> T:
            g.applied[Pass.HORIZONTAL] += 1
            return make(self.inputs)

        return g.once(("steps", g.tensor(self.inputs), made_with), make_and_count)


def time_steps_of(g: Lowering, source: Tensor, weights: Tensor, bias: Tensor | None = None) -> TimeSteps | None:
    """The steps of which one multiplies ``source`` by ``weights`` [columns, length] and adds ``bias``.

    None where it does so alone, or where most of what could be computed at once is asked for by nobody.
    """
    columns, length = weights.shape
    taken = g.taken_from(source) if g.device.runs(Pass.HORIZONTAL) else None
    if taken is None or not weights.size:
        return None
    rows, left = divmod(taken.whole.nbytes // source.dtype.itemsize, length)
    own = source.size // length
    wanted = own * min(g.users_of(each) for each in (weights, bias) if each is not None)
    pays = own < wanted and own < rows <= 2 * wanted
    if not pays or left or taken.first % length or rows * columns > _LARGEST:
        return None
    inputs = g.intermediate("steps", source.type.with_dimensions((rows, length)))
    g.alias(taken.whole, inputs)
    return TimeSteps(inputs, taken.first // length)
