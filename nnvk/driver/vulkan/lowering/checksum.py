"""Products of 8-bit levels that checksums verify, in place of a second product.

Products of levels are exact, so a weighted sum of the accumulators of a row, modulo 2^32, is the row of the left matrix
times the weighted sum of the filters (K.-H. Huang and J. A. Abraham, 1984, with the random factors of R. Freivalds). In
a variant of the product's shader each invocation stores a check word. It sums over all of its words of results: the
four accumulators times their factors, plus the word times a factor, all times a factor of the row. `gemm_checksum.comp`
adds up the check words of the workgroups that have the same rows, and on the other side what the left matrix gives and
what the results in memory give (`shaders/include/checksum.glsl`). `depthwise_checksum.comp` does so for rectangles of
pixels of convolutions whose filters see a channel each. On a GPU of many units several workgroups have the same rows,
and a rectangle is divided into blocks of channels.

The variant computes the word in the check word by another formula than the stored one, so that the scaling of the
accumulators is verified as well. The parameters of this scaling are a part of the check words, too. A result is
verified when its first reader was lowered (`verification.py`). If several operations read it, it is copied to become
their second result, as the left matrix and the other tensor of an epilogue are, so that no change of memory stays
unseen. The host knows how many checksums the device has to compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.lowering.epilogue import combined_one_for_one
from nnvk.driver.vulkan.lowering.filter_output import Operands
from nnvk.driver.vulkan.lowering.gemm_problem import Gemm
from nnvk.driver.vulkan.lowering.lowering import MOST_COUNTERS, MOST_ROUNDS, Checked, Lowering, Subject
from nnvk.driver.vulkan.lowering.quantised import sign_mask, zero_point
from nnvk.driver.vulkan.lowering.relayout import round_up
from nnvk.driver.vulkan.lowering.strategies import LANES, uses_subgroups
from nnvk.driver.vulkan.shaders.commands import ALIGNMENT, TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader, Variant
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

CHECKSUM = Shader("gemm_checksum", ARITHMETIC=("none", "dot"), SUMS=("workgroup", "subgroup"))
BY_CHANNEL = Shader("depthwise_checksum", SUMS=("workgroup", "subgroup"))
"""The shader for convolutions whose filters see a channel each."""
_OF_WORDS = 0x40000000
_EPILOGUE_WORDS = 16
_GOLDEN = np.uint32(0x9E3779B1)
_LOCAL, _MOST_LOCAL, _SLICED_LOCAL = 64, 1024, 256
"""The invocations of a workgroup of a GPU; the most of them, where there is much to do; and where several share it."""
_MOST_AT_ONCE = 8
"""The most rows of an invocation of a CPU."""
_LOADS, _SLICED_LOADS = 4, 2
"""The loads that are worth another invocation of a GPU, in a workgroup; and in another one that shares its rows."""
_MOST_TILES = 1024
"""The most tiles of a line that a workgroup verifies."""
_COLUMNS, _COLUMNS_TOGETHER = 16, 4
"""The columns that an invocation of a GPU goes through, where filters see a channel each; and those loaded together."""
_BLOCKS = range(8, 17)
"""The words of channels of a workgroup of a GPU there, if they are not all."""
_MOST_AT_ONCE_BY_CHANNEL = 5
"""The most columns of such a filter that inputs are loaded for together."""


def factors(first: int, count: int) -> np.ndarray:
    """The factors of the numbers from ``first`` on, uint32 [count], as `checksum_factor` has them."""
    numbers = (np.arange(first, first + count, dtype=np.uint32) + np.uint32(1)) * _GOLDEN
    numbers = (numbers ^ numbers >> np.uint32(15)) * np.uint32(0x85EBCA77)
    numbers = (numbers ^ numbers >> np.uint32(13)) * np.uint32(0xC2B2AE3D)
    return (numbers ^ numbers >> np.uint32(16)) | np.uint32(1)


def has_known_sums(operands: Operands) -> bool:
    """Whether the filters and all else that sums of rows consist of are constants, but for what is read again."""
    bias, epilogue = operands.bias, operands.epilogue
    return (
        operands.is_quantised
        and not operands.is_wide
        and operands.filters.tensor.is_constant
        and (bias is None or bias.is_constant)
        and (epilogue is None or combined_one_for_one(epilogue) is not None)
    )


@np.errstate(over="ignore")
def filter_and_constants(
    operands: Operands, depth: int, parameters: np.ndarray, push: Mapping[str, int | float]
) -> tuple[np.ndarray, np.ndarray]:
    """The sum of all filters with their factors, and the part of each word's checksum that is the same for all inputs.

    ``depth`` is the number of input channels, of which a filter may see a group. ``parameters`` are the words of an
    epilogue and the multipliers, ``push`` the push constants of filter_output.glsl. The results are uint32 [taps x
    depth padded to vec4s] and [words of a pixel].
    """
    filters = operands.filters
    parts, outputs_of_part, taps, channels = filters.shape
    outputs, groups = parts * outputs_of_part, depth // channels
    words = round_up(outputs, 4) // 4
    of_sums = factors(0, outputs)
    weights = filters.weights().reshape(groups, outputs // groups, taps, channels)
    by_group, of_channels = np.zeros((groups, taps, channels), np.uint32), np.zeros(4 * words, np.uint32)
    for each in range(outputs // groups):
        own = slice(each, outputs, outputs // groups)
        levels = (weights[:, each].astype(np.int32) - np.int32(filters.tensor.zero_point)).view(np.uint32)
        products = of_sums[own, np.newaxis, np.newaxis] * levels
        by_group += products
        of_channels[own] = -np.uint32(zero_point(operands.input)) * products.sum((1, 2), dtype=np.uint32)
    every = np.zeros((taps, round_up(depth, 4)), np.uint32)
    every[:, :depth] = by_group.transpose(1, 0, 2).reshape(taps, depth)
    if operands.bias is not None:
        of_channels[:outputs] += np.ascontiguousarray(operands.bias.data).reshape(-1).view(np.uint32) * of_sums
    low, high, zero = (np.uint32(int(push[name])) for name in ("low", "high", "output_zero"))
    of_each_word, rest = low ^ high << np.uint32(8) ^ zero << np.uint32(16), parameters.reshape(-1).view(np.uint32)
    if operands.epilogue is not None:
        own_words, rest = rest[:_EPILOGUE_WORDS], rest[_EPILOGUE_WORDS:]
        of_each_word += (own_words * factors(0, _EPILOGUE_WORDS)).sum(dtype=np.uint32)
    mantissas, shifts = rest.reshape(-1, 2, 4).transpose(1, 0, 2).reshape(2, -1)[:, :outputs]
    of_channels[:outputs] += (mantissas + _GOLDEN * shifts) * of_sums
    constants = of_channels.reshape(words, 4).sum(1, dtype=np.uint32) + factors(_OF_WORDS, words) * of_each_word
    return every.reshape(-1), constants


def constants_of_rows(device: DeviceProfile, every: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """`Checked.filters` of the results of `filter_and_constants`, for rows: the filter and the sum of the constants.

    For dot products, word i of each vec4 of the filter has byte i of all four weights.
    """
    if device.has_dots:
        every = np.ascontiguousarray(every.view(np.uint8).reshape(-1, 4, 4).transpose(0, 2, 1)).view(np.uint32)
    return np.append(every, constants.sum(dtype=np.uint32))


def variant(device: DeviceProfile) -> Variant:
    """The variant of `CHECKSUM` for a device."""
    return CHECKSUM.variant(ARITHMETIC="dot" if device.has_dots else "none", SUMS=_sums(device))


def variant_by_channel(device: DeviceProfile) -> Variant:
    """The variant of `BY_CHANNEL` for a device."""
    return BY_CHANNEL.variant(SUMS=_sums(device))


def _sums(device: DeviceProfile) -> str:
    return "subgroup" if uses_subgroups(device) else "workgroup"


@dataclass(frozen=True, slots=True)
class _Region:
    """The rows that a workgroup verifies."""

    rows: int
    tiles: int
    """The number of tiles of the product that they are, whose check words are added up."""
    at_once: int
    """Rows of an invocation."""
    local: int
    """The invocations of the workgroup."""
    across: int
    """The invocations that share a row."""
    slices: int = 1
    """The workgroups that have these rows, with a part of K each."""

    @property
    def passes(self) -> int:
        """The passes of the workgroup through its rows."""
        return -(-self.rows // (self.local // self.across * self.at_once))


def _region(device: DeviceProfile, all_rows: int, tile_rows: int, loads: int) -> _Region:
    """The rows of a workgroup, of tiles with so many of them, and of ``loads`` each.

    A CPU takes rows side by side in a vector. Invocations of a GPU share a row, with one load for each if there are so
    many. Workgroups share it, too, if there are fewer than units and each has enough loads left.
    """
    if device.is_cpu:
        tiles = max(1, _MOST_AT_ONCE * LANES // tile_rows)
        rows = tiles * tile_rows
        return _Region(rows, tiles, min(-(-rows // LANES), _MOST_AT_ONCE), LANES, 1)
    regions = -(-all_rows // tile_rows)
    local = _local(device, tile_rows * loads, _SLICED_LOCAL if regions < device.units else _MOST_LOCAL)
    slices = max(
        1, min(device.units // regions, tile_rows * loads // (local * _SLICED_LOADS), MOST_COUNTERS // (3 * regions))
    )
    across = min(local, 1 << (-(-loads // slices) - 1).bit_length())
    most = 2 if device.has_small_subgroups else 4
    return _Region(tile_rows, 1, max(1, min(most, tile_rows * across // local)), local, across, slices)


def _local(device: DeviceProfile, loads: int, most: int = _MOST_LOCAL) -> int:
    """The invocations of a workgroup of a GPU that share so many loads."""
    local, most = _LOCAL, min(most, device.max_invocations)
    while 2 * local <= most and loads > local * _LOADS:
        local *= 2
    return local


def _region_of(device: DeviceProfile, rows: int, taps: int, depth: int, tile: tuple[int, int], words: int) -> _Region:
    """The rows of a workgroup that verifies a product with so many rows, and so many words in a row."""
    loads = taps * -(-depth // (16 if depth % 16 == 0 else 4))
    return _region(device, rows, tile[0], max(loads, words // 4))


def is_possible(device: DeviceProfile, gemm: Gemm, tile: tuple[int, int], words: int) -> bool:
    """Whether a device can verify a product by tiles of so many rows and check words, each row of so many words."""
    taps, depth = gemm.vertical.window * gemm.horizontal.window, gemm.source[3]
    region = _region_of(device, gemm.rows, taps, depth, tile, words)
    rounds = region.passes * (1 + words + taps * (2 + -(-depth // 4))) + -(-region.tiles * tile[1] // region.local)
    return rounds <= MOST_ROUNDS and not device.avoids(variant(device))


def verify(
    g: Lowering,
    operands: Operands,
    checked: Checked,
    tensors: Mapping[str, TensorRef],
    spec: Mapping[str, int | bool],
    push: Mapping[str, int],
) -> None:
    """Verify a product, and copy it: ``tensors`` are the left matrix and the copy.

    ``spec`` and ``push`` have the geometry.
    """
    depth, words, (_, checks) = push["depth"], push["words"], checked.tile
    taps, rows = push["kernel_height"] * push["kernel_width"], push["rows"]
    region = _region_of(g.device, rows, taps, depth, checked.tile, words)
    regions = -(-rows // region.rows)
    tensors, of_extra, own_push = _arguments(g, operands, checked, tensors, regions)
    tensors["counters"] = g.scratch(ALIGNMENT) if region.slices == 1 else g.counters(3 * regions)
    g.dispatch(
        variant(g.device),
        groups=g.flat(regions * region.slices, 1),
        spec={
            "local_x": region.local,
            "SLICES": region.slices,
            "ROWS": region.at_once,
            "ACROSS": region.across,
            "SPAN": next(span for span in (16, 4, 1) if depth % span == 0),
            "WIDE": words % 4 == 0,
            "REGION": region.rows,
            **of_extra,
            **spec,
        },
        tensors=tensors,
        check_words=-(-rows // checked.tile[0]) * checks,
        region_checks=region.tiles * checks,
        **own_push,
        **push,
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
    invocations = batches * -(-height // tile[0]) * across * _lines(gemm, tile) * -(-gemm.source[3] // 4)
    return min(across, -(-_COLUMNS // tile[1]), max(1, invocations // (_LOCAL * device.units)))


def _lines(gemm: Gemm, tile: tuple[int, int]) -> int:
    """The lines of the input under a tile."""
    vertical, _ = gemm.axes
    return (tile[0] - 1) * vertical.stride + vertical.reach


def _block(device: DeviceProfile, gemm: Gemm) -> int:
    """The words of channels of a workgroup of `BY_CHANNEL`: all, or a part if a GPU can take outputs as inputs lie."""
    words = -(-gemm.target[3] // 4)
    if device.is_cpu or gemm.source[3] != gemm.target[3]:
        return words
    return next((block for block in reversed(_BLOCKS) if words % block == 0), words)


def _local_by_channel(device: DeviceProfile, gemm: Gemm, tile: tuple[int, int]) -> int:
    """The invocations of a workgroup of `BY_CHANNEL`: each has a line of a word of channels, or several."""
    words = min(_block(device, gemm), -(-gemm.source[3] // 4))
    return LANES if device.is_cpu else _local(device, _LOADS * _lines(gemm, tile) * words)


def is_possible_by_channel(device: DeviceProfile, gemm: Gemm, tile: tuple[int, int]) -> bool:
    """The same as `is_possible` for a convolution whose filters see a channel each, by tiles of a height and width."""
    (vertical, horizontal), (height, width) = gemm.axes, tile
    width *= _tiles_together(device, gemm, tile)
    local, turns = _local_by_channel(device, gemm, tile), -(-horizontal.window // _MOST_AT_ONCE_BY_CHANNEL)
    of_inputs = -(-_lines(gemm, tile) * -(-gemm.source[3] // 4) // local) * (1 + turns * (1 + width + vertical.window))
    of_results = -(-height * -(-gemm.target[3] // 4) // local) * (1 + width) + width
    return of_inputs + of_results <= MOST_ROUNDS and not device.avoids(variant_by_channel(device))


def verify_by_channel(
    g: Lowering, operands: Operands, gemm: Gemm, checked: Checked, tensors: Mapping[str, TensorRef]
) -> None:
    """Verify a convolution whose filters see a channel each, and copy it: ``tensors`` are the input and the copy."""
    (vertical, horizontal), tile = gemm.axes, checked.tile
    (batches, out_height, out_width, outputs), (_, height, width, depth) = gemm.target, gemm.source
    together, block, words = _tiles_together(g.device, gemm, tile), _block(g.device, gemm), -(-outputs // 4)
    regions = batches * -(-out_height // tile[0]) * -(-out_width // (tile[1] * together)) * (words // block)
    takes_several = not (g.device.is_cpu or g.device.has_small_subgroups)
    tensors, of_extra, own_push = _arguments(g, operands, checked, tensors, regions)
    g.dispatch(
        variant_by_channel(g.device),
        groups=g.flat(regions, 1),
        spec={
            "local_x": _local_by_channel(g.device, gemm, tile),
            "WHOLE_WORDS": depth % 4 == 0,
            "KERNEL_HEIGHT": vertical.window,
            "KERNEL_WIDTH": horizontal.window,
            "AT_ONCE": min(horizontal.window, _MOST_AT_ONCE_BY_CHANNEL),
            "STRIDE_Y": vertical.stride,
            "STRIDE_X": horizontal.stride,
            "DILATION_Y": vertical.dilation,
            "DILATION_X": horizontal.dilation,
            "TILE_HEIGHT": tile[0],
            "TILE_WIDTH": tile[1],
            "TILES": together,
            "BLOCK": block if block < words else 0,
            "COLUMNS": min(tile[1] * together, out_width, _COLUMNS_TOGETHER) if takes_several else 1,
            **of_extra,
        },
        tensors=tensors,
        words=words,
        batch=batches,
        out_height=out_height,
        out_width=out_width,
        height=height,
        width=width,
        depth=depth,
        pad_top=vertical.before,
        pad_left=horizontal.before,
        **own_push,
    )


def _arguments(
    g: Lowering, operands: Operands, checked: Checked, tensors: Mapping[str, TensorRef], regions: int
) -> tuple[dict[str, TensorRef], dict[str, bool], dict[str, int]]:
    """The tensors, specialisation constants and push constants that both shaders have, for so many workgroups."""
    g.checksums += regions
    tensor = operands.target
    extra = None if operands.epilogue is None else combined_one_for_one(operands.epilogue)
    flag, number = g.compared(Subject(g.operation, tensor.name, tensor.dtype.name, tensor.shape, of_rows=True))
    is_copied = tensors["dst"] is not checked.results
    every = {
        **tensors,
        "dst": tensors["dst"] if is_copied else g.scratch(ALIGNMENT),
        "filters": checked.filters,
        "computed": checked.results,
        "checks": checked.words,
        "extra": checked.words if extra is None else g.tensor(extra.whole),
        "flag": flag,
    }
    push = {
        "last_word": max(0, operands.input.size - 1) // 4,
        "input_zero": zero_point(operands.input),
        "sign_mask": sign_mask(operands.input),
        "number": number,
    }
    return every, {"HAS_EXTRA": extra is not None, "COPIES": is_copied}, push
