"""Relaxed models: when there are 16-bit floats between operations, and that results stay as close as Android asks."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fused
import numpy as np
import pytest
from builder import Builder
from fused import families, run_both
from guarded import run_plan_guarded
from networks import classifier, images

from nnvk.api import FuseCode, OperandCode, OperandType, OperationCode, PaddingCode
from nnvk.base.settings import override
from nnvk.check.model_rows import Row, empty_like, execute, reference
from nnvk.conformance.compare import first_difference
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.graph.builder import build
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.strategies import ranked
from nnvk.driver.vulkan.planning.passes import fp16
from nnvk.driver.vulkan.planning.passes.fp16 import FLOAT16, FLOAT32, nodes_in_float16
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.running import tuning
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.types.extension import AnyCode, ExtendedOperationCode
from nnvk.types.model import Model
from nnvk.types.request import PrepareOptions

pytestmark = pytest.mark.usefixtures("any_gemm_pays")
F32, NONE, SAME = OperandCode.TENSOR_FLOAT32, FuseCode.NONE, PaddingCode.SAME


WORTH_A_CONVERSION = fp16._WORTH_A_CONVERSION


@pytest.fixture(scope="module")
def gpu() -> VulkanDevice:
    """The device as a GPU, where 16-bit floats pay."""
    with override(device_profile="gpu"):
        found, reason = find_devices()
    if not found or not found[0].profile.has_native_16:
        pytest.skip(reason or "the device has no 16-bit floats of its own")
    return found[0]


class Net:
    """A relaxed model of one input, operation by operation."""

    def __init__(self, *shape: int) -> None:
        self.build, self.rng = Builder(), np.random.default_rng(1)
        self.source = self.build.operand(OperandType(F32, shape))

    def weights(self, *shape: int, size: float = 0.1) -> np.ndarray:
        return self.rng.standard_normal(shape, np.float32) * np.float32(size)

    def apply(self, code: AnyCode, *inputs: int | np.ndarray, parameters: tuple[float, ...] = ()) -> int:
        operands = [each if isinstance(each, int) else self.build.value(each) for each in inputs]
        return self.build.operation(code, [*operands, *map(self.build.value, parameters)], OperandType(F32))

    def gemm(self, source: int, outputs: int, depth: int, size: float = 0.1) -> int:
        weights, bias = self.weights(outputs, depth, size=size), self.weights(outputs)
        return self.apply(OperationCode.FULLY_CONNECTED, source, weights, bias, parameters=(NONE,))

    def convolution(self, source: int, outputs: int, depth: int) -> int:
        weights, bias = self.weights(outputs, 3, 3, depth), self.weights(outputs)
        return self.apply(OperationCode.CONV_2D, source, weights, bias, parameters=(SAME, 1, 1, FuseCode.RELU))

    def depthwise(self, source: int, channels: int) -> int:
        weights, bias = self.weights(1, 3, 3, channels), self.weights(channels)
        return self.apply(OperationCode.DEPTHWISE_CONV_2D, source, weights, bias, parameters=(SAME, 1, 1, 1, NONE))

    def finish(self, *outputs: int) -> Model:
        self.build.model.relax_computation_float32_to_float16(True)
        return self.build.finish([self.source], outputs).frozen


def number(value: float) -> np.ndarray:
    """A tensor of one element."""
    return np.array([value], np.float32)


def residual() -> Model:
    """Convolutions around an addition; what lies between is an output too."""
    net = Net(1, 7, 9, 5)
    first = net.convolution(net.source, 11, 5)
    second = net.convolution(first, 11, 11)
    both = net.apply(OperationCode.ADD, first, second, parameters=(NONE,))
    pooled = net.apply(OperationCode.MAX_POOL_2D, both, parameters=(SAME, 2, 2, 2, 2, NONE))
    flat = net.apply(OperationCode.RESHAPE, pooled, np.array([-1, 220], np.int32))
    return net.finish(both, net.gemm(flat, 13, 220))


def normalised() -> Model:
    """A GEMM, and what divides it by the root of its mean square, in which squares are large."""
    net = Net(3, 17)
    values = net.gemm(net.source, 29, 17, size=100)
    squares = net.apply(OperationCode.MUL, values, values, parameters=(NONE,))
    means = net.apply(OperationCode.MEAN, squares, np.array([1], np.int32), parameters=(1,))
    factors = net.apply(OperationCode.RSQRT, means)
    return net.finish(net.apply(OperationCode.MUL, values, factors, parameters=(NONE,)))


def transformer(scale_first: bool = False, size: float = 1.0) -> Model:
    """A GEMM, what normalises its rows in either way that models compose it in, and one with GELU behind it."""
    net = Net(7, 24)

    def combined(code: OperationCode, left: int | np.ndarray, right: int | np.ndarray) -> int:
        return net.apply(code, left, right, parameters=(NONE,))

    rows = combined(OperationCode.ADD, net.gemm(net.source, 32, 24), net.weights(7, 32))
    mean = net.apply(OperationCode.MEAN, rows, np.array([1], np.int32), parameters=(1,))
    less = combined(OperationCode.SUB, rows, mean)
    variance = net.apply(
        OperationCode.MEAN, combined(OperationCode.MUL, less, less), np.array([1], np.int32), parameters=(1,)
    )
    inverse = net.apply(OperationCode.RSQRT, combined(OperationCode.ADD, variance, np.full(1, 1e-5, np.float32)))
    weights, bias = net.weights(32, size=size), net.weights(32)
    if scale_first:
        scale = combined(OperationCode.MUL, inverse, weights)
        scaled, moved = (combined(OperationCode.MUL, each, scale) for each in (rows, mean))
        normal = combined(OperationCode.ADD, scaled, combined(OperationCode.SUB, bias, moved))
    else:
        normal = combined(OperationCode.MUL, combined(OperationCode.MUL, less, inverse), weights)
        normal = combined(OperationCode.ADD, normal, bias)
    hidden = net.apply(ExtendedOperationCode.GELU, net.gemm(normal, 24, 32), parameters=(False,))
    return net.finish(net.gemm(hidden, 5, 24))


def inputs_of(model: Model) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.standard_normal(type_.dimensions, np.float32) for type_ in model.input_types()]


def plan_of(device: VulkanDevice, model: Model) -> Plan:
    shapes = [type_.dimensions for type_ in model.input_types()]
    return device.planner.plan(model, shapes, PrepareOptions())


def shaders(plan: Plan) -> list[str]:
    return [command.shader.name for command in plan.commands if isinstance(command, Dispatch)]


NETWORKS: dict[str, Callable[[], Model]] = {
    "residual": residual,
    "normalised": normalised,
    "transformer": transformer,
    "scale first": lambda: transformer(True),
    "classifier": lambda: classifier(3).frozen.with_relaxed(True),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_close_and_nothing_else_is_written(gpu: VulkanDevice, name: str) -> None:
    model = NETWORKS[name]()
    inputs = inputs_of(model)
    expected = reference(Row(model, inputs))
    outputs, guarded = empty_like(expected), empty_like(expected)
    execute(gpu, Row(model, inputs), outputs)
    plan = plan_of(gpu, model)
    assert plan.choices[0].chosen == FLOAT16
    assert [shader for shader in shaders(plan) if shader.endswith(".native")]
    assert run_plan_guarded(gpu, plan, inputs, guarded) == []
    for want, got, alone in zip(expected, outputs, guarded, strict=True):
        assert first_difference(want, got, F32, relaxed=True) is None
        assert got.tobytes() == alone.tobytes()


def test_what_is_between_takes_half_the_bytes(gpu: VulkanDevice) -> None:
    relaxed = plan_of(gpu, residual())
    full = plan_of(gpu, residual().with_relaxed(False))
    converted = [shader for shader in shaders(relaxed) if shader.startswith("convert.")]
    assert len(converted) == 1, "what another product reads too; the first reads, and the last writes, 32-bit floats"
    weights = [sum(data.nbytes for _, data in plan.constants) for plan in (relaxed, full)]
    assert weights[0] < 0.6 * weights[1]


def test_models_that_are_not_relaxed_are_computed_in_full(gpu: VulkanDevice, own: VulkanDevice) -> None:
    model = residual().with_relaxed(False)
    for device in (gpu, own):
        assert not [shader for shader in shaders(plan_of(device, model)) if "f16" in shader]


def in_float16(model: Model) -> list[bool]:
    """For each operation whether it would be computed on 16-bit floats."""
    graph, _ = build(model, [type_.dimensions for type_ in model.input_types()], {}, lambda _: None)
    chosen = nodes_in_float16(graph)
    return [node in chosen for node in graph.nodes]


def test_squares_and_what_follows_stay_in_32_bits() -> None:
    assert in_float16(normalised()) == [True, False, False, False, False]


@pytest.mark.parametrize("scale_first", [False, True])
def test_rows_are_normalised_in_one_dispatch(gpu: VulkanDevice, scale_first: bool) -> None:
    kinds = [shader.split(".")[0] for shader in shaders(plan_of(gpu, transformer(scale_first)))]
    assert [kind for kind in kinds if kind not in ("gemm", "fully_connected")] == [*("convert", "normalize_rows")]


@pytest.mark.parametrize("size", [1.0, 1e6])
@pytest.mark.parametrize("scale_first", [False, True])
def test_normalised_rows_are_rounded_once(gpu: VulkanDevice, scale_first: bool, size: float) -> None:
    """To 16 bits; large ones become the ends of the range, as by a dispatch that converts them."""
    model = transformer(scale_first, size)
    run_both(gpu, model, inputs_of(model), tolerance=5e-3)


@pytest.mark.parametrize(
    ("size", "expected"), [(1e-6, False), (1e-3, True), (60000.0, True), (1e5, False), (np.inf, False)]
)
def test_constants_must_fit(size: float, expected: bool) -> None:
    net = Net(3, 4)
    weights = np.full((5, 4), size, np.float32)
    result = net.apply(OperationCode.FULLY_CONNECTED, net.source, weights, np.zeros(5, np.float32), parameters=(NONE,))
    assert in_float16(net.finish(result)) == [expected]


def test_float16_begins_at_gemms() -> None:
    net = Net(3, 4)
    before = net.apply(OperationCode.TANH, net.source)
    gemm = net.gemm(before, 5, 4)
    assert in_float16(net.finish(net.apply(OperationCode.LOGISTIC, gemm))) == [False, True, True]


MOVED: dict[str, Callable[[Net, int], int]] = {
    "padded": lambda net, x: net.apply(OperationCode.PAD, x, np.array([[0, 1], [2, 0]], np.int32)),
    "padded with a value": lambda net, x: net.apply(
        OperationCode.PAD_V2, x, np.array([[0, 1], [2, 0]], np.int32), parameters=(-3.5,)
    ),
    "mirrored": lambda net, x: net.apply(
        OperationCode.MIRROR_PAD, x, np.array([[0, 1], [2, 0]], np.int32), parameters=(0,)
    ),
    "tiled": lambda net, x: net.apply(OperationCode.TILE, x, np.array([2, 1], np.int32)),
    "reversed": lambda net, x: net.apply(OperationCode.REVERSE, x, np.array([1], np.int32)),
    "gathered": lambda net, x: net.apply(OperationCode.GATHER, x, parameters=(0, np.array([2, 0, 0], np.int32))),
    "largest": lambda net, x: net.apply(OperationCode.REDUCE_MAX, x, np.array([0], np.int32), parameters=(True,)),
    "smallest": lambda net, x: net.apply(OperationCode.REDUCE_MIN, x, np.array([0], np.int32), parameters=(True,)),
    "divided": lambda net, x: net.apply(OperationCode.DIV, x, number(6.0), parameters=(NONE,)),
}
"""Operations that move or select elements, or leave them about as large."""


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_elements_follows(gpu: VulkanDevice, name: str) -> None:
    """So that nothing is converted between two GEMMs."""
    net = Net(3, 12)
    moved = MOVED[name](net, net.gemm(net.source, 10, 12))
    depth = {"padded": 12, "padded with a value": 12, "mirrored": 12}.get(name, 10)
    model = net.finish(net.gemm(moved, 5, depth))
    assert in_float16(model) == [True, True, True]
    assert families(run_both(gpu, model, inputs_of(model))).split().count("convert") == 1


@pytest.mark.parametrize(
    ("divisor", "expected"), [(6.0, True), (1e-3, True), (1e-5, False), (1e5, False), (0.0, False), (None, False)]
)
def test_division_follows_where_quotients_are_about_as_large(divisor: float | None, expected: bool) -> None:
    net = Net(3, 4)
    gemm = net.gemm(net.source, 5, 4)
    by = net.apply(OperationCode.TANH, gemm) if divisor is None else number(divisor)
    model = net.finish(net.gemm(net.apply(OperationCode.DIV, gemm, by, parameters=(NONE,)), 2, 5))
    assert in_float16(model)[-2:] == [expected, True]


@pytest.mark.parametrize(("value", "expected"), [(65504.0, True), (-65504.0, True), (65520.0, False), (-3e38, False)])
def test_values_of_paddings_must_fit(value: float, expected: bool) -> None:
    net = Net(3, 4)
    padded = net.apply(
        OperationCode.PAD_V2, net.gemm(net.source, 5, 4), np.zeros((2, 2), np.int32), parameters=(value,)
    )
    assert in_float16(net.finish(net.gemm(padded, 2, 5))) == [True, expected, True]


@pytest.mark.parametrize(("narrow", "expected"), [(1, False), (2, True), (3, True)])
def test_operations_follow_the_larger_part_of_their_operands(narrow: int, expected: bool) -> None:
    """Else more operands are converted to 16 bits than results to 32."""
    net = Net(3, 4)
    parts = [net.gemm(net.source, 4, 4) for _ in range(narrow)]
    parts += [net.apply(OperationCode.TANH, net.source) for _ in range(4 - narrow)]
    joined = net.apply(OperationCode.CONCATENATION, *parts, parameters=(1,))
    assert in_float16(net.finish(net.gemm(joined, 2, 16)))[-2:] == [expected, True]


@pytest.mark.parametrize(("is_read_with_32_bits", "expected"), [(True, False), (False, True)])
def test_what_only_needs_conversions_does_not_follow(is_read_with_32_bits: bool, expected: bool) -> None:
    """EXP reads a SUB of a GEMM's result and other floats. The SUB follows unless the first is there with 32 bits."""
    net = Net(3, 4)
    result = net.apply(OperationCode.TANH, net.gemm(net.source, 4, 4))
    other = net.apply(OperationCode.REDUCE_SUM, net.source, np.array([1], np.int32), parameters=(True,))
    read = [net.apply(OperationCode.EXP, result)] if is_read_with_32_bits else []
    difference = net.apply(OperationCode.SUB, result, other, parameters=(NONE,))
    model = net.finish(*read, net.apply(OperationCode.EXP, difference))
    assert in_float16(model)[-2:] == [expected, False]


