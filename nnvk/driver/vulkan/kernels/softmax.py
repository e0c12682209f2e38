"""SOFTMAX and LOG_SOFTMAX along any axis."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_push
from nnvk.driver.vulkan.lowering.reductions.slices import Slices
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.interpolated import EXPONENTIALS, RECIPROCALS, softmax_multiplier
from nnvk.ops.quant import is_quantised
from nnvk.types.codes import OperandCode, OperationCode

SOFTMAX = Shader(
    "softmax",
    where=lambda choice: choice["PASS"] != "combine" or choice["DTYPE"] == "f32",
    PASS=("statistics", "combine", "apply"),
    DTYPE=("f32", "f16", "q8"),
)
SOFTMAX_16 = Shader("softmax_16", PASS=("statistics", "apply"))
LOCAL = 64
WIDE_FROM = 128
"""The length from which a workgroup computes a slice, instead of one invocation."""
LARGE_FROM = 1024
"""The length from which such a workgroup of a GPU has more invocations."""
PART = 1 << 14
"""The most elements of a slice for one workgroup. Several workgroups share longer slices."""
LONGEST_16 = MOST_ROUNDS // 2
"""The most elements of a slice of 16-bit quantised values, which one invocation reads in two loops."""


def refuse(call: Call) -> str | None:
    """The reason why a slice of 16-bit quantised values is too long for one invocation, or None."""
    length = call.input.shape[call.axis]
    if not _is_wide(call) or length <= LONGEST_16:
        return None
    return f"axis {call.axis} has {length} elements, the shader takes at most {LONGEST_16}"


def _is_wide(call: Call) -> bool:
    return call.input.code is OperandCode.TENSOR_QUANT16_SYMM


@kernel(OperationCode.SOFTMAX, OperationCode.LOG_SOFTMAX, shaders=(SOFTMAX, SOFTMAX_16), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower to two dispatches: the statistics of every slice, then every element."""
    if _is_wide(call):
        _lower_16(call, g)
        return
    kind, slices, local = dtype(call.input), Slices.along(call.input.shape, call.axis), g.device.team
    parts = -(-slices.length // PART)
    source, statistics = g.tensor(call.input), g.scratch(8 * slices.count)
    factor = call.beta * call.input.scale if is_quantised(call.input.code) else abs(call.beta)
    push: dict[str, int | float] = {**slices.push, "factor": factor, **sign_push(call.input)}
    logarithm, negated = call.code is OperationCode.LOG_SOFTMAX, call.beta < 0
    wide = slices.length >= WIDE_FROM and not g.reproducible
    along = wide and slices.inner == 1 and not g.device.is_cpu
    sharing = g.device.large_team if along and slices.length >= LARGE_FROM else local
    of_parts = g.scratch(8 * slices.count * parts) if parts > 1 else statistics
    g.dispatch(
        SOFTMAX.variant(PASS="statistics", DTYPE=kind),
        groups=g.flat(slices.count * parts, 1 if wide else LOCAL),
        spec={
            "local_x": sharing if wide else LOCAL,
            "LOCAL": sharing,
            "WIDE": wide,
            "LOGARITHM": logarithm and parts == 1,
            "NEGATED": negated,
            "ALONG": along,
        },
        tensors={"src": source, "statistics": of_parts},
        count=slices.count,
        parts=parts,
        part=PART,
        **push,
    )
    if parts > 1:
        wide = parts >= WIDE_FROM and not g.reproducible
        g.dispatch(
            SOFTMAX.variant(PASS="combine", DTYPE="f32"),
            groups=g.flat(slices.count, 1 if wide else LOCAL),
            spec={
                "local_x": local if wide else LOCAL,
                "LOCAL": local,
                "WIDE": wide,
                "LOGARITHM": logarithm,
            },
            tensors={"src": of_parts, "combined": statistics},
            count=slices.count,
            parts=parts,
            factor=factor,
        )
    count = -(-call.output.size // 4)
    g.dispatch(
        SOFTMAX.variant(PASS="apply", DTYPE=kind),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "LOGARITHM": logarithm, "NEGATED": negated, **slices.spec},
        tensors={"src": source, "statistics": statistics, "dst": g.tensor(call.output)},
        count=count,
        elements=call.output.size,
        **push,
        **slices.divisors,
    )


def _lower_16(call: Call, g: Lowering) -> None:
    """Lower SOFTMAX on 16-bit quantised values to two dispatches: the statistics of every slice, then every element."""
    slices, source = Slices.along(call.input.shape, call.axis), g.tensor(call.input)
    exponentials = g.constant(EXPONENTIALS)
    mantissa, shift = softmax_multiplier(call)
    statistics = g.scratch(16 * slices.count)
    push = {**slices.push, "mantissa": mantissa, "shift": shift}
    g.dispatch(
        SOFTMAX_16.variant(PASS="statistics"),
        groups=g.flat(slices.count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "src": source,
            "exponentials": exponentials,
            "reciprocals": g.constant(RECIPROCALS),
            "statistics": statistics,
        },
        count=slices.count,
        **push,
    )
    count = -(-call.output.size // 4)
    g.dispatch(
        SOFTMAX_16.variant(PASS="apply"),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, **slices.spec},
        tensors={"src": source, "exponentials": exponentials, "statistics": statistics, "dst": g.tensor(call.output)},
        count=count,
        elements=call.output.size,
        **push,
        **slices.divisors,
    )
