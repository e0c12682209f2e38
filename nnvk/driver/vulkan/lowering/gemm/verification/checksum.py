"""Products of 8-bit quantised values that checksums verify, in place of a second product.

Products of quantised values are exact, so a weighted sum of the accumulators of a row, modulo 2^32, is the row of the
left matrix times the weighted sum of the filters (K.-H. Huang and J. A. Abraham, 1984, with the random factors of R.
Freivalds). In a variant of the product's shader each invocation stores a check word. It sums over all of its words of
results: the four accumulators and the word, times numbers of their own, a factor of the word and one of the row.
`gemm_checksum.comp` adds up the check words of the workgroups that have the same rows, and on the other side what the
left matrix gives and what the results in memory give (`shaders/include/checksum.glsl`). `depthwise_checksum.comp` does
so for rectangles of pixels of convolutions whose filters see a channel each. On a GPU of many units several workgroups
have the same rows, and a rectangle is divided into blocks of channels.

The variant also compares the bytes of a word with the scaled accumulators, so that the scaling is verified as well: a
check word is wrong if they differ by more than roundings. The parameters of the scaling are a part of check words. A
result is verified when operations were lowered that read it, together with other results (`verification.py`). If others
will read it later, it is copied to become their second result, as the left matrix and the other tensor of an epilogue
are, so that no change of memory stays unseen. The host knows which checksums the device has to compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import mul

import numpy as np

from nnvk.driver.vulkan.lowering.compared import Checked, Subject
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.divide import divisors_below
from nnvk.driver.vulkan.lowering.gemm.epilogue import FilterOutput, combined_one_for_one
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, Operands, Split
from nnvk.driver.vulkan.lowering.gemm.tiles.subgroup import LANES, uses_subgroups
from nnvk.driver.vulkan.lowering.gemm.verification import checksum_dispatch
from nnvk.driver.vulkan.lowering.gemm.verification.checksum_dispatch import Check, Shared, factors
from nnvk.driver.vulkan.lowering.lowering import MOST_COUNTERS, MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_mask, zero_point
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader, Variant
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.types.operand import Shape

CHECKSUM = Shader("gemm_checksum", ARITHMETIC=("none", "dot"), SUMS=("workgroup", "subgroup"))
BY_CHANNEL = Shader("depthwise_checksum", SUMS=("workgroup", "subgroup"))
"""The shader for convolutions whose filters see a channel each."""
_OF_BYTES = np.array([1, 1 + 2**7, 1 + 2**13, 1 + 2**19], np.uint32)
_OF_RESULT = np.uint32(1 + 2**11)
"""The numbers of `sum_of_bytes` and `of_result`."""
_EPILOGUE_WORDS = 16
_LOCAL, _MOST_LOCAL, _SLICED_LOCAL = 64, 1024, 256
"""The invocations of a workgroup of a GPU; the most of them, where there is much to do; and where several share it."""
_MOST_AT_ONCE, _MOST_PASSES = 8, 4
"""The most rows of an invocation of a CPU at once, and how often it takes so many."""
_LOADS, _SLICED_LOADS = 4, 2
"""The loads that are worth another invocation of a GPU, in a workgroup; and in another one that shares its rows."""
_MOST_TILES = 1024
"""The most tiles of a line that a workgroup verifies."""
_COLUMNS, _COLUMNS_TOGETHER, _COLUMNS_OF_CPU = 16, 4, 2
"""The columns that an invocation of a GPU goes through, where filters see a channel each; those loaded together; and
those of a CPU that share inputs, whose bytes are unpacked once."""
_LINES_TOGETHER = 2
"""The lines of results of a GPU's workgroup by channel, or a tile's lines if a tile has more. They share inputs."""
_BLOCKS = range(8, 17)
"""The words of channels of a workgroup of a GPU there, if they are not all."""
_LEAST_OF_RECTANGLE = 1 << 14
"""The least number of results of a CPU's workgroup by channel, if the product has as many."""
_OF_LINE = 16
"""The bytes of a line that are loaded at once."""
_MOST_CHECK_WORDS = 1 << 20
"""The most check words of a workgroup there: `divided` finds their places up to this number."""
_MOST_TAPS = 25
"""The most taps of a filter that is kept."""
_MOST_AT_ONCE_BY_CHANNEL = 5
"""The most columns of a filter by channel whose inputs are loaded together."""


