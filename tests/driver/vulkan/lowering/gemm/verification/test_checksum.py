"""Checksums: exact products that are verified without a second product, and the faults that they find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from faults import overwritten, without_command
from forced import forced_strategies
from fused import I8, U8, Net, Op, byte_conv
from profiles import GPU
from verified import VERIFIED, families, outcome, outcomes, plan_of, run

from nnvk.base.errors import VerificationError
from nnvk.check.model_rows import parse, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.kernels import depthwise_conv2d
from nnvk.driver.vulkan.kernels.depthwise_conv2d import DepthwiseTile
from nnvk.driver.vulkan.lowering import verification
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm
from nnvk.driver.vulkan.lowering.gemm.verification.checksum import (
    BY_CHANNEL,
    CHECKSUM,
    is_possible_by_channel,
    products,
    variant,
)
from nnvk.driver.vulkan.lowering.gemm.verification.exact import EXACT
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.commands import Dispatch, Storage
from nnvk.ops.window import Axis
from nnvk.types.codes import FuseCode, OperandCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType
from nnvk.types.request import PrepareOptions, Redundancy

ROWS = """
CONV_2D u8[1,5,7,3]*0.05+120 #pc0[5,3,3,3] #i32[5] SAME 1 1 RELU -> u8*0.08+100
CONV_2D u8[2,5,7,17]*0.05+120 #u8[8,3,2,17]*0.02+99 #i32[8] SAME 1 2 NONE -> u8*0.8+100
CONV_2D i8[2,9,7,16]*0.05+12 #pc0[24,1,1,16] #i32[24] SAME 1 1 NONE -> i8*0.3-10
CONV_2D i8[2,9,7,20]*0.05+12 #pc0[16,3,3,20] #i32[16] SAME 2 2 NONE -> i8*0.9-10
CONV_2D i8[1,11,13,32]*0.05+12 #pc0[32,3,3,32] #i32[32] VALID 1 2 RELU6 -> i8*0.03-128
CONV_2D i8[1,9,7,16]*0.5+12 #pc0[8,1,1,16] #i32[8] SAME 1 1 NONE -> i8*0.0001-10
DEPTHWISE_CONV_2D i8[1,7,6,8]*0.05-3 #pc3[1,3,3,8] #i32[8] SAME 1 1 1 RELU6 -> i8*0.08-20
DEPTHWISE_CONV_2D u8[2,7,6,16]*0.05+30 #pc3[1,3,3,16] #i32[16] SAME 2 2 1 NONE -> u8*0.08+120
DEPTHWISE_CONV_2D i8[1,7,6,3]*0.05-3 #pc3[1,3,3,6] #i32[6] SAME 1 1 2 NONE -> i8*0.08-20
FULLY_CONNECTED i8[19,33]*0.05-7 #i8[8,33]*0.02 #i32[8] RELU -> i8*0.08-20
GROUPED_CONV_2D i8[1,7,6,8]*0.05-3 #pc0[8,3,3,4] #i32[8] SAME 1 1 2 NONE nhwc -> i8*0.08-20
CONV_2D i8[2,23,29,3]*0.05-7 #pc0[8,7,7,3] #i32[8] SAME 2 2 NONE -> i8*0.9-10
CONV_2D u8[1,9,4,6]*0.05+120 #pc0[8,5,5,6] #i32[8] SAME 1 1 NONE -> u8*0.9+100
CONV_2D i8[2,13,9,1]*0.05-3 #pc0[8,10,4,1] #i32[8] SAME 2 1 NONE -> i8*0.3-10
CONV_2D i8[1,9,11,3]*0.05-3 #pc0[8,3,3,3] #i32[8] SAME 1 1 NONE nhwc 2 2 -> i8*0.3-10
DEPTHWISE_CONV_2D i8[2,13,11,48]*0.05-3 #pc3[1,3,3,48] #i32[48] SAME 1 1 1 NONE -> i8*0.08-20
DEPTHWISE_CONV_2D u8[1,13,12,32]*0.05+30 #pc3[1,5,5,32] #i32[32] SAME 2 2 1 RELU -> u8*0.3+20
DEPTHWISE_CONV_2D i8[1,9,13,16]*0.05-3 #pc3[1,3,3,32] #i32[32] SAME 1 1 2 NONE -> i8*0.08-20
DEPTHWISE_CONV_2D i8[1,9,13,16]*0.05-3 #pc3[1,3,3,16] #i32[16] SAME 1 1 1 NONE nhwc 2 2 -> i8*0.08-20
""".strip().splitlines()
BY_CHANNEL_ROWS = """
DEPTHWISE_CONV_2D i8[2,11,29,12]*0.05-3 #pc3[1,3,3,12] #i32[12] SAME 1 1 1 NONE -> i8*0.08-20
DEPTHWISE_CONV_2D u8[1,13,37,5]*0.05+30 #pc3[1,2,7,10] #i32[10] SAME 3 2 2 RELU -> u8*0.2+20
DEPTHWISE_CONV_2D i8[1,14,31,8]*0.05-3 #pc3[1,3,3,8] #i32[8] SAME 1 2 1 RELU6 -> i8*0.08-20
DEPTHWISE_CONV_2D i8[2,13,31,32]*0.05-3 #pc3[1,3,3,32] #i32[32] SAME 1 1 1 NONE -> i8*0.08-20
""".strip().splitlines()
CHECKING = {CHECKSUM.name, BY_CHANNEL.name}
FAULTS = 18


def residual(code: OperandCode) -> tuple[Model, list[np.ndarray]]:
    """Two convolutions, a depthwise one between them, and a sum that is an epilogue."""
    net, middle = Net(), 0 if code is I8 else 128
    x = net.input(1, 5, 7, 8, code=code, scale=0.05, zero=middle + 3)
    first = byte_conv(net, code, x, 8, 8, OperandType(code, (), 0.05, middle - 20))
    second = byte_conv(net, code, first, 8, 8, OperandType(code, (), 0.2, middle + 5))
    out = OperandType(code, (), 0.16, middle + 9)
    y = net.build.operation(Op.ADD, [first, second, net.code(FuseCode.RELU)], out)
    return net.finish(y), list(net.arrays)


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_products_are_verified_by_checksums(device: VulkanDevice, place: int) -> None:
    row = parse(ROWS[place])
    plain, verified = (
        families(plan_of(device, row.model, row.inputs, PrepareOptions(redundancy=wanted)))
        for wanted in (Redundancy.NONE, Redundancy.CHECKSUMS)
    )
    assert verified[CHECKSUM.name] + verified[BY_CHANNEL.name] == 1
    for family in ("gemm", "depthwise_conv2d"):
        assert verified[family] == plain[family]
    for ours, theirs in zip(run(device, row.model, row.inputs, reference(row)), reference(row), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_no_fault_that_changes_a_result_is_missed(own: VulkanDevice, place: int) -> None:
    row = parse(ROWS[place])
    right = run(own, row.model, row.inputs, reference(row))
    found = outcomes(own, row.model, row.inputs, right, range(place * FAULTS, (place + 1) * FAULTS))
    assert found["missed"] == 0
    assert found["found"] > FAULTS // 2


@pytest.mark.parametrize("code", [I8, U8], ids=lambda code: code.name)
def test_no_fault_in_a_sum_of_two_products_is_missed(device: VulkanDevice, code: OperandCode) -> None:
    model, inputs = residual(code)
    plan = plan_of(device, model, inputs, VERIFIED)
    names = [command.shader.name for command in plan.commands if isinstance(command, Dispatch)]
    assert any(".fused" in name for name in names)
    assert families(plan)[CHECKSUM.name] == 2
    right = run(device, model, inputs, [np.zeros(plan.output_shapes[0], inputs[0].dtype)])
    found = outcomes(device, model, inputs, right, range(2 * FAULTS))
    assert found["missed"] == 0
    assert found["found"] > FAULTS // 2


@pytest.mark.parametrize("name", ["weights", "bias", "multipliers"])
@pytest.mark.parametrize("place", [2, 6], ids=["gemm", "depthwise_conv2d"])
def test_constants_that_change_are_found(own: VulkanDevice, name: str, place: int) -> None:
    """Two computations would share them."""
    row = parse(ROWS[place])
    right = run(own, row.model, row.inputs, reference(row))

    def with_wrong_constant(plan: Plan, seed: int) -> Plan:
        position, tensor = next(
            (position, command.tensors[name])
            for position, command in enumerate(plan.commands)
            if isinstance(command, Dispatch) and name in command.tensors
        )
        assert tensor.storage is Storage.CONSTANTS
        return overwritten(plan, position, [tensor], 4, np.random.default_rng(seed), own.profile.barriers_by_buffer)

    found = Counter(
        outcome(own, row.model, row.inputs, right, lambda plan, seed=seed: with_wrong_constant(plan, seed))
        for seed in range(20)
    )
    assert found["missed"] == 0
    assert found["found"] > 10


def test_results_of_other_inputs_are_found(own: VulkanDevice) -> None:
    """Check words and results that match each other are not enough: they may be old."""
    row = parse(ROWS[2])
    right = run(own, row.model, row.inputs, reference(row))
    others = [np.roll(array, 5) for array in row.inputs]

    def of_other_inputs(plan: Plan) -> Plan:
        """The product reads constants that are the other inputs."""
        position, product = next(
            (position, command)
            for position, command in enumerate(plan.commands)
            if isinstance(command, Dispatch) and command.shader.family == "gemm"
        )
        number, page = 1 + max(plan.addresses), len(plan.pages[Storage.CONSTANTS])
        source = product.tensors["src"]
        there = replace(plan.addresses[source.number], storage=Storage.CONSTANTS, page=page, offset=0)
        data = np.zeros(-(-there.nbytes // 64) * 64, np.uint8)
        data[: others[0].nbytes] = others[0].reshape(-1).view(np.uint8)
        old = replace(source, number=number, storage=Storage.CONSTANTS)
        commands = list(plan.commands)
        commands[position] = replace(product, tensors={**product.tensors, "src": old})
        return replace(
            plan,
            commands=tuple(commands),
            addresses={**plan.addresses, number: there},
            pages={**plan.pages, Storage.CONSTANTS: (*plan.pages[Storage.CONSTANTS], data.size)},
            constants=(*plan.constants, (there, data)),
        )

    assert outcome(own, row.model, row.inputs, right, of_other_inputs) == "found"


def test_an_error_names_the_operation_the_row_and_both_checksums(own: VulkanDevice) -> None:
    row = parse(ROWS[2])

    def with_wrong_word(plan: Plan) -> Plan:
        position, product = next(
            (position, command)
            for position, command in enumerate(plan.commands)
            if isinstance(command, Dispatch) and command.shader.family == "gemm"
        )
        rng, results = np.random.default_rng(3), [product.tensors["dst"]]
        return overwritten(plan, position + 1, results, 4, rng, own.profile.barriers_by_buffer)

    first = r"\[[01], [0-8], [0-6]\]"
    tile = rf"the tile of [1-9]\d* rows from {first} of output on"
    said = rf"^OP_FAILED: CONV_2D.*: the checksum of {tile} is 0x[0-9a-f]{{8}} as computed and 0x"
    with pytest.raises(VerificationError, match=said):
        run(own, row.model, row.inputs, reference(row), with_wrong_word)


WRONG = {
    "fewer lines of the window": ("kernel_height", -1),
    "another zero point of the input": ("input_zero", 1),
    "another zero point of the weights": ("weight_zero", -1),
    "another zero point of the output": ("output_zero", 1),
    "another limit": ("low", 3),
    "a line of the image left out": ("out_height", -1),
    "a wrong padding": ("pad_left", 1),
}


@pytest.mark.parametrize(("place", "kind"), [(3, kind) for kind in WRONG] + [(7, kind) for kind in list(WRONG)[1:]])
def test_a_shader_that_is_wrong_each_time_is_found(own: VulkanDevice, place: int, kind: str) -> None:
    row, (name, change) = parse(ROWS[place]), WRONG[kind]

    def wrong(plan: Plan) -> Plan:
        position, product = next(
            (position, command)
            for position, command in enumerate(plan.commands)
            if isinstance(command, Dispatch) and command.shader.family in ("gemm", "depthwise_conv2d")
        )
        commands = list(plan.commands)
        commands[position] = replace(product, push={**product.push, name: product.push[name] + change})
        return replace(plan, commands=tuple(commands))

    right = run(own, row.model, row.inputs, reference(row))
    for _ in range(2):
        assert outcome(own, row.model, row.inputs, right, wrong) == "found"


def with_another_formula(plan: Plan, formula: str) -> Plan:
    """Products become bytes by floats that are not there, or that have another unit."""
    commands = list(plan.commands)
    for position, command in enumerate(commands):
        if isinstance(command, Dispatch) and command.shader.has_constant(formula):
            shader, words = command.shader, command.specialization
            name = "SATURATES" if shader.constant(words, formula) else formula
            changed = shader.with_constants(words, **{name: not shader.constant(words, name)})
            commands[position] = replace(command, specialization=changed)
    return replace(plan, commands=tuple(commands))


@pytest.mark.parametrize("place", [2, 6, 9], ids=["gemm", "depthwise_conv2d", "fully_connected"])
def test_another_formula_for_bytes_is_found(device: VulkanDevice, place: int) -> None:
    """Sums and parameters are right: only the bound on roundings differs."""
    row = parse(ROWS[place])
    right = run(device, row.model, row.inputs, reference(row))
    assert outcome(device, row.model, row.inputs, right, partial(with_another_formula, formula="TO_BYTES")) == "found"


@pytest.mark.parametrize("code", [I8, U8], ids=lambda code: code.name)
def test_another_formula_for_a_sum_behind_a_product_is_found(device: VulkanDevice, code: OperandCode) -> None:
    model, inputs = residual(code)
    plan = plan_of(device, model, inputs, VERIFIED)
    right = run(device, model, inputs, [np.zeros(plan.output_shapes[0], inputs[0].dtype)])
    assert outcome(device, model, inputs, right, partial(with_another_formula, formula="FLOAT_SUM")) == "found"


def chain(code: OperandCode) -> tuple[Model, list[np.ndarray]]:
    """Four convolutions one after the other, each of which only the next one reads."""
    net, middle = Net(), 0 if code is I8 else 128
    x = net.input(1, 9, 7, 16, code=code, scale=0.05, zero=middle + 3)
    for place in range(4):
        x = byte_conv(net, code, x, 16, 16, OperandType(code, (), 0.05, middle + 7 * place - 20))
    return net.finish(x), list(net.arrays)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No results wait for others to be verified with them."""
    monkeypatch.setattr(verification, "most_held", lambda *_: 0)


