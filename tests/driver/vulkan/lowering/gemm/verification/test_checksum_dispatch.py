"""Dispatches that verify several products: they find what those of a product each would find."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from faults import overwritten, replaced, without_command
from fused import I8, U8, Net, Op
from verified import VERIFIED, outcomes, plan_of, run

from nnvk.base.errors import VerificationError
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering import verification
from nnvk.driver.vulkan.lowering.gemm.verification.checksum import BY_CHANNEL, CHECKSUM, products
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.commands import Dispatch, Storage, binding_of
from nnvk.types.codes import FuseCode, OperandCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType
from nnvk.types.request import PrepareOptions

CHECKING = {CHECKSUM.name, BY_CHANNEL.name}
PRODUCTS = {"gemm", "depthwise_conv2d"}
SCALE, OF_WEIGHTS = 0.05, 0.001


def convolution(net: Net, code: OperandCode, source: int, shape: tuple[int, ...], zero: int) -> int:
    """A convolution with random filters of this shape, depthwise if its first dimension is 1."""
    by_channel, middle = shape[0] == 1, 0 if code is I8 else 128
    values = (net.rng.integers(-127, 128, shape) + middle).astype(OperandType(code).dtype)
    weights = net.build.constant(OperandType(code, shape, OF_WEIGHTS, middle), values)
    outputs = shape[-1 if by_channel else 0]
    numbers = net.rng.integers(-900, 900, outputs).astype(np.int32)
    bias = net.build.constant(OperandType(OperandCode.TENSOR_INT32, (outputs,), SCALE * OF_WEIGHTS), numbers)
    rest = [1, 1, 1, *([1] if by_channel else []), FuseCode.NONE]
    op = Op.DEPTHWISE_CONV_2D if by_channel else Op.CONV_2D
    type_ = OperandType(code, (), SCALE, zero + middle)
    return net.build.operation(op, [source, weights, bias, *map(net.code, rest)], type_)


def blocks(code: OperandCode) -> tuple[Model, list[np.ndarray]]:
    """Three blocks: a product, a depthwise convolution, and a product to which the block's input is added."""
    net, middle = Net(), 0 if code is I8 else 128
    x = net.input(1, 11, 7, 8, code=code, scale=SCALE, zero=middle + 3)
    x = convolution(net, code, x, (16, 3, 3, 8), -5)
    for place in range(3):
        wide = 16 * (place + 2)
        expanded = convolution(net, code, x, (wide, 1, 1, 16), 7 * place)
        filtered = convolution(net, code, expanded, (1, 3, 3, wide), -9)
        less = convolution(net, code, filtered, (16, 1, 1, wide), place)
        type_ = OperandType(code, (), SCALE, middle + 5)
        x = net.build.operation(Op.ADD, [less, x, net.code(FuseCode.NONE)], type_)
    pool = [2, 1, 1, 2, 2, FuseCode.NONE]
    return net.finish(net.build.operation(Op.AVERAGE_POOL_2D, [x, *map(net.code, pool)], type_)), net.arrays


@pytest.fixture(autouse=True)
def with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """All products wait as long as they can."""
    monkeypatch.setattr(verification, "most_held", lambda *_: 1 << 30)


def dispatches(plan: Plan, families: set[str]) -> dict[int, Dispatch]:
    every = enumerate(plan.commands)
    return {place: each for place, each in every if isinstance(each, Dispatch) and each.shader.family in families}


def counts(plan: Plan) -> list[int]:
    """How many products the dispatches verify."""
    return [int(each.push["products"]) for each in dispatches(plan, CHECKING).values()]


