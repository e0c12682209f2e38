"""Two tensors that broadcast, as `shaders/include/broadcast.glsl` sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.move import dense_strides
from nnvk.ops.call import Tensor
from nnvk.types.operand import Shape


def broadcast_spec(output: Tensor, first: Tensor, second: Tensor) -> dict[str, bool]:
    """Specialisation constants: where the operands of four elements of the output are."""
    rows = output.shape[-1:] != () and output.shape[-1] % 4 == 0
    return {
        "CONTIGUOUS": first.size == second.size == output.size,
        "ROWS": rows,
        "LHS_SPREAD": _padded(first.shape)[-1] == 1,
        "RHS_SPREAD": _padded(second.shape)[-1] == 1,
    }


def broadcast_push(output: Tensor, first: Tensor, second: Tensor) -> dict[str, int]:
    """Push constants: sizes of the output but for the outermost, strides of ``first`` (lhs) and ``second`` (rhs)."""
    sizes = _padded(output.shape)
    push = {"elements": output.size} | {f"size_{axis}": sizes[axis] for axis in (1, 2, 3)}
    push |= {f"magic_{axis}": magic(sizes[axis]) for axis in (1, 2, 3)}
    for name, tensor in (("lhs", first), ("rhs", second)):
        push |= {f"{name}_stride_{axis}": stride for axis, stride in enumerate(broadcast_strides(tensor.shape))}
    return push


def broadcast_in_order(
    push: Mapping[str, int | float], order: Sequence[tuple[int, int]], every: Sequence[str]
) -> tuple[dict[str, int], dict[str, bool]] | None:
    """Push and specialisation constants for the same operation on its elements in another order; None where none are.

    ``order``: dimensions of the elements as they are now, and their strides in the new order. ``every``: operands that
    have each element, in the new order then. The others are read where they are, whose elements must come one after the
    other in the new order too.
    """
    sizes = [int(push[f"size_{axis}"]) for axis in (1, 2, 3)]
    sizes.insert(0, int(push["elements"]) // math.prod(sizes))
    strides = {side: [int(push[f"{side}_stride_{axis}"]) for axis in range(4)] for side in ("lhs", "rhs")}
    common = _common([size for size, _ in order], sizes)
    if common is None:
        return None
    rows: list[tuple[int, int, dict[str, int]]] = []  # size, stride in the new order, strides of the operands
    for size, outer, inner in common:
        (mine, step), (other, step_other) = outer, inner
        own = {side: strides[side][other] * step_other for side in strides if side not in every}
        rows.append((size, order[mine][1] * step, own))
    rows.sort(key=lambda row: -row[1])
    folded: list[tuple[int, dict[str, int]]] = []
    for size, _, own in rows:
        if folded and all(folded[-1][1][side] == size * own[side] for side in own):
            folded[-1] = folded[-1][0] * size, own
        else:
            folded.append((size, own))
    if not 0 < len(folded) <= 4 or not all(_is_in_order(folded, side) for side in folded[0][1]):
        return None
    full = [(1, dict.fromkeys(folded[0][1], 0))] * (4 - len(folded)) + folded
    shape = [size for size, _ in full]
    dense = [0 if size == 1 else stride for size, stride in zip(shape, dense_strides(shape), strict=True)]
    ways = {side: dense if side in every else [own[side] for _, own in full] for side in strides}
    aligned = all(way[3] == 0 or (way[3] == 1 and all(stride % 4 == 0 for stride in way[:3])) for way in ways.values())
    new = {f"size_{axis}": shape[axis] for axis in (1, 2, 3)}
    new |= {f"magic_{axis}": magic(shape[axis]) for axis in (1, 2, 3)}
    new |= {f"{side}_stride_{axis}": stride for side, way in ways.items() for axis, stride in enumerate(way)}
    spec = {"CONTIGUOUS": False, "ROWS": shape[3] % 4 == 0 and aligned}
    return new, spec | {f"{side.upper()}_SPREAD": way[3] == 0 for side, way in ways.items()}


def _is_in_order(rows: Sequence[tuple[int, Mapping[str, int]]], side: str) -> bool:
    """Whether the elements of an operand come one after the other, but for repetitions."""
    expected = 1
    for size, strides in reversed(rows):
        if strides[side] not in (0, expected):
            return False
        expected *= size if strides[side] else 1
    return True


def _common(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, tuple[int, int], tuple[int, int]]] | None:
    """The coarsest sizes that two shapes of as many elements are made of, from the innermost; None if there are none.

    With each, of both shapes, the dimension that it is of and the elements of that dimension that are inside of it.
    """
    found: list[tuple[int, tuple[int, int], tuple[int, int]]] = []
    at, left, inside = [len(first) - 1, len(second) - 1], [1, 1], [1, 1]
    shapes = first, second
    while True:
        for side in (0, 1):
            while left[side] == 1 and at[side] >= 0:
                left[side] = shapes[side][at[side]]
                if left[side] == 1:
                    at[side] -= 1
            inside[side] = shapes[side][at[side]] // left[side] if at[side] >= 0 else 1
        if at[0] < 0 or at[1] < 0:
            return found if at[0] < 0 and at[1] < 0 else None
        size = min(left)
        if left[0] % size or left[1] % size:
            return None
        found.append((size, (at[0], inside[0]), (at[1], inside[1])))
        for side in (0, 1):
            left[side] //= size
            if left[side] == 1:
                at[side] -= 1


def broadcast_strides(shape: Shape) -> list[int]:
    """Strides, in elements, of four dimensions; 0 where the size is 1."""
    full = _padded(shape)
    return [0 if size == 1 else stride for size, stride in zip(full, dense_strides(full), strict=True)]


def _padded(shape: Shape) -> list[int]:
    return [1] * (4 - len(shape)) + list(shape)
