"""RELU, RELU1, RELU6, LOGISTIC, TANH: floats by formula, bytes by a table made with the reference."""

from __future__ import annotations

import math

import numpy as np

from nnvk.driver.vulkan.kernel import kernel
from nnvk.driver.vulkan.lowering import Lowering
from nnvk.driver.vulkan.plan import TensorRef
from nnvk.driver.vulkan.quantised import lookup_table
from nnvk.driver.vulkan.shader import Shader
from nnvk.ops import registry
from nnvk.ops.call import Call, Tensor
from nnvk.ops.quant import is_quantised
from nnvk.types.codes import OperationCode

UNARY = Shader("unary", KIND=("clamp", "logistic", "tanh"))
LOOKUP = Shader("lookup")
LOCAL = 64

_KINDS = {
    OperationCode.RELU: ("clamp", 0.0, math.inf),
    OperationCode.RELU1: ("clamp", -1.0, 1.0),
    OperationCode.RELU6: ("clamp", 0.0, 6.0),
    OperationCode.LOGISTIC: ("logistic", 0.0, 0.0),
    OperationCode.TANH: ("tanh", 0.0, 0.0),
}


@kernel(*_KINDS, shaders=(UNARY, LOOKUP))
def lower(call: Call, g: Lowering) -> None:
    """Four elements an invocation."""
    if is_quantised(call.input.code):
        look_up(g, g.tensor(call.input), table_of(call), g.tensor(call.output), call.input.size)
        return
    kind, low, high = _KINDS[call.code]
    count = -(-call.input.size // 4)
    g.dispatch(
        UNARY.variant(KIND=kind),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"src": g.tensor(call.input), "dst": g.tensor(call.output)},
        count=count,
        low=low,
        high=high,
    )


def table_of(call: Call) -> np.ndarray:
    """The lookup table of an operation on one quantised tensor."""
    reference = registry.lookup(call.code).reference
    assert reference is not None

    def run(every: Tensor) -> np.ndarray:
        result = reference(Call(call.code, {"input": every}, call.outputs))
        assert isinstance(result, np.ndarray)
        return result

    return lookup_table(call.input, call.output, run)


def look_up(g: Lowering, source: TensorRef, table: np.ndarray, target: TensorRef, elements: int) -> None:
    """Map every byte of ``source`` by a table of 256."""
    count = -(-elements // 4)
    g.dispatch(
        LOOKUP.variant(),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"src": source, "table": g.constant(table), "dst": target},
        count=count,
    )
