"""A depthwise convolution and the 1 x 1 convolution behind it in one dispatch (`shaders/include/gemm/depthwise.glsl`).

The GEMM of the 1 x 1 convolution computes its left operand in shared memory, one stage of channels after the other.
Each block of output channels does so again. That spares a launch, and the tensor between the two convolutions.

Where both are verified by checksums, the first block stores this tensor with check words. So the depthwise convolution
is verified by `checksum.BY_CHANNEL`, and the 1 x 1 convolution as one that reads the tensor.
"""

from __future__ import annotations

import math

import numpy as np

from nnvk.driver.vulkan.lowering.compared import Checked
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, Q8, dtype, of
from nnvk.driver.vulkan.lowering.gemm import half_weights
from nnvk.driver.vulkan.lowering.gemm.epilogue import filter_output, largest_sum
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, Operands, Work
from nnvk.driver.vulkan.lowering.gemm.verification import checksum
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK, Weights
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import SMALL, activation_limits, are_small_shifts, zero_point
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call
from nnvk.ops.conv2d import conv_axes
from nnvk.ops.depthwise_conv2d import depthwise_axes
from nnvk.ops.linear import output_multipliers
from nnvk.types.codes import FuseCode

MOST_TAPS = 9
"""The most taps of a depthwise convolution, which the shader holds in registers."""


def filters_of_channels(depthwise: Call) -> Weights:
    """The filters of a DEPTHWISE_CONV_2D, whose operand is [1, height, width, output channels]."""
    _, *window, outputs = depthwise.filter.shape
    taps = math.prod(window)
    return Weights(depthwise.filter, 1, outputs, taps, 1, (taps * outputs, 1, outputs, 1))


def is_possible(depthwise: Call, pointwise: Call) -> bool:
    """Whether a DEPTHWISE_CONV_2D and a CONV_2D that reads its output can be one dispatch.

    They have floats or 8 bits, constant filters and biases, and no views. The window is small, its multiplier
    is 1, and the CONV_2D has a filter of 1 x 1.
    """
    source, result = depthwise.input, depthwise.output
    parameters = depthwise.filter, depthwise.bias, pointwise.filter, pointwise.bias
    every = *parameters, source, result, pointwise.input, pointwise.output
    if of(source) not in (F32, F16, Q8) or not all(tensor.is_constant for tensor in parameters):
        return False
    if any(tensor.view is not None for tensor in every) or not pointwise.output.size:
        return False
    if any(call.known("activation") is None for call in (depthwise, pointwise)):
        return False
    taps = math.prod(depthwise.filter.shape[1:3])
    return (
        source.shape[-1] == result.shape[-1]
        and taps <= MOST_TAPS
        and pointwise.input.shape == result.shape
        and Gemm.of_convolution(pointwise, conv_axes(pointwise)).is_side_by_side
        and filters_of_channels(depthwise).quantised is None
        and Weights(pointwise.filter, 1, 1, 1, 1, (1, 1, 1, 1)).quantised is None
    )


def gemm_of(depthwise: Call, pointwise: Call) -> Gemm:
    """The GEMM of both: rows are the windows of the depthwise convolution, of which K has the channels alone."""
    return Gemm(depthwise.input.shape, pointwise.output.shape, *depthwise_axes(depthwise))


def work_of(depthwise: Call, gemm: Gemm, *, float16: bool, float16_split_k: bool) -> Work:
    """The `Work` of a GEMM with a depthwise convolution before it, for the choice of a strategy.

    ``float16`` and ``float16_split_k`` are as in `Work`.
    """
    sizes = gemm.rows, gemm.columns, 1, 1, gemm.depth
    return Work(
        dtype(depthwise.input),
        *sizes,
        constant=True,
        in_order=False,
        matrix=False,
        float16=float16,
        float16_split_k=float16_split_k,
        depthwise=math.prod(depthwise.filter.shape[1:3]),
    )


def constants(depthwise: Call, device: DeviceProfile) -> dict[str, int | bool]:
    """The specialisation constants of depthwise_windows.glsl."""
    _, height, width, _ = depthwise.filter.shape
    spec: dict[str, int | bool] = {"ONE_TAP": True, "KERNEL_HEIGHT": height, "KERNEL_WIDTH": width}
    if of(depthwise.input) is Q8:
        _, shifts = _multipliers(depthwise)
        is_small = are_small_shifts(shifts) and largest_sum(depthwise.bias, filters_of_channels(depthwise)) < SMALL
        return {**spec, "DEPTHWISE_SMALL": is_small}
    is_activated = depthwise.activation != FuseCode.NONE
    preserves_nan = is_activated and device.preserves_special
    return {**spec, "DEPTHWISE_ACTIVATED": is_activated, "DEPTHWISE_PRESERVES_NAN": preserves_nan}


