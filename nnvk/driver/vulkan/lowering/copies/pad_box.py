"""A box with elements around it: the common command of PAD and MIRROR_PAD."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import MOVED
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.types.operand import Shape

PAD = Shader("pad", DTYPE=MOVED)
LOCAL = 64
RANK = 6
CONSTANT, REFLECT, SYMMETRIC = range(3)
"""The elements around the box: one value, or its own elements, mirrored with or without the outermost ones."""

Pair = tuple[int, int]
"""The elements before and after an axis."""


def pad_box(
    g: Lowering,
    dtype: str,
    source: TensorRef,
    target: TensorRef,
    shape: Shape,
    pairs: Sequence[Pair],
    mode: int,
    element: np.ndarray | None = None,
) -> None:
    """Fill ``target``, dense, with ``source`` of a shape and what is around it (``dtype``: see `moved`).

    ``element`` holds the value of a CONSTANT surrounding. Neighbours without a pair are one dimension; there may be at
    most `RANK`.
    """
    boxes = _folded(shape, pairs)
    rank = len(boxes)
    sizes = [1] * (RANK - rank) + [size for size, _ in boxes]
    around = [(0, 0)] * (RANK - rank) + [pair for _, pair in boxes]
    wider = [before + size + after for size, (before, after) in zip(sizes, around, strict=True)]
    elements = math.prod(wider)
    count = -(-elements // 4)
    before, after = around[-1]
    vec4s = sizes[-1] % 4 == before % 4 == after % 4 == 0
    word = 0 if element is None else int.from_bytes(element.tobytes(), "little")
    g.dispatch(
        PAD.variant(DTYPE=dtype),
        groups=g.flat(count, LOCAL),
        spec={
            "local_x": LOCAL,
            "RANK": rank,
            "ROWS": vec4s and (mode == CONSTANT or before == after == 0),
            "MODE": mode,
        },
        tensors={"src": source, "dst": target},
        count=count,
        elements=elements,
        value=word,
        **{f"out_{axis}": size for axis, size in enumerate(wider) if axis},
        **{f"in_{axis}": size for axis, size in enumerate(sizes)},
        **{f"before_{axis}": pair[0] for axis, pair in enumerate(around)},
        **{f"magic_{axis}": magic(size) for axis, size in enumerate(wider) if axis},
    )


def _folded(shape: Shape, pairs: Sequence[Pair]) -> list[tuple[int, Pair]]:
    """The same box with fewer dimensions: merge adjacent dimensions without padding, drop those of size 1."""
    folded: list[tuple[int, Pair]] = []
    for size, pair in zip(shape, pairs, strict=True):
        if folded and not any(pair) and not any(folded[-1][1]):
            folded[-1] = (folded[-1][0] * size, (0, 0))
        elif size != 1 or any(pair):
            folded.append((size, pair))
    return folded or [(1, (0, 0))]
