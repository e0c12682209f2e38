"""Products of 8-bit levels that sums of their rows verify, in place of a second product.

Products of levels are exact, so a weighted sum of the accumulators of a row, modulo 2^32, is the row of the left matrix
times the weighted sum of the filters (K.-H. Huang and J. A. Abraham, 1984, with the random factors of R. Freivalds). A
variant of the product's shader stores with each word of results a check word: the sum of its four accumulators times
their factors, plus the word times a factor. `gemm_checksum.comp` adds up the check words of a row, and on the other
side what the left matrix gives and what the results in memory give (`shaders/include/checksum.glsl`).

The variant computes the word in the check word by another formula than the stored one, so that the scaling of the
accumulators is verified as well. The parameters of this scaling are a part of the check words, too. The left matrix,
and the other tensor of an epilogue, are second results of other operations, and a copy of the results becomes the
second result, so that no change of memory stays unseen.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnvk.driver.vulkan.lowering.epilogue import combined_one_for_one
from nnvk.driver.vulkan.lowering.filter_output import Operands
from nnvk.driver.vulkan.lowering.lowering import Checked, Lowering, Subject
from nnvk.driver.vulkan.lowering.quantised import sign_mask, zero_point
from nnvk.driver.vulkan.lowering.relayout import round_up
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

CHECKSUM = Shader("gemm_checksum")
_OF_WORDS = 0x40000000
_EPILOGUE_WORDS = 16
_GOLDEN = np.uint32(0x9E3779B1)
_FULL = 1024
"""The invocations that keep a unit of a GPU busy; with fewer, it waits for loads that follow each other."""
_LOCAL = 64
"""The invocations of a workgroup of a GPU."""


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
def filter_and_constant(
    operands: Operands, depth: int, parameters: np.ndarray, push: Mapping[str, int | float]
) -> np.ndarray:
    """The sum of all filters with their factors, and the part of a row's checksum that is the same for all inputs.

    ``depth`` is the number of input channels, of which a filter may see a group. ``parameters`` are the words of an
    epilogue and the multipliers, ``push`` the push constants of filter_output.glsl. The result is uint32 [taps x depth
    padded to vec4s, then 1].
    """
    filters = operands.filters
    parts, outputs_of_part, taps, channels = filters.shape
    outputs, groups = parts * outputs_of_part, depth // channels
    of_sums = factors(0, outputs)
    weights = filters.weights().reshape(groups, outputs // groups, taps, channels)
    by_group = np.zeros((groups, taps, channels), np.uint32)
    for each in range(outputs // groups):
        levels = weights[:, each].astype(np.int32) - np.int32(filters.tensor.zero_point)
        by_group += of_sums[each :: outputs // groups, np.newaxis, np.newaxis] * levels.view(np.uint32)
    every = np.zeros((taps, round_up(depth, 4)), np.uint32)
    every[:, :depth] = by_group.transpose(1, 0, 2).reshape(taps, depth)
    words = parameters.reshape(-1).view(np.uint32)
    of_words = factors(_OF_WORDS, round_up(outputs, 4) // 4)
    always = -np.uint32(zero_point(operands.input)) * every.sum(dtype=np.uint32)
    if operands.bias is not None:
        always += _dot(np.ascontiguousarray(operands.bias.data).reshape(-1).view(np.uint32), of_sums)
    low, high, zero = (np.uint32(int(push[name])) for name in ("low", "high", "output_zero"))
    always += of_words.sum(dtype=np.uint32) * (low ^ high << np.uint32(8) ^ zero << np.uint32(16))
    if operands.epilogue is not None:
        own, words = words[:_EPILOGUE_WORDS], words[_EPILOGUE_WORDS:]
        always += of_words.sum(dtype=np.uint32) * _dot(own, factors(0, _EPILOGUE_WORDS))
    mantissas, shifts = words.reshape(-1, 2, 4).transpose(1, 0, 2).reshape(2, -1)[:, :outputs]
    always += _dot(mantissas + _GOLDEN * shifts, of_sums)
    return np.append(every, always)


def _dot(left: np.ndarray, right: np.ndarray) -> np.uint32:
    return (left * right).sum(dtype=np.uint32)


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
    tensor, depth, words = operands.target, push["depth"], push["words"]
    extra = None if operands.epilogue is None else combined_one_for_one(operands.epilogue)
    span = next(span for span in (16, 4, 1) if depth % span == 0)
    loads = push["kernel_height"] * push["kernel_width"] * -(-depth // max(span, 4))
    local, across, rows = _sharing(g.device, push["rows"], max(loads, words // 4))
    flag, number = g.compared(Subject(g.operation, tensor.name, tensor.dtype.name, tensor.shape, of_rows=True))
    g.dispatch(
        CHECKSUM.variant(),
        groups=g.flat(-(-push["rows"] // rows) * across, local),
        spec={
            "local_x": local,
            "ROWS": rows,
            "ACROSS": across,
            "SPAN": span,
            "WIDE": words % 4 == 0,
            "HAS_EXTRA": extra is not None,
            **spec,
        },
        tensors={
            **tensors,
            "filters": checked.filters,
            "computed": checked.results,
            "checks": checked.words,
            "extra": checked.words if extra is None else g.tensor(extra.whole),
            "flag": flag,
        },
        last_word=max(0, operands.input.size - 1) // 4,
        input_zero=zero_point(operands.input),
        sign_mask=sign_mask(operands.input),
        number=number,
        **push,
    )


def _sharing(device: DeviceProfile, rows: int, loads: int) -> tuple[int, int, int]:
    """Invocations of a workgroup, those of them that share rows, and the rows that they share.

    ``loads`` are those of a row. A CPU takes rows side by side in a vector. Invocations of a GPU share a row, with one
    load for each if there are so many, and have several rows if the GPU is busy all the same.
    """
    if device.is_cpu:
        return 8, 1, 8
    across = min(_LOCAL, 1 << (loads - 1).bit_length())
    return _LOCAL, across, 4 if rows * across >= 4 * _FULL * device.units else 1