_FILLING = 2
"""Workgroups per unit that fill a GPU."""
_WAIT = 2
"""The latency of an invocation's loads, in loads."""
_COUNTERS = 3
"""Words that workgroups count in which share rows."""
_NAMES = (
    *("rows", "words", "check_words", "region_rows", "region_checks", "across", "out_height", "out_width", "height"),
    *("width", "depth", "kernel", "pad_top", "pad_left", "magic_height", "magic_width"),
    *("last_word", "input_zero", "sign_mask", "number"),
)
"""The words of a product in the table of `CHECKSUM` that follow its first region."""
_NAMES_BY_CHANNEL = (
    *("words", "block", "tile_height", "tile_width", "tiles", "out_height", "out_width", "height", "width", "depth"),
    *("pad_top", "pad_left", "last_word", "input_zero", "sign_mask", "number"),
)
"""The same of `BY_CHANNEL`."""


def products(dispatch: Dispatch, words: np.ndarray) -> list[dict[str, int]]:
    """The words of each product of a dispatch of `CHECKSUM` or `BY_CHANNEL`. ``words`` are its tensor ``filters``."""
    names = _NAMES if dispatch.shader.family == CHECKSUM.name else _NAMES_BY_CHANNEL
    return checksum_dispatch.products(dispatch, names, words)


def has_known_sums(operands: Operands) -> bool:
    """Whether the filters and all else that sums of rows consist of are constants, but for what is read again."""
    bias, epilogue = operands.bias, operands.epilogue
    return (
        operands.is_quantised
        and not operands.is_wide
        and operands.weights.tensor.is_constant
        and (bias is None or bias.is_constant)
        and (epilogue is None or combined_one_for_one(epilogue) is not None)
    )