def bias_and_parameters(g: Lowering, operands: Operands, *, folded: bool) -> TensorRef:
    """The tensor ``bias`` of the GEMM, padded to vec4s, and behind it the parameters of the depthwise convolution.

    ``folded``: the bias has what is due to the zero point of the GEMM's input.
    """
    depthwise, bias = operands.depthwise, operands.bias
    assert depthwise is not None
    assert bias is not None

    def both() -> np.ndarray:
        of_gemm = np.zeros(round_up(bias.size, 4), np.int32 if of(depthwise.input) is Q8 else np.float32)
        own = half_weights.folded_values(g, operands.input, operands.weights, bias) if folded else bias.data.reshape(-1)
        of_gemm[: bias.size] = own.astype(of_gemm.dtype)
        return np.concatenate([of_gemm.view(np.int32), parameters(g, depthwise)])

    types = depthwise.input.type, depthwise.output.type, depthwise.activation
    form = "depthwise", depthwise.filter.index, depthwise.bias.index, types, folded, operands.weights.tensor.index
    return g.constant_form(bias, form, both)


# --- where both are verified ---------------------------------------------------------------------------------

_TILE = 1, 1
"""The height and width of the tile of a check word."""


def has_checksums(depthwise: Call, gemm: Gemm, device: DeviceProfile) -> bool:
    """Whether checksums can verify a depthwise convolution for which `is_possible` holds, in the GEMM of both."""
    if of(depthwise.input) is not Q8 or gemm.depth % 4:
        return False
    # An invocation of the GEMM stores a check word for several words.
    if 4 * (words_before(gemm) + gemm.rows * round_up(gemm.columns, BLOCK) // 4) > device.max_buffer:
        return False
    return checksum.is_possible_by_channel(device, Gemm.of_convolution(depthwise, depthwise_axes(depthwise)), _TILE)


def words_before(gemm: Gemm) -> int:
    """The words of the depthwise results and of their check words, which lie in front of those of the GEMM."""
    return 2 * _words(gemm)


def _words(gemm: Gemm) -> int:
    return round_up(gemm.rows * (gemm.depth // 4), 4)


def note_checked(g: Lowering, depthwise: Call, gemm: Gemm, checks: TensorRef) -> None:
    """Let the depthwise convolution be verified later. ``checks`` begins with its results and their check words."""
    operands, own = _operands(depthwise), Gemm.of_convolution(depthwise, depthwise_axes(depthwise))
    filters = checksum.filters_by_channel(operands, own, filter_output(g, operands, own))
    g.checked[depthwise.output.index] = Checked(checks, checks, filters, _TILE, _words(gemm))
    g.alias(checks, depthwise.output)


def verify(g: Lowering, depthwise: Call) -> None:
    """Verify a depthwise convolution in place. Only the GEMM reads its results, and it was verified before."""
    checked = g.to_verify(depthwise.output)
    assert checked is not None
    tensors = {"src": g.tensor(depthwise.input), "dst": checked.results}
    gemm = Gemm.of_convolution(depthwise, depthwise_axes(depthwise))
    checksum.verify_by_channel(g, _operands(depthwise), gemm, checked, tensors)
    g.alias(checked.results, depthwise.output)


def _operands(depthwise: Call) -> Operands:
    return Operands.of_call(depthwise, filters_of_channels(depthwise))


# --- parameters ----------------------------------------------------------------------------------------------


def _multipliers(depthwise: Call) -> tuple[np.ndarray, np.ndarray]:
    """The mantissas and shifts of the channels of a depthwise convolution of 8 bits."""
    return output_multipliers(depthwise.code, depthwise.input, depthwise.filter, depthwise.output)


def parameters(g: Lowering, depthwise: Call) -> np.ndarray:
    """The parameters of a depthwise convolution as depthwise_windows.glsl reads them: int32 words of vec4s."""
    filters = filters_of_channels(depthwise)
    low, high = activation_limits(depthwise.activation, depthwise.output)
    if of(depthwise.input) is not Q8:
        weights = _by_vec4s(filters.array()[0, :, :, 0].T.astype(np.float32))
        ends = _by_vec4s(depthwise.bias.data.reshape(1, -1).astype(np.float32))
        first = np.array([low, high, 0, 0], np.float32)
        return np.concatenate([first, np.concatenate([weights, ends], axis=1).reshape(-1)]).view(np.int32)
    float16 = half_weights.centred(filters)[0, :, :, 0].T.astype(np.float16)
    float16 = np.pad(float16, [(0, float16.shape[0] % 2), (0, 0)])
    taps, channels = float16.shape
    # Four channels of two taps, of 16 bits each, are a vec4.
    padded = np.pad(float16, [(0, 0), (0, -channels % 4)]).reshape(taps, -1, 4).transpose(1, 0, 2)
    weights = np.ascontiguousarray(padded).view(np.int32).reshape(len(padded), taps // 2, 4)
    due = half_weights.folded_values(g, depthwise.input, filters, depthwise.bias)
    mantissas, shifts = (np.broadcast_to(each, channels) for each in _multipliers(depthwise))
    ends = _by_vec4s(np.stack([due, mantissas, shifts]).astype(np.int32))
    zeros = zero_point(depthwise.input), zero_point(depthwise.output)
    first = np.array([low, high, *zeros], np.int32)
    return np.concatenate([first, np.concatenate([weights, ends], axis=1).reshape(-1)])


def _by_vec4s(rows: np.ndarray) -> np.ndarray:
    """Rows of channels as [vec4s of channels, rows, 4]; channels that are not there are zeros."""
    padded = np.pad(rows, [(0, 0), (0, -rows.shape[1] % 4)])
    return padded.reshape(len(rows), -1, 4).transpose(1, 0, 2)
