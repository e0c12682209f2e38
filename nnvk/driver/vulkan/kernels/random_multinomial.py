"""RANDOM_MULTINOMIAL: sums of weights, and draws among them."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, as_float32
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

RANDOM_MULTINOMIAL = Shader("random_multinomial", PASS=("largest", "weights", "parts", "draw"))
LOCAL = 64
SPAN = 1024
"""The classes of a part."""
BLOCK = 4
"""The classes that one stored sum covers."""
SUM_BITS = 63
"""The most bits of the sum of a batch's weights."""
ENTROPY = 16
"""The random bytes that replace seeds of 0: 64 bits for each of the two seeds."""
MOST_SUMS = 4 << 20
"""The most sums in memory at once. A loop of dispatches handles more batches."""


def refuse(call: Call) -> str | None:
    """The reason why rows have too many parts for one invocation to add up, or None."""
    classes = call.input.shape[1]
    most = MOST_ROUNDS * SPAN
    return f"input has {classes} classes, the shader takes at most {most}" if classes > most else None


@kernel(OperationCode.RANDOM_MULTINOMIAL, shaders=(RANDOM_MULTINOMIAL, CONVERT), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower RANDOM_MULTINOMIAL: draw for as many batches at once as `MOST_SUMS` allows."""
    batches, classes = call.input.shape
    logits = as_float32(g, call.input)
    flag = g.flag("input must have a finite logit in every batch, got batch {} without")
    entropy = g.random_bytes(ENTROPY)
    each = max(1, BLOCK * MOST_SUMS // classes)
    for first in range(0, batches, each):
        _draw(call, g, logits, flag, entropy, first, min(each, batches - first))


def _draw(
    call: Call, g: Lowering, logits: TensorRef, flag: TensorRef, entropy: TensorRef, first: int, count: int
) -> None:
    classes, samples = call.input.shape[1], call.samples
    in_row = -(-classes // SPAN)
    largest, tops, parts = (g.scratch(n * count) for n in (4 * in_row, 4, 8 * (in_row + 1)))
    sums = g.scratch(8 * count * -(-classes // BLOCK))
    one = SUM_BITS - (classes - 1).bit_length()
    spec = {"local_x": LOCAL}
    by_row = {**spec, "ALIGNED": classes % 4 == 0}
    rows = {"first": first, "count": count, "classes": classes, "in_row": in_row}
    g.dispatch(
        RANDOM_MULTINOMIAL.variant(PASS="largest"),
        groups=g.flat(count * in_row, 1),
        spec=by_row,
        tensors={"logits": logits, "largest": largest},
        **rows,
    )
    g.dispatch(
        RANDOM_MULTINOMIAL.variant(PASS="weights"),
        groups=g.flat(count * in_row, 1),
        spec=by_row,
        tensors={"logits": logits, "largest": largest, "sums": sums, "parts": parts, "tops": tops, "flag": flag},
        one=one,
        **rows,
    )
    g.dispatch(
        RANDOM_MULTINOMIAL.variant(PASS="parts"),
        groups=g.flat(count, LOCAL),
        spec=spec,
        tensors={"parts": parts},
        count=count,
        in_row=in_row,
    )
    begin, end = first * samples, (first + count) * samples
    g.dispatch(
        RANDOM_MULTINOMIAL.variant(PASS="draw"),
        groups=g.flat(-(-end // 2) - begin // 2, LOCAL),
        spec=spec,
        tensors={
            "sums": sums,
            "parts": parts,
            "tops": tops,
            "logits": logits,
            "seeds": g.tensor(call.seeds),
            "entropy": entropy,
            "dst": g.tensor(call.output),
        },
        one=one,
        begin=begin,
        end=end,
        first=first,
        samples=samples,
        classes=classes,
        in_row=in_row,
    )