def test_an_image_is_converted_before_it_is_padded(gpu: VulkanDevice) -> None:
    """So that the convolution pads it, as with 32 bits."""
    net = Net(1, 7, 5, 1)
    pads = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    padded = net.apply(OperationCode.PAD, net.source, pads)
    weights, bias = np.full((8, 3, 3, 1), 0.1, np.float32), np.zeros(8, np.float32)
    model = net.finish(net.apply(OperationCode.CONV_2D, padded, weights, bias, parameters=(2, 1, 1, NONE)))
    assert in_float16(model) == [True, True]
    assert families(run_both(gpu, model, inputs_of(model))) == "gemm"


@pytest.mark.parametrize(("size", "expected"), [(8, False), (2048, True)])
def test_a_gemm_must_be_worth_the_conversions_around_it(
    gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, size: int, expected: bool
) -> None:
    """SOFTMAX gives 16-bit floats, which are converted by a command of their own, as the input is."""
    monkeypatch.setattr(fp16, "_WORTH_A_CONVERSION", WORTH_A_CONVERSION)
    net = Net(2, size)
    probable = net.apply(OperationCode.SOFTMAX, net.gemm(net.source, size, size), parameters=(1.0,))
    model = net.finish(probable)
    assert in_float16(model) == [expected, expected]
    assert ("convert" in families(plan_of(gpu, model))) == expected


