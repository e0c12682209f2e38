"""Products of 16-bit steps with 8-bit weights (``shaders/wide_product.comp``): convolutions and FULLY_CONNECTED."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from nnvk.driver.vulkan.lowering.divide import divisors
from nnvk.driver.vulkan.lowering.filter_output import Operands
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.product import Product, Split
from nnvk.driver.vulkan.lowering.relayout import nchw_output, nhwc_input
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Tensor
from nnvk.ops.fused import activation_range
from nnvk.ops.linear import has_wide_bias, output_multipliers, rounding_of
from nnvk.types.codes import OperandCode

WIDE_PRODUCT = Shader("wide_product")
LOCAL = 64


class Way(IntEnum):
    """What an invocation computes."""

    APART = 0
    """Four elements, one after the other."""
    TOGETHER = 1
    """Four that see the same elements of the input."""
    CHANNELWISE = 2
    """Four that see a channel each, side by side."""
    TILED = 3
    """Four that see the same, of four pixels in a row."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What an output channel sees, and where its weights are."""

    depth: int
    """Input channels."""
    per_group: int
    """Output channels that see the same."""
    filter_step: int
    """Weights from one output channel to the next."""
    tap_step: int
    """Weights from one tap to the next."""


def is_wide(source: Tensor) -> bool:
    """Whether 16-bit steps are multiplied."""
    return source.code is OperandCode.TENSOR_QUANT16_SYMM


def refuse_wide(taps: int, depth: int, outputs: int) -> str:
    """Why sums of so many products can't be computed, by so many ``outputs`` side by side; empty where they can."""
    each = taps * (1 + -(-depth // (4 if depth % 4 == 0 else 1)) + -(-depth // 256))
    rounds = each if outputs % 4 == 0 else 4 * each
    if rounds > MOST_ROUNDS:
        return f"a sum of {taps * depth} products takes {rounds} rounds, the shader has at most {MOST_ROUNDS}"
    return ""


def _way(seen: Seen, product: Product, vector: bool) -> Way:
    """The way to compute the most at once."""
    if seen.per_group % 4 == 0:
        is_tiled = vector and product.target[2] > 1 and product.split is not Split.PHASES
        return Way.TILED if is_tiled else Way.TOGETHER
    sees_one = seen.depth == seen.per_group == seen.filter_step == 1
    return Way.CHANNELWISE if sees_one and product.source[3] % 4 == 0 else Way.APART


def multiply_wide(g: Lowering, operands: Operands, product: Product, seen: Seen, nchw: bool = False) -> None:
    """Compute the output of a convolution, or of what can be seen as one."""
    _, height, width, channels = product.source
    _, out_height, out_width, out_channels = product.target
    vertical, horizontal = product.vertical, product.horizontal
    low, high = activation_range(operands.activation, operands.output)
    written = g.tensor(operands.output)
    target = g.scratch(written.nbytes) if nchw else written
    elements = operands.output.size
    vector = seen.depth % 4 == 0 and seen.filter_step % 4 == 0 and seen.tap_step % 4 == 0
    every = np.stack(output_multipliers(operands.code, operands.input, operands.filter, operands.output), axis=1)
    way = _way(seen, product, vector)
    columns = -(-out_width // 4) if way is Way.TILED else out_width
    fours = out_channels // 4 if way is Way.TILED else out_channels
    count = math.prod((product.target[0], out_height, columns, fours)) if way is Way.TILED else -(-elements // 4)
    assert operands.bias is not None
    g.dispatch(
        WIDE_PRODUCT.variant(),
        groups=g.flat(count, LOCAL),
        spec={
            "local_x": LOCAL,
            "WAY": way,
            "TRANSPOSED": product.split is Split.PHASES,
            "VECTOR": vector,
            "WIDE_BIAS": has_wide_bias(operands.bias, out_channels),
            "ROUNDING": rounding_of(operands.code, operands.bias, out_channels),
        },
        tensors={
            "src": nhwc_input(g, operands.input, product.source, nchw),
            "weights": g.tensor(operands.filter),
            "bias": g.tensor(operands.bias),
            "multipliers": g.constant(np.broadcast_to(every, (out_channels, 2)).astype(np.int32)),
            "dst": target,
        },
        count=count,
        elements=elements,
        height=height,
        width=width,
        channels=channels,
        out_height=out_height,
        out_width=out_width,
        out_channels=out_channels,
        filter_height=vertical.window,
        filter_width=horizontal.window,
        **product.steps,
        depth=seen.depth,
        per_group=seen.per_group,
        filter_step=seen.filter_step,
        tap_step=seen.tap_step,
        **divisors(height=out_height, width=columns, channels=fours),
        low=int(low),
        high=int(high),
    )
    if nchw:
        nchw_output(g, target, operands.output)
