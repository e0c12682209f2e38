"""Two tensors that broadcast, as `shaders/include/broadcast.glsl` sees them."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.move import dense_strides
from nnvk.ops.call import Tensor
from nnvk.types.operand import Shape


def is_contiguous(output: Tensor, first: Tensor, second: Tensor) -> bool:
    """Whether both have the output's shape: their elements are then where the output's are."""
    return first.size == second.size == output.size


def broadcast_push(output: Tensor, first: Tensor, second: Tensor) -> dict[str, int]:
    """Push constants: sizes of the output but for the outermost, strides of ``first`` (lhs) and ``second`` (rhs)."""
    sizes = _padded(output.shape)
    push = {f"size_{axis}": sizes[axis] for axis in (1, 2, 3)}
    for name, tensor in (("lhs", first), ("rhs", second)):
        push |= {f"{name}_stride_{axis}": stride for axis, stride in enumerate(broadcast_strides(tensor.shape))}
    return push


def broadcast_strides(shape: Shape) -> list[int]:
    """Strides, in elements, of four dimensions; 0 where the size is 1."""
    full = _padded(shape)
    return [0 if size == 1 else stride for size, stride in zip(full, dense_strides(full), strict=True)]


def _padded(shape: Shape) -> list[int]:
    return [1] * (4 - len(shape)) + list(shape)
