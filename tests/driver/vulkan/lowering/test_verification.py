"""Verified plans: no false alarm on right results, and no fault of a device that changes a result stays unseen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from faults import KINDS, computing, overwritten, with_fault
from kernel_cases import KERNELS, supported
from networks import classifier, images
from verified import FLOAT_CELLS

from nnvk.base.errors import UnfitData, VerificationError
from nnvk.check.model_rows import empty_like, parse, reference, request
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.compared import Subject
from nnvk.driver.vulkan.lowering.gemm.tiles.subgroup import uses_subgroups
from nnvk.driver.vulkan.lowering.verification import EXCHANGE
from nnvk.driver.vulkan.planning.plan import Address, Plan, Verification
from nnvk.driver.vulkan.shaders.commands import Dispatch, Storage
from nnvk.ops import registry
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Model
from nnvk.types.operand import Shape
from nnvk.types.request import ExecuteOptions, PrepareOptions, Redundancy

ROWS = """
ADD f32[2,3,5] f32[5] RELU6
AVERAGE_POOL_2D i8[2,5,3,4]*0.5+3 SAME 1 1 2 2 NONE nchw
SOFTMAX f32[7,40]  1.0f
LOGISTIC i8[13]*0.05+3 -> i8*0.00390625-128
CONCATENATION u8[2,3]*0.5+3 u8[2,5]*0.25+9 u8[2,1]*0.5+3 1
PAD i8[2,3,5]*0.5+3 (0,1;2,0;1,1)
CONV_2D u8[1,5,7,3]*0.05+120 #pc0[5,3,3,3] #i32[5] SAME 1 1 RELU -> u8*0.08+100
CONV_2D i8[2,9,7,16]*0.05+12 #pc0[24,1,1,16] #i32[24] SAME 1 1 NONE -> i8*0.3-10
CONV_2D f32[2,4,5,7] #f32[8,3,3,4] #f32[8] SAME 1 1 NONE nchw
DEPTHWISE_CONV_2D i8[1,7,6,8]*0.05-3 #pc3[1,3,3,8] #i32[8] SAME 1 1 1 RELU6 -> i8*0.08-20
FULLY_CONNECTED i8[5,33]*0.05-7 i8[7,33]*0.02+5 i32[7] RELU -> i8*0.08-20
BATCH_MATMUL i8[3,9,22]*0.5+3 i8[3,22,5]*0.25-7 -> i8*9.5-20
TRANSPOSE f32[3,5,7] (2,0,1)
MEAN u8[40,5]*0.5+3 (0) 0
GATHER f32[3,5] @1 @(4,0,4)
DEPTHWISE_CONV_2D f32[1,7,6,8] #f32[1,3,3,8] #f32[8] SAME 1 1 1 RELU6
""".strip().splitlines()
FAULTS = 300
PRODUCTS = {"gemm", "fully_connected", "depthwise_conv2d"}
CHECKING = {"gemm_checksum", "depthwise_checksum", "gemm_exact", "depthwise_exact"}
"""The shaders that multiply, and those that verify their results."""


def run(device: VulkanDevice, model: Model, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """Execute a model verified."""
    prepared = device.prepare_model(model, PrepareOptions(redundancy=Redundancy.CHECKSUMS))
    prepared.execute(request(inputs, outputs), ExecuteOptions())


@contextmanager
def planning(device: VulkanDevice, change: Callable[[Plan], Plan]) -> Iterator[None]:
    """The device with plans that are changed once they are made."""
    with pytest.MonkeyPatch.context() as patch:
        plan = device.planner.plan
        patch.setattr(device.planner, "plan", lambda *arguments: change(plan(*arguments)))
        yield


@pytest.mark.parametrize(("code", "leading"), KERNELS)
@pytest.mark.crossed
def test_results_are_those_of_a_plain_plan(own: VulkanDevice, code: OperationCode, leading: OperandCode) -> None:
    _, row = next(supported(own, code, leading, range(200, 210)))
    verified, plain = empty_like(reference(row)), empty_like(reference(row))
    run(own, row.model, row.inputs, verified)
    own.prepare_model(row.model, PrepareOptions()).execute(request(row.inputs, plain), ExecuteOptions())
    # Products of floats, also of recurrent cells, are added up in another order in verified plans.
    has_products = code in FLOAT_CELLS or registry.lookup(code).traits.gemm is not None
    nearly = 1e-5 if has_products and leading is OperandCode.TENSOR_FLOAT32 else 0.0
    for ours, theirs in zip(verified, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=nearly, atol=nearly)


def test_a_plain_plan_has_no_comparison(vulkan: VulkanDevice) -> None:
    plan, verified = (
        vulkan.planner.plan(classifier(1).frozen, [(1, 6, 6, 4)], PrepareOptions(redundancy=wanted))
        for wanted in (Redundancy.NONE, Redundancy.DUPLICATION)
    )
    families = Counter(command.shader.family for command in plan.commands if isinstance(command, Dispatch))
    again = Counter(command.shader.family for command in verified.commands if isinstance(command, Dispatch))
    assert plan.verification is None
    assert families.keys().isdisjoint({"verification"} | CHECKING)
    assert again.pop("verification") == len(verified.verification.subjects)
    assert again == families + families


EXACT = {
    "gemm": "CONV_2D i8[2,9,7,16]*0.05+12 #pc0[24,1,1,16] #i32[24] SAME 1 1 NONE -> i8*0.3-10",
    "depthwise_conv2d": "DEPTHWISE_CONV_2D i8[1,57,56,8]*0.05-3 #pc3[1,3,3,8] #i32[8] SAME 1 1 1 NONE -> i8*0.08-20",
}


@pytest.mark.parametrize("family", EXACT)
def test_exact_numbers_are_multiplied_by_another_strategy(as_gpu: VulkanDevice, family: str) -> None:
    plan = verified_plan(as_gpu, EXACT[family], Redundancy.DUPLICATION)
    products = [each for each in plan.commands if isinstance(each, Dispatch) and each.shader.family == family]
    assert len({(each.shader.name, each.specialization) for each in products}) == len(products) == 2
    if family == "gemm":
        assert len({each.shader.name for each in products}) == 2


CELLS = "quantized_sums", "quantized_lstm_step", "quantized_16bit_lstm"
"""The shaders that add up products for the gates of cells."""


@pytest.mark.parametrize(
    ("code", "leading"),
    [
        (OperationCode.QUANTIZED_LSTM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED),
        (OperationCode.QUANTIZED_16BIT_LSTM, OperandCode.TENSOR_QUANT8_ASYMM),
    ],
)
def test_sums_of_cells_take_another_variant(device: VulkanDevice, code: OperationCode, leading: OperandCode) -> None:
    """One has another tile, or other instructions, if the device has any."""
    _, row = next(supported(device, code, leading, range(300, 310)))
    options = PrepareOptions(redundancy=Redundancy.DUPLICATION)
    plan = device.planner.plan(row.model, [array.shape for array in row.inputs], options)
    names: dict[str, Counter[str]] = {}
    for each in plan.commands:
        if isinstance(each, Dispatch) and each.shader.family in CELLS:
            names.setdefault(each.shader.family, Counter())[each.shader.name] += 1
    assert names
    has_others = uses_subgroups(device.profile) or device.profile.has_dots
    for counts in names.values():
        assert len(counts) == (2 if has_others else 1)
        assert not has_others or len(set(counts.values())) == 1


def test_devices_with_few_registers_take_another_strategy_that_compiles_quickly(fresh: VulkanDevice) -> None:
    fresh.planner.profile = replace(fresh.planner.profile, is_cpu=False, subgroup_size=16)
    plan = verified_plan(fresh, EXACT["gemm"], Redundancy.DUPLICATION)
    products = [each for each in plan.commands if isinstance(each, Dispatch) and each.shader.family == "gemm"]
    assert {each.shader.name for each in products} == {"gemm.q8.register.float.whole.plain"}
    assert len({each.specialization for each in products}) == len(products) == 2


def verified_plan(device: VulkanDevice, text: str, redundancy: Redundancy = Redundancy.CHECKSUMS) -> Plan:
    row, options = parse(text), PrepareOptions(redundancy=redundancy)
    return device.planner.plan(row.model, [array.shape for array in row.inputs], options)


def _faulty(device: VulkanDevice, model: Model, inputs: list[np.ndarray], right: list[np.ndarray], seed: int) -> str:
    """Execute a model with a fault: whether it was found, was without effect, or was missed."""
    kind = KINDS[seed % len(KINDS)]
    by_buffer = device.profile.barriers_by_buffer
    outputs = empty_like(right)
    with planning(device, lambda plan: with_fault(plan, kind, seed, by_buffer=by_buffer)):
        try:
            run(device, model, inputs, outputs)
        except (VerificationError, UnfitData):  # the flag of a device assertion may be what was overwritten
            return "found"
    same = all(ours.tobytes() == theirs.tobytes() for ours, theirs in zip(outputs, right, strict=True))
    return "harmless" if same else f"missed: {kind}, seed {seed}"


@pytest.mark.parametrize("place", range(len(ROWS) + 1))
def test_no_fault_that_changes_a_result_is_missed(own: VulkanDevice, place: int) -> None:
    if place < len(ROWS):
        row = parse(ROWS[place])
        model, inputs, right = row.model, row.inputs, empty_like(reference(row))
    else:
        model, inputs, right = classifier(3).frozen, [images(3)], [np.zeros((3, 5), np.float32)]
    run(own, model, inputs, right)
    count = FAULTS // (len(ROWS) + 1) + 1
    found = Counter(_faulty(own, model, inputs, right, seed) for seed in range(place * count, (place + 1) * count))
    assert [outcome for outcome in found if outcome.startswith("missed")] == []
    assert found["found"] >= count // 3


def test_an_error_names_the_operation_the_element_and_both_values(own: VulkanDevice) -> None:
    row = parse(ROWS[0])

    def with_wrong_sum(plan: Plan) -> Plan:
        position = next(place for place in computing(plan) if isinstance(plan.commands[place], Dispatch))
        sums, rng = plan.commands[position].writes, np.random.default_rng(3)
        return overwritten(plan, position + 1, sums, 4, rng, own.profile.barriers_by_buffer)

    with (
        planning(own, with_wrong_sum),
        pytest.raises(VerificationError, match=r"^OP_FAILED: ADD.*: element \[[01], [012], [0-4]\] of .* is .* and"),
    ):
        run(own, row.model, row.inputs, empty_like(reference(row)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([1, 0, 7, 0x3F800000, 0x40000000, 0], "ADD: element [0, 1, 2] of output is 1.0 by one computation and 2.0 by"),
        ([1, 0, 30, 1, 2, 3], "element 30 of output is"),
        ([1, 9, 0, 1, 2, 3], "the report of a difference is wrong itself: [1, 9, 0, 1, 2, 3]"),
        ([1, 0, 0, 5, 5, 3], "the report of a difference is wrong itself"),
        ([1, 1, 3, 0x40000000, 0, 3], "an exchange with the host: element [0, 0, 3] of output 0 is 2.0"),
        (
            [0, 0, 0, 0, 0, 2],
            "checksums of results were not compared: their numbers add up to 0x00000002, not to 0x00000003",
        ),
    ],
)
def test_reports_are_worded(words: list[int], said: str) -> None:
    subjects = Subject(0, "output", "float32", (2, 3, 5)), Subject(EXCHANGE, "output 0", "float32", (2, 3, 5))
    verification, reported = Verification(Address(Storage.STAGING, 0, 0, 24), subjects, 3), np.array(words, np.uint32)
    assert verification.has_failed(reported)
    assert said in verification.worded(parse(ROWS[0]).model, reported)


@pytest.mark.parametrize(
    ("shape", "tile", "place", "said"),
    [
        ((2, 5, 7, 3), (16,), 0, "16 rows from [0, 0, 0]"),
        ((2, 5, 7, 3), (16,), 64, "6 rows from [1, 4, 1]"),
        ((19, 3), (4,), 16, "3 rows from [16]"),
        ((2, 5, 7, 3), (2, 4), 35, "2 x 4 pixels from [1, 0, 0]"),
        ((2, 5, 7, 3), (2, 4), 67, "1 x 3 pixels from [1, 4, 4]"),
        ((2, 5, 7, 3), (16,), 70, "1 rows from 70"),
    ],
)
def test_tiles_are_worded(shape: Shape, tile: Shape, place: int, said: str) -> None:
    verification = Verification(Address(Storage.STAGING, 0, 0, 24), (Subject(0, "output", "int8", shape, tile),))
    reported = verification.worded(parse(ROWS[0]).model, np.array([1, 0, place, 1, 2, 0], np.uint32))
    sums = "0x00000001 as computed and 0x00000002 by inputs and memory"
    assert f"the checksum of the tile of {said} of output on is {sums}" in reported


def test_bytes_are_found_in_their_words() -> None:
    subject = Subject(0, "output", "int8", (3, 3))
    verification = Verification(Address(Storage.STAGING, 0, 0, 24), (subject,))
    said = verification.worded(parse(ROWS[0]).model, np.array([1, 0, 1, 0x00FF0001, 0x00FE0001, 0], np.uint32))
    assert "element [2, 0] of output is -1 by one computation and -2 by another one" in said


CASES = """
CONV_2D | 8 bits, constant filters | i8[2,9,7,16]*0.05+12 #pc0[24,1,1,16] #i32[24] SAME 1 1 NONE -> i8*0.3-10
GROUPED_CONV_2D | 8 bits, constant filters | i8[1,7,6,8]*0.05-3 #pc0[8,3,3,4] #i32[8] SAME 1 1 2 NONE nhwc -> i8*0.08-20
FULLY_CONNECTED | 8 bits, constant filters | i8[19,33]*0.05-7 #i8[8,33]*0.02 #i32[8] RELU -> i8*0.08-20
DEPTHWISE_CONV_2D | 8 bits, constant filters | i8[1,7,6,8]*0.05-3 #pc3[1,3,3,8] #i32[8] SAME 1 1 1 NONE -> i8*0.08-20
CONV_2D | 16 bits | i16[2,5,7,8]*0.001 #i8[7,3,2,8]*0.02+0 #i32[14] VALID 2 1 RELU -> i16*3000
GROUPED_CONV_2D | 16 bits | i16[1,5,5,8]*0.001 #pc0[8,3,3,4] #i32[16] SAME 1 1 2 RELU nhwc -> i16*3000
DEPTHWISE_CONV_2D | 16 bits | i16[1,7,5,6]*0.001 #pc3[1,3,3,6] #i32[12] SAME 1 1 1 NONE -> i16*3000
TRANSPOSE_CONV_2D | 16 bits | i16[2,5,3,3]*0.001 #pc0[5,2,3,3] #i32[5] 1 0 0 2 3 1 RELU nhwc -> i16*0.01
FULLY_CONNECTED | 16 bits | i16[5,257]*0.001 #i8[7,257]*0.02+0 #i32[7] NONE -> i16*0.05
BATCH_MATMUL | 32-bit integers | i32[3,9,22] i32[3,22,8]
GROUPED_CONV_2D | 8 bits, computed filters | u8[1,7,6,8]*1 u8[8,3,3,4]*1 i32[8] SAME 1 1 2 NONE nhwc -> u8*9
TRANSPOSE_CONV_2D | 8 bits, computed filters | u8[1,5,3,4]*1 u8[8,3,3,4]*1 i32[8] (1,9,5,8) SAME 2 2 NONE nhwc -> u8*9
TRANSPOSE_CONV_2D | 8 bits, constant filters | u8[1,5,3,4]*1 #u8[8,3,3,4]*1 #i32[8] (1,9,5,8) SAME 2 2 NONE nhwc -> u8*9
CONV_2D | 32-bit floats | f32[2,9,7,16] #f32[24,1,1,16] #f32[24] SAME 1 1 NONE
GROUPED_CONV_2D | 32-bit floats | f32[1,7,6,8] #f32[8,3,3,4] #f32[8] SAME 1 1 2 NONE nhwc
GROUPED_CONV_2D | 16-bit floats | f16[1,7,6,8] #f16[8,3,3,4] #f16[8] SAME 1 1 2 NONE nhwc
FULLY_CONNECTED | 32-bit floats | f32[19,33] #f32[7,33] #f32[7] RELU
BATCH_MATMUL | 32-bit floats | f32[3,9,22] f32[3,22,5]
BATCH_MATMUL | 16-bit floats | f16[3,9,22] f16[3,22,5]
DEPTHWISE_CONV_2D | 32-bit floats | f32[2,11,13,8] #f32[1,3,3,8] #f32[8] SAME 1 1 1 RELU6
TRANSPOSE_CONV_2D | 32-bit floats | f32[1,9,7,16] #f32[8,3,3,16] #f32[8] (1,18,14,8) SAME 2 2 NONE nhwc
CONV_2D | 8 bits, computed filters | i8[2,9,7,16]*0.05+12 i8[24,1,1,16]*0.02 i32[24] SAME 1 1 NONE -> i8*0.3-10
FULLY_CONNECTED | 8 bits, computed filters | i8[19,33]*0.05-7 i8[8,33]*0.02+5 i32[8] RELU -> i8*0.08-20
BATCH_MATMUL | 8 bits, computed filters | i8[3,9,22]*0.5+3 i8[3,22,5]*0.25-7 -> i8*9.5-20
DEPTHWISE_CONV_2D | 8 bits, computed filters | i8[1,7,6,8]*0.05-3 i8[1,3,3,8]*0.02 i32[8] SAME 1 1 1 NONE -> i8*0.08-20
CONV_2D | 16-bit floats | f16[2,9,7,16] #f16[24,1,1,16] #f16[24] SAME 1 1 NONE
CONV_2D | 32-bit floats, 8-bit weights | f32[2,9,7,32] #f32i8[16,1,1,32] #f32[16] SAME 1 1 NONE
FULLY_CONNECTED | 32-bit floats, 8-bit weights | f32[19,64] #f32i8[40,64] #f32[40] RELU
FULLY_CONNECTED | 16-bit floats | f16[19,33] #f16[7,33] #f16[7] RELU
DEPTHWISE_CONV_2D | 16-bit floats | f16[2,11,13,8] #f16[1,3,3,8] #f16[8] SAME 1 1 1 RELU6
TRANSPOSE_CONV_2D | 16-bit floats | f16[1,9,7,16] #f16[8,3,3,16] #f16[8] (1,18,14,8) SAME 2 2 NONE nhwc
"""


EPILOGUES = {
    "CONV_2D f32[1,9,7,32] #f32[16,1,1,32] #f32[16] SAME 1 1 NONE | ADD $ f32[1,9,7,16] RELU": True,
    "CONV_2D f32[1,9,7,32] #f32[16,1,1,32] #f32[16] SAME 1 1 NONE | HARD_SWISH $": False,
    "CONV_2D f32[1,9,7,32] #f32[16,1,1,32] #f32[16] SAME 1 1 RELU | ADD $ f32[1,9,7,16] NONE": False,
    "DEPTHWISE_CONV_2D f32[1,9,7,8] #f32[1,3,3,8] #f32[8] SAME 1 1 1 NONE | ADD $ f32[1,9,7,8] NONE": True,
    "BATCH_MATMUL f32[3,9,20] f32[3,20,8] false false | ADD $ f32[3,9,8] NONE": True,
    "BATCH_MATMUL f32[3,9,20] f32[3,20,8] false false | TANH $": False,
    "CONV_2D u8[1,9,7,8]*1 #u8[16,1,1,8]*1 #i32[16] SAME 1 1 NONE -> u8*7 | ADD $ u8[1,9,7,16]*1 NONE -> u8*7": True,
    "CONV_2D u8[1,9,7,8]*1 #u8[16,1,1,8]*1 #i32[16] SAME 1 1 NONE -> u8*7 | ADD $ u8[16]*1 NONE -> u8*7": False,
    "CONV_2D u8[1,9,7,8]*1 #u8[16,1,1,8]*1 #i32[16] SAME 1 1 NONE -> u8*0.1 | LOGISTIC $ -> u8*0.00390625": False,
    "CONV_2D u8[1,9,7,8]*1 u8[16,1,1,8]*1 #i32[16] SAME 1 1 NONE -> u8*7 | ADD $ u8[1,9,7,16]*1 NONE -> u8*7": False,
    "BATCH_MATMUL i8[3,9,20]*1 i8[3,20,8]*1 false false -> i8*20 | ADD $ i8[3,9,8]*9 NONE -> i8*30": False,
}
"""Products with an operation that is fused to them, and whether their verification knows it."""


@pytest.mark.parametrize("place", range(len(EPILOGUES)))
def test_verified_products_have_epilogues_that_their_verification_knows(vulkan: VulkanDevice, place: int) -> None:
    text, is_known = list(EPILOGUES.items())[place]
    row = parse(text)
    shapes = [array.shape for array in row.inputs]
    plans = [
        vulkan.planner.plan(row.model, shapes, PrepareOptions(redundancy=redundancy))
        for redundancy in (Redundancy.NONE, Redundancy.CHECKSUMS)
    ]
    products = [
        [each.shader.name for each in plan.commands if isinstance(each, Dispatch) and each.shader.family in PRODUCTS]
        for plan in plans
    ]
    assert [name.endswith(".fused") for name in products[0]] == [True]
    assert [name.endswith(".fused") for name in products[1]] == [is_known]
    assert sum(isinstance(each, Dispatch) and each.shader.family in CHECKING for each in plans[1].commands) == 1
    first, second = (empty_like(reference(row)) for _ in plans)
    vulkan.prepare_model(row.model, PrepareOptions()).execute(request(row.inputs, first), ExecuteOptions())
    run(vulkan, row.model, row.inputs, second)
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def documented() -> dict[tuple[str, str], str]:
    """The table of docs/verification.md: what verifies products, by the operation and its numbers."""
    table = {}
    for line in (Path(__file__).parents[4] / "docs" / "verification.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `") and line.count("|") == 4:
            products, numbers, way = (cell.strip() for cell in line.strip("|").split("|"))
            table |= {(code.strip("`"), numbers): way for code in products.split(", ")}
    return table


def test_the_document_says_what_verifies_products(vulkan: VulkanDevice) -> None:
    cases = [tuple(part.strip() for part in line.split("|")) for line in CASES.strip().splitlines()]
    table = documented()
    assert {(code, numbers) for code, numbers, _ in cases} == table.keys()
    for code, numbers, text in cases:
        every = [each for each in verified_plan(vulkan, f"{code} {text}").commands if isinstance(each, Dispatch)]
        products = [each for each in every if each.shader.family in PRODUCTS]
        kind, _, shader = table[code, numbers].partition(": ")
        checking = {each.shader.family for each in every} & CHECKING
        assert checking == {shader.strip("`")}, (code, numbers)
        assert len(products) == 1, (code, numbers)
        assert kind in ("checksums", "another shader"), (code, numbers)
