"""Depthwise convolutions in the dispatch of the 1 x 1 convolution behind them: the bits of both one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import verified
from faults import overwritten, replaced
from forced import forced_strategies
from fused import F16, F32, I8, U8, Net, Op, maximum
from guarded import run_plan_guarded
from rewritten import library, native

from nnvk.base.errors import VerificationError
from nnvk.check.model_rows import Row, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.kernels import depthwise_conv2d
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.tiles import GEMM
from nnvk.driver.vulkan.lowering.gemm.tiles.depthwise import Depthwise
from nnvk.driver.vulkan.lowering.gemm.tiles.shared import Shared
from nnvk.driver.vulkan.lowering.gemm.verification.checksum import BY_CHANNEL, CHECKSUM
from nnvk.driver.vulkan.planning.passes import depthwise
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import PlanOptions, lower
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.types.codes import FuseCode, OperandCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType
from nnvk.types.request import PrepareOptions, Redundancy

FLOATS = F32, F16
SAME, VALID = 1, 2


@dataclass(frozen=True)
class Case:
    """A depthwise convolution and a 1 x 1 convolution."""

    image: tuple[int, int, int, int]
    outputs: int
    window: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    """Width first, as NNAPI has it."""
    padding: int = SAME
    dilation: tuple[int, int] = (1, 1)
    between: FuseCode = FuseCode.RELU6
    activation: FuseCode = FuseCode.NONE
    behind: str = ""
    """The operations that follow, in words."""

    def __str__(self) -> str:
        parts = ["x".join(map(str, self.image)), f"to {self.outputs}", "window {}x{}".format(*self.window)]
        parts += ["stride {}x{}".format(*self.stride)] if self.stride != (1, 1) else []
        parts += ["dilation {}x{}".format(*self.dilation)] if self.dilation != (1, 1) else []
        parts += ["valid"] if self.padding == VALID else []
        return " ".join([*parts, self.between.name, self.activation.name, *([self.behind] if self.behind else [])])


CASES = [
    Case((1, 7, 5, 32), 16),
    Case((2, 13, 11, 68), 24, stride=(2, 2), behind="ADD"),
    Case((1, 9, 17, 13), 7, between=FuseCode.NONE, activation=FuseCode.RELU),
    Case((1, 8, 6, 3), 70, stride=(2, 1), padding=VALID, between=FuseCode.RELU1),
    Case((3, 5, 7, 36), 33, window=(2, 3), dilation=(1, 2), between=FuseCode.RELU, behind="LOGISTIC"),
    Case((1, 3, 4, 133), 96, activation=FuseCode.RELU6, behind="ADD"),
    Case((1, 1, 1, 5), 1, window=(1, 1), behind="MUL by channels"),
    Case((1, 10, 6, 8), 8, window=(1, 9), between=FuseCode.NONE, behind="ADD and LOGISTIC"),
]


SMALLEST = 2
"""Vectors of sums of the smallest tile."""
LARGE = CASES[1]
"""Only this case uses the largest tiles and splits K, as drivers take seconds to compile the shaders."""


def net_of(case: Case, code: OperandCode) -> tuple[Net, int]:
    """The network of a case, and its output."""
    net = Net(seed=(CASES if case in CASES else CHECKED).index(case), real=code if code in FLOATS else F32)
    *_, channels = case.image
    if code in FLOATS:
        image, inner, outer = net.input(*case.image), OperandType(code), OperandType(code)
        filters = [net.weights(1, *case.window, channels), net.weights(case.outputs, 1, 1, channels)]
        biases = [net.weights(channels), net.weights(case.outputs)]
    else:
        zero = 118 if code is U8 else -9
        inner, outer = OperandType(code, (), 0.07, zero + 5), OperandType(code, (), 0.23, zero - 8)
        image = net.input(*case.image, code=code, scale=0.05, zero=zero)
        filters, biases = [], []
        for shape, size, scale in (
            ((1, *case.window, channels), channels, 0.05),
            ((case.outputs, 1, 1, channels), case.outputs, inner.scale),
        ):
            limits = np.iinfo(np.uint8 if code is U8 else np.int8)
            array = net.rng.integers(limits.min, limits.max, shape, limits.dtype, endpoint=True)
            weights = OperandType(code, shape, 0.011, 131 if code is U8 else 3)
            filters.append(net.build.constant(weights, array))
            bias = OperandType(OperandCode.TENSOR_INT32, (size,), np.float32(scale) * np.float32(0.011))
            biases.append(net.build.constant(bias, net.rng.integers(-900, 900, size, np.int32)))
    numbers = [case.padding, *case.stride, 1, case.between]
    layout = [net.build.value(False), *map(net.code, case.dilation)]
    x = net.build.operation(
        Op.DEPTHWISE_CONV_2D, [image, filters[0], biases[0], *map(net.code, numbers), *layout], inner
    )
    numbers = [SAME, 1, 1, case.activation]
    x = net.build.operation(Op.CONV_2D, [x, filters[1], biases[1], *map(net.code, numbers)], outer)
    if "ADD" in case.behind:
        size = net_size(case)
        other = net.input(*size, code=code, scale=outer.scale, zero=outer.zero_point)
        x = net.build.operation(Op.ADD, [x, other, net.code(FuseCode.NONE)], outer)
    if "MUL" in case.behind:
        row = net.input(case.outputs, code=code, scale=outer.scale, zero=outer.zero_point)
        x = net.build.operation(Op.MUL, [x, row, net.code(FuseCode.NONE)], outer)
    if "LOGISTIC" in case.behind:
        type_ = outer if code in FLOATS else OperandType(code, (), 1 / 256, 0 if code is U8 else -128)
        x = net.build.operation(Op.LOGISTIC, [x], type_)
    return net, x


def net_size(case: Case) -> tuple[int, int, int, int]:
    """The shape of the output."""
    batch, height, width, _ = case.image
    vertical, horizontal = (
        (size - (1 if case.padding == SAME else (case.window[axis] - 1) * case.dilation[1 - axis] + 1))
        // case.stride[1 - axis]
        + 1
        for axis, size in enumerate((height, width))
    )
    return batch, vertical, horizontal, case.outputs


def plan_of(device: VulkanDevice, model: Model, inputs: Sequence[np.ndarray], *, fused: bool) -> Plan:
    profile = device.profile if fused else device.profile.without(Pass.DEPTHWISE)
    return lower(
        model, [each.shape for each in inputs], replace(profile, barriers_by_buffer=False), device.planner.library
    )


@pytest.fixture
def fused_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are one dispatch wherever that is possible."""
    monkeypatch.setattr(depthwise, "pays", lambda *_: True)


