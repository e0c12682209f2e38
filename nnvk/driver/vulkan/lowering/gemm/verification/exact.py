"""Products once more, for verified plans, by shaders that share no code of products with others.

They compute what no checksums verify: products of floats, with filters that are computed, of matrices, of 16 bits, of
transposed convolutions, and of the gates of quantised cells. Their results have the same bits as those of all
strategies, so they are compared as those of any second computation are (`lowering/verification.py`). A shader that is
wrong each time is found in this way. Floats have the same bits because both add up products in the order of
`nnvk.ops.reproducible`.

Nothing is prepared for these shaders but constant filters of floats: they read inputs and filters as they lie in
operands, and need strides alone.
"""

from __future__ import annotations

from dataclasses import replace

from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.copies.arrange import dense
from nnvk.driver.vulkan.lowering.copies.relayout import are_pixels_dense, round_up
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, I32, Q8, Q16, dtype, of
from nnvk.driver.vulkan.lowering.gemm.epilogue import (
    Target,
    accumulated,
    added_one_for_one,
    filter_output,
    narrowed,
)
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, Operands, Split
from nnvk.driver.vulkan.lowering.gemm.tiles.subgroup import LANES, uses_subgroups
from nnvk.driver.vulkan.lowering.gemm.weights import Weights, in_order, weights_of
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import activation_limits, offset, zero_point
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader, Variant
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Tensor
from nnvk.ops.strided import dense_strides
from nnvk.ops.window import Axis
from nnvk.types.codes import FuseCode

EXACT = Shader("gemm_exact", DTYPE=(F32.name, F16.name, Q8.name, Q16.name, I32.name), LOADS=("own", "shared"))
BY_CHANNEL = Shader("depthwise_exact", DTYPE=(F32.name, F16.name, Q8.name, Q16.name))
"""The shader for convolutions whose filters see a channel each."""
_LOCAL = 64
_ROWS = 4
"""The pixels of an invocation of `EXACT`."""
_FEW_ROWS = 2
"""The same where registers are few."""
_SHARED_ROWS = 32
"""The same where a subgroup shares the loads of inputs."""
_LINE = 4
"""The neighbouring pixels of an invocation of `BY_CHANNEL`, whose windows share inputs."""
_LONG_LINE = 16
"""The same on a CPU, where loads count and not the number of invocations."""
_LONGEST = 40
"""The most inputs of a line for the pixels of an invocation."""
_UNROLLED = 64
"""The most products of a line that are unrolled."""
_BLOCK = 256
"""Terms that the shader adds up by themselves."""
_ALONG_CHANNELS, _ALONG_OUTPUTS = 1, 2
"""How the shader loads words of filters, or 0."""


def variant(device: DeviceProfile, kind: str) -> Variant:
    """The variant of the shader for numbers of a kind on a device."""
    return EXACT.variant(DTYPE=kind, LOADS="shared" if uses_subgroups(device) else "own")


def may_verify(g: Lowering, operands: Operands, gemm: Gemm) -> bool:
    """Whether `lower_gemm` computes a product that is lowered the second time."""
    return _is_second(g, operands) and _is_possible(g, dtype(operands.input), gemm.taps, operands.weights.channels)


def may_verify_by_channel(g: Lowering, operands: Operands, gemm: Gemm) -> bool:
    """The same for `lower_depthwise`."""
    kind = dtype(operands.input)
    is_possible = _is_second(g, operands) and fits_by_channel(*gemm.axes)
    return is_possible and not g.device.avoids(BY_CHANNEL.variant(DTYPE=kind))


def may_verify_sums(g: Lowering, length: int) -> bool:
    """The same for `add_up`."""
    return g.is_independent and _is_possible(g, Q8.name, 1, length)


def _is_second(g: Lowering, operands: Operands) -> bool:
    """Whether a product is lowered the second time, without checksums and with no epilogue but a sum of floats."""
    kind, weights, epilogue = of(operands.input), of(operands.weights.tensor), operands.epilogue
    if not g.is_independent or operands.depthwise is not None or g.to_verify(operands.target) is not None:
        return False
    if kind not in (F32, F16):
        return epilogue is None and kind in (Q8, Q16, I32) and weights is (I32 if kind is I32 else Q8)
    is_alone = operands.activation == FuseCode.NONE and operands.target.view is None
    return of(operands.target) is kind and (epilogue is None or (is_alone and added_one_for_one(epilogue) is not None))


