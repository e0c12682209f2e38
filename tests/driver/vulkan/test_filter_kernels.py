"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED on the GPU against the reference device, on sizes that meet every
variant, tile and tail of the shaders; every case under the device's own profile and under the smallest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from builder import Builder
from samples import compiled

import nnvk
from nnvk import Model, OperandCode, OperandType, OperationCode
from nnvk.base.settings import override
from nnvk.driver.vulkan import find_devices
from nnvk.driver.vulkan.lowering.gemm.gemm import refuse_long_sums
from nnvk.driver.vulkan.lowering.gemm.weights import pack
from nnvk.runtime.devices import Device
from nnvk.types.codes import PaddingCode
from nnvk.types.extension import EXTENSION, ExtendedOperationCode, KnownCode
from nnvk.types.operand import ChannelQuant

CONV, DEPTHWISE, FULL = OperationCode.CONV_2D, OperationCode.DEPTHWISE_CONV_2D, OperationCode.FULLY_CONNECTED
SAME, VALID = PaddingCode.SAME, PaddingCode.VALID


@dataclass(frozen=True)
class Filter:
    """A filter operation: NHWC input, number of output channels, window."""

    code: OperationCode
    source: tuple[int, ...]
    outputs: int
    window: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: int | tuple[int, int, int, int] = SAME
    """A scheme, or left, right, top, bottom."""
    nchw: bool = False
    at_run_time: bool = False
    """Weights and bias are inputs of the model."""
    activation: int = 0
    extreme: bool = False
    """Quantised inputs, weights and bias are the largest that there are, so that sums leave 32 bits."""

    @property
    def weights(self) -> tuple[int, ...]:
        if self.code is FULL:
            return (self.outputs, self.source[-1])
        if self.code is DEPTHWISE:
            return (1, *self.window, self.outputs)
        return (self.outputs, *self.window, self.source[3])


CASES = {
    # Rows and output channels around the tiles, channels for loads by one, four and eight.
    "one of each": Filter(CONV, (1, 1, 1, 1), 1),
    "1x1, eights": Filter(CONV, (1, 9, 7, 16), 40),
    "1x1, vec4s": Filter(CONV, (2, 5, 7, 12), 32),
    "1x1, ones": Filter(CONV, (1, 11, 3, 13), 7),
    "one row over a tile": Filter(CONV, (1, 1, 65, 8), 65),
    "first layer": Filter(CONV, (1, 23, 25, 3), 32, (3, 3), (2, 2), activation=3),
    "3x3, eights": Filter(CONV, (1, 14, 14, 24), 36, (3, 3), activation=1),
    "even window": Filter(CONV, (1, 8, 9, 5), 6, (2, 4), (3, 2)),
    "dilated": Filter(CONV, (1, 13, 12, 8), 9, (3, 2), dilation=(2, 3)),
    "explicit padding": Filter(CONV, (1, 6, 5, 4), 8, (3, 3), padding=(2, 0, 1, 3)),
    "window in the padding only": Filter(CONV, (1, 2, 2, 4), 4, padding=(3, 3, 3, 3)),
    "valid": Filter(CONV, (3, 7, 8, 17), 33, (3, 3), padding=VALID, activation=2),
    "conv, NCHW": Filter(CONV, (2, 6, 7, 5), 11, (3, 3), nchw=True),
    "conv, NCHW, one channel": Filter(CONV, (1, 6, 7, 1), 8, (3, 3), nchw=True),
    "conv, weights at run time": Filter(CONV, (1, 6, 7, 10), 35, (3, 2), at_run_time=True),
    # The tile of a depthwise convolution, windows that it can't hold, depth multipliers.
    "depthwise": Filter(DEPTHWISE, (1, 11, 31, 36), 36, (3, 3), activation=3),
    "depthwise, stride 2": Filter(DEPTHWISE, (2, 12, 13, 8), 8, (3, 3), (2, 2)),
    "depthwise, stride beyond the window": Filter(DEPTHWISE, (1, 13, 14, 4), 4, (2, 1), (4, 3)),
    "depthwise, 5x5": Filter(DEPTHWISE, (1, 9, 9, 4), 4, (5, 5)),
    "depthwise, tall": Filter(DEPTHWISE, (1, 20, 6, 4), 4, (11, 1), (2, 1)),
    "depthwise, 7x7": Filter(DEPTHWISE, (1, 9, 10, 4), 4, (7, 7)),
    "depthwise, wide and dilated": Filter(DEPTHWISE, (1, 4, 40, 4), 4, (1, 5), dilation=(1, 7)),
    "depthwise, dilated": Filter(DEPTHWISE, (1, 9, 12, 4), 4, (3, 3), dilation=(2, 2)),
    "depthwise, odd channels": Filter(DEPTHWISE, (2, 5, 6, 7), 7, (3, 3)),
    "depthwise, multiplier 3": Filter(DEPTHWISE, (1, 5, 6, 4), 12, (3, 3)),
    "depthwise, multiplier and odd channels": Filter(DEPTHWISE, (1, 5, 6, 3), 15, (2, 3), padding=(1, 0, 0, 2)),
    "depthwise, NCHW": Filter(DEPTHWISE, (2, 7, 5, 6), 6, (3, 3), nchw=True),
    "depthwise, weights at run time": Filter(DEPTHWISE, (1, 7, 5, 7), 7, (3, 3), at_run_time=True),
    # Matrix-vector products, and the matrix products beyond them.
    "one row": Filter(FULL, (1, 130), 101),
    "few rows": Filter(FULL, (3, 33), 70),
    "rows": Filter(FULL, (50, 64), 32, activation=1),
    "rows of odd size": Filter(FULL, (9, 31), 5, activation=2),
    "rows, weights at run time": Filter(FULL, (2, 31), 35, at_run_time=True),
    # Sums of 32 bits that wrap round: with their bias, and before.
    "conv, wrapping round": Filter(CONV, (1, 5, 4, 6), 35, (3, 2), extreme=True),
    "1x1, wrapping round": Filter(CONV, (1, 3, 3, 8), 8, extreme=True),
    "depthwise, wrapping round": Filter(DEPTHWISE, (1, 5, 6, 4), 8, (3, 3), extreme=True),
    "one row, wrapping round": Filter(FULL, (1, 6), 5, extreme=True),
    "rows, wrapping round": Filter(FULL, (20, 6), 5, extreme=True),
    "long sums, wrapping round": Filter(FULL, (1, 140_000), 2, extreme=True),
}
TYPES = {
    "f32": OperandCode.TENSOR_FLOAT32,
    "q8": OperandCode.TENSOR_QUANT8_ASYMM,
    "q8_signed": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    "per_channel": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    "q16": OperandCode.TENSOR_QUANT16_SYMM,
    "q16_per_channel": OperandCode.TENSOR_QUANT16_SYMM,
}


