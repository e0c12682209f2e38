"""BATCH_MATMUL: a GEMM for each pair of matrices."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.copies.side_by_side import Matrices
from nnvk.driver.vulkan.lowering.dtypes import F32, of
from nnvk.driver.vulkan.lowering.gemm.gemm import (
    GEMM_SHADERS,
    epilogue_channels,
    has_few_channels,
    lower_gemm,
    refuse_long_sums,
)
from nnvk.driver.vulkan.lowering.gemm.problem import POINT, Fused, Gemm, Operands, Split, WeightLayout
from nnvk.driver.vulkan.lowering.gemm.strategy import layouts_of_weights
from nnvk.driver.vulkan.lowering.gemm.weights import Weights
from nnvk.driver.vulkan.lowering.kernel import gemm_kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor
from nnvk.types.codes import OperationCode


def _sizes(call: Call) -> tuple[int, int, int, int]:
    """Matrices, rows and columns of the products, and what is summed."""
    *batches, rows, columns = call.output.shape
    return math.prod(batches), rows, columns, call.input0.shape[-2 if call.adj_x else -1]


def _takes_view(call: Call, tensor: Tensor, view: Tensor, alone: bool) -> bool:
    batches, rows, columns, depth = _sizes(call)
    assert view.view is not None
    box = view.view.box
    if tensor is call.input1:
        right = _right(call, view)
        layout = WeightLayout.BY_OUTPUTS if call.adj_y else WeightLayout.BY_K
        places = [matrices.place(box) for matrices in layouts_of_weights(right, layout).values()]
        return right.can_be_packed or any(place is not None and (place.rows is None or alone) for place in places)
    width = depth if tensor is call.input0 else columns
    place = Matrices(batches, rows, width).place(box)
    if tensor is call.output:  # the pixels of narrower elements are padded to vec4s
        return place is not None and place.rows is None and (columns % 4 == 0 or of(tensor) is F32)
    return place is not None and (place.rows is None or alone)


def refuse(call: Call) -> str | None:
    """Sums that are too long."""
    return refuse_long_sums((1, 1), _sizes(call)[3])


def _epilogue_channels(call: Call, device: DeviceProfile) -> int | None:
    channels, view = epilogue_channels(call, device), call.output.view
    if channels is None or view is None:
        return channels
    batches, rows, columns, _ = _sizes(call)
    place = Matrices(batches, rows, columns).place(view.box)
    return None if place is None else place.interleaved * channels


@gemm_kernel(
    OperationCode.BATCH_MATMUL,
    shaders=GEMM_SHADERS,
    refuse=refuse,
    takes_view=_takes_view,
    epilogue_channels=_epilogue_channels,
    takes_wide_input=lambda call: call.input0.view is None and has_few_channels(_sizes(call)[3]),
)
def lower(call: Call, g: Lowering, fused: Fused) -> None:
    """The right matrices are filters; the pass `layouts` has transposed left ones."""
    batches, rows, columns, depth = _sizes(call)
    source, target = (batches, rows, 1, depth), (batches, rows, 1, columns)
    gemm = Gemm(source, target, POINT, POINT, Split.BATCHES, batches)
    operands = Operands(call.code, call.input0, _right(call, call.input1), None, call.output)
    lower_gemm(g, operands.fused_with(fused), gemm)


def _right(call: Call, matrices: Tensor) -> Weights:
    batches, _, columns, depth = _sizes(call)
    strides = (depth, 1) if call.adj_y else (1, columns)
    return Weights(matrices, batches, columns, 1, depth, (depth * columns, strides[0], 0, strides[1]))
