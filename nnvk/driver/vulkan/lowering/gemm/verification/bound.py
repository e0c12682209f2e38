"""Products of floats that are verified by a bound on their rounding errors.

`gemm_bound.comp` computes each result of a product once more, by code that it shares with no other shader, and compares
it with the stored one. Both are rounded. A sum that is added up one term after the other is off by at most the unit
roundoff times the magnitudes of all its partial sums together (N. J. Higham, *Accuracy and Stability of Numerical
Algorithms*, 2002, section 4.2). These are no larger than the sums of the magnitudes of the terms, which the shader adds
up. This bound holds for every input, and for sums of slices of K as well. It is about half of the number of terms times
the sum of all magnitudes. `_STEPS` allows for another order of some terms.

Results of 16 bits are rounded once more, by at most 2^-11 of them. Their products are exact, and sums have 32 bits: a
verified plan has no strategy that adds up numbers of 16 bits.

An activation brings two values no further apart. An epilogue may add another tensor, which adds two roundings to each
side. The left matrix and that tensor are second results of other operations, and a copy of the results becomes the
second result, as with checksums.
"""

from __future__ import annotations

import math

import numpy as np

from nnvk.driver.vulkan.lowering.compared import Subject
from nnvk.driver.vulkan.lowering.copies.arrange import dense
from nnvk.driver.vulkan.lowering.copies.relayout import are_pixels_dense, round_up
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, dtype, of
from nnvk.driver.vulkan.lowering.gemm.epilogue import Target, added_one_for_one, bias_of, filter_output, narrowed
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, Operands, Split
from nnvk.driver.vulkan.lowering.gemm.tiles.subgroup import LANES, uses_subgroups
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK, Weights, in_order, in_order_by_blocks
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import activation_push
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader, Variant
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Tensor
from nnvk.ops.window import Axis
from nnvk.types.codes import FuseCode

BOUND = Shader("gemm_bound", DTYPE=("f32", "f16"), LOADS=("own", "shared"))
BY_CHANNEL = Shader("depthwise_bound", DTYPE=("f32", "f16"))
"""The shader for convolutions whose filters see a channel each. Their sums are short, so one bound is enough."""
_BLOCK = 32
"""Terms that the shader adds up by themselves."""
_STEPS = 40
"""Roundings that are allowed for besides: of products, of the sums of slices of K, and of terms in another order."""
_SMALLEST = 2.0**-124
"""The most that a term may lose if it, or its share in the bound, is too small for a normal number."""
_SMALLEST_FLOAT16 = 2.0**-14
"""The smallest normal number of 16 bits."""
_SMALLEST_STEP = 2.0**-25
"""Half of the distance between subnormal numbers of 16 bits."""
_LARGEST = 1e38
"""The magnitude from which on another order of a sum may overflow."""
_LINE = 4
"""The neighbouring pixels of an invocation of `BY_CHANNEL`, whose windows share inputs."""
_LONG_LINE = 16
"""The same on a CPU, where loads count and not the number of invocations."""
_LONGEST = 40
"""The most inputs of a line for the pixels of an invocation."""
_UNROLLED = 64
"""The most products of a line that are unrolled."""
_SLACK = 1.02
"""For the terms of second order, and for the roundings of the bound itself."""
_LOCAL = 64
_FEW_ROWS = 2
"""The pixels of an invocation that has few registers."""
_ROWS = 4
_SHARED_ROWS = 32
"""The same where a subgroup shares the loads of inputs, so that few loads are left."""


def variant(device: DeviceProfile, kind: str) -> Variant:
    """The variant of the shader for floats of a kind on a device."""
    return BOUND.variant(DTYPE=kind, LOADS="shared" if uses_subgroups(device) else "own")


def is_possible(device: DeviceProfile, kind: str, taps: int, depth: int) -> bool:
    """Whether a device can verify a product of windows of so many taps and channels, of floats of a kind."""
    return not device.avoids(variant(device, kind)) and _rounds(1, taps, depth) <= MOST_ROUNDS


def is_possible_by_channel(device: DeviceProfile, kind: str, vertical: Axis, horizontal: Axis) -> bool:
    """The same for a convolution whose filters see a channel each."""
    return fits_by_channel(vertical, horizontal) and not device.avoids(BY_CHANNEL.variant(DTYPE=kind))


def may_verify_by_channel(g: Lowering, operands: Operands, gemm: Gemm) -> bool:
    """Whether `verify_by_channel` will verify a convolution of floats whose filters see a channel each."""
    kind, target = of(operands.input), operands.target
    is_plain = kind in (F32, F16) and operands.epilogue is None and target.view is None and of(target) is kind
    return is_plain and g.may_store_checks and is_possible_by_channel(g.device, kind.name, *gemm.axes)


def fits_by_channel(vertical: Axis, horizontal: Axis) -> bool:
    """Whether a window is small enough for shaders that unroll the loop along a line."""
    rounds = vertical.window * (1 + _LONG_LINE * (1 + horizontal.window))
    return horizontal.reach <= _LONGEST and rounds <= MOST_ROUNDS