def copies(plan: Plan) -> list[bool]:
    """Whether checksums are compared by dispatches that copy the results."""
    every = [each for each in plan.commands if isinstance(each, Dispatch) and each.shader.family in CHECKING]
    return [bool(each.shader.constant(each.specialization, "COPIES")) for each in every]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("code", [I8, U8], ids=lambda code: code.name)
def test_results_with_one_reader_are_verified_in_place(device: VulkanDevice, code: OperandCode) -> None:
    model, inputs = chain(code)
    plan = plan_of(device, model, inputs, VERIFIED)
    assert copies(plan) == [False, False, False, True]
    every = [each.shader.family for each in plan.commands if isinstance(each, Dispatch)]
    dispatched = [family for family in every if family != "verification"]
    verified = [place for place, family in enumerate(dispatched) if family in CHECKING]
    assert verified == [2, 4, 6, 7]  # a product is computed before the one in front of it is verified
    right = run(device, model, inputs, [np.zeros(plan.output_shapes[0], inputs[0].dtype)])
    found = outcomes(device, model, inputs, right, range(3 * FAULTS))
    assert found["missed"] == 0
    assert found["found"] > FAULTS


@pytest.mark.usefixtures("alone")
def test_results_are_copied_for_readers_that_come_later(own: VulkanDevice) -> None:
    net = Net()
    x = net.input(1, 9, 7, 16, code=I8, scale=0.05, zero=3)
    first = byte_conv(net, I8, x, 16, 16, OperandType(I8, (), 0.05, -20))
    middle = byte_conv(net, I8, first, 16, 16, OperandType(I8, (), 0.05, -20))
    last = byte_conv(net, I8, middle, 16, 16, OperandType(I8, (), 0.2, 5))
    y = net.build.operation(Op.ADD, [first, last, net.code(FuseCode.RELU)], OperandType(I8, (), 0.16, 9))
    plan = plan_of(own, net.finish(y), list(net.arrays), VERIFIED)
    assert copies(plan) == [True, False, True]


