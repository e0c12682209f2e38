"""L2_NORMALIZATION, INSTANCE_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION: slices divided by their statistics."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_push, zero_point
from nnvk.driver.vulkan.lowering.reductions.slices import Slices
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

NORMALIZE = Shader(
    "normalize",
    where=lambda choice: (
        (choice["KIND"], choice["DTYPE"]) != ("instance", "q8")
        and (choice["PASS"], choice["DTYPE"]) != ("combine", "f16")
    ),
    KIND=("l2", "instance"),
    PASS=("statistics", "combine", "apply"),
    DTYPE=("f32", "f16", "q8"),
)
LOCAL_RESPONSE = Shader("local_response", PASS=("sums", "apply"), DTYPE=("f32", "f16"))
LOCAL = 64
WIDE_FROM = 128
"""The length from which a workgroup computes a contiguous slice, instead of one invocation."""
SHARED_FROM = 32
"""The same on a GPU for any slice, if an invocation for each one leaves units idle."""
LEAST_SHARE = 4
"""The elements of a slice for each invocation of such a workgroup."""
PART = 1 << 14
"""The most elements of a slice in one sum. Longer slices are summed in parts."""
SHORTEST_PART = 128
"""The least elements of a part for one invocation."""
BUSY = 1 << 12
"""The invocations that keep a GPU busy. With fewer, slices are cut into parts."""
BLOCKS_FROM = 256
"""The radius from which windows of LOCAL_RESPONSE_NORMALIZATION add up blocks that were summed before."""

# The number of statistics that the shader stores for each slice, by operation and for quantised tensors.
_WORDS = {("l2", False): 2, ("l2", True): 1, ("instance", False): 4}


def slices_of(call: Call) -> Slices:
    """The slices: along the axis of L2_NORMALIZATION, or the planes of INSTANCE_NORMALIZATION."""
    if call.code is OperationCode.L2_NORMALIZATION:
        return Slices.along(call.input.shape, call.axis)
    first = 2 if call.nchw else 1
    return Slices.along(call.input.shape, first, first + 2)


def team_of(device: DeviceProfile, slices: Slices) -> int:
    """The invocations that compute the statistics of four slices: one alone, or a workgroup, a power of two."""
    is_idle = not device.is_cpu and -(-slices.count // 4) < LOCAL * device.units
    if slices.length >= SHARED_FROM and is_idle:
        return min(device.team, 1 << (slices.length // LEAST_SHARE).bit_length() - 1)
    return device.team if slices.inner == 1 and slices.length >= WIDE_FROM else 1


def parts_of(slices: Slices, team: int) -> int:
    """The number of parts of a slice. ``team`` invocations share four parts."""
    wanted = -(-BUSY // (-(-slices.count // 4) * team))
    return max(-(-slices.length // PART), min(wanted, slices.length // (SHORTEST_PART * team)), 1)


@kernel(OperationCode.L2_NORMALIZATION, OperationCode.INSTANCE_NORMALIZATION, shaders=(NORMALIZE,))
def lower(call: Call, g: Lowering) -> None:
    """Lower to two dispatches: the statistics of every slice, then every element."""
    kind, slices = dtype(call.input), slices_of(call)
    operation = "l2" if call.code is OperationCode.L2_NORMALIZATION else "instance"
    count, team = -(-slices.count // 4), 1 if g.reproducible else team_of(g.device, slices)
    wide, parts = team > 1, -(-slices.length // PART) if g.reproducible else parts_of(slices, team)
    part = PART if g.reproducible else -(-slices.length // parts)
    words = 4 * _WORDS[operation, kind == "q8"]
    statistics = g.scratch(words * 4 * count)
    of_parts = g.scratch(words * 4 * count * parts) if parts > 1 else statistics
    epsilon = {"epsilon": call.epsilon} if operation == "instance" else {}
    quantisation = {**sign_push(call.input), "zero": zero_point(call.input)} if kind == "q8" else {}
    g.dispatch(
        NORMALIZE.variant(KIND=operation, PASS="statistics", DTYPE=kind),
        groups=g.flat(count * parts, 1 if wide else LOCAL),
        spec={
            "local_x": team if wide else LOCAL,
            "LOCAL": team,
            "WIDE": wide,
            "FINISH": parts == 1,
            **slices.spec,
        },
        tensors={"src": g.tensor(call.input), "statistics": of_parts},
        count=count,
        parts=parts,
        part=part,
        slices=slices.count,
        **slices.push,
        **epsilon,
        **quantisation,
    )
    if parts > 1:
        g.dispatch(
            NORMALIZE.variant(KIND=operation, PASS="combine", DTYPE="q8" if kind == "q8" else "f32"),
            groups=g.flat(count, LOCAL),
            spec={"local_x": LOCAL},
            tensors={"src": of_parts, "statistics": statistics},
            count=count,
            parts=parts,
            part=part,
            length=slices.length,
            **epsilon,
            **quantisation,
        )
    count = -(-call.output.size // 4)
    g.dispatch(
        NORMALIZE.variant(KIND=operation, PASS="apply", DTYPE=kind),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, **slices.spec},
        tensors={"src": g.tensor(call.input), "statistics": statistics, "dst": g.tensor(call.output)},
        count=count,
        elements=call.output.size,
        slices=slices.count,
        **slices.push,
        **slices.divisors,
        **epsilon,
        **({"gamma": call.gamma, "beta": call.beta} if operation == "instance" else {}),
        **quantisation,
    )


@kernel(OperationCode.LOCAL_RESPONSE_NORMALIZATION, shaders=(LOCAL_RESPONSE,))
def lower_local_response(call: Call, g: Lowering) -> None:
    """Lower LOCAL_RESPONSE_NORMALIZATION: each invocation computes four elements."""
    kind, slices = dtype(call.input), Slices.along(call.input.shape, call.axis)
    radius = min(call.radius, slices.length - 1)
    # The block at which the elements and blocks of a window are the fewest.
    block = max(1, math.isqrt(slices.length // 2))
    blocks = -(-slices.length // block)
    geometry = {**slices.push, "block": block, "blocks": blocks}
    source = g.tensor(call.input)
    sums, in_blocks = source, radius >= BLOCKS_FROM and not g.reproducible
    if in_blocks:
        sums = g.scratch(4 * slices.count * blocks)
        g.dispatch(
            LOCAL_RESPONSE.variant(PASS="sums", DTYPE=kind),
            groups=g.flat(slices.count * blocks, LOCAL),
            spec={"local_x": LOCAL},
            tensors={"src": source, "sums": sums},
            count=slices.count * blocks,
            **geometry,
        )
    count = -(-call.output.size // 4)
    g.dispatch(
        LOCAL_RESPONSE.variant(PASS="apply", DTYPE=kind),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "BLOCKS": in_blocks, **slices.spec},
        tensors={"src": source, "sums": sums, "dst": g.tensor(call.output)},
        count=count,
        elements=call.output.size,
        radius=radius,
        bias=call.bias,
        alpha=call.alpha,
        beta=call.beta,
        **geometry,
    )