def pixels_of_line(device: DeviceProfile, horizontal: Axis) -> int:
    """The neighbouring pixels of an invocation of the shader `BY_CHANNEL`."""
    pixels = _FEW_ROWS if device.has_small_subgroups else _LONG_LINE if device.is_cpu else _LINE
    fitting = 1 + (_LONGEST - horizontal.reach) // horizontal.stride
    most = min(2 * horizontal.out - 1, fitting, _UNROLLED // horizontal.window)
    while pixels > max(1, most):
        pixels //= 2
    return pixels


def may_verify(g: Lowering, operands: Operands, gemm: Gemm) -> bool:
    """Whether `verify` will verify a product of floats if it is computed by gemm.comp.

    An epilogue may add a tensor, but not behind an activation (`epilogue.has_bound_with`), and not in the place of a
    larger one. Results have the type of the inputs.
    """
    epilogue, kind = operands.epilogue, of(operands.input)
    if not (g.may_store_checks and kind in (F32, F16) and of(operands.target) is kind):
        return False
    if epilogue is not None:
        is_alone = operands.activation == FuseCode.NONE and operands.target.view is None
        if not is_alone or added_one_for_one(epilogue) is None:
            return False
    return is_possible(g.device, kind.name, gemm.taps, gemm.depth)


def is_bounded(g: Lowering, operands: Operands, gemm: Gemm) -> bool:
    """Whether a product's errors must have a bound, in its own lowering or in the one that verifies it.

    Sums of 16-bit floats have none that tells faults from roundings, and Winograd's tiles none for each result.
    """
    return may_verify(g, operands, gemm) or g.to_bound(operands.target) is not None


def _rounds(rows: int, taps: int, depth: int) -> int:
    """The most rounds of the loops of an invocation, if it has to compare each of its pixels once more."""
    return taps * (1 + -(-depth // _BLOCK) + -(-depth // 4)) + rows * (1 + taps * (1 + -(-depth // 4)))


def pixels_of(device: DeviceProfile, rows: int, taps: int, depth: int) -> int:
    """The pixels of an invocation, of ``rows`` of a part."""
    many = _SHARED_ROWS if uses_subgroups(device) else _FEW_ROWS if device.has_small_subgroups else _ROWS
    many = min(many, 1 << (rows - 1).bit_length())
    while _rounds(many, taps, depth) > MOST_ROUNDS:
        many //= 2
    return many


def weights_in_order(g: Lowering, weights: Weights, parts_outside: bool) -> tuple[TensorRef, dict[str, int]]:
    """Weights in the shader's order, and push constants with their strides in vec4s.

    Constant ones that subgroups of a CPU read lie in blocks, because its caches keep few lines that are far apart.
    """
    parts, outputs, taps, channels = weights.shape
    vec4s, of_block = -(-outputs // 4), BLOCK // 4
    if weights.tensor.is_constant and uses_subgroups(g.device):
        size = taps * channels * of_block
        layout = {"filter_part": -(-vec4s // of_block) * size, "filter_block": size, "filter_step": of_block}
        return in_order_by_blocks(g, weights), layout
    layout = {"filter_part": vec4s, "filter_block": of_block, "filter_step": parts * vec4s}
    if parts_outside:
        layout |= {"filter_part": taps * channels * vec4s, "filter_step": vec4s}
    return in_order(g, weights, parts_outside), layout


def layout_of_results(device: DeviceProfile, target: Tensor, gemm: Gemm) -> dict[str, int | bool]:
    """The specialisation constants for the layout of results in memory (`relayout.pixels_of`)."""
    is_padded = not are_pixels_dense(device, target, gemm.target, gemm.pixel_parts)
    are_packed = of(target) is F16 and not device.has_native_16
    return {"WIDE_RESULTS": gemm.columns % 4 == 0 or are_packed, "PADDED_RESULTS": is_padded}


def _smallest_result(device: DeviceProfile, target: Tensor) -> float:
    """The most that a result may lose besides if it is too small for a normal number."""
    if of(target) is F32:
        return 0.0
    return _SMALLEST_STEP if device.preserves_small_float16 else _SMALLEST_FLOAT16


def verify_by_channel(g: Lowering, operands: Operands, gemm: Gemm, results: TensorRef, target: TensorRef) -> None:
    """Verify a convolution of floats whose filters see a channel each, and copy it to ``target``."""
    tensor, horizontal, taps = operands.target, gemm.horizontal, operands.weights.taps
    flag, number = g.compared(Subject(g.operation, tensor.name, tensor.dtype.name, tensor.shape))
    (*_, channels), (*_, out_width, outputs) = gemm.source, gemm.target
    output = filter_output(g, operands, gemm)
    pixels, local = pixels_of_line(g.device, horizontal), LANES if g.device.is_cpu else _LOCAL
    tiles = gemm.rows // out_width * -(-out_width // pixels)
    g.dispatch(
        BY_CHANNEL.variant(DTYPE=dtype(tensor)),
        groups=g.flat(tiles * -(-outputs // 4), local),
        spec={
            "local_x": local,
            "WIDE": channels == outputs and channels % 4 == 0,
            **layout_of_results(g.device, tensor, gemm),
            "ROWS": pixels,
            "KERNEL_WIDTH": horizontal.window,
            "PRESERVES_SPECIAL": g.device.preserves_special,
            **gemm.steps,
        },
        tensors={
            "src": g.tensor(operands.input),
            "filters": in_order(g, operands.weights, parts_outside=False),
            "bias": output.tensors["bias"],
            "computed": results,
            "dst": target,
            "flag": flag,
        },
        **gemm.push_by_channel,
        low=output.limits[0],
        high=output.limits[1],
        steps=_SLACK * (taps + _STEPS),
        underflow=(taps + _STEPS) * _SMALLEST + _smallest_result(g.device, tensor),
        number=number,
    )


def verify(g: Lowering, operands: Operands, gemm: Gemm, results: TensorRef, scales: np.ndarray | None = None) -> None:
    """Verify a product of floats, and copy its results.

    ``scales``: sums of products with 8-bit weights were multiplied by them in the end, and the filters before. That is
    a rounding of each. These sums may overflow where magnitudes are as large as `_LARGEST` times a scale, and lose
    small terms times it.
    """
    target, epilogue = Target.of(g, operands, gemm), operands.epilogue
    limits, extra = activation_push(operands.activation, operands.output), None
    if epilogue is not None:
        limits, extra = activation_push(epilogue.calls[0].activation, epilogue.output), added_one_for_one(epilogue)
    weights, layout = weights_in_order(g, operands.weights, gemm.parts_outside)
    flag, number = g.compared(Subject(g.operation, target.tensor.name, target.tensor.dtype.name, target.tensor.shape))
    taps, depth, (rows, parts) = gemm.taps, gemm.depth, _rows_and_parts(gemm)
    of_row, vec4s = pixels_of(g.device, rows, taps, depth), -(-gemm.columns // 4)
    local, across, of_loads = LANES if g.device.is_cpu else _LOCAL, vec4s, dict[str, int]()
    if uses_subgroups(g.device):
        across, of_loads = round_up(vec4s, LANES), {"TOGETHER": 2 if depth % 8 == 0 else 1}
    smallest, largest = (1.0, 1.0) if scales is None else (min(1.0, float(scales.min())), max(1.0, float(scales.max())))
    of_results = layout_of_results(g.device, target.tensor, gemm)
    roundings = _STEPS + 2 * (extra is not None) + 2 * (scales is not None) + _BLOCK + taps * -(-depth // _BLOCK)
    g.dispatch(
        variant(g.device, dtype(target.tensor)),
        groups=g.flat(parts * -(-rows // of_row) * across, local),
        spec={
            "local_x": local,
            "ROWS": of_row,
            "PRESERVES_SPECIAL": g.device.preserves_special,
            "LARGEST_EXPONENT": int(np.float32(_LARGEST * smallest).view(np.uint32)) >> 23,
            "HAS_EXTRA": extra is not None,
            "INTERLEAVED": gemm.pixel_parts * target.interleaved,
            "WIDE": depth % 4 == 0,
            "TRANSPOSED": gemm.split is Split.PHASES,
            **of_loads,
            **of_results,
            **gemm.steps,
        },
        tensors={
            "src": dense(g, narrowed(g, operands)),
            "filters": weights,
            "bias": bias_of(g, operands, gemm),
            "computed": results,
            "dst": target.pixels,
            "extra": results if extra is None else g.tensor(extra),
            "flag": flag,
        },
        pad_steps=float(roundings),
        underflow=(taps * depth + _STEPS) * _SMALLEST * largest + _smallest_result(g.device, target.tensor),
        number=number,
        **_geometry(gemm, target, is_padded=bool(of_results["PADDED_RESULTS"])),
        **layout,
        **limits,
    )
    target.finish(g)


def _rows_and_parts(gemm: Gemm) -> tuple[int, int]:
    """The rows and parts that the shader goes through: of a transposed convolution all pixels of the output."""
    return (math.prod(gemm.target[:3]), 1) if gemm.split is Split.PHASES else (gemm.rows, gemm.parts)


def _geometry(gemm: Gemm, target: Target, *, is_padded: bool) -> dict[str, int]:
    """The push constants for the geometry. ``is_padded``: the channels of stored pixels are padded to vec4s."""
    (_, height, width, channels), (rows, parts) = gemm.source, _rows_and_parts(gemm)
    columns = round_up(gemm.columns, 4) if is_padded else gemm.columns
    return {
        **gemm.push(),
        "rows": rows,
        "parts": parts,
        "src_part": height * width * channels if gemm.parts_outside else gemm.depth,
        "bias_part": 0 if gemm.parts_outside else gemm.columns,
        "dst_part": columns,
        "dst_pitch": gemm.pixel_parts * target.interleaved * columns,
    }
