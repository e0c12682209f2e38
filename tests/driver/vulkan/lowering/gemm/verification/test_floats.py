"""Products of floats that another shader computes once more: the same bits, and faults that are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import verified
from builder import rebuilt
from faults import replaced
from forced import forced_strategies
from fused import Net, Op
from samples import execution

import nnvk
from nnvk.base.errors import VerificationError
from nnvk.check.model_rows import Row, empty_like, parse, reference, request
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm.verification import exact
from nnvk.driver.vulkan.lowering.gemm.verification.exact import BY_CHANNEL, EXACT
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.ops.window import Axis
from nnvk.types.codes import FuseCode
from nnvk.types.model import Model
from nnvk.types.request import ExecuteOptions, PrepareOptions, Redundancy

ROWS = """
FULLY_CONNECTED f32[1,1024] #f32[1024,1024] #f32[1024] NONE
FULLY_CONNECTED f32[19,33] #f32[7,33] #f32[7] RELU
FULLY_CONNECTED f32[19,33] f32[8,33] f32[8] RELU6
FULLY_CONNECTED f32[37,517] #f32[44,517] #f32[44] NONE
BATCH_MATMUL f32[3,9,22] f32[3,22,5]
BATCH_MATMUL f32[2,3,17,64] f32[2,3,64,28]
CONV_2D f32[2,5,7,3] #f32[5,3,3,3] #f32[5] SAME 1 1 RELU
CONV_2D f32[2,9,7,16] #f32[24,1,1,16] #f32[24] SAME 1 1 NONE
CONV_2D f32[2,11,14,20] #f32[16,3,3,20] #f32[16] SAME 2 2 RELU6
CONV_2D f32[1,23,17,32] #f32[32,3,3,32] #f32[32] SAME 1 1 NONE
CONV_2D f32[2,9,7,6] #f32[5,2,3,6] #f32[5] VALID 1 2 RELU1
CONV_2D f32[2,4,5,7] #f32[8,3,3,4] #f32[8] SAME 1 1 NONE nchw
GROUPED_CONV_2D f32[1,7,6,8] #f32[8,3,3,4] #f32[8] SAME 1 1 2 NONE nhwc
GROUPED_CONV_2D f32[2,7,5,9] #f32[15,3,2,3] #f32[15] SAME 1 1 3 RELU nhwc
CONV_2D f32[1,5,7,3] f32[5,3,3,3] f32[5] SAME 1 1 NONE
CONV_2D f32[2,5,7,8] f32[8,3,3,8] f32[8] SAME 2 2 RELU
GROUPED_CONV_2D f32[2,7,5,9] f32[15,3,2,3] f32[15] SAME 1 1 3 NONE nhwc
TRANSPOSE_CONV_2D f32[1,4,3,5] f32[7,5,2,5] f32[7] (1,14,7,7) VALID 3 2 NONE nhwc
TRANSPOSE_CONV_2D f32[2,5,7,8] #f32[12,3,3,8] #f32[12] (2,10,14,12) SAME 2 2 RELU nhwc
TRANSPOSE_CONV_2D f32[1,4,3,5] #f32[7,5,2,5] #f32[7] (1,14,7,7) VALID 3 2 NONE nhwc
TRANSPOSE_CONV_2D f32[2,6,5,3] f32[4,2,3,6] f32[4] (2,4,5,3) SAME 1 1 RELU6 nchw
TRANSPOSE_CONV_2D f32[1,3,5,4] #f32[4,1,2,4] #f32[4] (1,9,15,4) SAME 3 3 NONE nhwc
""".strip().splitlines()
OF_BYTES = """
FULLY_CONNECTED f32[19,64] #f32i8[40,64] #f32[40] NONE
FULLY_CONNECTED f32[1,68] #f32u8[37,68]*0.0000001+99 #f32[37] RELU
CONV_2D f32[2,9,7,32] #f32i8[16,1,1,32]*100000 #f32[16] SAME 1 1 RELU
""".strip().splitlines()
"""Products with weights of 8 bits, which are multiplied as floats."""

BY_CHANNEL_ROWS = """
DEPTHWISE_CONV_2D f32[2,11,13,8] #f32[1,3,3,8] #f32[8] SAME 1 1 1 RELU6
DEPTHWISE_CONV_2D f32[1,14,19,12] #f32[1,3,3,12] #f32[12] SAME 2 2 1 NONE
DEPTHWISE_CONV_2D f32[2,9,7,3] #f32[1,2,5,9] #f32[9] VALID 1 2 3 RELU
DEPTHWISE_CONV_2D f32[1,23,37,5] f32[1,5,3,5] f32[5] SAME 2 1 1 RELU1
GROUPED_CONV_2D f32[1,9,37,8] #f32[8,3,3,1] #f32[8] SAME 1 1 8 NONE nhwc
DEPTHWISE_CONV_2D f32[1,5,43,4] #f32[1,2,25,4] #f32[4] VALID 1 1 1 NONE
""".strip().splitlines()
EVERY = ROWS + BY_CHANNEL_ROWS
HALVES = [row.replace("f32", "f16") for row in EVERY]
"""The same products of 16-bit floats, whose results are rounded once more."""
FAULTS = 12
PRODUCTS = "gemm", "fully_connected", "depthwise_conv2d"


def families(device: VulkanDevice, row: Row, options: PrepareOptions) -> Counter[str]:
    return verified.families(verified.plan_of(device, row.model, row.inputs, options))


def run(
    device: VulkanDevice, row: Row, inputs: list[np.ndarray], change: Callable[[Plan], Plan] = lambda plan: plan
) -> list[np.ndarray]:
    """Execute a model verified, by a plan that is changed once it is made. Returns the outputs."""
    return verified.run(device, row.model, inputs, reference(row), change)


@pytest.mark.parametrize("rows", [EVERY, HALVES], ids=["f32", "f16"])
@pytest.mark.parametrize("place", range(len(EVERY)))
@pytest.mark.crossed
def test_products_of_floats_are_computed_by_another_shader(device: VulkanDevice, place: int, rows: list[str]) -> None:
    row, name = parse(rows[place]), (EXACT if place < len(ROWS) else BY_CHANNEL).name
    plain, independent, twice = (families(device, row, PrepareOptions(redundancy=each)) for each in Redundancy)
    assert (plain[name], independent[name], twice[name]) == (0, 1, 0)
    assert sum(independent[each] for each in PRODUCTS) == 1
    right = reference(row if rows is HALVES else Row(row.model.as_reproducible(), row.inputs))
    for ours, theirs in zip(run(device, row, row.inputs), right, strict=True):
        if rows is HALVES:
            np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3 * np.abs(theirs).max())
        else:
            np.testing.assert_array_equal(ours, theirs)


def _inputs(row: Row, kind: str) -> list[np.ndarray]:
    return _of_kind(row.inputs, kind)


class Range(NamedTuple):
    """Magnitudes of inputs of a type: the powers of ten between which they lie, and others for some kinds."""

    large: float
    over: float
    small: float
    subnormal: float
    powers: tuple[int, int]
    slope: int


RANGES = {
    np.dtype(np.float32): Range(1e30, 3e38, 1e-36, 1e-40, (-30, 15), 6),
    np.dtype(np.float16): Range(1e3, 6e4, 1e-3, 1e-6, (-6, 3), 3),
}


def _of_kind(arrays: Sequence[np.ndarray], kind: str) -> list[np.ndarray]:
    """Inputs on which sums round in unusual ways."""
    rng = np.random.default_rng(7)
    made = []
    for array in arrays:
        of, shape = RANGES[array.dtype], array.shape
        values = {
            "equal": np.full(shape, 0.1),
            "positive": rng.random(shape),
            "large": rng.normal(size=shape) * of.large,
            "over the range": rng.normal(size=shape) * of.over,
            "small": rng.normal(size=shape) * of.small,
            "subnormal": rng.normal(size=shape) * of.subnormal,
            "of all magnitudes": rng.normal(size=shape) * 10.0 ** rng.integers(*of.powers, shape),
            "growing": rng.choice([-1.0, 1.0], shape) * 10.0 ** np.linspace(-of.slope, of.slope, shape[-1]),
            "shrinking": rng.choice([-1.0, 1.0], shape) * 10.0 ** np.linspace(of.slope, -of.slope, shape[-1]),
            "special": rng.choice(
                [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan], shape, p=[0.3, 0.1, 0.57, 0.01, 0.01, 0.01]
            ),
        }[kind]
        with np.errstate(over="ignore"):
            made.append(values.astype(array.dtype))
    return made


KINDS = (
    "equal",
    "positive",
    "large",
    "over the range",
    "small",
    "subnormal",
    "of all magnitudes",
    "growing",
    "shrinking",
    "special",
)


@pytest.mark.parametrize("rows", [EVERY, HALVES], ids=["f32", "f16"])
@pytest.mark.parametrize("place", range(len(EVERY)))
@pytest.mark.crossed
def test_clean_products_raise_no_alarm(device: VulkanDevice, place: int, rows: list[str]) -> None:
    row = parse(rows[place])
    prepared = device.prepare_model(row.model, PrepareOptions(redundancy=Redundancy.CHECKSUMS))
    outputs = empty_like(reference(row))
    for kind in KINDS:
        prepared.execute(request(_inputs(row, kind), outputs), ExecuteOptions())


@pytest.mark.parametrize("numbers", [(0.0, -0.0, -0.0), (1.0, -0.0, -0.0)])
@pytest.mark.parametrize("place", range(len(EVERY)))
def test_zeros_have_the_same_sign(device: VulkanDevice, place: int, numbers: Sequence[float]) -> None:
    """Sums are 0, not -0, whatever zeros were added."""
    row = parse(EVERY[place].replace("#", ""))
    (output,) = run(device, row, [np.full_like(*each) for each in zip(row.inputs, numbers, strict=False)])
    assert not np.signbit(output).any()


@pytest.mark.numbers
@pytest.mark.parametrize("rows", [ROWS, HALVES], ids=["f32", "f16"])
@pytest.mark.parametrize("tile", ["register", "quads", "shared", "subgroup", "vector"])
@pytest.mark.parametrize("place", [3, 5, 8, 17])
def test_no_strategy_raises_an_alarm(
    device: VulkanDevice, monkeypatch: pytest.MonkeyPatch, place: int, tile: str, rows: list[str]
) -> None:
    """The smallest and the largest of each kind, and one with K split, as far as they add up in order."""
    row, options = parse(rows[place]), PrepareOptions(redundancy=Redundancy.CHECKSUMS)
    for strategy in forced_strategies(monkeypatch, device, partial(families, device, row, options), tile):
        if not strategy.adds_in_order:
            continue
        prepared, outputs = device.prepare_model(row.model, options), empty_like(reference(row))
        for kind in ("equal", "of all magnitudes", "growing", "shrinking"):
            prepared.execute(request(_inputs(row, kind), outputs), ExecuteOptions())


@pytest.mark.parametrize("place", range(len(OF_BYTES)))
def test_weights_of_bytes_are_multiplied_as_floats(device: VulkanDevice, place: int) -> None:
    row = parse(OF_BYTES[place])
    plain, independent, _ = (
        verified.plan_of(device, row.model, row.inputs, PrepareOptions(redundancy=each)) for each in Redundancy
    )
    assert verified.families(independent)[EXACT.name] == 1
    assert ["int8" in plan.commands[product_of(plan)].shader.name for plan in (plain, independent)] == [True, False]
    for kind in KINDS:
        run(device, row, _inputs(row, kind))
    with pytest.raises(VerificationError, match="by another one"):
        run(device, row, row.inputs, verified.with_wrong_products)


def product_of(plan: Plan) -> int:
    """The position of the dispatch that computes the product."""
    return next(
        place
        for place, each in enumerate(plan.commands)
        if isinstance(each, Dispatch) and each.shader.family in PRODUCTS
    )


@pytest.mark.parametrize("bit", range(32))
@pytest.mark.parametrize("rows", [EVERY, HALVES], ids=["f32", "f16"])
def test_each_bit_of_a_result_is_compared(own: VulkanDevice, bit: int, rows: list[str]) -> None:
    row = parse(rows[bit % len(rows)])
    (right,) = run(own, row, row.inputs)
    words = right.reshape(-1)[: right.size // 2 * 2].view(np.uint32)
    place = bit % words.size

    def with_wrong_bit(plan: Plan) -> Plan:
        at, wrong = product_of(plan), words[place : place + 1] ^ np.uint32(1 << bit)
        written, by_buffer = plan.commands[at].writes[0], own.profile.barriers_by_buffer
        return replaced(plan, at + 1, written, place, wrong, by_buffer)

    with pytest.raises(VerificationError, match="by another one"):
        run(own, row, row.inputs, with_wrong_bit)


def test_results_of_16_bits_are_not_stored_with_32(device: VulkanDevice) -> None:
    row = parse("FULLY_CONNECTED f16[19,33] #f16[8,33] #f16[8] NONE | CAST $ -> f32")
    plain, independent, _ = (families(device, row, PrepareOptions(redundancy=each)) for each in Redundancy)
    assert (plain["gemm"], independent["gemm"], independent[EXACT.name]) == (1, 1, 1)
    for kind in KINDS:
        run(device, row, _inputs(row, kind))


HEADS = (
    "RESHAPE f32[2,7,24] (2,7,3,8) | TRANSPOSE $ (0,2,1,3) | BATCH_MATMUL $ f32[2,3,8,12] false false | "
    "TRANSPOSE $ (0,2,1,3) | RESHAPE $ (2,7,36)"
)
"""Matrices that lie side by side, so that the product reads and writes them where they are."""


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_matrices_side_by_side_are_computed_again(device: VulkanDevice, kind: str) -> None:
    row = parse(HEADS.replace("f32", kind))
    options = PrepareOptions(redundancy=Redundancy.CHECKSUMS)
    found = families(device, row, options)
    assert (found[EXACT.name], found["gemm"]) == (1, 1)
    for numbers in KINDS:
        run(device, row, _inputs(row, numbers))
    (right,) = run(device, row, row.inputs)
    place, wrong = right.size - 2, np.array([1e3, 1e3], right.dtype)

    def with_wrong_elements(plan: Plan) -> Plan:
        at = product_of(plan)
        return replaced(plan, at + 1, plan.commands[at].writes[0], place // 2 * 2, wrong, by_buffer=True)

    with pytest.raises(VerificationError, match=r"BATCH_MATMUL.*: element \[1, 6, 2, 1[01]\] of .* is 1000"):
        run(device, row, row.inputs, with_wrong_elements)


@pytest.mark.parametrize("columns", [5, 12])
@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_right_matrices_side_by_side_are_computed_again(device: VulkanDevice, kind: str, columns: int) -> None:
    """The values of attention, which the product reads where they are."""
    values = f"RESHAPE f32[2,8,{3 * columns}] (2,8,3,{columns}) | TRANSPOSE $ (0,2,1,3)"
    row = parse(f"{values} | BATCH_MATMUL f32[2,3,7,8] $ false false".replace("f32", kind))
    assert families(device, row, PrepareOptions(redundancy=Redundancy.CHECKSUMS))[EXACT.name] == 1
    for numbers in KINDS:
        run(device, row, _inputs(row, numbers))


SPECIAL = {
    "a number where a term is infinite": (0, 0.5),
    "NaN where a term is infinite": (0, np.nan),
    "a number where a term is NaN": (1, 0.0),
    "infinity where a term is NaN": (1, np.inf),
    "a number where infinities meet": (2, 1.0),
    "a number where infinity meets 0": (3, -1.0),
    "NaN where all is finite": (4, np.nan),
    "infinity where all is finite": (4, np.inf),
}


@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
@pytest.mark.parametrize("fault", SPECIAL)
def test_infinities_and_nan_are_compared(own: VulkanDevice, fault: str, activation: str) -> None:
    row, (line, wrong) = parse(f"FULLY_CONNECTED f32[5,33] f32[8,33] f32[8] {activation}"), SPECIAL[fault]
    left, right, *_ = inputs = [np.ones(array.shape, np.float32) for array in row.inputs]
    left[0, 7] = left[2, 7] = left[3, 9] = np.inf
    left[2, 32], left[1, 31], right[:, 9] = -np.inf, np.nan, 0
    (due,) = run(own, row, inputs)
    most = 6 if activation == "RELU6" else np.inf
    np.testing.assert_array_equal(due[:, 0], [most, np.nan, np.nan, np.nan, min(33, most)])

    def with_wrong_element(plan: Plan) -> Plan:
        at, value = product_of(plan), np.array([wrong], np.float32)
        return replaced(plan, at + 1, plan.commands[at].writes[0], 8 * line + 5, value, own.profile.barriers_by_buffer)

    with pytest.raises(VerificationError, match=rf"element \[{line}, 5\] of .* is {wrong} .* and {due[line, 5]}"):
        run(own, row, inputs, with_wrong_element)


def residual(channels: int, activation: FuseCode) -> tuple[Model, list[np.ndarray]]:
    """Two convolutions, and the sum of their results, which is an epilogue of the second one."""
    net = Net()
    x = net.input(2, 5, 7, channels)
    first = net.conv(x, channels, channels, 1)
    total = net.build.operation(Op.ADD, [first, net.conv(first, channels, channels), net.code(activation)], net.real)
    return net.finish(total), list(net.arrays)


@pytest.mark.parametrize("activation", [FuseCode.NONE, FuseCode.RELU6], ids=lambda code: code.name)
@pytest.mark.parametrize("channels", [5, 8])
def test_sums_with_another_tensor_are_computed_by_another_shader(
    device: VulkanDevice, channels: int, activation: FuseCode
) -> None:
    model, inputs = residual(channels, activation)
    output = np.zeros((2, 5, 7, channels), np.float32)
    plan = device.planner.plan(model, [(2, 5, 7, channels)], PrepareOptions(redundancy=Redundancy.CHECKSUMS))
    dispatches = [(place, each.shader) for place, each in enumerate(plan.commands) if isinstance(each, Dispatch)]
    products = [place for place, shader in dispatches if shader.family == "gemm"]
    assert ["fused" in plan.commands[place].shader.name for place in products] == [False, True]
    assert sum(shader.family == EXACT.name for _, shader in dispatches) == 2
    for kind in ("equal", "over the range", "growing", "shrinking", "special"):
        verified.run(device, model, _of_kind(inputs, kind), [output])
    (right,) = verified.run(device, model, inputs, [output.copy()])
    wrong = right.reshape(-1)[-1:] - np.float32(1e-3)

    def with_wrong_sum(plan: Plan) -> Plan:
        at = products[1]
        return replaced(plan, at + 1, plan.commands[at].writes[0], output.size - 1, wrong, by_buffer=True)

    with pytest.raises(VerificationError, match=rf"element \[1, 4, 6, {channels - 1}\]"):
        verified.run(device, model, inputs, [output], with_wrong_sum)


@pytest.mark.parametrize("channels", [5, 8])
def test_sums_of_16_bits_with_another_tensor_are_computed_again(device: VulkanDevice, channels: int) -> None:
    """Sums are rounded before the tensor is added, so one that is rounded to infinity stays so."""
    convolution = f"#f16[{channels},1,1,{channels}] #f16[{channels}] SAME 1 1 NONE"
    row = parse(f"CONV_2D f16[2,5,7,{channels}] {convolution} | CONV_2D $ {convolution} | ADD $0 $ RELU")
    options = PrepareOptions(redundancy=Redundancy.CHECKSUMS)
    assert families(device, row, options)[EXACT.name] == 2
    prepared, outputs = device.prepare_model(row.model, options), empty_like(reference(row))
    for kind in KINDS:
        prepared.execute(request(_inputs(row, kind), outputs), ExecuteOptions())


def test_verified_plans_add_up_no_numbers_of_16_bits(as_gpu: VulkanDevice) -> None:
    if not as_gpu.profile.has_native_16:
        pytest.skip("the device has no 16-bit floats")
    for text in (HALVES[9].replace("17,32", "17,320").replace("3,3,32", "3,3,320"), HALVES[len(ROWS)]):
        row = parse(text)
        plans = [
            as_gpu.planner.plan(row.model, [array.shape for array in row.inputs], PrepareOptions(redundancy=each))
            for each in (Redundancy.NONE, Redundancy.CHECKSUMS)
        ]
        names = [plan.commands[product_of(plan)].shader.name for plan in plans]
        assert ["half" in name for name in names] == [True, False], names


def with_short_sums(plan: Plan) -> Plan:
    """The plan with a product that leaves out a line of the window, or a channel."""
    at, commands = product_of(plan), list(plan.commands)
    product = commands[at]
    assert isinstance(product, Dispatch)
    push = product.push
    of_line = int(push.get("kernel_height", 1)) > 1
    name = "kernel_height" if of_line else next(each for each in ("depth", "inputs", "height") if each in push)
    commands[at] = replace(product, push={**product.push, name: product.push[name] - 1})
    return replace(plan, commands=tuple(commands))


@pytest.mark.parametrize("rows", [EVERY, HALVES], ids=["f32", "f16"])
@pytest.mark.parametrize("place", [1, 3, 4, 5, 6, 8, 9, 10, 12, 13, 14, 15, 16, *range(len(ROWS), len(EVERY) - 1)])
@pytest.mark.crossed
def test_a_shader_that_is_wrong_each_time_is_found(own: VulkanDevice, place: int, rows: list[str]) -> None:
    row = parse(rows[place])
    for _ in range(2):
        with pytest.raises(VerificationError, match="by another one"):
            run(own, row, row.inputs, with_short_sums)


@pytest.mark.parametrize("rows", [EVERY, HALVES], ids=["f32", "f16"])
@pytest.mark.parametrize("place", range(0, len(EVERY), 2))
def test_no_fault_is_missed(own: VulkanDevice, place: int, rows: list[str]) -> None:
    row = parse(rows[place])
    right = run(own, row, row.inputs)
    found = verified.outcomes(own, row.model, list(row.inputs), right, range(place * FAULTS, (place + 1) * FAULTS))
    assert found["missed"] == 0
    assert found["found"] >= FAULTS // 3


def test_the_cpu_repairs_a_shader_that_is_wrong_each_time(own: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    row, plan = parse(ROWS[3]), own.planner.plan
    monkeypatch.setattr(own.planner, "plan", lambda *arguments: with_short_sums(plan(*arguments)))
    compilation = nnvk.Compilation(rebuilt(row.model), [nnvk.Device(own)])
    compilation.set_verified("repair")
    compilation.finish()
    (expected,), before = reference(row), nnvk.stats()
    output = np.zeros_like(expected)
    execution(compilation, [array for array in row.inputs if array is not None], [output]).compute()
    np.testing.assert_array_equal(output, expected)
    assert nnvk.stats().repaired_by_cpu == before.repaired_by_cpu + 1


@pytest.mark.parametrize("place", range(0, len(ROWS), 3))
@pytest.mark.parametrize(
    ("change", "variant", "pixels"),
    [
        ({"is_cpu": False, "subgroup_size": 16}, "gemm_exact.f32.own", 2),
        ({"is_cpu": False, "subgroup_size": 32}, "gemm_exact.f32.own", 4),
        ({"is_cpu": True, "subgroup_size": 4}, "gemm_exact.f32.own", 4),
    ],
    ids=["small subgroups", "gpu", "another cpu"],
)
def test_devices_share_loads_and_have_pixels_as_they_can(
    fresh: VulkanDevice, place: int, change: dict[str, Any], variant: str, pixels: int
) -> None:
    row = parse(ROWS[place])
    fresh.planner.profile = replace(fresh.planner.profile, **change)
    options = PrepareOptions(redundancy=Redundancy.CHECKSUMS)
    plan = fresh.planner.plan(row.model, [array.shape for array in row.inputs], options)
    (dispatch,) = (each for each in plan.commands if isinstance(each, Dispatch) and each.shader.family == EXACT.name)
    assert dispatch.shader.name == variant
    assert dispatch.shader.constant(dispatch.specialization, "ROWS") == min(
        pixels, 1 << int(dispatch.push["rows"] - 1).bit_length()
    )
    for kind in ("positive", "of all magnitudes", "special"):
        run(fresh, row, _inputs(row, kind))


@pytest.mark.parametrize(
    ("window", "stride", "pixels"), [(3, 1, 16), (3, 2, 16), (3, 4, 8), (5, 1, 8), (25, 1, 2), (40, 1, 1)]
)
def test_long_lines_of_windows_take_few_pixels(own: VulkanDevice, window: int, stride: int, pixels: int) -> None:
    axis = Axis(size=999, window=window, stride=stride, dilation=1, before=0, after=0, out=99)
    assert exact.fits_by_channel(axis, axis)
    assert exact.pixels_of_line(own.profile, axis) == pixels


def test_sums_that_no_loop_reaches_through_are_computed_twice(own: VulkanDevice) -> None:
    found = families(own, parse("FULLY_CONNECTED f32[1,240001] f32[4,240001] f32[4] NONE"), verified.VERIFIED)
    assert found[EXACT.name] == 0


@pytest.mark.parametrize(("place", "name"), [(7, "gemm"), (18, "gemm"), (len(ROWS), "depthwise_conv2d")])
def test_a_device_that_avoids_the_shader_computes_products_twice(fresh: VulkanDevice, place: int, name: str) -> None:
    row = parse(EVERY[place])
    avoided = frozenset({exact.variant(fresh.profile, "f32").name, BY_CHANNEL.variant(DTYPE="f32").name})
    fresh.planner.profile = replace(fresh.planner.profile, avoided=avoided)
    found = families(fresh, row, PrepareOptions(redundancy=Redundancy.CHECKSUMS))
    assert (found[EXACT.name], found[BY_CHANNEL.name], found[name]) == (0, 0, 2)
