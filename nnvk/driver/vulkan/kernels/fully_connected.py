"""FULLY_CONNECTED on the GPU: a convolution of one tap, or a matrix-vector product for few rows."""

from __future__ import annotations

from nnvk.driver.vulkan.kernels.conv2d import SHADER as CONV2D
from nnvk.driver.vulkan.kernels.conv2d import Product, dispatch_product, uses_subgroups
from nnvk.driver.vulkan.lowering.arrange import ARRANGE, arrange
from nnvk.driver.vulkan.lowering.convert import CONVERT
from nnvk.driver.vulkan.lowering.dtypes import F32, dtype, moved, of
from nnvk.driver.vulkan.lowering.filters import (
    BLOCK,
    PACK_FILTER,
    accumulated,
    multipliers,
    packed_filter,
    quantisation_push,
    refuse_long_sums,
)
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import clamp
from nnvk.driver.vulkan.lowering.relayout import round_up
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.window import Axis
from nnvk.types.codes import OperationCode

SHADER = Shader("fully_connected", DTYPE=("f32", "f16", "q8"))

_FEW_ROWS = 4
"""Rows up to which reading the weights once per row is faster than the tiles of a matrix product."""
_LOCAL = {"local_x": 8, "local_y": 16}
_POINT = Axis(size=1, window=1, stride=1, dilation=1, before=0, after=0, out=1)


def _refuse(call: Call) -> str:
    return refuse_long_sums((1, 1), call.weights.shape[1])


@kernel(OperationCode.FULLY_CONNECTED, shaders=(SHADER, CONV2D, PACK_FILTER, ARRANGE, CONVERT), refuse=_refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower FULLY_CONNECTED."""
    rows, outputs = call.output.shape
    inputs = call.weights.shape[1]
    # Shaders pad rows of what is smaller than words to fours.
    width = outputs if of(call.input) is F32 or rows == 1 else round_up(outputs, 4)
    target = g.tensor(call.output) if width == outputs else g.scratch(rows * width * call.output.dtype.itemsize)
    if rows <= _FEW_ROWS and not uses_subgroups(g.device):
        _matrix_vector(g, call, target)
    else:
        product = Product((rows, 1, 1, inputs), (rows, 1, 1, outputs), _POINT, _POINT)
        dispatch_product(g, call, call.weights, g.tensor(call.input), target, product)
    if width != outputs:
        arrange(g, moved(call.output), target, g.tensor(call.output), [(rows, width), (outputs, 1)])


def _matrix_vector(g: Lowering, call: Call, target: TensorRef) -> None:
    rows, outputs = call.output.shape
    g.dispatch(
        SHADER.variant(DTYPE=dtype(call.input)),
        groups=(rows, -(-outputs // BLOCK), 1),
        spec={**_LOCAL, "VECTOR_STORES": outputs % 4 == 0},
        tensors={
            "src": g.tensor(call.input),
            "weights": packed_filter(g, call.weights),
            "bias": accumulated(g, call.bias),
            "dst": target,
            **multipliers(g, call, call.weights, outputs),
        },
        inputs=call.weights.shape[1],
        out_channels=outputs,
        **clamp(call),
        **quantisation_push(call, call.weights),
    )
