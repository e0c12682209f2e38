"""Strided copies: the commands that operations on layout and position come down to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnvk.driver.vulkan.lowering.copies.copied import LOCAL, Copied
from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import MOVED
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.strided import Box

MOVE = Shader("move", DTYPE=MOVED)
FILL = Shader("fill")
RANK = 5


@dataclass(frozen=True, slots=True, eq=False)
class Moved(Copied):
    """A copy from one strided place to another."""

    shader: ClassVar[Shader] = MOVE
    rank: ClassVar[int] = RANK
    strided: ClassVar[tuple[str, ...]] = "src", "dst"

    def constants(self) -> tuple[int, dict[str, int | bool], dict[str, int]]:
        """See `Copied`."""
        boxes = {"src": self.source, "dst": self.target}
        missing = [(1, 0)] * (RANK - len(self.source.dimensions))
        full = {name: [*missing, *box.dimensions] for name, box in boxes.items()}
        sizes = [size for size, _ in full["src"]]
        dense = sizes[-1] % 4 == 0 and all(
            outer[-1][1] == 1 and all(stride % 4 == 0 for size, stride in outer[:-1] if size > 1)
            for outer in full.values()
        )
        dense = dense and all(box.first % 4 == 0 for box in boxes.values())
        runs = -(-sizes[-1] // 4)
        push = {"runs": runs, "magic_runs": magic(runs)}
        push |= {f"size_{axis}": sizes[axis] for axis in range(1, RANK)}
        push |= {f"magic_{axis}": magic(sizes[axis]) for axis in range(1, RANK - 1)}
        for name, box in boxes.items():
            push[f"{name}_first"] = box.first
            push |= {f"{name}_stride_{axis}": stride for axis, (_, stride) in enumerate(full[name])}
        return runs * math.prod(sizes[:-1]), {"DENSE": dense and self.is_aligned}, push


def move(
    g: Lowering,
    dtype: str,
    source: TensorRef,
    target: TensorRef,
    sizes: Sequence[int],
    source_strides: Sequence[int],
    target_strides: Sequence[int],
    source_first: int = 0,
    target_first: int = 0,
) -> None:
    """Copy a box of ``sizes`` elements (``dtype``: see `moved`) from one strided place to another.

    Strides and first elements are in elements. The rest of ``target`` stays as it is.
    """
    read, written = (
        Box(tuple(zip(sizes, strides, strict=True)), first)
        for strides, first in ((source_strides, source_first), (target_strides, target_first))
    )
    Moved.of(g, dtype, read, written).add(source, target)


def fill(g: Lowering, target: TensorRef, element: np.ndarray) -> None:
    """Set every element of a tensor to the one that an array holds."""
    repeated = np.resize(element, 4 // element.itemsize)
    count = -(-target.nbytes // 16)
    g.dispatch(
        FILL.variant(),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"dst": target},
        count=count,
        word=int(repeated.view(np.uint32)[0]),
    )