def _is_possible(g: Lowering, kind: str, taps: int, depth: int) -> bool:
    rounds = taps * (1 + -(-depth // _BLOCK) + -(-depth // 4))
    return rounds <= MOST_ROUNDS and not g.device.avoids(variant(g.device, kind))


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


def recompute(g: Lowering, operands: Operands, gemm: Gemm) -> None:
    """Compute the output of a product."""
    target = Target.of(g, operands, gemm)
    _, height, width, channels = gemm.source
    own = Arguments(
        {"PARTS_ALIKE": gemm.pixel_parts == 1},
        {"src": dense(g, narrowed(g, operands)), "dst": target.pixels},
        {"src_part": height * width * channels if gemm.parts_outside else gemm.depth},
    )
    end = _end(g, operands, gemm, gemm.pixel_parts * target.interleaved)
    weights, filters = _filters(g, operands.weights, gemm)
    _dispatch(g, dtype(operands.input), gemm, weights, filters, own | end)
    target.finish(g)


def recompute_depthwise(g: Lowering, operands: Operands, gemm: Gemm) -> None:
    """Compute the output of a convolution whose filters, in one part, see a channel each."""
    kind, horizontal = dtype(operands.input), gemm.horizontal
    weights, filters = _filters(g, operands.weights, gemm)
    target, end = Target.of(g, operands, gemm), _end(g, operands, gemm, 1)
    (*_, channels), (*_, out_width, outputs) = gemm.source, gemm.target
    pixels, local = pixels_of_line(g.device, horizontal), LANES if g.device.is_cpu else _LOCAL
    tiles = gemm.rows // out_width * -(-out_width // pixels)
    _, by_output, tap, _ = weights.strides
    g.dispatch(
        BY_CHANNEL.variant(DTYPE=kind),
        groups=g.flat(tiles * -(-outputs // 4), local),
        spec={
            **end.spec,
            "local_x": local,
            "ROWS": pixels,
            "KERNEL_WIDTH": horizontal.window,
            "WIDE": channels == outputs and channels % 4 == 0,
            "FILTER_WORDS": _words_of(weights),
        },
        tensors={
            "src": dense(g, narrowed(g, operands)),
            "filters": filters,
            "dst": target.pixels,
            **end.tensors,
        },
        **end.push,
        **gemm.push_by_channel,
        filter_output=by_output,
        filter_tap=tap,
    )
    target.finish(g)


def add_up(
    g: Lowering, weights: Tensor, source: Tensor, *, first: int = 0, before: TensorRef | None = None
) -> TensorRef:
    """Rows of ``source`` times weights [columns, K], less zero points, as 32-bit integers [rows, columns].

    Columns are a multiple of four; sums wrap round. The elements of a row meet those of K from ``first`` on. ``before``
    is added to the sums.
    """
    (rows, length), columns = source.shape, weights.shape[0]
    target = g.scratch(4 * rows * columns)
    gemm, own_weights = Gemm.of_rows(rows, length, columns), replace(weights_of(weights), channels=length)
    bias = {"bias": target if before is None else before}
    own = Arguments(
        {"STORES_SUMS": True, "HAS_BIAS": before is not None},
        {"src": g.tensor(source), **bias, "multipliers": target, "dst": target},
        {"src_part": 0, "dst_pitch": columns, "low": 0, "high": 0},
    )
    _dispatch(g, Q8.name, gemm, own_weights, dense(g, weights), _encoding(source, weights) | own, first)
    return target


def _filters(g: Lowering, weights: Weights, gemm: Gemm) -> tuple[Weights, TensorRef]:
    """The weights as they lie in memory, and that memory: the operand's, but constant floats by output channels."""
    tensor = weights.tensor
    if not tensor.is_constant or of(tensor) not in (F32, F16):
        is_kept = weights.kept_as(g.device) is of(tensor)
        return weights, dense(g, tensor) if is_kept else accumulated(g, tensor)
    sizes, _ = weights.sizes_and_strides(gemm.parts_outside)
    strides = dense_strides([*sizes[:3], round_up(sizes[3], 4)])
    order = (0, 3, 1, 2) if gemm.parts_outside else (2, 3, 0, 1)
    part, output, tap, channel = (strides[axis] for axis in order)
    return replace(weights, strides=(part, output, tap, channel)), in_order(g, weights, gemm.parts_outside)


def _encoding(source: Tensor, weights: Tensor, output: Tensor | None = None) -> Arguments:
    """The arguments that turn quantised values into numbers. Sums have no ``output``."""
    if of(source) in (F32, F16, I32):
        return Arguments()
    has_bytes = output is not None and of(output) is Q8
    return Arguments(
        {
            "SIGNED": bool(offset(source)),
            "FILTERS_SIGNED": bool(offset(weights)),
            "RESULTS_SIGNED": output is not None and has_bytes and bool(offset(output)),
        },
        push={
            "input_zero": zero_point(source),
            "filter_zero": zero_point(weights),
            "output_zero": zero_point(output) if output is not None and has_bytes else 0,
        },
    )


def _end(g: Lowering, operands: Operands, gemm: Gemm, interleaved: int) -> Arguments:
    """The arguments of all shaders for windows and for results of ``interleaved`` parts."""
    output, kind, epilogue = operands.target, of(operands.input), operands.epilogue
    end = filter_output(g, replace(operands, epilogue=None), gemm)
    is_dense = are_pixels_dense(g.device, output, gemm.target, gemm.pixel_parts)
    columns = gemm.columns if is_dense else round_up(gemm.columns, 4)
    spec = {name: end.spec[name] for name in ("WIDE_BIAS", "ROUNDING") if name in end.spec}
    tensors = {name: tensor for name, tensor in end.tensors.items() if name in ("bias", "multipliers")}
    if kind in (F32, F16):
        extra = None if epilogue is None else added_one_for_one(epilogue)
        spec["HAS_EXTRA"] = extra is not None
        tensors["extra"] = tensors["bias"] if extra is None else g.tensor(extra)
    limits = end.limits if epilogue is None else activation_limits(epilogue.calls[0].activation, output)
    return _encoding(operands.input, operands.weights.tensor, output) | Arguments(
        {**spec, "WIDE_RESULTS": columns % 4 == 0, "INTERLEAVED": interleaved, **gemm.steps},
        tensors,
        {"dst_pitch": interleaved * columns, "low": limits[0], "high": limits[1]},
    )


def _dispatch(
    g: Lowering,
    kind: str,
    gemm: Gemm,
    weights: Weights,
    filters: TensorRef,
    arguments: Arguments,
    first: int = 0,
) -> None:
    """Dispatch `EXACT` with filters from an element of their tensor on."""
    part, by_output, tap, channel = weights.strides
    local, across = LANES if g.device.is_cpu else _LOCAL, -(-gemm.columns // 4)
    most = _FEW_ROWS if g.device.has_small_subgroups else _ROWS
    if uses_subgroups(g.device):
        most, across = _SHARED_ROWS, round_up(across, LANES)
    geometry, lines, length = gemm.push(), gemm.parts, gemm.rows
    if gemm.split is Split.PHASES:  # tiles have pixels of a line that are a stride from each other
        batches, height, width, _ = gemm.target
        stride = gemm.horizontal.stride
        geometry |= {"parts": 1, "rows": batches * height * width}
        lines, length = batches * height * min(stride, width), -(-width // stride)
    rows = min(most, 1 << (length - 1).bit_length())
    g.dispatch(
        variant(g.device, kind),
        groups=g.flat(lines * -(-length // rows) * across, local),
        spec={
            **arguments.spec,
            "local_x": local,
            "ROWS": rows,
            "WIDE": gemm.depth % 4 == 0,
            "FILTER_WORDS": _words_of(weights, first),
            "TRANSPOSED": gemm.split is Split.PHASES,
        },
        tensors={**arguments.tensors, "filters": filters},
        filter_first=first,
        filter_part=part,
        filter_output=by_output,
        filter_tap=tap,
        filter_channel=channel,
        **geometry,
        **arguments.push,
    )


def _words_of(weights: Weights, first: int = 0) -> int:
    """How four filters lie in a word, or in four words of numbers. ``first`` is the element where filters begin."""
    part, output, tap, channel = (
        0 if size == 1 else stride for size, stride in zip(weights.shape, weights.strides, strict=True)
    )
    if first % 4:
        return 0
    if channel == 1 and weights.channels % 4 == 0 and part % 4 == output % 4 == tap % 4 == 0:
        return _ALONG_CHANNELS
    if output == 1 and part % 4 == tap % 4 == channel % 4 == 0:
        return _ALONG_OUTPUTS
    return 0