@np.errstate(over="ignore")
def may_store(g: Lowering, operands: Operands, gemm: Gemm) -> bool:
    """Whether checksums of rows verify a product at its first lowering, provided that its shader can store check words.

    It writes all of its pixels, of which nobody else writes a part of a word, and rows are short.
    """
    may_store_checks = g.may_store_checks and operands.target.view is None
    if not (may_store_checks and has_known_sums(operands) and gemm.split in (Split.NOTHING, Split.CHANNELS)):
        return False
    if gemm.words_of_pixel + gemm.taps * (2 + -(-gemm.source[3] // 4)) > MOST_ROUNDS:
        return False
    return gemm.columns % 4 == 0 or gemm.parts == 1


def _filter_and_constants(operands: Operands, depth: int, output: FilterOutput) -> tuple[np.ndarray, np.ndarray]:
    """The sum of all filters with their factors, and the part of each word's checksum that is the same for all inputs.

    ``depth`` is the number of input channels, of which a filter may see a group. The results are uint32 [taps x depth
    padded to vec4s] and [words of a pixel].
    """
    assert output.parameters is not None
    parameters, filters = output.parameters, operands.weights
    parts, outputs_of_part, taps, channels = filters.shape
    outputs, groups = parts * outputs_of_part, depth // channels
    words = round_up(outputs, 4) // 4
    of_words = factors(0, words)
    of_sums = (of_words[:, np.newaxis] * _OF_BYTES).reshape(-1)[:outputs]
    weights = filters.array().reshape(groups, outputs // groups, taps, channels)
    by_group, of_channels = np.zeros((groups, taps, channels), np.uint32), np.zeros(4 * words, np.uint32)
    for each in range(outputs // groups):
        own = slice(each, outputs, outputs // groups)
        numbers = (weights[:, each].astype(np.int32) - np.int32(filters.tensor.zero_point)).view(np.uint32)
        products = of_sums[own, np.newaxis, np.newaxis] * numbers
        by_group += products
        of_channels[own] = -np.uint32(zero_point(operands.input)) * products.sum((1, 2), dtype=np.uint32)
    every = np.zeros((taps, round_up(depth, 4)), np.uint32)
    every[:, :depth] = by_group.transpose(1, 0, 2).reshape(taps, depth)
    if operands.bias is not None:
        of_channels[:outputs] += np.ascontiguousarray(operands.bias.data).reshape(-1).view(np.uint32) * of_sums
    low, high, zero = (np.uint32(int(each)) for each in (*output.limits, zero_point(operands.output)))
    of_each_word, rest = low ^ high << np.uint32(8) ^ zero << np.uint32(16), parameters.view(np.uint32)
    if operands.epilogue is not None:
        own_words, rest = rest[:_EPILOGUE_WORDS], rest[_EPILOGUE_WORDS:]
        of_each_word += (own_words * factors(0, _EPILOGUE_WORDS)).sum(dtype=np.uint32)
    mantissas, shifts = rest.reshape(-1, 2, 4).transpose(1, 0, 2).reshape(2, -1)[:, :outputs]
    of_channels[:outputs] += (mantissas + (shifts << np.uint32(16))) * of_sums
    constants = of_channels.reshape(words, 4).sum(1, dtype=np.uint32) + of_words * (_OF_RESULT * of_each_word)
    return every.reshape(-1), constants


def _line_words(device: DeviceProfile, gemm: Gemm) -> int:
    """The words of a window's line, padded to a load, if one load takes several columns.

    They lie side by side, and none is whole words. 0: they are loaded one by one, as by Mali and VideoCore, whose
    compilers would spill.
    """
    depth = gemm.source[3]
    if gemm.is_side_by_side or gemm.horizontal.dilation > 1 or depth % 4 == 0 or device.has_small_subgroups:
        return 0
    return min(-(-gemm.horizontal.window * depth // 4), _OF_LINE // 4)


def filters_by_channel(operands: Operands, gemm: Gemm, output: FilterOutput) -> np.ndarray:
    """`Checked.filters` of filters that see a channel each: the filter, and the constants of all words."""
    return np.concatenate(_filter_and_constants(operands, gemm.source[3], output))


def filters_of_rows(device: DeviceProfile, operands: Operands, gemm: Gemm, output: FilterOutput) -> np.ndarray:
    """`Checked.filters` for rows: the filter, and the sum of the constants of all words.

    Where lines are loaded, the columns of the filter lie side by side as well. For dot products, word i of each vec4 of
    the filter has byte i of all four weights.
    """
    every, constants = _filter_and_constants(operands, gemm.source[3], output)
    if _line_words(device, gemm):
        height, width, depth = gemm.vertical.window, gemm.horizontal.window, gemm.source[3]
        lines = every.reshape(height, width, -1)[..., :depth].reshape(height, -1)
        every = np.pad(lines, ((0, 0), (0, -lines.shape[1] % _OF_LINE))).reshape(-1)
    if _takes_dots(device):
        every = np.ascontiguousarray(every.view(np.uint8).reshape(-1, 4, 4).transpose(0, 2, 1)).view(np.uint32)
    return np.append(every, constants.sum(dtype=np.uint32))


def variant(device: DeviceProfile) -> Variant:
    """The variant of `CHECKSUM` for a device."""
    return CHECKSUM.variant(ARITHMETIC="dot" if _takes_dots(device) else "none", SUMS=_sums(device))


def variant_by_channel(device: DeviceProfile) -> Variant:
    """The variant of `BY_CHANNEL` for a device."""
    return BY_CHANNEL.variant(SUMS=_sums(device))


def _takes_dots(device: DeviceProfile) -> bool:
    """Whether products are sums of dot products of bytes, of which a word of weights takes four: a CPU has none."""
    return device.has_dots and not device.is_cpu


def _sums(device: DeviceProfile) -> str:
    return "subgroup" if uses_subgroups(device) else "workgroup"


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that a workgroup verifies, or several share."""

    rows: int
    tiles: int
    """The number of tiles of the product that they are, whose check words are added up."""
    inputs: int
    """The loads of inputs of each."""
    results: int
    """The loads of results of each."""
    by_lines: bool
    """Whether the columns of windows are loaded as one, which takes more registers."""

    @property
    def loads(self) -> int:
        """The loads that invocations side by side share."""
        return max(self.inputs, self.results)


def _rows_of(device: DeviceProfile, gemm: Gemm, tile_rows: int) -> _Rows:
    """The rows of a workgroup, for tiles of ``tile_rows``.

    Several tiles fill the vectors of a CPU, a few times if each unit has several workgroups.
    """
    tiles = 1
    if device.is_cpu:
        fill = _MOST_AT_ONCE * LANES
        tiles = max(1, fill * min(_MOST_PASSES, max(1, gemm.rows // (fill * _FILLING * device.units))) // tile_rows)
    width, depth, words = gemm.horizontal.window, gemm.source[3], gemm.words_of_pixel
    by_lines = _line_words(device, gemm) > 0
    of_line = -(-width * depth // _OF_LINE) if by_lines else width * -(-depth // (16 if depth % 16 == 0 else 4))
    return _Rows(tiles * tile_rows, tiles, gemm.vertical.window * of_line, words if words % 4 else words // 4, by_lines)


def _at_once(rows: _Rows) -> int:
    """The rows of an invocation of a CPU, which takes them side by side in a vector."""
    return min(-(-rows.rows // LANES), _MOST_AT_ONCE)


def _share(device: DeviceProfile, checks: Sequence[Check]) -> Shared:
    """How invocations of a GPU share rows, of one product or of several in a dispatch.

    They have one load of a row each if there are so many. Workgroups share rows, too, if there are fewer regions than
    units and each has enough loads left.
    """
    if device.is_cpu:
        return Shared({"ALONE": True, "local_x": LANES}, [{"across": 0}] * len(checks), counters=_COUNTERS)
    every = [check.task for check in checks if isinstance(check.task, _Rows)]
    local, slices, at_once, across = _shared_rows(device, every, [check.regions for check in checks])
    spec = {"local_x": local, "SLICES": slices, "ROWS": at_once}
    return Shared(spec, [{"across": lanes.bit_length() - 1} for lanes in across], slices, _COUNTERS)


def _shared_rows(
    device: DeviceProfile, every: Sequence[_Rows], regions_of: Sequence[int]
) -> tuple[int, int, int, list[int]]:
    """The invocations of a workgroup of a GPU, the workgroups of a region, of which each product has so many, the rows
    that an invocation has at once, and for each product the invocations of a workgroup that share a row.
    """
    regions, loads = sum(regions_of), [each.rows * each.loads for each in every]
    # Larger workgroups are faster, unless many that are too large fill the device.
    fitting = min(loads) if regions >= _FILLING * device.units else sum(map(mul, loads, regions_of)) // regions
    local = _local(device, fitting, _SLICED_LOCAL if regions < device.units else _MOST_LOCAL)
    shares = device.units // regions, min(loads) // (local * _SLICED_LOADS), MOST_COUNTERS // (_COUNTERS * regions)
    slices = max(1, min(shares))
    takes_few = device.has_small_subgroups or any(each.by_lines for each in every)
    at_once = range(1, 3 if takes_few else 5)

    def best(rows: _Rows, count: int) -> tuple[float, int]:
        """The least time of a workgroup with ``count`` rows per invocation, and minus the invocations of a row."""
        shares = (1 << power for power in range(local.bit_length()))
        return min((_time(rows, local, slices, lanes, count), -lanes) for lanes in shares)

    times = {
        count: sum(many * best(rows, count)[0] for rows, many in zip(every, regions_of, strict=True))
        for count in at_once
    }
    count = min(at_once, key=lambda count: (times[count], -count))
    return local, slices, count, [-best(rows, count)[1] for rows in every]


def _time(rows: _Rows, local: int, slices: int, lanes: int, at_once: int) -> float:
    """The time of a workgroup, in loads: the loads of an invocation and their latencies."""
    passes, shared_by = -(-rows.rows // (local // lanes * at_once)), lanes * slices
    return passes * (-(-rows.inputs // shared_by) + -(-rows.results // shared_by)) * (at_once + _WAIT)


def _local(device: DeviceProfile, loads: int, most: int = _MOST_LOCAL) -> int:
    """The invocations of a GPU's workgroup that share ``loads``."""
    local, most = _LOCAL, min(most, device.max_invocations)
    while 2 * local <= most and loads > local * _LOADS:
        local *= 2
    return local


def is_possible(device: DeviceProfile, gemm: Gemm, tile: tuple[int, int]) -> bool:
    """Whether a device can verify a product by tiles of rows and check words."""
    depth, words, rows = gemm.source[3], gemm.words_of_pixel, _rows_of(device, gemm, tile[0])
    if device.is_cpu:
        local, across, at_once = LANES, 1, _at_once(rows)
    else:
        local, _, at_once, (across,) = _shared_rows(device, [rows], [-(-gemm.rows // rows.rows)])
    passes = -(-rows.rows // (local // across * at_once))
    rounds = passes * (1 + words + gemm.taps * (2 + -(-depth // 4))) + -(-rows.tiles * tile[1] // local)
    return rounds <= MOST_ROUNDS and not device.avoids(variant(device))


def verify(g: Lowering, operands: Operands, gemm: Gemm, checked: Checked, source: TensorRef, target: TensorRef) -> None:
    """Verify a product that was stored with check words, by the sums of its rows, and copy it to ``target``.

    ``source`` is the left matrix once more.
    """
    (_, height, width, depth), (_, out_height, out_width, _) = gemm.source, gemm.target
    rows, words, (tile_rows, checks) = _rows_of(g.device, gemm, checked.tile[0]), gemm.words_of_pixel, checked.tile
    magics, as_floats = divisors_below(g.device, gemm.rows, height=out_height, width=out_width)
    tensors, of_extra, own = _arguments(g, operands, checked, {"src": source, "dst": target}, (rows.rows,))
    spec = {
        "SPAN": next(span for span in (16, 4, 1) if depth % span == 0),
        "WIDE": words % 4 == 0,
        "SIDE_BY_SIDE": gemm.is_side_by_side,
        "LINE_WORDS": _line_words(g.device, gemm),
        **gemm.steps,
        **as_floats,
        **of_extra,
    }
    if g.device.is_cpu:
        spec["ROWS"] = _at_once(rows)
    values = {
        "rows": gemm.rows,
        "words": words,
        "check_words": -(-gemm.rows // tile_rows) * checks,
        "region_rows": rows.rows,
        "region_checks": rows.tiles * checks,
        "out_height": out_height,
        "out_width": out_width,
        "height": height,
        "width": width,
        "depth": depth,
        "kernel": gemm.vertical.window << 16 | gemm.horizontal.window,
        "pad_top": gemm.vertical.before,
        "pad_left": gemm.horizontal.before,
        **magics,
        **own,
    }
    regions, share = -(-gemm.rows // rows.rows), partial(_share, g.device)
    checksum_dispatch.verify(
        g, Check(variant(g.device), spec, tensors, checked.filters, regions, values, _NAMES, share, rows)
    )


def _tiles_together(device: DeviceProfile, gemm: Gemm, tile: tuple[int, int]) -> int:
    """The neighbouring tiles of a line that a workgroup verifies, where filters see a channel each.

    An invocation goes through a line of all of them, with one load of the filter. That is best for a CPU; a GPU wants
    a subgroup for each of its units as well.
    """
    batches, height, width, _ = gemm.target
    across = min(-(-width // tile[1]), _MOST_TILES)
    if device.is_cpu:
        return across
    of_rectangle = tile[0] * _lines_together(device, gemm, tile)
    invocations = batches * -(-height // of_rectangle) * across * _lines(gemm, of_rectangle) * -(-gemm.source[3] // 4)
    return min(across, -(-_COLUMNS // tile[1]), max(1, invocations // (_LOCAL * device.units)))


def _lines_together(device: DeviceProfile, gemm: Gemm, tile: tuple[int, int]) -> int:
    """The lines of tiles that a workgroup verifies. On a CPU it does so if it has all tiles of a line.

    They share lines of inputs, and on a CPU loads of the filter. Each unit of that has several workgroups, unless
    results are few.
    """
    batches, height, width, channels = gemm.target
    if not device.is_cpu:
        return min(-(-_LINES_TOGETHER // tile[0]), -(-height // tile[0]))
    if _tiles_together(device, gemm, tile) * tile[1] < width:
        return 1
    every, of_line = -(-height // tile[0]), tile[0] * width * channels
    lines = max(batches * every // (_FILLING * device.units), _LEAST_OF_RECTANGLE // of_line)
    return max(1, min(every, lines, MOST_ROUNDS // _rounds_by_channel(device, gemm, tile)))


def _is_wide(device: DeviceProfile, gemm: Gemm) -> bool:
    """Whether invocations take 16 channels at once: a CPU gathers four words in the same time as one."""
    vertical, horizontal = gemm.axes
    taps = vertical.window * horizontal.window
    fits = horizontal.window <= _MOST_AT_ONCE_BY_CHANNEL and taps <= _MOST_TAPS
    return device.is_cpu and fits and gemm.source[3] % 16 == 0 and gemm.target[3] % 16 == 0


def _lines(gemm: Gemm, height: int) -> int:
    """The lines of the input under so many lines of results."""
    vertical, _ = gemm.axes
    return (height - 1) * vertical.stride + vertical.reach


def _block(device: DeviceProfile, gemm: Gemm) -> int:
    """The words of channels of a workgroup of `BY_CHANNEL`: all, or a part if a GPU can take outputs as inputs lie."""
    words = -(-gemm.target[3] // 4)
    if device.is_cpu or gemm.source[3] != gemm.target[3]:
        return words
    return next((block for block in reversed(_BLOCKS) if words % block == 0), words)


def _local_by_channel(device: DeviceProfile, gemm: Gemm, tile: tuple[int, int]) -> int:
    """The invocations of a workgroup of `BY_CHANNEL`: each has a line of a word of channels, or several."""
    words = min(_block(device, gemm), -(-gemm.source[3] // 4))
    if device.is_cpu:
        return LANES
    return _local(device, _LOADS * _lines(gemm, tile[0] * _lines_together(device, gemm, tile)) * words)


def is_possible_by_channel(device: DeviceProfile, gemm: Gemm, tile: tuple[int, int]) -> bool:
    """The same as `is_possible` for a convolution whose filters see a channel each, by tiles of a height and width."""
    tiles = _tiles_together(device, gemm, tile) * _lines_together(device, gemm, tile)
    if tiles * _block(device, gemm) > _MOST_CHECK_WORDS or _rounds_by_channel(device, gemm, tile) > MOST_ROUNDS:
        return False
    return not device.avoids(variant_by_channel(device))


def _rounds_by_channel(device: DeviceProfile, gemm: Gemm, tile: tuple[int, int]) -> int:
    """The most rounds of all loops of an invocation together, on a CPU for a line of tiles."""
    (vertical, horizontal), (height, width) = gemm.axes, tile
    width *= _tiles_together(device, gemm, tile)
    if not device.is_cpu:
        height *= _lines_together(device, gemm, tile)
    local, turns = _local_by_channel(device, gemm, tile), -(-horizontal.window // _MOST_AT_ONCE_BY_CHANNEL)
    of_inputs = -(-_lines(gemm, height) * -(-gemm.source[3] // 4) // local) * (
        1 + turns * (1 + width + vertical.window)
    )
    of_results = -(-height * -(-gemm.target[3] // 4) // local) * (1 + width) + width
    return of_inputs + of_results


def verify_by_channel(
    g: Lowering, operands: Operands, gemm: Gemm, checked: Checked, tensors: Mapping[str, TensorRef]
) -> None:
    """Verify a convolution whose filters see a channel each, and copy it: ``tensors`` are the input and the copy."""
    (vertical, horizontal), tile = gemm.axes, checked.tile
    (batches, out_height, out_width, outputs), (_, height, width, depth) = gemm.target, gemm.source
    together, block, words = _tiles_together(g.device, gemm, tile), _block(g.device, gemm), -(-outputs // 4)
    down = _lines_together(g.device, gemm, tile)
    tensors, of_extra, own = _arguments(g, operands, checked, tensors, (down * tile[0], together * tile[1]))
    regions = batches * -(-out_height // (down * tile[0])) * -(-out_width // (tile[1] * together)) * (words // block)
    is_wide = _is_wide(g.device, gemm)
    if g.device.is_cpu or g.device.has_small_subgroups:
        most = _COLUMNS_OF_CPU if is_wide and horizontal.stride == 1 else 1
    else:
        most = _COLUMNS_TOGETHER
    check = Check(
        variant_by_channel(g.device),
        {
            "WHOLE_WORDS": depth % 4 == 0,
            "KERNEL_HEIGHT": vertical.window,
            "KERNEL_WIDTH": horizontal.window,
            "AT_ONCE": min(horizontal.window, _MOST_AT_ONCE_BY_CHANNEL),
            **gemm.steps,
            "COLUMNS": min(tile[1] * together, out_width, most),
            "WIDE": is_wide,
            **of_extra,
        },
        tensors,
        checked.filters,
        regions,
        {
            "words": words,
            "block": block if block < words else 0,
            "tile_height": tile[0],
            "tile_width": tile[1],
            "tiles": down << 16 | together,
            "out_height": out_height,
            "out_width": out_width,
            "height": height,
            "width": width,
            "depth": depth,
            "pad_top": vertical.before,
            "pad_left": horizontal.before,
            **own,
        },
        _NAMES_BY_CHANNEL,
        _share_by_channel,
        _local_by_channel(g.device, gemm, tile),
    )
    checksum_dispatch.verify(g, check)


def _share_by_channel(checks: Sequence[Check]) -> Shared:
    """Products of a dispatch have the workgroups that the largest one needs."""
    local = min(check.task for check in checks if isinstance(check.task, int))
    return Shared({"local_x": local}, [{}] * len(checks))


def _arguments(
    g: Lowering, operands: Operands, checked: Checked, tensors: Mapping[str, TensorRef], tile: Shape
) -> tuple[dict[str, TensorRef], dict[str, bool], dict[str, int]]:
    """The tensors, specialisation constants and words of the table that both shaders have, for tiles of this size."""
    tensor = operands.target
    extra = None if operands.epilogue is None else combined_one_for_one(operands.epilogue)
    operation = g.writers.get(tensor.index, g.operation)  # a dispatch may compute several operations
    flag, number = g.compared(Subject(operation, tensor.name, tensor.dtype.name, tensor.shape, tile))
    is_copied = tensors["dst"] is not checked.results
    every = {**tensors, "computed": checked.results, "checks": checked.words, "flag": flag}
    if not is_copied:
        del every["dst"]
    if extra is not None:
        every["extra"] = g.tensor(extra.whole)
    values = {
        "last_word": max(0, operands.input.size - 1) // 4,
        "input_zero": zero_point(operands.input),
        "sign_mask": sign_mask(operands.input),
        "number": number,
        "checks": checked.before,
    }
    return every, {"HAS_EXTRA": extra is not None, "COPIES": is_copied}, values