@pytest.mark.usefixtures("alone")
def test_a_checksum_that_is_not_compared_is_found(own: VulkanDevice) -> None:
    """Nobody reads a copy that would be missing."""
    model, inputs = chain(I8)
    right = [np.zeros((1, 9, 7, 16), np.int8)]

    def without(place: int) -> Callable[[Plan], Plan]:
        def changed(plan: Plan) -> Plan:
            checking = [
                position
                for position, each in enumerate(plan.commands)
                if isinstance(each, Dispatch) and each.shader.family in CHECKING
            ]
            return without_command(plan, checking[place], by_buffer=own.profile.barriers_by_buffer)

        return changed

    for place in range(3):
        with pytest.raises(VerificationError, match="some checksums of results were not compared"):
            run(own, model, inputs, right, without(place))


PRODUCTS = [
    *(ROWS[place] for place in (1, 3, 9)),
    "CONV_2D u8[1,1,1,48]*0.05+120 #u8[13,1,1,48]*0.02+99 #i32[13] SAME 1 1 NONE -> u8*0.2+100",
]
"""Products that have several strategies; the last one is a row that ends in the middle of a word."""


@pytest.mark.numbers
@pytest.mark.parametrize("tile", ["register", "quads", "shared", "subgroup"])
@pytest.mark.parametrize("place", range(len(PRODUCTS)))
def test_each_strategy_stores_check_words(
    device: VulkanDevice, monkeypatch: pytest.MonkeyPatch, place: int, tile: str
) -> None:
    """The smallest and the largest of each kind, and one with K split."""
    row = parse(PRODUCTS[place])
    plan = partial(plan_of, device, row.model, row.inputs, PrepareOptions())
    for _ in forced_strategies(monkeypatch, device, plan, tile):
        for ours, theirs in zip(run(device, row.model, row.inputs, reference(row)), reference(row), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        found = outcomes(device, row.model, row.inputs, reference(row), range(place, place + 2))
        assert found["missed"] == 0


SUMS = """
CONV_2D i8[2,9,7,64]*0.05 #pc0[24,1,1,64] #i32[24] SAME 1 1 NONE -> i8*0.3-10 | ADD $ i8[2,9,7,24]*0.2 RELU -> i8*0.4-9
GROUPED_CONV_2D u8[1,5,7,64]*0.05 #pc0[8,3,3,32] #i32[8] SAME 1 1 2 NONE nhwc -> u8*0.9+99 | SUB u8[1,5,7,8]*0.7 $ NONE
""".strip().splitlines()
"""Products of which an epilogue makes sums with other tensors."""


@pytest.mark.numbers
@pytest.mark.parametrize("tile", ["register", "shared"])
@pytest.mark.parametrize("place", range(len(SUMS)))
def test_an_epilogue_behind_split_k_is_verified(
    as_gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, place: int, tile: str
) -> None:
    """Eight buffers are all that some devices bind, so biases lie in one with the multipliers."""
    row = parse(SUMS[place])
    right, found = reference(row), Counter[str]()
    for strategy in forced_strategies(
        monkeypatch, as_gpu, partial(plan_of, as_gpu, row.model, row.inputs, PrepareOptions()), tile
    ):
        if strategy.split_k == 1:
            continue
        plan = plan_of(as_gpu, row.model, row.inputs, VERIFIED)
        (product,) = (each for each in plan.commands if isinstance(each, Dispatch) and each.shader.family == "gemm")
        assert product.shader.name.endswith("split_checked.fused")
        assert len(product.tensors) == 8
        for ours, theirs in zip(run(as_gpu, row.model, row.inputs, right), right, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        found += outcomes(as_gpu, row.model, row.inputs, right, range(FAULTS))
    assert found["missed"] == 0
    assert found["found"] > FAULTS // 2


@pytest.mark.numbers
@pytest.mark.parametrize("place", range(len(BY_CHANNEL_ROWS)))
def test_each_tile_of_a_depthwise_convolution_stores_check_words(
    device: VulkanDevice, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    row, every = parse(BY_CHANNEL_ROWS[place]), depthwise_conv2d.tiles
    works: list[list[DepthwiseTile]] = []
    monkeypatch.setattr(depthwise_conv2d, "tiles", lambda *arguments: works.append(every(*arguments)) or works[-1])
    plan_of(device, row.model, row.inputs, PrepareOptions())
    for tile in works[0]:
        monkeypatch.setattr(depthwise_conv2d, "tiles", lambda *_, tile=tile: [tile])
        plan = plan_of(device, row.model, row.inputs, VERIFIED)
        assert families(plan)[BY_CHANNEL.name] == 1
        for ours, theirs in zip(run(device, row.model, row.inputs, reference(row)), reference(row), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        found = outcomes(device, row.model, row.inputs, reference(row), range(place, place + 4))
        assert found["missed"] == 0


@pytest.mark.parametrize("code", ["i8", "u8"])
def test_workgroups_of_gpus_share_rows_and_channels(as_gpu: VulkanDevice, code: str) -> None:
    """There are fewer rows, or pixels, than a large GPU has units."""
    rows = {
        "SLICES": f"CONV_2D {code}[1,7,5,80]*0.05 #pc0[16,3,3,80] #i32[16] SAME 1 1 NONE -> {code}*0.9",
        "BLOCK": f"DEPTHWISE_CONV_2D {code}[1,7,5,96]*0.05+3 #pc3[1,3,3,96] #i32[96] SAME 1 1 1 NONE -> {code}*0.08",
    }
    for constant, text in rows.items():
        row = parse(text)
        plan, right = plan_of(as_gpu, row.model, row.inputs, VERIFIED), reference(row)
        (checking,) = (each for each in plan.commands if isinstance(each, Dispatch) and each.shader.family in CHECKING)
        address = plan.addresses[checking.tensors["filters"].number]
        words = next(data for place, data in plan.constants if place == address)
        (product,) = products(checking, np.asarray(words))
        has_several = (
            checking.shader.named_constants(checking.specialization).get(constant, product.get("block", 0)) > 1
        )
        assert has_several == (constant == "BLOCK" or as_gpu.profile.units > 4)
        for ours, theirs in zip(run(as_gpu, row.model, row.inputs, right), right, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        found = outcomes(as_gpu, row.model, row.inputs, right, range(2 * FAULTS))
        assert found["missed"] == 0
        assert found["found"] > FAULTS


def test_long_lines_are_verified_in_parts(own: VulkanDevice) -> None:
    """The window is too large for registers, so that a tile is a pixel."""
    row = parse("DEPTHWISE_CONV_2D u8[1,3,1201,4]*0.05+120 #pc3[1,3,11,4] #i32[4] SAME 1 1 1 NONE -> u8*0.8+100")
    plan = plan_of(own, row.model, row.inputs, VERIFIED)
    assert families(plan)[BY_CHANNEL.name] == 1
    for ours, theirs in zip(run(own, row.model, row.inputs, reference(row)), reference(row), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_everything_may_be_computed_twice(own: VulkanDevice, place: int) -> None:
    row = parse(ROWS[place])
    plain = families(plan_of(own, row.model, row.inputs, PrepareOptions()))
    twice = families(plan_of(own, row.model, row.inputs, PrepareOptions(redundancy=Redundancy.DUPLICATION)))
    assert twice[CHECKSUM.name] == 0
    assert all(twice[family] == 2 * count for family, count in plain.items())


def test_products_without_a_variant_for_it_are_computed_by_another_shader(fresh: VulkanDevice) -> None:
    row = parse(ROWS[2])
    fresh.planner.profile = replace(fresh.planner.profile, avoided=frozenset({variant(fresh.profile).name}))
    found = families(plan_of(fresh, row.model, row.inputs, VERIFIED))
    assert (found[CHECKSUM.name], found[EXACT.name], found["gemm"]) == (0, 1, 1)


def test_check_words_of_a_workgroup_are_so_few_that_their_places_are_exact() -> None:
    """Channels of an input that two outputs each see can't be divided into blocks."""
    axis = Axis(8, 3, 1, 1, 1, 1, 8)
    for channels, is_possible in ((1 << 10, True), (1 << 22, False)):
        gemm = Gemm((1, 8, 8, channels // 2), (1, 8, 8, channels), axis, axis)
        assert is_possible_by_channel(GPU, gemm, (1, 1)) == is_possible