def right_of(device: VulkanDevice, model: Model, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs without verification."""
    shapes = plan_of(device, model, inputs, PrepareOptions()).output_shapes
    return run(device, model, inputs, [np.zeros(shape, inputs[0].dtype) for shape in shapes], options=PrepareOptions())


def assert_equal(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def misses_no_fault(device: VulkanDevice, code: OperandCode, faults: int) -> None:
    model, inputs = blocks(code)
    plan = plan_of(device, model, inputs, VERIFIED)
    assert sum(counts(plan)) == 10
    assert max(counts(plan)) >= 3
    assert len(counts(plan)) <= 6
    right = right_of(device, model, inputs)
    assert_equal(run(device, model, inputs, right), right)
    found = outcomes(device, model, inputs, right, range(faults))
    assert found["missed"] == 0
    assert found["found"] > faults // 3


@pytest.mark.parametrize("code", [I8, U8], ids=lambda code: code.name)
def test_products_that_share_dispatches_miss_no_fault(own: VulkanDevice, code: OperandCode) -> None:
    misses_no_fault(own, code, 54)


def test_products_that_share_dispatches_of_gpus_miss_no_fault(as_gpu: VulkanDevice) -> None:
    model, inputs = blocks(I8)
    plain, verified = (plan_of(as_gpu, model, inputs, options) for options in (PrepareOptions(), VERIFIED))
    by_themselves = len(dispatches(verified, {"depthwise_conv2d"}))
    assert by_themselves == len(dispatches(plain, {"depthwise_conv2d"}))
    assert by_themselves < (3 if as_gpu.profile.has_small_subgroups else 1)
    misses_no_fault(as_gpu, I8, 18)


def test_verifications_in_a_row_need_no_barriers(own: VulkanDevice) -> None:
    """They write flags alone; a tensor that one of them does not write stands for nothing that others use."""
    model, inputs = blocks(I8)
    plan = plan_of(own, model, inputs, VERIFIED)
    places = dispatches(plan, CHECKING)
    behind = {place for place in places if place - 1 in places}
    assert behind
    if own.profile.barriers_by_buffer:
        pytest.skip("the device has barriers by buffer")
    assert plan.barriers.isdisjoint(behind)


def _with_overwritten(plan: Plan, position: int, product: Dispatch, by_buffer: bool) -> Plan:
    """The plan with other bytes in the results of a product, behind it."""
    rng = np.random.default_rng(position)
    return overwritten(plan, position + 1, [product.tensors["dst"]], 4, rng, by_buffer)


def test_an_error_names_the_product_among_those_of_a_dispatch(device: VulkanDevice) -> None:
    model, inputs = blocks(I8)
    right, by_buffer = right_of(device, model, inputs), device.profile.barriers_by_buffer
    for position, product in dispatches(plan_of(device, model, inputs, VERIFIED), PRODUCTS).items():
        wrong = partial(_with_overwritten, position=position, product=product, by_buffer=by_buffer)
        with pytest.raises(VerificationError) as raised:
            run(device, model, inputs, right, wrong)
        said = [f"OP_FAILED: {model.operations[each]}: the checksum" for each in (product.operation, *product.fused)]
        assert str(raised.value).startswith(tuple(said))


def test_a_dispatch_that_is_missing_is_found(own: VulkanDevice) -> None:
    model, inputs = blocks(I8)
    right = right_of(own, model, inputs)
    for place in dispatches(plan_of(own, model, inputs, VERIFIED), CHECKING):

        def without(plan: Plan, place: int = place) -> Plan:
            return without_command(plan, place, by_buffer=own.profile.barriers_by_buffer)

        with pytest.raises(VerificationError):
            run(own, model, inputs, right, without)


def test_a_product_that_is_missing_in_a_table_is_found(own: VulkanDevice) -> None:
    """Its workgroups verify the product in front of it once more."""
    model, inputs = blocks(I8)
    right = right_of(own, model, inputs)

    def changed(plan: Plan) -> Plan:
        checking = max(dispatches(plan, CHECKING).values(), key=lambda each: int(each.push["products"]))
        commands = [
            replace(each, push={**each.push, "products": 1}) if each is checking else each for each in plan.commands
        ]
        return replace(plan, commands=tuple(commands))

    with pytest.raises(VerificationError, match="some checksums of results were not compared"):
        run(own, model, inputs, right, changed)


def test_tensors_of_a_dispatch_lie_in_one_page_or_it_verifies_one_product(fresh: VulkanDevice) -> None:
    model, inputs = blocks(I8)
    plan = plan_of(fresh, model, inputs, VERIFIED)
    largest = max(address.nbytes for address in plan.addresses.values())
    fresh.planner.profile = replace(fresh.planner.profile, max_buffer=-(-largest // 4096) * 4096)
    apart = plan_of(fresh, model, inputs, VERIFIED)
    assert len(apart.pages[Storage.ARENA]) > 1
    assert counts(apart) == [1] * 10
    right = right_of(fresh, model, inputs)
    assert_equal(run(fresh, model, inputs, right), right)


def test_tables_have_the_distances_of_tensors(own: VulkanDevice) -> None:
    model, inputs = blocks(I8)
    plan = plan_of(own, model, inputs, VERIFIED)
    constants = dict(plan.constants)
    for dispatch in dispatches(plan, CHECKING).values():
        rows = products(dispatch, np.asarray(constants[plan.addresses[dispatch.tensors["filters"].number]]))
        for name, tensor in dispatch.tensors.items():
            first, own_place = (plan.addresses[each.number] for each in (dispatch.tensors[binding_of(name)], tensor))
            number = int(name.partition("#")[2] or 0)
            assert first.page == own_place.page
            if name != "filters" and binding_of(name) in rows[number]:
                assert (rows[number][binding_of(name)] - (own_place.offset - first.offset) // 4) % 2**32 == 0


def test_plans_in_files_keep_their_tables(fresh: VulkanDevice, tmp_path: Path) -> None:
    model, inputs = blocks(I8)
    options = replace(VERIFIED, cache=tmp_path / "plan")
    made, lowered = plan_of(fresh, model, inputs, options), fresh.planner.lower
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fresh.planner, "lower", None)
        kept = plan_of(fresh, model, inputs, options)
        assert kept is not made
        assert counts(kept) == counts(made)
        assert lowered is not None
        right = run(fresh, model, inputs, right_of_shapes(made, inputs), options=options)
    assert_equal(right, right_of(fresh, model, inputs))


def right_of_shapes(plan: Plan, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [np.zeros(shape, inputs[0].dtype) for shape in plan.output_shapes]


def test_products_wait_only_in_memory_that_is_needed_anyway(own: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = blocks(I8)
    plans: dict[int, Plan] = {}
    for most in (0, 1 << 30):
        monkeypatch.setattr(verification, "most_held", lambda *_, most=most: most)
        plans[most] = plan_of(own, model, inputs, VERIFIED)
    assert counts(plans[0]) == [1] * 10
    assert plans[0].most_alive < plans[1 << 30].most_alive


def test_a_table_that_changes_is_found_at_once(own: VulkanDevice) -> None:
    """The sizes of a product decide how long loops are."""
    model, inputs = blocks(I8)
    right, by_buffer = right_of(own, model, inputs), own.profile.barriers_by_buffer
    plan = plan_of(own, model, inputs, VERIFIED)
    position, checking = max(dispatches(plan, CHECKING).items(), key=lambda item: int(item[1].push["products"]))
    words = plan.addresses[checking.tensors["filters"].number].nbytes // 4
    for place in range(int(checking.push["table"]), words, 5):

        def changed(plan: Plan, place: int = place) -> Plan:
            wrong = np.array([0x7FEDCBA9], np.uint32)
            return replaced(plan, position, checking.tensors["filters"], place, wrong, by_buffer)

        with pytest.raises(VerificationError):
            run(own, model, inputs, right, changed)