@pytest.fixture(scope="module", params=["", "mobile-min"], ids=["own", "smallest"])
def device(request: pytest.FixtureRequest) -> Device:
    with override(device_profile=request.param):
        found, reason = find_devices()
    if not found:
        pytest.skip(reason)
    return Device(found[0])


def model_of(case: Filter, kind: str, rng: np.random.Generator) -> tuple[Model, list[np.ndarray]]:
    """A model of one operation, and its inputs."""
    code = TYPES[kind]
    quantised = kind != "f32"
    is_wide = code is OperandCode.TENSOR_QUANT16_SYMM
    has_channels = kind.endswith("per_channel")
    per_channel = has_channels and case.code is not FULL
    build, inputs, values = Builder(), [], []

    def operand(type_: OperandType, value: np.ndarray, *, is_input: bool) -> int:
        if not is_input:
            return build.constant(type_, value)
        inputs.append(build.operand(type_))
        values.append(value)
        return inputs[-1]

    def tensor(code: OperandCode, value: np.ndarray, scale: float, zero_point: int, *, is_input: bool) -> int:
        type_ = OperandType(code, value.shape, scale if quantised else 0.0, zero_point if quantised else 0)
        return operand(type_, value, is_input=is_input)

    def draw(shape: tuple[int, ...], dtype: type) -> np.ndarray:
        if dtype is np.float32:
            return rng.standard_normal(shape, np.float32)
        limits = np.iinfo(dtype)
        if case.extreme:
            return np.full(shape, limits.max, dtype)
        return rng.integers(-127 if per_channel else limits.min, limits.max + 1, shape).astype(dtype)

    dtype = {"f32": np.float32, "q8": np.uint8}.get(kind, np.int8)
    source = draw(case.source, np.int16 if is_wide else dtype)
    if case.nchw:
        source = np.ascontiguousarray(source.transpose(0, 3, 1, 2))
    operands = [tensor(code, source, 0.05, 0 if is_wide else 3, is_input=True)]
    weights = draw(case.weights, dtype)
    if per_channel:
        scales = tuple(rng.uniform(0.01, 0.04, case.outputs).astype(np.float32).tolist())
        channels = ChannelQuant(scales, 3 if case.code is DEPTHWISE else 0)
        type_ = OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, weights.shape, channel_quant=channels)
        operands.append(operand(type_, weights, is_input=case.at_run_time))
    else:
        zero, of_weights = (-5 if dtype is np.int8 else 140), code
        if is_wide:
            zero, of_weights = 0, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
        operands.append(tensor(of_weights, weights, 0.02, zero, is_input=case.at_run_time))
    bias = draw((case.outputs,), np.float32) if not quantised else rng.integers(-999, 999, case.outputs, np.int32)
    if case.extreme:
        bias[:] = np.iinfo(np.int32).max
    if is_wide and has_channels:
        bias = bias.astype(np.int64).view(np.int32)  # numbers of 64 bits
    bias_scale = 0.0 if per_channel else float(np.float32(0.05) * np.float32(0.02))
    bias_code = OperandCode.TENSOR_INT32 if quantised else code
    operands.append(tensor(bias_code, bias, bias_scale, 0, is_input=case.at_run_time))
    if case.code is not FULL:
        operands += map(build.value, case.padding if isinstance(case.padding, tuple) else (case.padding,))
        operands += [build.value(case.stride[1]), build.value(case.stride[0])]
        if case.code is DEPTHWISE:
            operands.append(build.value(case.outputs // case.source[3]))
    operands.append(build.value(case.activation))
    if case.code is not FULL:
        operands += [build.value(case.nchw), build.value(case.dilation[1]), build.value(case.dilation[0])]
    terms = weights.size // case.outputs
    zero_point = 7 if quantised and not is_wide else 0
    output_type = OperandType(code, (0,) * source.ndim, 0.1 * terms**0.5 if quantised else 0.0, zero_point)
    operation: KnownCode | int = case.code
    if is_wide:
        number = ExtendedOperationCode[case.code.name].value
        operation = build.model.get_extension_operation_type(EXTENSION, number)
    return build.finish(inputs, [build.operation(operation, operands, output_type)]), values


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in CASES for kind in TYPES if kind != "f32" or not CASES[name].extreme]
)
@pytest.mark.crossed
def test_filter(device: Device, name: str, kind: str) -> None:
    case = CASES[name]
    model, values = model_of(case, kind, np.random.default_rng(len(name)))
    (expected,) = nnvk.run(compiled(model, nnvk.get_device("nnapi-reference")), values)
    (actual,) = nnvk.run(compiled(model, device), values)
    if kind == "f32":
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-5)
    else:
        np.testing.assert_array_equal(actual, expected)


