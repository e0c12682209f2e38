"""PAD into the convolution that reads what it gives: windows reach over the edge of the image just as well."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from nnvk.driver.vulkan.lowering.product import Split
from nnvk.driver.vulkan.lowering.surround import CONSTANT, RANK
from nnvk.driver.vulkan.planning.fusions.graph import Graph
from nnvk.driver.vulkan.shaders.commands import Dispatch

_CONVOLUTIONS = ("product", "depthwise_conv2d")


@dataclass(frozen=True, slots=True)
class _Image:
    """An image amid its surrounding."""

    height: int
    width: int
    above: int
    left: int


def fuse_pads(graph: Graph) -> None:
    """Let convolutions read images without the zeros around them."""
    for position, convolution in graph.dispatches(*_CONVOLUTIONS):
        found = graph.dispatch_that_writes(convolution.tensors["src"], "pad")
        if found is None:
            continue
        at, pad = found
        image = _image(pad, convolution)
        if image is None or not _has_zeros(pad, convolution) or not graph.may_wait(at):
            continue
        push = {**convolution.push, "height": image.height, "width": image.width}
        push["pad_top"] += image.above
        push["pad_left"] += image.left
        source = pad.tensors["src"]
        if "last_word" in push:
            push["last_word"] = max(0, source.nbytes - 1) // 4
        lone = list(graph.readers(convolution.tensors["src"])) == [position]
        fused = replace(
            convolution,
            tensors={**convolution.tensors, "src": source},
            push=push,
            specialization=_with_padding(convolution),
        )
        graph.replace(position, fused, [at] if lone and graph.is_passed_on(convolution.tensors["src"]) else [])


def _with_padding(convolution: Dispatch) -> tuple[int, ...]:
    """The constants of a convolution whose windows reach over the edge."""
    if convolution.shader.family != "product":
        return convolution.specialization
    return convolution.shader.with_constant(convolution.specialization, "PADDED", True)


def _has_zeros(pad: Dispatch, convolution: Dispatch) -> bool:
    """Whether what is around the box stands for 0."""
    if pad.shader.constant(pad.specialization, "MODE") != CONSTANT:
        return False
    push = convolution.push
    sign = int(push.get("sign_mask", 0)) & 0xFF
    return pad.push["value"] == int(push.get("input_zero", 0)) ^ sign


def _image(pad: Dispatch, convolution: Dispatch) -> _Image | None:
    """What a convolution's images are without their surrounding; None where more than that is around them.

    PAD has its dimensions folded: which of height and width have something around them is to be found out.
    """
    push = convolution.push
    if "parts" in push:
        split = convolution.shader.constant(convolution.specialization, "SPLIT")
        if split not in (Split.NOTHING, Split.CHANNELS):
            return None
        batches = int(push["rows"]) // int(push["out_height"] * push["out_width"])
    else:
        batches = int(push["batch"])
    height, width, channels = (int(push[name]) for name in ("height", "width", "channels"))
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
