"""Dense tensors from strided places: the one command of operations that put a tensor's elements into another order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import MOVED
from nnvk.driver.vulkan.lowering.kernel import Refuse
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call

ARRANGE = Shader("arrange", DTYPE=MOVED)
LOCAL = 64
RANK = 8

Dimension = tuple[int, int]
"""Size of the box along a dimension, and the stride in the source, in elements; it may be negative or 0."""


def arrange(
    g: Lowering, dtype: str, source: TensorRef, target: TensorRef, box: Sequence[Dimension], first: int = 0
) -> None:
    """Fill ``target``, dense, with a box of ``source`` that begins at element ``first`` (``dtype``: see `moved`)."""
    folded = fold(box)
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
    g.dispatch(
        ARRANGE.variant(DTYPE=dtype),
        groups=g.flat(count, LOCAL),
        spec={
            "local_x": LOCAL,
            "RANK": len(folded),
            "ROWS": rows,
            "DENSE": rows and inner_stride == 1 and aligned,
        },
        tensors={"src": source, "dst": target},
        count=count,
        elements=elements,
        first=first,
        **push,
    )


def fold(box: Sequence[Dimension]) -> list[Dimension]:
    """The same box with fewer dimensions: those of size 1 go, neighbours with one stride for both become one."""
    folded: list[Dimension] = []
    for size, stride in box:
        if size == 1:
            continue
        if folded and folded[-1][1] == size * stride:
            folded[-1] = (folded[-1][0] * size, stride)
        else:
            folded.append((size, stride))
    return folded or [(1, 0)]


def up_to_rank(most: int, *names: str) -> Refuse:
    """Refuses tensors of a higher rank: those of these names, by default ``input``."""

    def refuse(call: Call) -> str:
        for name in names or ("input",):
            rank = getattr(call, name).rank
            if rank > most:
                return f"{name} has rank {rank}, the shader takes {most} at most"
        return ""

    return refuse
