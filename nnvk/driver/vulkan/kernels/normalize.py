"""L2_NORMALIZATION along any axis and INSTANCE_NORMALIZATION: slices that are divided by what is found in them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import sign_push, zero_point
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

NORMALIZE = Shader(
    "normalize",
    where=lambda choice: (choice["KIND"], choice["DTYPE"]) != ("instance", "q8")
    and (choice["PASS"], choice["DTYPE"]) != ("combine", "f16"),
    KIND=("l2", "instance"),
    PASS=("statistics", "combine", "apply"),
    DTYPE=("f32", "f16", "q8"),
)
LOCAL = 64
WIDE_FROM = 128
"""Length of a slice from which a workgroup takes it, not an invocation, where its elements are neighbours."""
PART = 1 << 14
"""Elements of a slice that are summed up at once; of longer ones parts are."""
SHORTEST_PART = 128
"""Elements of a part that are worth an invocation."""
BUSY = 1 << 12
"""Invocations with which a GPU is busy: with fewer of them slices are cut into parts."""

# What the shader's four NEIGHBOURS are, and how many numbers it keeps of a slice.
_ANYWHERE, _IN_FOUR_SLICES, _IN_ONE_SLICE = 0, 1, 2
_WORDS = {("l2", False): 2, ("l2", True): 1, ("instance", False): 4}



@dataclass(frozen=True, slots=True)
class Slices:
    """What a tensor is cut into to be normalised."""

    count: int
    length: int
    """Elements of a slice."""
    inner: int
    """Elements from one of a slice to the next."""


def slices_of(call: Call) -> Slices:
    """Along the axis of L2_NORMALIZATION; the planes of INSTANCE_NORMALIZATION."""
    shape = call.input.shape
    if call.code is OperationCode.L2_NORMALIZATION:
        first = call.axis % len(shape)
        past = first + 1
    else:
        first = 2 if call.nchw else 1
        past = first + 2
    length = math.prod(shape[first:past])
    return Slices(call.input.size // length, length, math.prod(shape[past:]))


def parts_of(length: int, fours: int, wide: bool) -> int:
    """Into how many parts slices are cut, of which there are so many fours."""
    wanted, shortest = -(-BUSY // fours), SHORTEST_PART
    if wide:
        wanted, shortest = -(-wanted // LOCAL), shortest * LOCAL
    return max(-(-length // PART), min(wanted, length // shortest), 1)


@kernel(OperationCode.L2_NORMALIZATION, OperationCode.INSTANCE_NORMALIZATION, shaders=(NORMALIZE,))
def lower(call: Call, g: Lowering) -> None:
    """What there is in every slice, then every element."""
    kind, slices = dtype(call.input), slices_of(call)
    operation = "l2" if call.code is OperationCode.L2_NORMALIZATION else "instance"
    count, length, inner = -(-slices.count // 4), slices.length, slices.inner
    wide = inner == 1 and length >= WIDE_FROM
    parts = parts_of(length, count, wide)
    part = -(-length // parts)
    words = 4 * _WORDS[operation, kind == "q8"]
    statistics = g.scratch(words * 4 * count)
    of_parts = g.scratch(words * 4 * count * parts) if parts > 1 else statistics
    epsilon = {"epsilon": call.epsilon} if operation == "instance" else {}
    quantisation = {**sign_push(call.input), "zero": zero_point(call.input)} if kind == "q8" else {}
    in_four_slices = inner % 4 == 0
    g.dispatch(
        NORMALIZE.variant(KIND=operation, PASS="statistics", DTYPE=kind),
        groups=g.flat(count * parts, 1 if wide else LOCAL),
        spec={
            "local_x": LOCAL,
            "LOCAL": LOCAL,
            "WIDE": wide,
            "FINISH": parts == 1,
            "NEIGHBOURS": _IN_FOUR_SLICES if in_four_slices else _ANYWHERE,
        },
        tensors={"src": g.tensor(call.input), "statistics": of_parts},
        count=count,
        parts=parts,
        part=part,
        length=length,
        slices=slices.count,
        inner=inner,
        **epsilon,
        **quantisation,
    )
    if parts > 1:
        g.dispatch(
            NORMALIZE.variant(KIND=operation, PASS="combine", DTYPE="q8" if kind == "q8" else "f32"),
            groups=g.flat(count, LOCAL),
            spec={"local_x": LOCAL, "LOCAL": LOCAL},
            tensors={"src": of_parts, "statistics": statistics},
            count=count,
            parts=parts,
            part=part,
            length=length,
            **epsilon,
            **quantisation,
        )
    in_one_slice = _IN_ONE_SLICE if inner == 1 and length % 4 == 0 else _ANYWHERE
    count = -(-call.output.size // 4)
    g.dispatch(
        NORMALIZE.variant(KIND=operation, PASS="apply", DTYPE=kind),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "NEIGHBOURS": _IN_FOUR_SLICES if in_four_slices else in_one_slice},
        tensors={"src": g.tensor(call.input), "statistics": statistics, "dst": g.tensor(call.output)},
        count=count,
        elements=call.output.size,
        length=length,
        slices=slices.count,
        inner=inner,
        **epsilon,
        **({"gamma": call.gamma, "beta": call.beta} if operation == "instance" else {}),
        **quantisation,
    )
