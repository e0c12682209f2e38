"""16-bit floats of the device's own, and the same packed in words: bit by bit the same numbers, and the right ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from against_reference import check_like_the_reference
from kernel_cases import KERNELS, supported

from nnvk.base.settings import override
from nnvk.check.model_rows import Row, empty_like, execute, parse, reference
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.lowering.gemm.tiles.cooperative_matrix import Matrix
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.declaration import declared_shaders
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import NATIVE_16
from nnvk.types.codes import OperandCode, OperationCode

FLOAT16 = [case for case in KERNELS if case.values[1] is OperandCode.TENSOR_FLOAT16]
EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
"""Every 16-bit float: both zeros, subnormal numbers, 65504, infinities and all that are none."""
NUMBERS = EVERY[np.isfinite(EVERY)]
OTHER_ARITHMETIC = ("half", Matrix.tile)
"""Variants that GPUs with native 16-bit floats prefer, and that add up in another order or width."""


@pytest.fixture(scope="module")
def native(own: VulkanDevice) -> VulkanDevice:
    """The device, where it has 16-bit floats of its own."""
    if not own.profile.has_native_16:
        pytest.skip("the device has no 16-bit floats of its own")
    return own


@pytest.fixture(scope="module")
def packed(native: VulkanDevice) -> VulkanDevice:
    """The same device, as if it had none."""
    with override():
        device = find_devices()[0][0]
    profile = replace(device.profile, features=device.profile.features - NATIVE_16)
    device.gpu.profile = device.planner.profile = profile
    return device


def outputs_of(device: VulkanDevice, row: Row) -> list[np.ndarray]:
    outputs = empty_like(reference(row))
    execute(device, row, outputs)
    return outputs


def with_inputs(text: str, *inputs: np.ndarray) -> Row:
    return Row(parse(text).model, inputs)


def variants_of(device: VulkanDevice, row: Row) -> list[str]:
    shapes = [array.shape for array in row.inputs]
    plan = device.planner.lower(row.model, shapes)
    return [command.shader.name for command in plan.commands if hasattr(command, "shader")]


def same_numbers(got: np.ndarray, want: np.ndarray) -> None:
    """Bit by bit, but for the bits of what is no number."""
    assert got.dtype == want.dtype
    none = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), none)
    assert got[~none].tobytes() == want[~none].tobytes()


# --- which shaders run -------------------------------------------------------------------------------------------


def test_native_variants_need_these_features_and_no_others() -> None:
    library = ShaderLibrary()
    native_variants = [variant for shader in declared_shaders() for variant in shader.variants if variant.is_native]
    assert len(native_variants) > 60
    for native_variant in native_variants:
        if native_variant.name in library.left_out or Matrix.tile in native_variant.name:
            continue  # tests of cooperative matrices have their features
        features = library[native_variant].features
        others = (
            library[replace(native_variant, is_native=False)].features
            if not native_variant.needs_native
            else frozenset()
        )
        assert features <= NATIVE_16 | others, native_variant.name


def test_the_device_decides(native: VulkanDevice, packed: VulkanDevice) -> None:
    row = parse("ADD f16[2,3] f16[3] NONE")
    assert variants_of(native, row) == ["binary.add.f16.native"]
    assert variants_of(packed, row) == ["binary.add.f16"]
    floats = parse("ADD f32[2,3] f32[3] NONE")
    assert variants_of(native, floats) == variants_of(packed, floats) == ["binary.add.f32"]


def test_pixels_need_no_padding_where_elements_are_stored_alone(native: VulkanDevice, packed: VulkanDevice) -> None:
    row = parse("CONV_2D f16[1,5,7,3] #f16[5,3,3,3] #f16[5] SAME 1 1 NONE nhwc")
    assert len(variants_of(native, row)) == 1
    assert len(variants_of(packed, row)) == 2


# --- the same numbers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "leading"), FLOAT16)
def test_bit_by_bit_as_packed(
    native: VulkanDevice, packed: VulkanDevice, code: OperationCode, leading: OperandCode
) -> None:
    """Native and packed variants give the same bits for every drawn case, but for the bits of what is no number."""
    for _, row in supported(native, code, leading, range(400, 404)):
        if any(f".{arithmetic}." in name for name in variants_of(native, row) for arithmetic in OTHER_ARITHMETIC):
            continue
        for got, want in zip(outputs_of(native, row), outputs_of(packed, row), strict=True):
            same_numbers(got, want)


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("BATCH_MATMUL f16[3,33,40]~2 f16[3,40,28]~2", "BY_ELEMENTS"),
        ("BATCH_MATMUL f16[2,5,7]~2 f16[2,7,5]~2", "BY_ELEMENTS"),
        ("FULLY_CONNECTED f16[67,136]~3 #f16[29,136]~2 #f16[29]~9 RELU", "BY_ELEMENTS"),
        ("DEPTHWISE_CONV_2D f16[1,9,11,8]~3 #f16[1,5,5,8]~2 #f16[8]~9 SAME 1 1 1 NONE nhwc", "BY_LINES"),
        ("DEPTHWISE_CONV_2D f16[1,9,11,7]~3 #f16[1,3,3,7]~2 #f16[7]~9 SAME 2 2 1 NONE nhwc", "BY_LINES"),
    ],
)
def test_small_subgroups(native: VulkanDevice, text: str, constant: str) -> None:
    """A GPU with small subgroups and 16-bit floats of its own, such as Mali."""
    with override():
        device = find_devices()[0][0]
    profile = replace(
        native.profile, is_cpu=False, texel_loads=False, subgroup_size=16, cooperative_matrices=frozenset()
    )
    device.gpu.profile = device.planner.profile = profile
    row = parse(text)
    commands = device.planner.lower(row.model, [array.shape for array in row.inputs]).commands
    dispatches = [command for command in commands if isinstance(command, Dispatch)]
    assert any(each.shader.named_constants(each.specialization).get(constant) for each in dispatches)
    check_like_the_reference(device, text)


@pytest.mark.parametrize(
    "text",
    [
        "ABS f16[65536]",
        "NEG f16[65536]",
        "FLOOR f16[65536]",
        "RELU f16[65536]",
        "RELU1 f16[65536]",
        "RELU6 f16[65536]",
        "CAST f16[65536] -> f32",
        "RESHAPE f16[65536] (256,256)",
    ],
)
def test_every_number(vulkan: VulkanDevice, text: str) -> None:
    row = with_inputs(text, EVERY)
    (want,), (got,) = reference(row), outputs_of(vulkan, row)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    if text.startswith("RELU"):
        numbers &= want != 0  # of two zeros it may be either
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


@pytest.mark.parametrize("code", ["ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "PRELU"])
def test_arithmetic_rounds_once(vulkan: VulkanDevice, code: str) -> None:
    """As float32 rounded to nearest: sums that cancel, overflow, and products among the subnormal numbers."""
    rng = np.random.default_rng(3)
    count = 65537
    left = rng.choice(EVERY, count)
    right = rng.choice(EVERY, count)
    near = slice(0, count // 2)  # of one magnitude, so that sums are ties and products small
    right[near] = (left[near].view(np.uint16) ^ rng.integers(0, 1 << 11, count // 2, np.uint16)).view(np.float16)
    left[-100:], right[-100:] = 65504, np.linspace(-40, 40, 100)
    activation = " NONE" if code in ("ADD", "SUB", "MUL") else ""
    row = with_inputs(f"{code} f16[{count}] f16[{count}]{activation}", left, right)
    a, b = left.astype(np.float32), right.astype(np.float32)
    with np.errstate(all="ignore"):
        want = {
            "ADD": lambda: a + b,
            "SUB": lambda: a - b,
            "MUL": lambda: a * b,
            "MAXIMUM": lambda: np.maximum(a, b),
            "MINIMUM": lambda: np.minimum(a, b),
            "PRELU": lambda: np.where(a < 0, a * b, a),
        }[code]().astype(np.float16)
    (got,) = outputs_of(vulkan, row)
    if code in ("MAXIMUM", "MINIMUM"):
        np.testing.assert_array_equal(got, want)  # of two zeros it may be either
    else:
        same_numbers(got, want)


def test_float32_is_rounded_to_nearest(vulkan: VulkanDevice) -> None:
    """Ties to even, up to the largest number and down to the smallest."""
    ascending = np.sort(NUMBERS.astype(np.float32))
    ties = (ascending[1:] + ascending[:-1]) / 2
    edges = np.array([65519.996, 65520, 65536, 1e9, np.inf, 2**-25, 2**-26, 1e-30, 0, np.nan], np.float32)
    source = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), edges, -edges])
    row = with_inputs(f"CAST f32[{source.size}] -> f16", source.astype(np.float32))
    with np.errstate(over="ignore"):
        want = row.inputs[0].astype(np.float16)
    (got,) = outputs_of(vulkan, row)
    same_numbers(got, want)


@pytest.mark.parametrize("code", ["EQUAL", "NOT_EQUAL", "LESS", "GREATER_EQUAL"])
def test_comparisons(vulkan: VulkanDevice, code: str) -> None:
    rng = np.random.default_rng(4)
    left = np.concatenate([EVERY, EVERY])
    right = np.concatenate([EVERY, rng.permutation(EVERY)])
    row = with_inputs(f"{code} f16[{left.size}] f16[{left.size}] -> b8", left, right)
    (want,), (got,) = reference(row), outputs_of(vulkan, row)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "text",
    [
        "CONCATENATION f16[3,5] f16[3,7] f16[3,1] 1",
        "TRANSPOSE f16[3,5,7] (2,0,1)",
        "PAD f16[3,5] (1,2;3,1)",
        "SLICE f16[5,7,3] (1,2,1) (3,5,2)",
        "GATHER f16[5,7] 1 (6,0,3,3)",
        "SELECT b8[3,7] f16[3,7] f16[3,7] -> f16",
        "RESIZE_NEAREST_NEIGHBOR f16[1,3,5,3] 7 11 nhwc",
    ],
)
def test_what_only_moves_keeps_its_bits(vulkan: VulkanDevice, text: str) -> None:
    row = parse(text)
    rng = np.random.default_rng(6)
    inputs: Sequence[np.ndarray] = [
        rng.choice(EVERY, array.shape) if array.dtype == np.float16 else array for array in row.inputs
    ]
    row = Row(row.model, inputs)
    (want,), (got,) = reference(row), outputs_of(vulkan, row)
    np.testing.assert_array_equal(got, want)