def families(plan: Plan) -> list[str]:
    return [command.shader.family for command in plan.commands if isinstance(command, Dispatch)]


def run(device: VulkanDevice, model: Model, plan: Plan, inputs: Sequence[np.ndarray]) -> np.ndarray:
    (type_,) = model.output_types()
    output = np.empty(plan.output_shapes[0], type_.dtype)
    assert run_plan_guarded(device, plan, inputs, [output]) == []
    return output


TYPES = {"float32": F32, "float16": F16, "unsigned": U8, "signed": I8}


def in_turn(cases: Sequence[Case], *kinds: tuple[str, ...]) -> list[Any]:
    """Each case with one of each tuple of types in turn, as devices take seconds to compile the shaders of one."""
    return [
        pytest.param(case, of[(number >> place) % len(of)], id=f"{case}-{of[(number >> place) % len(of)]}")
        for number, case in enumerate(cases)
        for place, of in enumerate(kinds)
    ]


@pytest.mark.parametrize(("case", "kind"), in_turn(CASES, ("float16", "float32"), ("unsigned", "signed")))
def test_results_are_those_of_both_one_after_the_other(
    as_gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, case: Case, kind: str
) -> None:
    """Floats have the bits of the same tile without the depthwise convolution, and bytes those of the reference.

    The depthwise convolution of 16-bit floats is added up as 32-bit ones.
    """
    monkeypatch.setattr(depthwise_conv2d, "may_be_float16", lambda *_: False)
    net, output = net_of(case, TYPES[kind])
    model, inputs = net.finish(output), net.arrays
    fuse = partial(plan_of, as_gpu, model, inputs, fused=True)
    is_large = case is LARGE and kind not in ("signed", "float16") and not as_gpu.profile.has_small_subgroups
    for strategy in forced_strategies(monkeypatch, as_gpu, fuse, Depthwise.tile):
        if not is_large and strategy.sums > SMALLEST:
            continue
        plan = fuse()
        first, *behind = families(plan)
        assert first == "gemm"
        assert not behind or (kind != "float32" and case.outputs % 4), "pixels are whole words"
        got = run(as_gpu, model, plan, inputs)
        if TYPES[kind] in FLOATS:
            alone = Shared(*(getattr(strategy, each.name) for each in fields(strategy)))
            with monkeypatch.context() as patch:
                patch.setattr(gemm, "ranked", lambda work, device, alone=alone: [alone])
                plain = plan_of(as_gpu, model, inputs, fused=False)
            assert families(plain)[0] == "depthwise_conv2d"
            want = run(as_gpu, model, plain, inputs)
        else:
            (want,) = reference(Row(model, inputs))
        assert np.unique(want).size > 1 or want.size == 1
        assert got.tobytes() == want.tobytes(), str(strategy)


