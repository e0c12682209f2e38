"""GEMMs: what convolutions, FULLY_CONNECTED and BATCH_MATMUL become, and the one way to dispatch them."""

from __future__ import annotations

import math

import numpy as np

from nnvk.driver.vulkan.lowering.compared import Checked
from nnvk.driver.vulkan.lowering.copies.arrange import ARRANGE, dense
from nnvk.driver.vulkan.lowering.copies.relayout import are_pixels_dense, finish_pixels, pixels_of, round_up
from nnvk.driver.vulkan.lowering.copies.side_by_side import Matrices, read, written
from nnvk.driver.vulkan.lowering.divide import divisors_below
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, I32, Q8, dtype, of
from nnvk.driver.vulkan.lowering.gemm import cooperative_matrix, half_weights, separable
from nnvk.driver.vulkan.lowering.gemm.arguments import grid, tile_push, tile_spec
from nnvk.driver.vulkan.lowering.gemm.epilogue import added_one_for_one
from nnvk.driver.vulkan.lowering.gemm.filter_output import (
    FilterOutput,
    Operands,
    filter_output,
    has_narrow_sums,
    narrowed,
)
from nnvk.driver.vulkan.lowering.gemm.problem import POINT, Gemm, Split
from nnvk.driver.vulkan.lowering.gemm.strategies import (
    GEMM,
    VECTOR,
    Strategy,
    WeightLayout,
    Work,
    folds_zero_point,
    is_quick,
    takes_half_weights,
)
from nnvk.driver.vulkan.lowering.gemm.strategy_costs import ranked
from nnvk.driver.vulkan.lowering.gemm.verification import bound, checksum, exact
from nnvk.driver.vulkan.lowering.gemm.weights import (
    BLOCK,
    WEIGHT_SHADERS,
    Weights,
    fit_four_bits,
    float16_scaling_of,
    in_order,
    may_be_float16,
    packed,
    packed_quantised,
    zero_of,
)
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import activation_push, offset, sign_push
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef, integer
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call
from nnvk.types.codes import FuseCode
from nnvk.types.constant import QuantisedConstant

GEMM_SHADERS = (GEMM, VECTOR, ARRANGE, *WEIGHT_SHADERS, checksum.CHECKSUM, bound.BOUND, exact.EXACT)
"""All that `lower_gemm` may dispatch."""

FROM_FLOATS = "FROM_FLOATS"
"""The specialisation constant by which float16 variants of gemm.comp read a float32 input."""

_MAX_ITERATIONS = 65_000
"""The most rounds of all loops of an invocation together: llvmpipe ends them after 65,535."""


