"""SVDF."""

from __future__ import annotations

from nnvk.driver.vulkan.kernels.recurrent import SHADERS, Limits, drive, refuse_long
from nnvk.driver.vulkan.lowering.copies.convert import finish_float32, float32_result, widened
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.recurrent.gates import matrix, vectors
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.recurrent import present
from nnvk.types.codes import OperationCode

SVDF = Shader("svdf")
LOCAL = 64


def refuse(call: Call) -> str | None:
    """The reason why inputs or memories are too long, or None."""
    remembered = call.rank * (2 + call.weights_time.shape[1])
    if remembered > MOST_ROUNDS:
        return f"a unit sums {remembered} values that its filters remember, at most {MOST_ROUNDS} are safe"
    return refuse_long(call.input.shape[1])


@kernel(OperationCode.SVDF, shaders=(SVDF, *SHADERS), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower SVDF: the features of all filters, then the filters over time."""
    (batches, _), (weights, memory) = call.input.shape, call.weights_time.shape
    units = weights // call.rank
    limits = Limits.of(call.activation)
    features = matrix(g, weights, [[call.weights_feature]])
    bias = vectors(g, units, [[call.bias if present(call, "bias") else None]])
    state, result = float32_result(g, call.state_out), float32_result(g, call.result)
    g.dispatch(
        SVDF.variant(),
        groups=g.flat(batches * units, LOCAL),
        spec={"local_x": LOCAL, "ACTIVATION": limits.number},
        tensors={
            "features": drive(g, widened(g, call.input), features, vectors(g, weights, [[None]])),
            "before": g.tensor(widened(g, call.state_in)),
            "weights": g.tensor(widened(g, call.weights_time)),
            "bias": g.tensor(bias),
            "after": state,
            "dst": result,
        },
        count=batches * units,
        units=units,
        rank=call.rank,
        memory=memory,
        features_row=features.shape[0],
        low=limits.low,
        high=limits.high,
    )
    finish_float32(g, state, call.state_out)
    finish_float32(g, result, call.result)
