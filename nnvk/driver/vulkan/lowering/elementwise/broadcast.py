"""Two tensors that broadcast, as `shaders/include/broadcast.glsl` sees them."""

from __future__ import annotations

from nnvk.driver.vulkan.graph.program import four_sizes
from nnvk.driver.vulkan.lowering.divide import magic
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
    sizes = four_sizes(output.shape)
    push = {"elements": output.size} | {f"size_{axis}": sizes[axis] for axis in (1, 2, 3)}
    push |= {f"magic_{axis}": magic(sizes[axis]) for axis in (1, 2, 3)}
    for name, tensor in (("lhs", first), ("rhs", second)):
        push |= {f"{name}_stride_{axis}": stride for axis, stride in enumerate(broadcast_strides(tensor.shape))}
    return push


def broadcast_strides(shape: Shape) -> list[int]:
    """Strides, in elements, of four dimensions; 0 where the size is 1."""
    full = four_sizes(shape)
    return [0 if size == 1 else stride for size, stride in zip(full, dense_strides(full), strict=True)]