def refuse_long_sums(taps: tuple[int, int], channels: int) -> str | None:
    """Why a sum over the taps of a window (height, width) and over channels is too long; empty if it isn't."""
    height, width = taps
    iterations = height * (1 + width * (1 + -(-channels // 4)))
    if iterations <= _MAX_ITERATIONS:
        return None
    sum_ = f"a sum over {height} x {width} x {channels} values"
    return f"{sum_} takes {iterations} iterations, at most {_MAX_ITERATIONS} are safe"


def epilogue_channels(call: Call, device: DeviceProfile, parts: int = 1) -> int | None:
    """The channels of the pixels that a call's GEMM stores, if it can have an epilogue; None if it can't.

    ``parts``: the equal parts that share a pixel. Pixels must not be padded, and those of bytes must be whole words.
    """
    output, type_ = call.output, of(call.output)
    *_, channels = output.shape
    if type_ not in (F32, F16, Q8) or not output.size or (type_ is Q8 and channels // parts % 4):
        return None
    shape = math.prod(output.shape[:-1]), 1, 1, channels
    return channels if are_pixels_dense(device, output, shape, parts) else None


def has_few_channels(depth: int) -> bool:
    """Whether input channels are loaded one by one, as those of `Operands.wide_input` are.

    Others are loaded as vectors, and for every block of output channels again, so that a float16 copy pays.
    """
    return depth % 4 != 0


def channels_of(gemm: Dispatch) -> int:
    """The channels of a pixel of a product's output."""
    return integer(gemm.push, "out_channels") * _pixel_parts(gemm, "TARGET_PARTS")


def inputs_of(gemm: Dispatch) -> int:
    """The same of what it reads; of a transform of Winograd's too."""
    push = gemm.push
    if gemm.shader.family == "depthwise_conv2d":
        return integer(push, "out_channels") // integer(push, "depth_multiplier")
    if gemm.shader.family == "fully_connected":
        return integer(push, "inputs")
    return integer(push, "depth") * _pixel_parts(gemm, "SOURCE_PARTS") if "depth" in push else integer(push, "channels")


def layout_of_weights(gemm: Dispatch) -> WeightLayout:
    """How the weights of a dispatch of gemm.comp lie: BY_K also where the tile is none that stages them."""
    shader, words = gemm.shader, gemm.specialization
    _, tile, *_ = shader.choice
    if tile == "shared":
        return WeightLayout(shader.constant(words, "WEIGHT_LAYOUT"))
    in_order = tile in ("register", "quads") and not shader.constant(words, "PACKED")
    return WeightLayout.BY_K if in_order else WeightLayout.IN_BLOCKS


def width_of_weights(gemm: Dispatch) -> int:
    """Elements of a row of right matrices, interleaved ones included, if the shader reads them in place; else 0."""
    shader, words, push = gemm.shader, gemm.specialization, gemm.push
    if shader.constant(words, "SPLIT") == Split.CHANNELS:
        return 0
    order, interleaved = layout_of_weights(gemm), shader.constant(words, "WEIGHT_PARTS")
    if order is WeightLayout.IN_BLOCKS:
        return 0
    return interleaved * integer(push, "out_channels" if order is WeightLayout.BY_K else "depth")


def _pixel_parts(gemm: Dispatch, matrices: str) -> int:
    """The number of parts in a pixel; ``matrices`` names the constant with the number of interleaved matrices."""
    if gemm.shader.family != "gemm":
        return 1
    by_channels = gemm.shader.constant(gemm.specialization, "SPLIT") == Split.CHANNELS
    return integer(gemm.push, "parts") if by_channels else gemm.shader.constant(gemm.specialization, matrices)


# --- from the problem to the dispatch ------------------------------------------------------------------------


def lower_gemm(g: Lowering, operands: Operands, gemm: Gemm) -> None:
    """Compute the output of a GEMM, by the strategy that is thought or was measured to be the fastest."""
    if exact.may_verify(g, operands, gemm):
        exact.recompute(g, operands, gemm)
        return
    work = work_of(g, operands, gemm)
    lower_gemm_by(g, best_strategy(g, operands, gemm, work), operands, gemm, work)


def work_of(g: Lowering, operands: Operands, gemm: Gemm) -> Work:
    """The description of a GEMM that strategies are chosen by."""
    weights, kind, (vertical, horizontal) = operands.weights, dtype(operands.input), gemm.axes
    native = kind == F16.name and g.device.has_native_16 and not is_bounded(g, operands, gemm)
    float16 = native and may_be_float16(g, weights)
    float16_split_k = native and may_be_float16(g, weights, split_k=True)
    if operands.depthwise is not None:
        return separable.work_of(operands.depthwise, gemm, float16=float16, float16_split_k=float16_split_k)
    constant, lies_in_order = weights.tensor.is_constant, weights.is_in_order(gemm.parts_outside, g.device)
    taps = vertical.window * horizontal.window
    if gemm.split is Split.PHASES:
        taps = -(-vertical.window // vertical.stride) * -(-horizontal.window // horizontal.stride)

    # Constants are packed beforehand. The tile `shared` can take right matrices that a model computes as they lie.
    layout = WeightLayout.IN_BLOCKS
    is_matrix = weights.taps == 1 and gemm.split in (Split.NOTHING, Split.BATCHES)
    if not constant and is_matrix and dtype(weights.tensor) in (F32.name, F16.name, I32.name):
        if lies_in_order:
            layout = WeightLayout.BY_K
        elif weights.is_by_outputs(g.device):
            layout = WeightLayout.BY_OUTPUTS

    # Weights of 8 bits stay such in matrices alone, because Winograd's tiles need real numbers.
    has_constant_bias = operands.bias is not None and operands.bias.is_constant
    may_stay_bytes = kind == F32.name and has_constant_bias and gemm.is_side_by_side and gemm.split is Split.NOTHING
    return Work(
        kind,
        gemm.rows,
        gemm.columns,
        gemm.parts,
        taps,
        gemm.depth,
        constant=constant,
        in_order=lies_in_order,
        order=layout,
        matrix=gemm.parts == 1 and vertical == POINT and horizontal == POINT and gemm.source[1:3] == (1, 1),
        int8_weights=may_stay_bytes and weights.quantised is not None,
        float16=float16,
        float16_split_k=float16_split_k,
        can_fold=half_weights.are_known(operands.input, weights, operands.bias)
        and gemm.split in (Split.NOTHING, Split.CHANNELS)
        and not fit_four_bits(g, weights, None),
        narrow=operands.is_wide and has_narrow_sums(g, operands),
        line_taps=_line_taps(weights, gemm),
    )


def _line_taps(weights: Weights, gemm: Gemm) -> int:
    """The taps of a line if cooperative matrices can take them as one: those of few channels, one after the other."""
    window, dilation = gemm.horizontal.window, gemm.horizontal.dilation
    is_possible = gemm.split is Split.NOTHING and dilation == 1 and weights.has_dense_taps
    return window if is_possible and has_few_channels(gemm.depth) else 1


def best_strategy(g: Lowering, operands: Operands, gemm: Gemm, work: Work) -> Strategy:
    """The strategy for a GEMM that is thought or was measured to be the fastest."""
    every = g.once(("ranked", work), lambda: ranked(work, g.device))
    is_exact = work.kind not in (F32.name, F16.name)
    return g.choose(
        g.tuning_key(work, gemm), every, is_quick=lambda strategy: is_quick(strategy, work, g.device), is_exact=is_exact
    )


def lower_gemm_by(g: Lowering, strategy: Strategy, operands: Operands, gemm: Gemm, work: Work) -> None:
    """Compute the output of a GEMM by a strategy that was chosen for its work."""
    filters, split_k = operands.weights, strategy.split_k > 1
    quantised = filters.quantised if strategy.arithmetic == "int8" else None
    output_tensor, target_parts = written(operands.target, Matrices(gemm.parts, gemm.rows, gemm.columns))
    target = pixels_of(g, output_tensor, gemm.target, gemm.pixel_parts)
    depthwise = operands.depthwise
    if (checked := g.to_verify(operands.target)) is not None and depthwise is not None:
        verify(g, operands, separable.behind(gemm), checked, g.checked[depthwise.output.index].results, target)
        separable.verify(g, depthwise)
        return
    if checked is not None:
        source, _, _ = read(g, operands.input, Matrices(gemm.parts, gemm.rows, gemm.depth))
        verify(g, operands, gemm, checked, source, target)
        return
    if (results := g.to_bound(operands.target)) is not None:
        verify_by_bound(g, operands, gemm, results, target, quantised)
        return
    is_wide = operands.wide_input is not None and strategy.tile != "vector" and has_few_channels(gemm.depth)
    if depthwise is not None:
        source, source_parts = g.tensor(depthwise.input), 1
    elif is_wide:
        assert operands.wide_input is not None
        source, source_parts = g.tensor(operands.wide_input), 1
    else:
        source, source_parts, _ = read(g, narrowed(g, operands), Matrices(gemm.parts, gemm.rows, gemm.depth))
    places = {"SOURCE_PARTS": source_parts, "TARGET_PARTS": target_parts}
    scaling = float16_scaling_of(g, filters, split_k=split_k) if strategy.arithmetic == "half" else None
    scale = 1.0 if scaling is None else scaling.scale
    four_bits = strategy.packed and strategy.matrices is None and fit_four_bits(g, filters, quantised)
    if strategy.matrices is not None:
        weights = cooperative_matrix.packed_by_filter(g, filters.in_lines(work.line_taps))
    elif quantised is not None:
        weights = packed_quantised(g, filters, quantised, four_bits=four_bits)
    elif takes_half_weights(strategy, work, g.device):
        weights = half_weights.packed(g, filters, half_weights.form_of(g.device, work.rows, work.packed_weights))
    elif strategy.packed:
        weights = packed(g, filters, scale, four_bits=four_bits)
    elif strategy.is_staged or (work.in_order and scale == 1.0):
        weights, of_weights = _weights_as_they_lie(g, strategy, gemm, work, filters)
        places |= of_weights
    else:
        weights = in_order(g, filters, gemm.parts_outside, scale)
    words = _check_words(g, strategy, operands, gemm, work) if source_parts == 1 else 0
    folded = folds_zero_point(strategy, work, g.device)
    biases_follow, behind_biases = bool(words) and split_k and operands.epilogue is not None, None
    if depthwise is not None and biases_follow:
        behind_biases = separable.parameters(g, depthwise)
    output = filter_output(
        g,
        operands,
        gemm.columns,
        gemm.pixel_parts,
        narrow=work.narrow,
        folded=folded,
        biases_follow=biases_follow,
        behind_biases=behind_biases,
        weight_scales=None if quantised is None else quantised.scales,
    )
    tensors = {"src": source, "weights": weights, "dst": target, **output.tensors}
    push = dict(output.push)
    if quantised is not None:
        push["weight_zero"] = zero_of(quantised)

    spec: dict[str, int | bool]
    if strategy.tile == "vector":
        groups = gemm.rows, -(-gemm.columns // BLOCK), 1
        local_x, local_y = strategy.local
        spec = {"local_x": local_x, "local_y": local_y, "VECTOR_STORES": gemm.columns % 4 == 0}
        push |= {"inputs": gemm.depth, "src_pitch": gemm.depth, "out_channels": gemm.columns}
        push |= sign_push(operands.input)
    else:
        tiles, invocations = strategy.tiles(work), math.prod(strategy.local)
        groups, order = grid(g, strategy, gemm, work)
        _, part_height, part_width = gemm.pixels
        magics, as_floats = divisors_below(g.device, gemm.rows, height=part_height, width=part_width)
        spec = tile_spec(strategy, gemm, work, g.device) | order | as_floats
        spec |= {name: parts for name, parts in places.items() if parts != 1}
        if is_wide:
            spec[FROM_FLOATS] = True
        line_taps = work.line_taps if strategy.matrices is not None else 1
        push |= tile_push(gemm, source_parts, line_taps) | magics
        if depthwise is not None:
            if not biases_follow:
                tensors["bias"] = separable.bias_and_parameters(g, operands, folded=folded)
            spec |= separable.constants(depthwise, g.device)
            push |= {"kernel_height": 1, "kernel_width": 1}  # of the GEMM's own filter
        if work.kind == "q8":
            spec |= {"SIGNED": bool(offset(operands.input)), "WEIGHTS_SIGNED": bool(offset(filters.tensor))}
            if folded and strategy.arithmetic == "dot":
                spec["SETTLED"] = True
            if takes_half_weights(strategy, work, g.device):
                spec |= half_weights.constants(half_weights.form_of(g.device, work.rows, work.packed_weights))
                spec["SHORT_SUMS"] = half_weights.has_short_sums(g, filters)
                is_float = not split_k and half_weights.has_float_totals(g, operands.input, filters, operands.bias)
                spec["FLOAT_TOTALS"] = is_float
            if strategy.matrices is not None:
                spec |= cooperative_matrix.zero_points(filters, sums_follow=gemm.split is not Split.PHASES)
            push["last_word"] = max(0, math.prod(gemm.source) - 1) // 4
        elif work.kind != "q16" and quantised is None:
            push["weights_pitch"] = 0
        if scaling is not None:
            spec["ROUND"] = scaling.round
            push["weight_scale"] = 1.0 / scaling.scale
        if split_k:
            bytes_of_sums = 8 if scaling is not None else 32 if operands.is_wide else 16
            tensors["sums"] = g.scratch(bytes_of_sums * tiles * strategy.split_k * strategy.sums * invocations)
            tensors["counters"] = g.counters(tiles * invocations)
            if scaling is not None:
                push["left_scale"] = scaling.scale_of_sum(strategy.vec4s_of_k_slice(work))

    if four_bits:
        spec["FOUR_BITS"] = True

    if words:
        before, tile = 0 if depthwise is None else separable.words_before(gemm), _tile_of_checks(strategy, work)
        tensors["checks"] = check_words(g, operands, gemm, target, output, tile, words, before=before)
        if depthwise is not None:
            separable.note_checked(g, depthwise, gemm, tensors["checks"])
    if may_be_bounded(g, operands, gemm):
        g.bounded[operands.target.index] = target
    variant = strategy.variant(work.kind, output.variant, checked=bool(words))
    g.dispatch(variant, groups=groups, spec={**output.spec, **spec}, tensors=tensors, **push)
    finish_pixels(g, target, output_tensor, gemm.target, gemm.pixel_parts)


def _tile_of_checks(strategy: Strategy, work: Work) -> tuple[int, int]:
    """The rows of a workgroup of a strategy, and the check words of all workgroups that have the same rows."""
    _, across = strategy.tiles_of_part(work)
    return strategy.size[0], work.parts * across * math.prod(strategy.local)


def _check_words(g: Lowering, strategy: Strategy, operands: Operands, gemm: Gemm, work: Work) -> int:
    """The number of the check words that a strategy stores, if they are to verify the product; 0 if they are not."""
    if operands.depthwise is not None:
        if not separable.has_checksums(operands.depthwise, gemm, g.device):
            return 0
        gemm = separable.behind(gemm)
    if strategy.tile == "vector" or not has_checksums(g, operands, gemm):
        return 0
    tile = _tile_of_checks(strategy, work)
    end = "plain" if operands.epilogue is None else "fused"
    is_avoided = g.device.avoids(strategy.variant(work.kind, end, checked=True))
    if is_avoided or not checksum.is_possible(g.device, gemm, tile, words_of_pixel(gemm)):
        return 0
    return strategy.tiles_of_part(work)[0] * tile[1]


def check_words(
    g: Lowering,
    operands: Operands,
    gemm: Gemm,
    target: TensorRef,
    output: FilterOutput,
    tile: tuple[int, int],
    words: int,
    *,
    by_channel: bool = False,
    before: int = 0,
) -> TensorRef:
    """Memory for so many check words of a product, by which it will be verified. ``tile`` is that of `Checked`.

    ``by_channel``: filters see a channel each. ``before``: so many other words lie before these.
    """
    assert output.parameters is not None
    every, constants = checksum.filter_and_constants(operands, gemm.source[3], output.parameters, output.push)
    if by_channel:
        weights = np.append(every, constants)
    else:
        of_rows = gemm if operands.depthwise is None else separable.behind(gemm)
        weights = checksum.constants_of_rows(g.device, of_rows, every, constants)
    checks = g.scratch(4 * (before + words))
    g.checked[operands.target.index] = Checked(target, checks, weights, tile, before)
    return checks


def has_checksums(g: Lowering, operands: Operands, gemm: Gemm) -> bool:
    """Whether checksums of rows verify a product at its first lowering, provided that its shader can store check words.

    It writes all of its pixels, of which nobody else writes a part of a word, and rows are short.
    """
    may_store_checks = g.may_store_checks and operands.target.view is None
    if not (may_store_checks and checksum.has_known_sums(operands) and gemm.split in (Split.NOTHING, Split.CHANNELS)):
        return False
    taps = gemm.vertical.window * gemm.horizontal.window
    if words_of_pixel(gemm) + taps * (2 + -(-gemm.source[3] // 4)) > MOST_ROUNDS:
        return False
    return gemm.columns % 4 == 0 or gemm.parts == 1


def words_of_pixel(gemm: Gemm) -> int:
    """The words of the bytes of a pixel."""
    return gemm.pixel_parts * -(-gemm.columns // 4)


def verify(g: Lowering, operands: Operands, gemm: Gemm, checked: Checked, source: TensorRef, target: TensorRef) -> None:
    """Verify a product that was stored with check words, by the sums of its rows, and copy it to ``target``.

    ``source`` is the left matrix once more. The output is made of ``target``.
    """
    (_, out_height, out_width, _), (vertical, horizontal) = gemm.target, gemm.axes
    magics, as_floats = divisors_below(g.device, gemm.rows, height=out_height, width=out_width)
    others = "out_channels", "channels", "depth", "parts"
    push = {name: value for name, value in tile_push(gemm, 1).items() if name not in others}
    checksum.verify(
        g,
        operands,
        checked,
        {"src": source, "dst": target},
        {
            "SIDE_BY_SIDE": gemm.is_side_by_side,
            "LINE_WORDS": checksum.line_words(g.device, gemm),
            "STRIDE_Y": vertical.stride,
            "STRIDE_X": horizontal.stride,
            "DILATION_Y": vertical.dilation,
            "DILATION_X": horizontal.dilation,
            **as_floats,
        },
        push | magics | {"words": words_of_pixel(gemm), "depth": gemm.source[3]},
    )
    finish_pixels(g, target, operands.target, gemm.target, gemm.pixel_parts)


def may_be_bounded(g: Lowering, operands: Operands, gemm: Gemm) -> bool:
    """Whether a product of floats will be verified by `verify_by_bound` if it is computed by gemm.comp.

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
    return bound.is_possible(g.device, kind.name, gemm.vertical.window * gemm.horizontal.window, gemm.depth)


def is_bounded(g: Lowering, operands: Operands, gemm: Gemm) -> bool:
    """Whether a product's errors must have a bound, in its own lowering or in the one that verifies it.

    Sums of 16-bit floats have none that tells faults from roundings, and Winograd's tiles none for each result.
    """
    return may_be_bounded(g, operands, gemm) or g.to_bound(operands.target) is not None


def verify_by_bound(
    g: Lowering,
    operands: Operands,
    gemm: Gemm,
    results: TensorRef,
    target: TensorRef,
    quantised: QuantisedConstant | None,
) -> None:
    """Verify a product of floats by a bound on its rounding errors, and copy it to ``target``.

    ``quantised``: these weights of 8 bits were multiplied.
    """
    filters, epilogue, (vertical, horizontal) = operands.weights, operands.epilogue, gemm.axes
    limits, extra = activation_push(operands.activation, operands.output), None
    if epilogue is not None:
        limits, extra = activation_push(epilogue.calls[0].activation, epilogue.output), added_one_for_one(epilogue)
    weights, layout = bound.weights_in_order(g, filters, gemm.parts_outside)
    output = filter_output(g, operands, gemm.columns, gemm.pixel_parts)
    taps, (_, height, width, channels) = vertical.window * horizontal.window, gemm.source
    output_tensor, target_parts = written(operands.target, Matrices(gemm.parts, gemm.rows, gemm.columns))
    outside, interleaved = gemm.parts_outside, gemm.pixel_parts * target_parts
    of_results = bound.layout_of_results(g.device, output_tensor, gemm)
    columns = round_up(gemm.columns, 4) if of_results["PADDED_RESULTS"] else gemm.columns
    geometry = (
        tile_push(gemm, 1)
        | layout
        | {
            "src_part": height * width * channels if outside else gemm.depth,
            "bias_part": 0 if outside else gemm.columns,
            "dst_part": columns,
            "dst_pitch": interleaved * columns,
        }
    )
    if gemm.split is Split.PHASES:  # the shader goes through all pixels of the output
        geometry |= {"parts": 1, "rows": math.prod(gemm.target[:3])}
    bound.verify(
        g,
        output_tensor,
        taps,
        gemm.depth,
        {
            "src": dense(g, narrowed(g, operands)),
            "filters": weights,
            "bias": output.tensors["bias"],
            "computed": results,
            "dst": target,
            "extra": results if extra is None else g.tensor(extra),
        },
        {
            "HAS_EXTRA": extra is not None,
            "INTERLEAVED": interleaved,
            "WIDE": gemm.depth % 4 == 0,
            **of_results,
            "STRIDE_Y": vertical.stride,
            "STRIDE_X": horizontal.stride,
            "DILATION_Y": vertical.dilation,
            "DILATION_X": horizontal.dilation,
            "TRANSPOSED": gemm.split is Split.PHASES,
        },
        geometry | limits,
        None if quantised is None else quantised.scales,
    )
    finish_pixels(g, target, output_tensor, gemm.target, gemm.pixel_parts)


def layouts_of_weights(weights: Weights, layout: WeightLayout) -> dict[WeightLayout, Matrices]:
    """The layouts from which the tile `shared` can read right matrices that lie BY_K or BY_OUTPUTS; that one first."""
    parts, outputs, depth = weights.parts, weights.outputs, weights.channels
    by_k = Matrices(parts, depth, outputs, is_transposed=layout is WeightLayout.BY_OUTPUTS)
    by_outputs = Matrices(parts, outputs, depth, is_transposed=layout is WeightLayout.BY_K)
    if layout is WeightLayout.BY_K:
        return {WeightLayout.BY_K: by_k, WeightLayout.BY_OUTPUTS: by_outputs}
    return {WeightLayout.BY_OUTPUTS: by_outputs, WeightLayout.BY_K: by_k}


def _weights_as_they_lie(
    g: Lowering, strategy: Strategy, gemm: Gemm, work: Work, filters: Weights
) -> tuple[TensorRef, dict[str, int]]:
    """The memory of right matrices without packing, and the specialisation constants for its layout."""
    layout = work.order if strategy.is_staged else WeightLayout.BY_K
    if filters.tensor.view is None or gemm.split is not Split.BATCHES:
        return dense(g, filters.tensor), {}
    layouts = {
        each: matrices
        for each, matrices in layouts_of_weights(filters, layout).items()
        if not matrices.is_transposed or (strategy.is_staged and matrices.columns % 4 == 0)
    }
    weights, interleaved, found = read(g, filters.tensor, *layouts.values())
    taken = next(each for each, matrices in layouts.items() if matrices is found)
    return weights, {"WEIGHT_PARTS": interleaved} | ({} if taken is layout else {"WEIGHT_LAYOUT": int(taken)})
