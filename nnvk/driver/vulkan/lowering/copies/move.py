"""Strided copies: the commands that operations on layout and position come down to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import MOVED
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef, integer
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.strided import dense_strides

MOVE = Shader("move", DTYPE=MOVED)
FILL = Shader("fill")
LOCAL = 64
RANK = 5


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
    ways = (source_strides, target_strides)
    made = moving(g, dtype, source, target, sizes, *ways, source_first, target_first, g.operation)
    if made is not None:
        g.add(made)


def moving(
    g: Lowering,
    dtype: str,
    source: TensorRef,
    target: TensorRef,
    sizes: Sequence[int],
    source_strides: Sequence[int],
    target_strides: Sequence[int],
    source_first: int,
    target_first: int,
    operation: int,
) -> Dispatch | None:
    """The dispatch that `move` adds, for ``operation``; None where there is nothing to do."""
    sizes, source_strides, target_strides = folded(sizes, source_strides, target_strides)
    if len(sizes) > RANK:
        raise ValueError(f"a box of {len(sizes)} dimensions that don't fold to {RANK}: {sizes}")
    lead = RANK - len(sizes)
    full = [1] * lead + sizes
    strides = {"src": [0] * lead + source_strides, "dst": [0] * lead + target_strides}
    dense = (
        full[-1] % 4 == 0
        and all(
            way[-1] == 1 and all(stride % 4 == 0 for stride, size in zip(way[:-1], full[:-1], strict=True) if size > 1)
            for way in strides.values()
        )
        and source_first % 4 == target_first % 4 == 0
    )
    runs = -(-full[-1] // 4)
    count = runs * math.prod(full[:-1])
    push = {f"size_{axis}": full[axis] for axis in range(1, RANK)}
    push |= {f"magic_{axis}": magic(full[axis]) for axis in range(1, RANK - 1)}
    for name, way in strides.items():
        push |= {f"{name}_stride_{axis}": stride for axis, stride in enumerate(way)}
    return g.made(
        MOVE.variant(DTYPE=dtype),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "DENSE": dense},
        tensors={"src": source, "dst": target},
        push={
            "count": count,
            "runs": runs,
            "src_first": source_first,
            "dst_first": target_first,
            **push,
            "magic_runs": magic(runs),
        },
        operation=operation,
    )


def ways_of(dispatch: Dispatch) -> tuple[list[int], dict[str, list[int]], dict[str, int]]:
    """The sizes of the box of a dispatch of `moving`, and by tensor its strides and its first element."""
    push = dispatch.push
    sizes = [integer(push, f"size_{axis}") for axis in range(1, RANK)]
    sizes.insert(0, integer(push, "count") // (integer(push, "runs") * math.prod(sizes[:-1])))
    names = ("src", "dst")
    strides = {name: [integer(push, f"{name}_stride_{axis}") for axis in range(RANK)] for name in names}
    return sizes, strides, {name: integer(push, f"{name}_first") for name in names}


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
