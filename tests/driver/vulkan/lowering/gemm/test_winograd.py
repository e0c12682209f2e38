"""Convolutions by Winograd's way: where they are, that they are as exact as direct ones, and that nothing leaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from against_reference import check_like_the_reference
from fused import Net, families, run_both
from guarded import run_guarded
from profiles import DEVICES, EIGHT_LANES, FOUR_LANES

from nnvk.check.model_rows import Row, empty_like, execute, parse, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm import winograd
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, Work
from nnvk.driver.vulkan.lowering.gemm.strategies import ranked
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.lowering.gemm.winograd import Winograd
from nnvk.driver.vulkan.planning.passes.fp16 import FLOAT16
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.window import axis
from nnvk.types.codes import FuseCode, OperationCode, PaddingCode
from nnvk.types.model import Lifetime, Model

Candidates = Callable[[Work, Gemm, Sequence[int], DeviceProfile], list[Strategy | Winograd]]


@pytest.fixture
def tiled(vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> VulkanDevice:
    """The device, which computes what it can by tiles of 2 x 4, or of 4 x 4 where it may, however few channels."""
    monkeypatch.setattr(winograd, "candidates", forced)
    monkeypatch.setattr(winograd, "LEAST_CHANNELS", 1)
    return vulkan


def forced(
    work: Work,
    gemm: Gemm,
    downs: Sequence[int],
    device: DeviceProfile,
    all_candidates: Candidates = winograd.candidates,
) -> list[Strategy | Winograd]:
    """All ways, the largest tiles first, whatever they cost."""
    return sorted(all_candidates(work, gemm, downs, device), key=lambda candidate: -getattr(candidate, "down", 0))


def whole_sums(work: Work, gemm: Gemm, downs: Sequence[int], device: DeviceProfile) -> list[Strategy]:
    """Direct ways whose sums one invocation adds up: those that share a sum between workgroups are more exact."""
    return [candidate for candidate in ranked(work, device) if candidate.split_k == 1]


def plan_of(device: VulkanDevice, model: Model) -> Plan:
    shapes = [type_.dimensions for type_ in model.input_types()]
    return lower(model, shapes, device.profile, device.planner.library)


def convolution(text: str, seed: int = 0, operation: str = "CONV_2D") -> Row:
    """A row whose weights are as those of trained networks: values keep their size."""
    model, rng = parse(f"{operation} {text}").model, np.random.default_rng(seed)
    operands = list(model.operands)
    number = next(i for i, operand in enumerate(operands) if operand.lifetime is Lifetime.CONSTANT)
    type_ = operands[number].type
    weights = rng.standard_normal(type_.dimensions) * np.sqrt(2 / np.prod(type_.dimensions[1:]))
    operands[number] = replace(operands[number], constant=weights.astype(type_.dtype))
    inputs = [rng.standard_normal(type_.dimensions).astype(type_.dtype) for type_ in model.input_types()]
    return Row(replace(model, operands=tuple(operands)), inputs)


def exact(row: Row) -> np.ndarray:
    """The result in 64-bit floats, of a convolution in NHWC with SAME padding."""
    weights, bias = (np.asarray(row.model.operands[i].value, np.float64) for i in row.model.operations[0].inputs[1:3])
    (source,) = row.inputs
    padded = np.pad(source.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    with np.errstate(all="ignore"):
        return np.einsum("nyxcij,oijc->nyxo", windows, weights) + bias


def result_of(device: VulkanDevice, row: Row, want: np.ndarray) -> np.ndarray:
    (got,) = outputs = empty_like([want.astype(row.inputs[0].dtype)])
    execute(device, row, outputs)
    return got


SIZES = """
f32[1,14,14,16] #f32[16,3,3,16] #f32[16] SAME 1 1 NONE nhwc
f32[2,7,9,13] #f32[19,3,3,13] #f32[19] SAME 1 1 RELU nhwc
f32[3,5,6,4] #f32[1,3,3,4] #f32[1] VALID 1 1 RELU6 nhwc
f32[1,3,3,1] #f32[5,3,3,1] #f32[5] VALID 1 1 RELU1 nhwc
f32[1,1,1,8] #f32[4,3,3,8] #f32[4] SAME 1 1 NONE nhwc
f32[2,4,17,6] #f32[7,3,3,6] #f32[7] 0 1 1 0 1 1 NONE nhwc 1 1
f32[2,12,5,11] #f32[9,3,3,12] #f32[9] SAME 1 1 RELU nchw
f32[1,9,11,150] #f32[34,3,3,150] #f32[34] SAME 1 1 NONE nhwc
"""


@pytest.mark.parametrize("text", SIZES.strip().splitlines())
def test_sizes_and_paddings(tiled: VulkanDevice, text: str) -> None:
    row = convolution(text)
    assert families(plan_of(tiled, row.model)).count("winograd") == 2
    check_like_the_reference(tiled, row)


@pytest.mark.parametrize("type_", ["f32", "f16"])
@pytest.mark.parametrize("text", SIZES.strip().splitlines()[:3])
def test_few_registers(small_gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str, type_: str) -> None:
    """GPUs with small subgroups transform channels by pairs, by small tiles alone, and all GPUs these line by line."""
    monkeypatch.setattr(winograd, "candidates", forced)
    monkeypatch.setattr(winograd, "LEAST_CHANNELS", 1)
    row = convolution(text.replace("f32", type_))
    row.inputs[0][-1, 0, 0, -1] = np.inf  # a tile that is computed directly
    commands = [each for each in plan_of(small_gpu, row.model).commands if isinstance(each, Dispatch)]
    stages = [each for each in commands if each.shader.family.startswith("winograd")]
    of_input, of_output = (each.shader.named_constants(each.specialization) for each in stages)
    has_pairs, channels = small_gpu.profile.has_small_subgroups, row.model.operands[1].type.dimensions[3]
    assert (of_input["PAIRS"], of_output["PAIRS"]) == (has_pairs and channels % 4 == 0, has_pairs)
    assert of_input["DOWN"] == (2 if type_ == "f32" or has_pairs else 4)
    assert of_input["LINE_BY_LINE"] == (of_input["DOWN"] == 2)
    (want,) = reference(row)
    got = result_of(small_gpu, row, want)
    tolerance = 2**-9 if type_ == "f16" else 2e-5
    np.testing.assert_allclose(got.astype(np.float32), want, tolerance, tolerance)


@pytest.mark.parametrize("type_", ["f32", "f16"])
@pytest.mark.parametrize("groups", [1, 2])
def test_one_group_of_a_grouped_convolution_is_a_convolution(tiled: VulkanDevice, type_: str, groups: int) -> None:
    text = f"{type_}[1,9,11,16] #{type_}[12,3,3,{16 // groups}] #{type_}[12] SAME 1 1"
    grouped = convolution(f"{text} {groups} RELU nhwc", operation="GROUPED_CONV_2D")
    found = families(plan_of(tiled, grouped.model))
    assert ("winograd" in found) == (groups == 1)
    if groups == 1:
        assert found == families(plan_of(tiled, convolution(f"{text} RELU nhwc").model))
    check_like_the_reference(tiled, grouped)


@pytest.mark.parametrize("text", SIZES.strip().splitlines())
def test_halves_and_relaxed_models(tiled: VulkanDevice, text: str) -> None:
    """The tiles are 4 x 4, whose errors are small beside those of 16-bit floats, unless registers are few."""
    down = 2 if tiled.profile.has_small_subgroups else 4
    relaxed, in_float16 = convolution(text), convolution(text.replace("f32", "f16"))
    relaxed = Row(replace(relaxed.model, relaxed=True), relaxed.inputs)
    for row in (relaxed, in_float16):
        plan = plan_of(tiled, row.model)
        (choice,) = (each for each in plan.choices if "rows" in each.tuning_key)
        assert choice.chosen.startswith(f"winograd {down}x4")
        # GPUs compute relaxed models with 16-bit floats too.
        is_in_float16 = row is in_float16 or any(each.chosen == FLOAT16 for each in plan.choices)
        (want,) = reference(row)
        got = empty_like([want])
        assert run_guarded(tiled, row.model, row.inputs, got) == []
        largest = float(np.abs(want.astype(np.float64) - got[0]).max())
        assert largest <= (2**-9 if is_in_float16 else 2e-5) * max(1.0, float(np.abs(want).max()))


SCALES = {
    "as they are": lambda values, rng: values,
    "after RELU": lambda values, rng: np.maximum(values, 0),
    "far from 0": lambda values, rng: values + 10,
    "channels of all sizes": lambda values, rng: values * np.exp(2 * rng.standard_normal(values.shape[3])),
    "pixels of all sizes": lambda values, rng: values * np.exp(2 * rng.standard_normal((*values.shape[:3], 1))),
    "tiny": lambda values, rng: values * 1e-20,
    "large": lambda values, rng: values * 1e20,
}


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("channels", [64, 256])
def test_errors_are_those_of_direct_sums(
    own: VulkanDevice,
    monkeypatch: pytest.MonkeyPatch,
    channels: int,
    scale: Callable[[np.ndarray, np.random.Generator], np.ndarray],
) -> None:
    row = convolution(f"f32[1,12,13,{channels}] #f32[48,3,3,{channels}] #f32[48] SAME 1 1 NONE nhwc")
    row = Row(row.model, [scale(row.inputs[0], np.random.default_rng(5)).astype(np.float32)])
    want = exact(row)
    monkeypatch.setattr(winograd, "candidates", whole_sums)
    direct = np.abs(result_of(own, row, want) - want)
    monkeypatch.setattr(winograd, "candidates", forced)
    tiles = np.abs(result_of(own, row, want) - want)
    assert tiles.max() <= 2 * direct.max()
    assert np.sqrt(np.mean(tiles**2)) <= 2 * np.sqrt(np.mean(direct**2))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 1e30, -1e9, 1e4, 200.0, 30.0])
@pytest.mark.parametrize("place", [(0, 0), (5, 6), (10, 12), (7, 3)])
def test_a_value_touches_nothing_that_does_not_see_it(
    tiled: VulkanDevice, value: float, place: tuple[int, int]
) -> None:
    row = convolution("f32[1,11,13,36] #f32[20,3,3,36] #f32[20] SAME 1 1 NONE nhwc")
    row.inputs[0][0, place[0], place[1], 17] = value
    want = exact(row)
    seen = np.zeros(want.shape, bool)
    seen[:, max(0, place[0] - 1) : place[0] + 2, max(0, place[1] - 1) : place[1] + 2] = True
    got = result_of(tiled, row, want)
    np.testing.assert_allclose(got[~seen], want[~seen], rtol=6e-7, atol=1e-5)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(got[seen], want[seen].astype(np.float32), rtol=1e-5, atol=1e-5)


def test_all_that_is_no_number_gives_none(tiled: VulkanDevice) -> None:
    row = convolution("f32[2,9,6,8] #f32[8,3,3,8] #f32[8] SAME 1 1 NONE nhwc")
    row.inputs[0][0] = np.nan
    got = result_of(tiled, row, want := exact(row))
    assert np.isnan(got[0]).all()
    np.testing.assert_allclose(got[1], want[1], rtol=6e-7, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_ends_are_fused(tiled: VulkanDevice, seed: int) -> None:
    net = Net(seed)
    source = net.input(1, 9, 7, 12)
    first = net.op(OperationCode.PRELU, net.conv(source, 12, 12), net.weights(12))
    both = net.op(OperationCode.ADD, net.conv(first, 12, 12), source, net.code(FuseCode.RELU))
    plan = run_both(tiled, net.finish(both), net.arrays)
    assert families(plan).count("winograd_output end") == 2
    assert "binary" not in families(plan)


@pytest.mark.parametrize("pads", [[1, 1, 1, 1], [0, 1, 1, 0], [0, 2, 3, 1]])
def test_pads_are_fused(tiled: VulkanDevice, pads: list[int]) -> None:
    net = Net(3)
    around = np.array([[0, 0], pads[:2], pads[2:], [0, 0]], np.int32)
    padded = net.op(OperationCode.PAD, net.input(2, 9, 7, 12), around)
    both = [net.conv(padded, outputs, 12, padding=PaddingCode.VALID) for outputs in (8, 5)]
    plan = run_both(tiled, net.finish(*both), net.arrays)
    assert families(plan).split() == 2 * ["winograd_input", "gemm", "winograd_output"]


def test_channels_are_written_in_place(tiled: VulkanDevice) -> None:
    net = Net(4)
    source = net.input(1, 9, 7, 12)
    parts = [net.conv(source, outputs, 12) for outputs in (16, 8)]
    both = net.op(OperationCode.CONCATENATION, *parts, net.code(3))
    plan = run_both(
        tiled, net.finish(net.op(OperationCode.RESIZE_BILINEAR, both, net.code(3), net.code(3))), net.arrays
    )
    assert "move" not in families(plan)


DIRECT = """
f32[1,56,56,64] #f32[64,3,3,64] #f32[64] SAME 2 2 NONE nhwc
f32[1,56,56,64] #f32[64,3,3,64] #f32[64] SAME 1 1 NONE nhwc 2 2
f32[1,56,56,64] #f32[64,3,5,64] #f32[64] SAME 1 1 NONE nhwc
f32[1,56,56,64] #f32[64,3,3,64] #f32[64] 40 2 2 40 1 1 NONE nhwc 1 1
f32[1,56,56,64] f32[64,3,3,64] #f32[64] SAME 1 1 NONE nhwc
f32[1,56,56,36] #f32[64,3,3,36] #f32[64] SAME 1 1 NONE nhwc
u8[1,56,56,64]*0.5+3 #u8[64,3,3,64]*0.1+9 #i32[64] SAME 1 1 RELU nhwc -> u8*0.7+100
"""


@pytest.mark.parametrize("text", DIRECT.strip().splitlines())
def test_what_it_is_not_for_stays_direct(own: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(winograd, "candidates", forced)
    row = parse(f"CONV_2D {text}")
    assert "winograd" not in families(plan_of(own, row.model))


def test_it_stays_direct_where_it_would_take_too_much_memory(
    own: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit applies to the transformed filters and to the transformed images."""
    monkeypatch.setattr(winograd, "candidates", forced)
    row = convolution("f32[1,4,4,320] #f32[320,3,3,320] #f32[320] SAME 1 1 NONE nhwc")
    filters = 24 * 320 * 320 * 4

    def shaders(row: Row, most: int) -> str:
        device = replace(own.profile, max_buffer=most)
        shapes = [type_.dimensions for type_ in row.model.input_types()]
        return families(lower(row.model, shapes, device, own.planner.library))

    assert "winograd" in shaders(row, filters)
    assert "winograd" not in shaders(row, filters - 1)
    for height, taken in ((1700, True), (1900, False)):
        image = convolution(f"f32[1,{height},64,48] #f32[48,3,3,48] #f32[48] SAME 1 1 NONE nhwc")
        assert ("winograd" in shaders(image, 1 << 30)) == taken