CHECKED = [
    Case((1, 7, 5, 32), 16),
    Case((2, 13, 11, 68), 24, stride=(2, 2), behind="ADD"),
    Case((1, 9, 7, 72), 20, stride=(1, 2), between=FuseCode.NONE),
    Case((1, 8, 6, 4), 70, stride=(2, 1), padding=VALID, between=FuseCode.RELU1),
    Case((3, 5, 7, 36), 33, window=(2, 3), dilation=(1, 2), between=FuseCode.RELU),
    Case((1, 3, 19, 136), 96, activation=FuseCode.RELU6, behind="ADD"),
    Case((1, 1, 1, 8), 4, window=(1, 1)),
]
FAULTS = 24


@pytest.mark.parametrize(("case", "kind"), in_turn(CHECKED, ("unsigned", "signed")))
def test_both_are_verified_by_checksums(
    as_gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, case: Case, kind: str
) -> None:
    """The bits are those of the reference, and no fault is missed."""
    net, output = net_of(case, TYPES[kind])
    model, inputs = net.finish(output), net.arrays
    right = reference(Row(model, inputs))
    fuse = partial(verified.plan_of, as_gpu, model, inputs, verified.VERIFIED)
    for place, strategy in enumerate(forced_strategies(monkeypatch, as_gpu, fuse, Depthwise.tile)):
        if strategy.sums > SMALLEST and strategy.split_k == 1 and case is not CHECKED[1]:
            continue
        found = verified.families(fuse())
        names = "gemm", "depthwise_conv2d", CHECKSUM.name, BY_CHANNEL.name
        assert [found[name] for name in names] == [1, 0, 1, 1]
        profile = replace(as_gpu.profile, barriers_by_buffer=False)
        shapes, library = [each.shape for each in inputs], as_gpu.planner.library
        plan = lower(model, shapes, profile, library, PlanOptions(redundancy=Redundancy.CHECKSUMS))
        for got in (run(as_gpu, model, plan, inputs), *verified.run(as_gpu, model, inputs, right)):
            assert got.tobytes() == right[0].tobytes(), str(strategy)
        outcomes = verified.outcomes(as_gpu, model, inputs, right, range(place * FAULTS, (place + 1) * FAULTS))
        assert outcomes["missed"] == 0, str(strategy)
        assert outcomes["found"] > FAULTS // 2


def product_of(plan: Plan) -> tuple[int, Dispatch]:
    """The position of the only product of a plan, and the product."""
    every = enumerate(plan.commands)
    return next((place, each) for place, each in every if isinstance(each, Dispatch) and each.shader.family == "gemm")


@pytest.mark.usefixtures("fused_anyway")
@pytest.mark.parametrize("when", ["behind the product", "behind its verification"])
def test_each_word_that_is_stored_beside_the_results_is_verified(as_gpu: VulkanDevice, when: str) -> None:
    """The depthwise results and both kinds of check words; the former also after they were read the first time."""
    case = CHECKED[0]
    net, output = net_of(case, I8)
    model, inputs = net.finish(output), net.arrays
    right, by_buffer = reference(Row(model, inputs)), as_gpu.profile.barriers_by_buffer
    _, product = product_of(verified.plan_of(as_gpu, model, inputs, verified.VERIFIED))
    batch, height, width, channels = case.image
    words = batch * height * width * channels // 4
    count = product.tensors["checks"].nbytes // 4
    assert words % 4 == 0
    assert count > 2 * words
    is_late = when == "behind its verification"
    for place in (0, 5, words - 1, words, 2 * words - 1, *(() if is_late else (2 * words, count - 1))):

        def wrong(plan: Plan, place: int = place) -> Plan:
            position, product = product_of(plan)
            if is_late:
                position = next(
                    place
                    for place, each in enumerate(plan.commands)
                    if isinstance(each, Dispatch) and each.shader.family == CHECKSUM.name
                )
            value = np.array([0x12345678 + place], np.uint32)
            return replaced(plan, position + 1, product.tensors["checks"], place, value, by_buffer)

        assert verified.outcome(as_gpu, model, inputs, right, wrong) == "found", place