def test_small_parts_stay_beside_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of the graph is judged by itself: two conversions stand around one GEMM, and around two."""
    monkeypatch.setattr(fp16, "_WORTH_A_CONVERSION", 3 * 8 * 8 * 3 // 4)
    net = Net(3, 8)

    def part(source: int, gemms: int) -> int:
        for _ in range(gemms):
            source = net.gemm(source, 8, 8)
        return net.apply(OperationCode.SOFTMAX, source, parameters=(1.0,))

    between = net.apply(OperationCode.L2_NORMALIZATION, part(net.source, 1))
    assert in_float16(net.finish(part(between, 2))) == [False, False, False, True, True, True]


def test_inputs_beyond_the_range_are_its_ends(gpu: VulkanDevice) -> None:
    net = Net(1, 4)
    weights = np.eye(4, dtype=np.float32)[:3] / 4
    model = net.finish(
        net.apply(OperationCode.FULLY_CONNECTED, net.source, weights, np.zeros(3, np.float32), parameters=(NONE,))
    )
    (output,) = outputs = [np.empty((1, 3), np.float32)]
    execute(gpu, Row(model, [np.array([[1e6, -3e38, 8, 0]], np.float32)]), outputs)
    np.testing.assert_array_equal(output, [[16376, -16376, 2]])


def test_the_smallest_device_computes_in_full(vulkan: VulkanDevice) -> None:
    """And so does a CPU, which has to convert 16-bit floats for each calculation."""
    model = residual()
    if vulkan.profile.is_cpu or not vulkan.profile.has_native_16:
        assert not [shader for shader in shaders(plan_of(vulkan, model)) if "f16" in shader]
        inputs = inputs_of(model)
        expected = reference(Row(model, inputs))
        outputs = empty_like(expected)
        execute(vulkan, Row(model, inputs), outputs)
        for want, got in zip(expected, outputs, strict=True):
            np.testing.assert_allclose(got, want, rtol=6e-7, atol=1e-5)


@pytest.mark.parametrize("winner", [FLOAT16, FLOAT32])
def test_both_are_measured(gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, winner: str) -> None:
    if not gpu.profile.timestamps:
        pytest.skip("the device has no timestamps")
    tried: list[str] = []

    def trial(_: object, plan: Plan) -> Any:
        (choice,) = (choice for choice in plan.choices if choice.tuning_key.startswith("relaxed model"))
        assert choice.commands == tuple(range(len(plan.commands)))
        tried.append(choice.chosen)
        spent = {each.tuning_key: 1 if choice.chosen == winner else 100 for each in plan.choices}
        return SimpleNamespace(run=lambda: spent)

    kept: dict[str, str] = {}
    monkeypatch.setattr(tuning, "Trial", trial)
    monkeypatch.setattr(type(gpu.planner.autotune_results), "known", property(lambda _: dict(kept)))
    monkeypatch.setattr(gpu.planner.autotune_results, "add", kept.update)
    model = residual()
    tuning.tune(gpu.gpu, gpu.planner, model, [type_.dimensions for type_ in model.input_types()], None)
    assert set(tried) == {FLOAT16, FLOAT32}
    assert winner in kept.values()
    assert plan_of(gpu, model).choices[0].chosen == winner
    assert not [choice for choice in plan_of(gpu, model).choices if choice.tuning_key not in kept]


def test_what_is_chosen_is_said(gpu: VulkanDevice) -> None:
    first, *_ = gpu.describe_operations(residual())
    assert first.startswith(FLOAT16)


def test_any_batch(gpu: VulkanDevice) -> None:
    """The model's shapes come with the execution."""
    model = classifier().frozen.with_relaxed(True)
    for batch in (1, 5):
        row = Row(model, [images(batch)])
        expected = reference(row)
        outputs = empty_like(expected)
        execute(gpu, row, outputs)
        assert first_difference(expected[0], outputs[0], F32, relaxed=True) is None


