"""Dense tensors from strided places: the one command of operations that put a tensor's elements into another order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import MOVED, moved
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef, integer
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.strided import Box, Dimension, fold

ARRANGE = Shader("arrange", DTYPE=MOVED)
LOCAL = 64
RANK = 8
"""The most dimensions of a box, folded."""


def arrange(g: Lowering, dtype: str, source: TensorRef, target: TensorRef, box: Box) -> None:
    """Fill ``target``, dense, with a box of ``source`` (``dtype``: see `moved`).

    If the source was noted to be a box itself, the elements are taken from where they were before.
    """
    before = g.arranged_from(source)
    together = None if before is None else box.through(before[1])
    if before is not None and together is not None and len(fold(together.dimensions)) <= RANK:
        source, box = before[0], together
    made = arranged(g, dtype, source, target, box, g.operation)
    if made is not None:
        g.add(made)
        if box.is_run:
            g.note_taken(target, source, box.first)


def dense(g: Lowering, tensor: Tensor) -> TensorRef:
    """The memory of a tensor; of a view a copy, which all kernels that ask for the same elements share."""
    view = tensor.view
    if view is None:
        return g.tensor(tensor)

    def copy() -> TensorRef:
        target = g.scratch(tensor.size * tensor.dtype.itemsize)
        arrange(g, moved(tensor), g.tensor(view.source), target, view.box)
        return target

    return g.once(("dense", tensor.index, view.box), copy)


def arranged(
    g: Lowering, dtype: str, source: TensorRef, target: TensorRef, box: Box, operation: int
) -> Dispatch | None:
    """The dispatch that `arrange` adds, for ``operation``; None where there is nothing to do."""
    folded, first = fold(box.dimensions), box.first
    if len(folded) > RANK:
        raise ValueError(f"a box of {len(folded)} dimensions, at most {RANK} can be moved: {folded}")
    full = [(1, 0)] * (RANK - len(folded)) + folded
    elements = math.prod(size for size, _ in folded)
    inner_size, inner_stride = full[-1]
    rows = inner_size % 4 == 0
    aligned = first % 4 == 0 and all(stride % 4 == 0 for _, stride in full[:-1])
    count = -(-elements // 4)
    push = {f"size_{axis}": size for axis, (size, _) in enumerate(full) if axis}
    push |= {f"magic_{axis}": magic(size) for axis, (size, _) in enumerate(full) if axis}
    push |= {f"stride_{axis}": stride & 0xFFFFFFFF for axis, (_, stride) in enumerate(full)}
    return g.made(
        ARRANGE.variant(DTYPE=dtype),
        groups=g.flat(count, LOCAL),
        spec={
            "local_x": LOCAL,
            "RANK": len(folded),
            "ROWS": rows,
            "DENSE": rows and inner_stride == 1 and aligned,
        },
        tensors={"src": source, "dst": target},
        push={"count": count, "elements": elements, "first": first, **push},
        operation=operation,
    )


def box_of(dispatch: Dispatch) -> Box:
    """The box that a dispatch of `arranged` takes from its source."""
    push, rank = dispatch.push, dispatch.shader.constant(dispatch.specialization, "RANK")
    sizes = [integer(push, f"size_{axis}") for axis in range(1, RANK)]
    sizes = [integer(push, "elements") // max(1, math.prod(sizes)), *sizes]
    strides = [_signed(integer(push, f"stride_{axis}")) for axis in range(RANK)]
    return Box(tuple(zip(sizes[RANK - rank :], strides[RANK - rank :], strict=True)), integer(push, "first"))


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def folded_dimensions(name: str, rows: Sequence[Dimension]) -> dict[str, int]:
    """Sizes and strides of up to four dimensions as push constants of mean.comp; the outermost size is not needed."""
    full = [(1, 0)] * (4 - len(rows)) + list(rows)
    sizes = {f"{name}_size_{axis}": size for axis, (size, _) in enumerate(full) if axis}
    return sizes | {f"{name}_stride_{axis}": stride for axis, (_, stride) in enumerate(full)}


def up_to_rank(most: int, *names: str) -> Callable[[Call], str | None]:
    """Refuses tensors of a higher rank: those of these names, by default ``input``."""

    def refuse(call: Call) -> str | None:
        for name in names or ("input",):
            rank = getattr(call, name).rank
            if rank > most:
                return f"{name} has rank {rank}, the shader takes {most} at most"
        return None

    return refuse
