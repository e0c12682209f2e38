"""QUANTIZED_SVDF."""

from __future__ import annotations

from nnvk.driver.vulkan.kernels.recurrent import refuse_long
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import zero_point
from nnvk.driver.vulkan.lowering.recurrent.gates import matrix, vectors
from nnvk.driver.vulkan.lowering.recurrent.sums import SUMS_SHADERS, add_up
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.extension.quantized_svdf import feature_multiplier, time_multiplier
from nnvk.ops.recurrent import present
from nnvk.types.extension import ExtendedOperationCode

SVDF = Shader("quantized_svdf", STEP=("state", "result"))
LOCAL = 64


def refuse(call: Call) -> str | None:
    """The reason why inputs or memories are too long, or None."""
    remembered = call.rank * call.weights_time.shape[1]
    if remembered > MOST_ROUNDS:
        return f"a unit sums {remembered} levels that its filters remember, at most {MOST_ROUNDS} are safe"
    return refuse_long(call.input.shape[1])


@kernel(ExtendedOperationCode.QUANTIZED_SVDF, shaders=(SVDF, *SUMS_SHADERS), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower QUANTIZED_SVDF: sums over the input, the state with their quantised values, then the filters over time."""
    weights, memory = call.weights_time.shape
    units = weights // call.rank
    features = matrix(g, weights, [[call.weights_feature]])
    mantissa, shift = feature_multiplier(call)
    count = -(-call.state_out.size // 4)
    g.dispatch(
        SVDF.variant(STEP="state"),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "sums": add_up(g, features, call.input),
            "before": g.tensor(call.state_in),
            "dst": g.tensor(call.state_out),
        },
        count=count,
        elements=call.state_out.size,
        width=weights,
        memory=memory,
        sums_row=features.shape[0],
        mantissa=mantissa,
        shift=shift,
    )
    mantissa, shift = time_multiplier(call)
    count = -(-call.result.size // 4)
    g.dispatch(
        SVDF.variant(STEP="result"),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "state": g.tensor(call.state_out),
            "weights": g.tensor(call.weights_time),
            "bias": g.tensor(vectors(g, units, [[call.bias if present(call, "bias") else None]])),
            "dst": g.tensor(call.result),
        },
        count=count,
        elements=call.result.size,
        width=units,
        memory=memory,
        rank=call.rank,
        zero=zero_point(call.result),
        mantissa=mantissa,
        shift=shift,
    )