@pytest.mark.parametrize("tile", ["shared", "quads", "register"])
@pytest.mark.parametrize("depth", [1, 2, 3, 5, 7])
def test_images_are_read_as_they_are(gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, depth: int, tile: str) -> None:
    """Floats become halves where they are loaded: what is beyond these, their ends, and what is no number stays."""
    monkeypatch.setattr(gemm, "ranked", lambda work, device: [w for w in ranked(work, device) if w.tile == tile][:1])
    net = Net(2, 9, 11, depth)
    y = net.convolution(net.source, 7, depth)
    image = np.random.default_rng(0).normal(0, 2, (2, 9, 11, depth)).astype(np.float32)
    image[0, 1, 1], image[1, 0, 0] = [1e9], [-np.inf]
    image[1, 8, 10, 0] = np.nan
    plan = run_both(gpu, net.finish(y), [image])
    assert families(plan) == "gemm"


def test_images_that_others_read_are_converted(gpu: VulkanDevice) -> None:
    net = Net(1, 9, 11, 3)
    first = net.convolution(net.source, 8, 3)
    second = net.convolution(net.source, 4, 3)
    image = np.random.default_rng(0).normal(0, 2, (1, 9, 11, 3)).astype(np.float32)
    assert families(run_both(gpu, net.finish(first, second), [image])).split().count("convert") == 1
    net = Net(1, 9, 11, 4)  # of vec4s of channels vectors are loaded
    image = np.random.default_rng(0).normal(0, 2, (1, 9, 11, 4)).astype(np.float32)
    assert families(run_both(gpu, net.finish(net.convolution(net.source, 8, 4)), [image])) == "convert gemm"