@pytest.mark.parametrize("weight", [np.nan, np.inf, 1e35])
def test_weights_that_would_spread_stay_direct(
    own: VulkanDevice, monkeypatch: pytest.MonkeyPatch, weight: float
) -> None:
    monkeypatch.setattr(winograd, "candidates", forced)
    row = convolution("f32[1,14,14,48] #f32[48,3,3,48] #f32[48] SAME 1 1 NONE nhwc")
    assert "winograd" in families(plan_of(own, row.model))
    weights = row.model.operands[row.model.operations[0].inputs[1]].value
    assert weights is not None
    weights[3, 1, 2, 5] = weight
    assert "winograd" not in families(plan_of(own, row.model))


# --- choice --------------------------------------------------------------------------------------------------------


def first(device: DeviceProfile, size: int, channels: int, outputs: int, downs: Sequence[int] = (2,)) -> str:
    gemm = Gemm(
        (1, size, size, channels),
        (1, size, size, outputs),
        axis("height", size, 3, 1, PaddingCode.SAME),
        axis("width", size, 3, 1, PaddingCode.SAME),
    )
    work = Work("f32", size * size, outputs, 1, 9, channels, constant=True, in_order=False, matrix=False)
    return str(winograd.candidates(work, gemm, downs, device)[0])


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_it_is_chosen_where_it_wins(device: DeviceProfile) -> None:
    for size, channels in ((112, 64), (28, 256), (14, 256)):
        assert first(device, size, channels, channels).startswith("winograd 2x4 by ")
        assert first(device, size, channels, channels, downs=(2, 4)).startswith("winograd ")


@pytest.mark.parametrize("device", [EIGHT_LANES, FOUR_LANES], ids=["eight lanes", "four lanes"])
def test_it_is_not_where_it_was_measured_to_lose(device: DeviceProfile) -> None:
    for size, channels, outputs in ((224, 16, 32), (28, 32, 32), (112, 32, 32), (4, 32, 32), (7, 64, 64)):
        assert not first(device, size, channels, outputs).startswith("winograd")
