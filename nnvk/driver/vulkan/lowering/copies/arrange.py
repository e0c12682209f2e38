"""Dense tensors from strided places: the one command of operations that put a tensor's elements into another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from nnvk.driver.vulkan.lowering.copies.copied import Copied
from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import MOVED, moved
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.strided import Box, Dimension, dense_dimensions, fold

ARRANGE = Shader("arrange", DTYPE=MOVED)
RANK = 8
"""The most dimensions of a box, folded."""


@dataclass(frozen=True, slots=True, eq=False)
class Arranged(Copied):
    """A copy to a dense tensor."""

    shader: ClassVar[Shader] = ARRANGE
    rank: ClassVar[int] = RANK
    strided: ClassVar[tuple[str, ...]] = ("src",)

    def constants(self) -> tuple[int, dict[str, int | bool], dict[str, int]]:
        """See `Copied`."""
        box = self.source.folded
        full = [(1, 0)] * (RANK - len(box.dimensions)) + list(box.dimensions)
        *outer, (inner_size, inner_stride) = full
        rows = inner_size % 4 == 0
        aligned = box.first % 4 == 0 and all(stride % 4 == 0 for _, stride in outer)
        dense = rows and inner_stride == 1 and aligned and self.is_aligned
        push = {f"size_{axis}": size for axis, (size, _) in enumerate(full) if axis}
        push |= {f"magic_{axis}": magic(size) for axis, (size, _) in enumerate(full) if axis}
        push |= {f"stride_{axis}": stride & 0xFFFFFFFF for axis, (_, stride) in enumerate(full)}
        push |= {"elements": box.elements, "first": box.first}
        return -(-box.elements // 4), {"RANK": len(box.dimensions), "ROWS": rows, "DENSE": dense}, push


def arrange(g: Lowering, dtype: str, source: TensorRef, target: TensorRef, box: Box) -> None:
    """Fill ``target``, dense, with a box of ``source`` (``dtype``: see `moved`).

    If the source was noted to be a box itself, the elements are taken from where they were before.
    """
    before = g.arranged_from(source)
    together = None if before is None else box.through(before[1])
    if before is not None and together is not None and len(fold(together.dimensions)) <= RANK:
        source, box = before[0], together
    written = Box(tuple(dense_dimensions([size for size, _ in box.dimensions])))
    if Arranged.of(g, dtype, box, written).add(source, target) and box.is_run:
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