@pytest.mark.parametrize("outputs", [1, 3, 8, 37])
def test_results_are_widened_where_they_are_written(gpu: VulkanDevice, outputs: int) -> None:
    """GEMMs and depthwise convolutions widen their float16 results to 32 bits as they write them."""
    for rows, kind in ((1, "fully_connected"), (19, "gemm")):
        net = Net(rows, 24)
        (source,) = inputs_of(model := net.finish(net.gemm(net.source, outputs, 24)))
        source[0, 5] = 1e9
        assert families(run_both(gpu, model, [source])) in (f"convert {kind}", "convert gemm")
    net = Net(1, 7, 9, 24)
    model = net.finish(net.depthwise(net.convolution(net.source, outputs, 24), outputs))
    assert families(run_both(gpu, model, inputs_of(model))) == "convert gemm depthwise_conv2d"


def test_depthwise_convolutions_follow_others(gpu: VulkanDevice) -> None:
    """A depthwise convolution gains too little from 16-bit floats for a conversion."""
    net = Net(1, 7, 9, 8)
    model = net.finish(net.depthwise(net.source, 8))
    assert families(run_both(gpu, model, inputs_of(model))) == "depthwise_conv2d"


def test_float32_between_conversions_stays_in_registers(gpu: VulkanDevice) -> None:
    """GELU as ONNX composes it divides and calls ERF on 32-bit floats, between multiplications on 16-bit ones."""
    net = Net(19, 24)
    x = net.gemm(net.source, 36, 24, size=2.0)
    inner = net.apply(ExtendedOperationCode.ERF, net.apply(OperationCode.DIV, x, number(1.4142), parameters=(NONE,)))
    factor = net.apply(OperationCode.ADD, inner, number(1.0), parameters=(NONE,))
    product = net.apply(OperationCode.MUL, x, factor, parameters=(NONE,))
    halved = net.apply(OperationCode.MUL, product, number(0.5), parameters=(NONE,))
    model = net.finish(net.gemm(halved, 12, 36))
    plan = run_both(gpu, model, inputs_of(model))
    assert families(plan) == "convert gemm fused_elementwise gemm"