@pytest.mark.usefixtures("fused_anyway")
def test_an_error_names_the_depthwise_convolution_if_that_is_wrong(as_gpu: VulkanDevice) -> None:
    net, output = net_of(CHECKED[0], I8)
    model, inputs = net.finish(output), net.arrays

    def with_wrong_check_word(plan: Plan) -> Plan:
        position, product = product_of(plan)
        batch, height, width, channels = CHECKED[0].image
        first, value = batch * height * width * channels // 4, np.array([0x12345678], np.uint32)
        return replaced(plan, position + 1, product.tensors["checks"], first, value, as_gpu.profile.barriers_by_buffer)

    with pytest.raises(
        VerificationError, match=r"DEPTHWISE_CONV_2D: the checksum of the tile of \d+ x \d+ pixels from"
    ):
        verified.run(as_gpu, model, inputs, reference(Row(model, inputs)), with_wrong_check_word)


WRONG = {
    "another zero point of the output": ("output_zero", 1),
    "a line of the image left out": ("height", -1),
    "a wrong padding": ("pad_left", 1),
    "another limit": ("high", -90),
}


@pytest.mark.usefixtures("fused_anyway")
@pytest.mark.parametrize("kind", WRONG)
def test_a_shader_that_is_wrong_each_time_is_found(as_gpu: VulkanDevice, kind: str) -> None:
    net, output = net_of(CHECKED[0], I8)
    model, inputs = net.finish(output), net.arrays
    right, (name, change) = reference(Row(model, inputs)), WRONG[kind]

    def wrong(plan: Plan) -> Plan:
        commands, (position, product) = list(plan.commands), product_of(plan)
        commands[position] = replace(product, push={**product.push, name: product.push[name] + change})
        return replace(plan, commands=tuple(commands))

    assert verified.outcome(as_gpu, model, inputs, right, wrong) == "found"


