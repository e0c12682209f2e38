"""REDUCE_ALL, REDUCE_ANY, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD and REDUCE_SUM over any axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.kernels.unary import LOOKUP, look_up
from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, as_float32, finish_float32, float32_result
from nnvk.driver.vulkan.lowering.copies.move import FILL, fill
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, dtype, of
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_push
from nnvk.driver.vulkan.lowering.reductions.folds import shared_out
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.reduce import reduced_axes
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import Shape

# Kind of the shader, and what nothing reduces to; truth values are bytes of which the least or largest is taken.
_KINDS = {
    OperationCode.REDUCE_ALL: ("min", 1),
    OperationCode.REDUCE_ANY: ("max", 0),
    OperationCode.REDUCE_MAX: ("max", 0),
    OperationCode.REDUCE_MIN: ("min", 0),
    OperationCode.REDUCE_PROD: ("prod", 1.0),
    OperationCode.REDUCE_SUM: ("sum", 0.0),
}
REDUCE = Shader(
    "reduce",
    where=lambda choice: choice["DTYPE"] == "f32" or choice["KIND"] in ("max", "min"),
    KIND=("max", "min", "prod", "sum"),
    DTYPE=("f32", "f16", "bool", "q8"),
)
PART = 64
"""Elements that an invocation folds to one; more are folded in several passes."""
SHARED_PART = 1 << 12
"""The same for the invocations of a GPU that share them."""


@dataclass(frozen=True, slots=True)
class ReductionPass:
    """A dimension of ``size`` becomes one of ``parts``, between ``outer`` and ``inner`` elements that stay.

    ``part`` elements at most go into one.
    """

    outer: int
    size: int
    inner: int
    part: int

    @property
    def parts(self) -> int:
        """Size of the dimension afterwards."""
        return -(-self.size // self.part)

    @property
    def elements(self) -> int:
        """Elements of the result."""
        return self.outer * self.parts * self.inner


def passes(shape: Shape, axes: Sequence[int], part: int) -> Iterator[ReductionPass]:
    """How a tensor is reduced: axes from the last, neighbours together, and ``part`` elements to one."""
    sizes = list(shape)
    remaining = sorted(axes)
    while remaining:
        last = first = remaining.pop()
        while remaining and remaining[-1] == first - 1:
            first = remaining.pop()
        outer, size = math.prod(sizes[:first]), math.prod(sizes[first : last + 1])
        inner = math.prod(sizes[last + 1 :])
        while size > 1:
            one = ReductionPass(outer, size, inner, part)
            yield one
            size = one.parts
        sizes[first : last + 1] = [1] * (last + 1 - first)


@kernel(*_KINDS, shaders=(REDUCE, FILL, LOOKUP, CONVERT))
def lower(call: Call, g: Lowering) -> None:
    """Lower to passes: an invocation, or several together, compute four elements of a pass's result."""
    kind, nothing = _KINDS[call.code]
    if not call.input.size:
        fill(g, g.tensor(call.output), np.array(nothing, call.output.dtype))
    elif of(call.input) is F16 and kind in ("sum", "prod"):
        target = float32_result(g, call.output)
        _reduce(call, g, kind, F32.name, as_float32(g, call.input), target)
        finish_float32(g, target, call.output)
    else:
        _reduce(call, g, kind, dtype(call.input), g.tensor(call.input), g.tensor(call.output))


def _reduce(call: Call, g: Lowering, kind: str, dtype: str, source: TensorRef, target: TensorRef) -> None:
    # Products of neighbours overflow less than those of elements that are far from each other.
    is_shared = kind != "prod" and not g.device.is_cpu and not g.reproducible
    part = SHARED_PART if is_shared else PART
    todo = list(passes(call.input.shape, reduced_axes(call), part))
    if not todo and call.input.code is OperandCode.TENSOR_BOOL8:
        look_up(g, source, np.minimum(np.arange(256), 1).astype(np.uint8), target, call.input.size)
    elif not todo:
        g.copy(source, target, source.nbytes)
    itemsize = source.nbytes // call.input.size
    for number, one in enumerate(todo):
        result = target if number == len(todo) - 1 else g.scratch(one.elements * itemsize)
        along = one.inner == 1 and is_shared
        count = one.elements if along else -(-one.elements // 4)
        most = min(one.size, part)
        folded = (most // 4 + 1 if along else most) if is_shared else 1
        groups, lanes = shared_out(g, count, folded, part)
        g.dispatch(
            REDUCE.variant(KIND=kind, DTYPE=dtype),
            groups=groups,
            spec={**lanes, "ROWS": one.inner % 4 == 0, "ALONG": along, "BLOCK": math.isqrt(part)},
            tensors={"src": source, "dst": result},
            count=count,
            elements=one.elements,
            size=one.size,
            parts=one.parts,
            part=part,
            inner=one.inner,
            **sign_push(call.input),
        )
        source = result
