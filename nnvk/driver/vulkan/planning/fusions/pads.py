"""PAD into the convolution or pool that reads what it gives: windows reach over the edge of the image just as well.

Of a zero inside and one around that have different signs, MAX_POOL_2D may give the other one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.lowering.dtypes import Q8
from nnvk.driver.vulkan.lowering.gemm import Split
from nnvk.driver.vulkan.lowering.surround import CONSTANT, RANK
from nnvk.driver.vulkan.planning.fusions.command_graph import Graph
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef

_CONVOLUTIONS = ("gemm", "depthwise_conv2d", "winograd_input", "winograd_output")
_LAST_STEP = {"q8": 0xFF, "q16": 0xFFFF}


@dataclass(frozen=True, slots=True)
class _Image:
    """An image amid its surrounding."""

    height: int
    width: int
    above: int
    left: int


def fuse_pads(graph: Graph) -> None:
    """Let convolutions and pools read images without what is around them."""
    for position, pool in graph.dispatches("pool2d"):
        found = graph.dispatch_that_writes(pool.tensors["src"], "pad")
        if found is not None and graph.may_wait(found[0]):
            _surround_pool(graph, position, pool, *found)
    for position, convolution in graph.dispatches(*_CONVOLUTIONS):
        found = graph.dispatch_that_writes(convolution.tensors["src"], "pad")
        if found is None:
            continue
        at, pad = found
        image = _image(pad, _shape(convolution))
        if image is None or not _has_zeros(pad, convolution) or not graph.may_wait(at):
            continue
        push = {**convolution.push, "height": image.height, "width": image.width}
        push["pad_top"] += image.above
        push["pad_left"] += image.left
        source = pad.tensors["src"]
        if "last_word" in push:
            push["last_word"] = max(0, source.nbytes - 1) // 4
        fused = replace(
            convolution,
            tensors={**convolution.tensors, "src": source},
            push=push,
            specialization=_with_padding(convolution),
        )
        _replace(graph, position, fused, at, convolution.tensors["src"])


def _replace(graph: Graph, position: int, fused: Dispatch, pad: int, padded: TensorRef) -> None:
    """Put a dispatch that pads by itself in a place, and leave out the padding if that is for nobody else."""
    lone = list(graph.readers(padded)) == [position]
    graph.replace(position, fused, [pad] if lone and graph.is_passed_on(padded) else [])


def _surround_pool(graph: Graph, position: int, pool: Dispatch, at: int, pad: Dispatch) -> None:
    """Let a pool count what is around its images, which no window of its own does."""
    push = pool.push
    height, width, channels = (int(push[name]) for name in ("height", "width", "channels"))
    batches = int(push["elements"]) // int(push["out_height"] * push["out_width"] * channels)
    image = _image(pad, (batches, height, width, channels))
    value = _value(pad, pool)
    shader, words = pool.shader, pool.specialization
    if image is None or value is None or shader.constant(words, "SURROUNDED"):
        return
    around = {
        "height": image.height,
        "width": image.width,
        "above": image.above,
        "below": height - image.above - image.height,
        "before": image.left,
        "after": width - image.left - image.width,
        "surrounding": value,
    }
    fused = replace(
        pool,
        tensors={**pool.tensors, "src": pad.tensors["src"]},
        push={**push, **around},
        specialization=shader.with_constants(words, SURROUNDED=True),
    )
    _replace(graph, position, fused, at, pool.tensors["src"])


def _value(pad: Dispatch, pool: Dispatch) -> int | float | None:
    """What is around the box, as the pool reads it; None if it can't count that."""
    if pad.shader.constant(pad.specialization, "MODE") != CONSTANT:
        return None
    _, kind, dtype, *_ = pool.shader.name.split(".")
    word = int(pad.push["value"])
    if dtype in _LAST_STEP:
        return word ^ int(pool.push["sign_mask"]) & _LAST_STEP[dtype]
    bits = np.uint32(word).view(np.float32) if dtype == "f32" else np.uint16(word).view(np.float16)
    # Sums depend on their order, which the padding changes where it is no zero, or where several share it out.
    alone = pool.shader.constant(pool.specialization, "LANES") == 1
    return float(bits) if kind == "max" or (word == 0 and alone) else None


