"""Two tensors that broadcast, as `shaders/include/broadcast.glsl` sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnvk.driver.vulkan.graph.program import four_sizes
from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import of
from nnvk.driver.vulkan.lowering.strided_view import Constants, RowAccess, Rows, Views, common_width, pitch_of
from nnvk.ops.call import Tensor
from nnvk.ops.strided import dense_strides
from nnvk.types.operand import Shape


def broadcast_spec(output: Tensor, first: Tensor, second: Tensor) -> dict[str, bool]:
    """Specialisation constants: where the operands of four elements of the output are."""
    rows = output.shape[-1:] != () and output.shape[-1] % 4 == 0
    return {
        "CONTIGUOUS": first.size == second.size == output.size,
        "ROWS": rows,
        "LHS_SPREAD": four_sizes(first.shape)[-1] == 1,
        "RHS_SPREAD": four_sizes(second.shape)[-1] == 1,
    }


def broadcast_push(output: Tensor, first: Tensor, second: Tensor) -> dict[str, int]:
    """Push constants: sizes of the output but for the outermost, strides of ``first`` (lhs) and ``second`` (rhs)."""
    strides = {"lhs": broadcast_strides(first.shape), "rhs": broadcast_strides(second.shape)}
    return {"elements": output.size, **_push(four_sizes(output.shape), strides)}


def _push(sizes: Sequence[int], strides: Mapping[str, Sequence[int]]) -> dict[str, int]:
    push = {f"size_{axis}": sizes[axis] for axis in (1, 2, 3)}
    push |= {f"magic_{axis}": magic(sizes[axis]) for axis in (1, 2, 3)}
    return push | {f"{side}_stride_{axis}": stride for side in strides for axis, stride in enumerate(strides[side])}


def broadcast_access(output: Tensor, first: Tensor, second: Tensor) -> RowAccess:
    """The access to ``lhs``, ``rhs`` and ``dst``, with all constants of `broadcast_spec` and `broadcast_push`."""
    dense, sizes = broadcast_spec(output, first, second), four_sizes(output.shape)
    strides = {"lhs": broadcast_strides(first.shape), "rhs": broadcast_strides(second.shape)}

    def pitches(views: Views) -> Constants | None:
        if not views:
            return dense, {**_push(sizes, strides), "dst_pitch": 0}
        row = common_width(views)
        if row is not None and dense["CONTIGUOUS"]:
            spec = {"CONTIGUOUS": False, "ROWS": True, "LHS_SPREAD": False, "RHS_SPREAD": False}
            within, ways = [1, 1, output.size // row, row], {side: [0, 0, row, 1] for side in strides}
        elif row is not None and dense["ROWS"] and row == sizes[3]:
            spec, within, ways = dense, sizes, dict(strides)
        else:
            return None
        for side in ways.keys() & views.keys():
            *outer, inner = ways[side]
            if inner != 1 or any(stride % row for stride in outer):
                return None
            ways[side] = [*(stride // row * views[side].pitch for stride in outer), inner]
        push = {**_push(within, ways), "dst_pitch": pitch_of(views, "dst", 0)}
        return {**spec, "STRIDED": "dst" in views}, push

    return RowAccess(dict.fromkeys(("lhs", "rhs", "dst"), Rows(of(output).size)), (pitches,))


def broadcast_strides(shape: Shape) -> list[int]:
    """Strides, in elements, of four dimensions; 0 where the size is 1."""
    full = four_sizes(shape)
    return [0 if size == 1 else stride for size, stride in zip(full, dense_strides(full), strict=True)]
