"""Families of plans: a model that differs in sizes alone gets commands by another one's, or a plan of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fused import Net, Op, transposed

import nnvk
from nnvk.base.settings import override
from nnvk.driver.vulkan.planning import planner as planner_module
from nnvk.driver.vulkan.planning.family import PlanFamilies
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType
from nnvk.types.request import PrepareOptions


def layer(rows: int, seed: int = 0) -> Model:
    """Products and softmax along so many rows of 24 numbers, with a table that has a row for each."""
    net = Net(seed)
    x = net.input(rows, 24)
    net.rng = np.random.default_rng(seed)  # the same weights for each size
    moved = net.op(Op.ADD, x, np.arange(rows * 24, dtype=np.float32).reshape(rows, 24), net.code(0))
    turned = transposed(net, net.dense(moved, 24, 24), 1, 0)
    shares = net.op(Op.SOFTMAX, turned, 0.2)
    mixed = transposed(net, net.op(Op.MUL, shares, turned, net.code(0)), 1, 0)
    flat = net.op(Op.RESHAPE, net.dense(mixed, 40, 24), np.array([1, rows, 40], np.int32))
    return net.finish(flat)


def planned(planner: Planner, model: Model, options: PrepareOptions) -> Plan:
    return planner.plan(model, [type_.dimensions for type_ in model.input_types()], options)


def sharing() -> PrepareOptions:
    return PrepareOptions(families={})


def test_the_third_size_is_not_lowered(planner: Planner, lowered: list[Model]) -> None:
    options = sharing()
    with override(verify_sizes=False):
        plans = {rows: planned(planner, layer(rows), options) for rows in (33, 37, 41, 35, 43, 45)}
    assert len(lowered) == 2
    own = planned(planner, layer(43), PrepareOptions())
    names = [[each.shader.name for each in plan.commands if isinstance(each, Dispatch)] for plan in (own, plans[43])]
    assert names[0] == names[1]
    assert plans[43].output_shapes == ((1, 43, 40),)
    assert len({plan.pages[storage] for plan in plans.values() for storage in plan.pages}) > 3


def test_sizes_that_are_planned_otherwise_are_other_families(planner: Planner, lowered: list[Model]) -> None:
    options = sharing()
    for rows in (33, 37, 36, 40):
        planned(planner, layer(rows), options)
    (families,) = options.families.values()
    assert len(families) == 2


def test_constants_are_those_of_the_model(planner: Planner) -> None:
    options = sharing()
    for rows in (33, 37, 41):
        plan = planned(planner, layer(rows), options)
        table = np.arange(rows * 24, dtype=np.float32)
        assert any(np.array_equal(np.asarray(data).reshape(-1), table) for _, data in plan.constants), rows


def test_other_weights_are_another_model(planner: Planner, lowered: list[Model]) -> None:
    options = sharing()
    with override(verify_sizes=False):
        for rows, seed in ((33, 0), (37, 0), (41, 1)):
            planned(planner, layer(rows, seed), options)
    assert len(lowered) == 3
    assert lowered[-1].operands[lowered[-1].inputs[0]].type.dimensions == (41, 24)


def test_other_types_are_another_model() -> None:
    families, model = PlanFamilies(), layer(33)
    quantised = OperandType(OperandCode.TENSOR_FLOAT16, (37, 24))
    other = replace(model, operands=(replace(model.operands[0], type=quantised), *model.operands[1:]))
    for each in (model, other):
        assert families.lowered(each, [(33, 24)], lambda *_: pytest.fail("it is traced")) is None


def test_a_strategy_that_is_avoided_later(planner: Planner) -> None:
    options = sharing()
    plans = [planned(planner, layer(rows), options) for rows in (33, 37)]
    choice = next(each for each in plans[1].choices if len(each.candidates) > 1)
    other = choice.candidates[1]
    planner.autotune_results.add({choice.tuning_key: other})
    assert planned(planner, layer(37), options).choices != plans[1].choices
    chosen = {each.tuning_key: each.chosen for each in planned(planner, layer(37), options).choices}
    assert chosen[choice.tuning_key] == other


def test_code_that_takes_no_extents(
    planner: Planner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A plan for each size is made then, as without families."""
    before = planner_module.lowered

    def fails(model: Model, shapes: Any, *arguments: Any, **options: Any) -> Any:
        if type(shapes[0][0]) is not int:
            raise TypeError("an extent")
        return before(model, shapes, *arguments, **options)

    monkeypatch.setattr(planner_module, "lowered", fails)
    with override(verify_sizes=False):
        options = sharing()
        shapes = [planned(planner, layer(rows), options).output_shapes for rows in (33, 37)]
    assert shapes == [((1, 33, 40),), ((1, 37, 40),)]
    assert "plans of other sizes are made one by one" in caplog.text
    with pytest.raises(TypeError, match="an extent"):
        planned(planner, layer(41), options)


def test_a_plan_of_wrong_numbers_is_noticed(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    options = sharing()
    for rows in (33, 37):
        planned(planner, layer(rows), options)
    (families,) = options.families.values()
    evaluate = families._families[0]._evaluate
    monkeypatch.setattr(families._families[0], "_evaluate", lambda symbols: [7] * len(evaluate(symbols)))
    with pytest.raises(AssertionError, match="commands of other sizes differ"):
        planned(planner, layer(41), options)


@pytest.mark.parametrize("device", nnvk.get_devices(), ids=lambda device: device.name)
def test_dimensions_that_an_execution_gives(device: nnvk.Device) -> None:
    """The same model with other inputs, whose height and width differ."""
    weights = np.random.default_rng(0).normal(size=(5, 3, 3, 3)).astype(np.float32)
    model = nnvk.Model()
    x = model.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, (1, 0, 0, 3)))
    rest = [model.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, shape)) for shape in ((5, 3, 3, 3), (5,))]
    model.set_operand_value(rest[0], weights)
    model.set_operand_value(rest[1], np.zeros(5, np.float32))
    for value in (1, 2, 2, 0):
        rest.append(model.add_operand(OperandType(OperandCode.INT32)))
        model.set_operand_value(rest[-1], value)
    y = model.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, (1, 0, 0, 5)))
    model.add_operation(OperationCode.CONV_2D, [x, *rest], [y])
    model.identify_inputs_and_outputs([x], [y])
    model.finish()
    compilation = nnvk.Compilation.create_for_devices(model, [device])
    compilation.finish()
    reference = nnvk.Compilation.create_for_devices(model, [nnvk.get_device("nnapi-reference")])
    reference.finish()
    for height, width in ((7, 9), (11, 13), (13, 11), (5, 17), (23, 19), (8, 12), (16, 20), (1, 1)):
        image = np.random.default_rng(height).normal(size=(1, height, width, 3)).astype(np.float32)
        (result,), (expected,) = nnvk.run(compilation, [image]), nnvk.run(reference, [image])
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