@pytest.mark.parametrize("case", [CHECKED[1], CHECKED[2]], ids=str)
def test_constants_that_change_are_found(as_gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    """Among them the parameters of the depthwise convolution."""
    net, output = net_of(case, U8)
    model, inputs = net.finish(output), net.arrays
    right, by_buffer = reference(Row(model, inputs)), as_gpu.profile.barriers_by_buffer
    plan = partial(verified.plan_of, as_gpu, model, inputs, verified.VERIFIED)

    def wrong(plan: Plan, seed: int) -> Plan:
        position, product = product_of(plan)
        names = [name for name in ("weights", "bias", "multipliers") if name in product.tensors]
        tensors = [product.tensors[names[seed % len(names)]]]
        return overwritten(plan, position, tensors, 4, np.random.default_rng(seed), by_buffer)

    for strategy in forced_strategies(monkeypatch, as_gpu, plan, Depthwise.tile):
        if strategy.split_k > 1:
            found = [verified.outcome(as_gpu, model, inputs, right, partial(wrong, seed=seed)) for seed in range(30)]
            assert "missed" not in found
            assert found.count("found") > 10


@pytest.mark.usefixtures("fused_anyway")
def test_both_are_computed_twice_without_a_variant_for_it(
    as_gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, output = net_of(CHECKED[0], I8)
    model, inputs = net.finish(output), net.arrays
    right = reference(Row(model, inputs))
    avoided = {each.name for each in GEMM.variants if ".depthwise." in each.name and "checked" in each.name}
    assert avoided
    profile = replace(as_gpu.planner.profile, avoided=frozenset(avoided))
    monkeypatch.setattr(as_gpu.planner, "profile", profile)
    found = verified.families(verified.plan_of(as_gpu, model, inputs, verified.VERIFIED))
    names = "gemm", "depthwise_conv2d", CHECKSUM.name, BY_CHANNEL.name
    assert [found[name] for name in names] == [2, 0, 0, 0]
    (got,) = verified.run(as_gpu, model, inputs, right)
    assert got.tobytes() == right[0].tobytes()


def families_of(net: Net, *outputs: int, redundancy: Redundancy = Redundancy.NONE) -> list[str]:
    model = net.finish(*outputs)
    shapes = [type_.dimensions for type_ in model.input_types()]
    return families(lower(model, shapes, native(), library(), PlanOptions(redundancy=redundancy)))


def separable(net: Net, x: int, channels: int = 32) -> int:
    return net.conv(net.depthwise(x, channels), 16, channels, size=1)


def test_both_are_one_where_that_saves_time() -> None:
    net = Net()
    assert families_of(net, separable(net, net.input(1, 14, 10, 32))) == ["gemm"]
    net = Net()
    assert families_of(net, separable(net, net.input(1, 448, 448, 8), 8)) == ["depthwise_conv2d", "gemm"]


@pytest.mark.parametrize("redundancy", [Redundancy.CHECKSUMS, Redundancy.DUPLICATION], ids=lambda each: each.name)
def test_floats_that_are_verified_are_not_fused(redundancy: Redundancy) -> None:
    net = Net()
    assert "depthwise_conv2d" in families_of(net, separable(net, net.input(1, 14, 10, 32)), redundancy=redundancy)


@pytest.mark.usefixtures("fused_anyway")
@pytest.mark.parametrize(
    ("case", "redundancy"),
    [(CHECKED[0], Redundancy.DUPLICATION), (CASES[2], Redundancy.CHECKSUMS)],
    ids=["computed twice", "channels that are no whole words"],
)
def test_bytes_that_are_verified_otherwise_are_not_fused(
    as_gpu: VulkanDevice, case: Case, redundancy: Redundancy
) -> None:
    net, output = net_of(case, I8)
    options = PrepareOptions(redundancy=redundancy)
    plan = verified.plan_of(as_gpu, net.finish(output), net.arrays, options)
    assert verified.families(plan)["depthwise_conv2d"]


def two_readers(net: Net, x: int) -> list[int]:
    y = net.depthwise(x, 32)
    return [net.conv(y, 16, 32, size=1), maximum(net, y)]


def two_convolutions(net: Net, x: int) -> list[int]:
    y = net.depthwise(x, 32)
    return [net.conv(y, 16, 32, size=1), net.conv(y, 8, 32, size=1)]


def an_output(net: Net, x: int) -> list[int]:
    y = net.depthwise(x, 32)
    return [net.conv(y, 16, 32, size=1), y]


def other_filter(net: Net, x: int) -> list[int]:
    return [net.conv(net.depthwise(x, 32), 16, 32, size=3)]


def other_stride(net: Net, x: int) -> list[int]:
    operands = [net.depthwise(x, 32), net.weights(16, 1, 1, 32), net.weights(16), *map(net.code, [1, 2, 2, 0])]
    return [net.op(Op.CONV_2D, *operands)]


def multiplier(net: Net, x: int) -> list[int]:
    operands = [x, net.weights(1, 3, 3, 64), net.weights(64), *map(net.code, [1, 1, 1, 2, 0])]
    return [net.conv(net.op(Op.DEPTHWISE_CONV_2D, *operands), 16, 64, size=1)]


def large_window(net: Net, x: int) -> list[int]:
    operands = [x, net.weights(1, 5, 5, 32), net.weights(32), *map(net.code, [1, 1, 1, 1, 0])]
    return [net.conv(net.op(Op.DEPTHWISE_CONV_2D, *operands), 16, 32, size=1)]


def filters_that_come_later(net: Net, x: int) -> list[int]:
    operands = [net.depthwise(x, 32), net.input(16, 1, 1, 32), net.weights(16), *map(net.code, [1, 1, 1, 0])]
    return [net.op(Op.CONV_2D, *operands)]


def something_between(net: Net, x: int) -> list[int]:
    return [net.conv(net.op(Op.TANH, net.depthwise(x, 32)), 16, 32, size=1)]


@pytest.mark.usefixtures("fused_anyway")
@pytest.mark.parametrize(
    "build",
    [
        two_readers,
        two_convolutions,
        an_output,
        other_filter,
        other_stride,
        multiplier,
        large_window,
        filters_that_come_later,
        something_between,
    ],
)
def test_what_is_left_alone(build: Callable[[Net, int], list[int]]) -> None:
    net = Net()
    assert "depthwise_conv2d" in families_of(net, *build(net, net.input(1, 14, 10, 32)))