def _with_padding(convolution: Dispatch) -> tuple[int, ...]:
    """The constants of a convolution whose windows reach over the edge."""
    if convolution.shader.family != "gemm":
        return convolution.specialization
    return convolution.shader.with_constants(convolution.specialization, PADDED=True, SIDE_BY_SIDE=False)


def _has_zeros(pad: Dispatch, convolution: Dispatch) -> bool:
    """Whether what is around the box stands for 0."""
    if pad.shader.constant(pad.specialization, "MODE") != CONSTANT:
        return False
    zero = int(convolution.push.get("input_zero", 0))
    return pad.push["value"] == (zero ^ 0x80 if _is_signed(convolution) else zero)


def _is_signed(convolution: Dispatch) -> bool:
    """Whether its images are of signed bytes."""
    if convolution.shader.family == "gemm":
        shader = convolution.shader
        return shader.choice[0] == Q8.name and bool(shader.constant(convolution.specialization, "SIGNED"))
    return bool(convolution.push.get("sign_mask", 0))


def _shape(convolution: Dispatch) -> tuple[int, int, int, int] | None:
    """Of what a convolution reads, in NHWC; None where it is a product of another kind."""
    push = convolution.push
    if "tiles" in push:
        batches = int(push["tiles"]) // int(push["tiles_down"] * push["tiles_across"])
    elif "parts" in push:
        split = convolution.shader.constant(convolution.specialization, "SPLIT")
        if split not in (Split.NOTHING, Split.CHANNELS):
            return None
        batches = int(push["rows"]) // int(push["out_height"] * push["out_width"])
    else:
        batches = int(push["batch"])
    return batches, int(push["height"]), int(push["width"]), int(push["channels"])


def _image(pad: Dispatch, shape: tuple[int, int, int, int] | None) -> _Image | None:
    """What images of a shape are without their surrounding; None where more than that is around them.

    PAD has its dimensions folded: which of height and width have something around them is to be found out.
    """
    if shape is None:
        return None
    batches, height, width, channels = shape
    inner = [int(pad.push[f"in_{axis}"]) for axis in range(RANK)]
    before = [int(pad.push[f"before_{axis}"]) for axis in range(RANK)]
    outer = [
        math.prod(inner) and int(pad.push["elements"]) // math.prod(int(pad.push[f"out_{a}"]) for a in range(1, RANK))
    ]
    outer += [int(pad.push[f"out_{axis}"]) for axis in range(1, RANK)]
    rows = list(zip(inner, before, outer, strict=True))
    for tall, wide in ((True, True), (True, False), (False, True)):
        # From the innermost dimension outwards: sizes of what is padded (True) and what is not.
        if tall and wide:
            sizes = [(channels, False), (width, True), (height, True), (batches, False)]
        elif tall:
            sizes = [(width * channels, False), (height, True), (batches, False)]
        else:
            sizes = [(channels, False), (width, True), (batches * height, False)]
        expected = [(size, padded) for size, padded in sizes if padded or size != 1]
        if len(expected) > RANK:
            continue
        mine, rest = rows[len(rows) - len(expected) :][::-1], rows[: len(rows) - len(expected)]
        fits = all(
            after == size and (padded or (size_inside == size and first == 0))
            for (size_inside, first, after), (size, padded) in zip(mine, expected, strict=True)
        ) and all(row == (1, 0, 1) for row in rest)
        if fits:
            boxes = [row for row, (_, padded) in zip(mine, expected, strict=True) if padded]
            across = boxes[0] if wide else (width, 0, width)
            down = boxes[-1] if tall else (height, 0, height)
            return _Image(down[0], across[0], down[1], across[1])
    return None
