"""Copies by a dispatch, as boxes of elements that passes on commands ask for, and lay into larger tensors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from nnvk.driver.vulkan.lowering.dtypes import SIZES
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import Access, Command, Dispatch, StridedView, TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.strided import Box, dense_strides

LOCAL = 64


@dataclass(frozen=True, slots=True, eq=False)
class Copied(Access):
    """The elements that a dispatch copies from ``src`` to ``dst``."""

    shader: ClassVar[Shader]
    rank: ClassVar[int]
    """The most dimensions of a copy, folded."""
    strided: ClassVar[tuple[str, ...]]
    """The tensors that can be strided views."""

    g: Lowering
    dtype: str
    """See `moved`."""
    source: Box
    """The elements in ``src``."""
    target: Box
    """Their places in ``dst``. Both boxes have the same sizes, and as few dimensions as possible."""
    is_aligned: bool = True
    """Whether both tensors begin at multiples of four elements."""

    @classmethod
    def of(cls, g: Lowering, dtype: str, source: Box, target: Box, *, is_aligned: bool = True) -> Copied:
        """A copy between boxes of the same sizes, whose dimensions are folded."""
        sizes = [size for size, _ in source.dimensions]
        sizes, *strides = folded(sizes, *([stride for _, stride in box.dimensions] for box in (source, target)))
        read, written = (tuple(zip(sizes, each, strict=True)) for each in strides)
        return cls(g, dtype, Box(read, source.first), Box(written, target.first), is_aligned)

    @abstractmethod
    def constants(self) -> tuple[int, dict[str, int | bool], dict[str, int]]:
        """The number of invocations, the specialisation constants, and the push constants."""

    def dispatch(self, source: TensorRef, target: TensorRef, operation: int) -> Dispatch | None:
        """The dispatch for an operation; None where there is nothing to do. ValueError: it has too many dimensions."""
        if len(self.source.dimensions) > self.rank:
            raise ValueError(f"a copy of more than {self.rank} dimensions: {self.source} to {self.target}")
        count, spec, push = self.constants()
        made = self.g.made(
            self.shader.variant(DTYPE=self.dtype),
            groups=self.g.flat(count, LOCAL),
            spec={"local_x": LOCAL, **spec},
            tensors={"src": source, "dst": target},
            push={"count": count, **push},
            operation=operation,
        )
        return made and replace(made, access=self)

    def add(self, source: TensorRef, target: TensorRef) -> bool:
        """Add the dispatch for the operation that is being lowered; whether there is something to do."""
        made = self.dispatch(source, target, self.g.operation)
        if made is not None:
            self.g.add(made)
        return made is not None

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return SIZES[self.dtype]

    @property
    def run(self) -> tuple[int, int, int] | None:
        """The first byte in the source, that in the target, and the number of bytes; None if bytes between stay."""
        if not (self.source.is_run and self.target.is_run):
            return None
        size = self.itemsize
        return self.source.first * size, self.target.first * size, self.source.elements * size

    @property
    def columns(self) -> tuple[StridedView, StridedView, int] | None:
        """The columns of the source, those of the target, and the number of rows; None for another copy."""
        boxes, size = (self.source, self.target), self.itemsize
        if any(len(box.dimensions) != 2 or box.dimensions[1][1] != 1 for box in boxes):
            return None
        (rows, _), (width, _) = self.source.dimensions
        taken, given = (StridedView(box.first * size, width * size, box.dimensions[0][1] * size) for box in boxes)
        return (taken, given, rows) if taken.are_inside and given.are_inside else None

    @property
    def written(self) -> tuple[int, int]:
        """The first element that is written in the target, and the one behind the last one."""
        first = self.target.first
        return first, first + sum((size - 1) * stride for size, stride in self.target.dimensions) + 1

    def on_views(self, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
        """See `Access`."""
        boxes, is_aligned = {"src": self.source, "dst": self.target}, self.is_aligned
        for name, view in views.items():
            taken = view.elements(self.itemsize)
            if taken is None or name not in self.strided:
                return None
            other = "dst" if name == "src" else "src"
            rows = dispatch.tensors[name].nbytes // view.width
            outer = Box(((rows, taken.pitch), (taken.width, 1)))
            within = boxes[name].within(outer)
            if within is None:
                return None
            sizes, *strides = in_pieces(within, [stride for _, stride in boxes[other].dimensions])
            own, others = (tuple(zip(sizes, each, strict=True)) for each in strides)
            boxes |= {name: Box(own, boxes[name].first_within(outer)), other: Box(others, boxes[other].first)}
            is_aligned = is_aligned and taken.first % 4 == 0
        copied = self.of(self.g, self.dtype, boxes["src"], boxes["dst"], is_aligned=is_aligned)
        if len(copied.source.dimensions) > self.rank:
            return None
        return copied.dispatch(dispatch.tensors["src"], dispatch.tensors["dst"], dispatch.operation)


def copied_by(command: Command | None) -> Copied | None:
    """The elements that a command copies, if it is a dispatch that does nothing else."""
    access = command.access if isinstance(command, Dispatch) else None
    return access if isinstance(access, Copied) else None


def in_pieces(
    pieces: Sequence[Sequence[tuple[int, int]]], strides: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """A box whose dimensions fall into pieces on one side: sizes, strides there, and on the other one."""
    rows: list[tuple[int, int, int]] = []
    for some, outer in zip(pieces, strides, strict=True):
        inner = dense_strides([size for size, _ in some])
        rows += [(size, stride, outer * own) for (size, stride), own in zip(some, inner, strict=True)]
    return [size for size, _, _ in rows], [stride for _, stride, _ in rows], [outer for _, _, outer in rows]


def folded(
    sizes: Sequence[int], source: Sequence[int], target: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """The same box with fewer dimensions: those of size 1 go, neighbours that are dense on both sides become one."""
    kept = [row for row in zip(sizes, source, target, strict=True) if row[0] != 1]
    rows: list[tuple[int, int, int]] = []
    for size, from_, to in kept:
        if rows and rows[-1][1] == size * from_ and rows[-1][2] == size * to:
            rows[-1] = (rows[-1][0] * size, from_, to)
        else:
            rows.append((size, from_, to))
    rows = rows or [(1, 1, 1)]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
