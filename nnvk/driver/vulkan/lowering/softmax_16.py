"""SOFTMAX of 16-bit steps (``shaders/softmax_16.comp``)."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.slices import Slices
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.interpolated import EXPONENTIALS, RECIPROCALS, softmax_multiplier

SOFTMAX_16 = Shader("softmax_16", PASS=("statistics", "apply"))
LOCAL = 64
LONGEST = MOST_ROUNDS // 2
"""Elements of a slice at most, of which an invocation has two loops."""


def refuse_long(call: Call) -> str | None:
    """Slices too long for one invocation."""
    length = call.input.shape[call.axis]
    return f"axis {call.axis} has {length} elements, the shader takes at most {LONGEST}" if length > LONGEST else None


def softmax_16(call: Call, g: Lowering) -> None:
    """Statistics of every slice, then every element."""
    slices, source, exponentials = (
        Slices.along(call.input.shape, call.axis),
        g.tensor(call.input),
        g.constant(EXPONENTIALS),
    )
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