def test_large_numbers_between_conversions_saturate(gpu: VulkanDevice) -> None:
    """A number beyond 16-bit floats becomes their largest one, as a conversion would make it; infinity stays."""
    net = Net(2, 8)
    x = net.apply(
        OperationCode.FULLY_CONNECTED,
        net.source,
        np.eye(8, dtype=np.float32),
        np.zeros(8, np.float32),
        parameters=(NONE,),
    )
    large = net.apply(OperationCode.EXP, net.apply(OperationCode.DIV, x, number(1.0), parameters=(NONE,)))
    model = net.finish(net.apply(OperationCode.MUL, x, large, parameters=(NONE,)))
    source = np.array([[1, 5, 11, 12, 80, 1000, -3, 0], [-1000, 90, 2, 3, 4, 5, 6, 7]], np.float32)
    run_both(gpu, model, [source])


def test_norms_store_what_several_readers_convert(gpu: VulkanDevice) -> None:
    """A GEMM and a residual both read the result of a layer normalisation as 16-bit floats."""
    net = Net(19, 24)
    x = net.gemm(net.source, 32, 24)

    def mean(y: int) -> int:
        return net.apply(OperationCode.MEAN, y, np.array([1], np.int32), parameters=(1,))

    def binary(code: OperationCode, y: int, z: int | np.ndarray) -> int:
        return net.apply(code, y, z, parameters=(NONE,))

    centred = binary(OperationCode.SUB, x, mean(x))
    variance = mean(binary(OperationCode.MUL, centred, centred))
    root = net.apply(OperationCode.RSQRT, binary(OperationCode.ADD, variance, number(1e-5)))
    scaled = binary(OperationCode.MUL, binary(OperationCode.MUL, centred, root), net.weights(32, size=1.0))
    normalised = binary(OperationCode.ADD, scaled, net.weights(32))
    model = net.finish(binary(OperationCode.ADD, net.gemm(normalised, 32, 32), normalised))
    assert families(run_both(gpu, model, inputs_of(model))) == "convert gemm normalize_rows gemm end"


def test_the_results_of_ends_are_widened(gpu: VulkanDevice) -> None:
    net = Net(19, 24)
    y = net.apply(OperationCode.ADD, net.gemm(net.source, 8, 24), net.weights(8), parameters=(NONE,))
    model = net.finish(y)
    assert families(run_both(gpu, model, inputs_of(model))) == "convert gemm end"


def test_results_that_others_read_are_converted(gpu: VulkanDevice) -> None:
    net = Net(5, 24)
    y = net.gemm(net.source, 8, 24)
    model = net.finish(y, net.gemm(y, 4, 8))
    assert families(run_both(gpu, model, inputs_of(model))).split().count("convert") == 2


def test_widened_results_may_be_columns(gpu: VulkanDevice) -> None:
    """The results are column ranges of a tensor of 32-bit floats."""
    net = fused.Net(real=OperandCode.TENSOR_FLOAT16)
    source, full = net.input(1, 7, 9, 8), OperandType(F32)
    wide = [net.op(OperationCode.CAST, net.conv(source, outputs, 8), type_=full) for outputs in (8, 12)]
    model = net.finish(net.op(OperationCode.CONCATENATION, *wide, net.code(3), type_=full))
    assert families(run_both(gpu, model, net.arrays)) == "gemm gemm"