PACKED = [(1, 1, 1), (1, 32, 4), (2, 33, 6), (3, 70, 16)]


@pytest.mark.parametrize(("parts", "outputs", "channels"), PACKED)
def test_packed_bytes(parts: int, outputs: int, channels: int) -> None:
    shape = (parts, outputs, 2, channels)
    filters = np.arange(np.prod(shape), dtype=np.uint32).astype(np.uint8).reshape(shape)
    packed = pack(filters, fill=9).reshape(parts, -1, 2, -(-channels // 4), 32, 4)
    for (part, block, tap, four, output, byte), value in np.ndenumerate(packed):
        o, c = block * 32 + output, four * 4 + byte
        assert value == (filters[part, o, tap, c] if o < outputs and c < channels else 9)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize(("parts", "outputs", "channels"), PACKED)
def test_packed_words(parts: int, outputs: int, channels: int, dtype: type) -> None:
    shape = (parts, outputs, 2, channels)
    filters = np.arange(1, np.prod(shape) + 1).astype(dtype).reshape(shape)
    packed = pack(filters).reshape(parts, -1, 2, -(-channels // 4), 2, 8, 2, 4)
    for (part, block, tap, four, pair, lane, step, output), value in np.ndenumerate(packed):
        o, c = block * 32 + lane * 4 + output, four * 4 + pair * 2 + step
        assert value == (filters[part, o, tap, c] if o < outputs and c < channels else 0)


@pytest.mark.parametrize(
    ("taps", "channels", "refused"),
    [((7, 7), 4096, False), ((1, 1), 259_000, False), ((1, 1), 260_000, True), ((200, 200), 1, True)],
)
def test_sums_that_llvmpipe_would_cut_short_are_refused(taps: tuple[int, int], channels: int, refused: bool) -> None:
    assert bool(refuse_long_sums(taps, channels)) is refused
