"""Control flow within control flow: each model is planned and prepared once, and there is a limit."""

from __future__ import annotations

import numpy as np
import pytest
from builder import Builder
from decorators import Decorated
from samples import BOOL8, SQUARE, compiled, raises, unary_model

import nnvk
from nnvk import OperandCode, OperandType, OperationCode, ResultCode
from nnvk.driver.vulkan.planning.cache import _model_digest
from nnvk.hal import IDevice, Support
from nnvk.ops.check import validate_model
from nnvk.ops.control_flow import MOST_LEVELS, MOST_OPERATIONS
from nnvk.types.codes import ExtensionCode
from nnvk.types.model import Lifetime, Model, Operand, Operation


class Leaves(Decorated):
    """Leaves IF and WHILE to the runtime, and counts how often it is asked."""

    def __init__(self, inner: IDevice) -> None:
        super().__init__(inner)
        self.asked = 0

    def get_supported_operations(self, model: Model) -> list[Support]:
        self.asked += 1
        control = (OperationCode.IF, OperationCode.WHILE)
        return [Support("it is control flow" if operation.code in control else None) for operation in model.operations]


def nested(levels: int, width: int = 1) -> nnvk.Model:
    """RELU within so many levels of models, each of ``width`` IFs whose branches are both the next model."""
    inner = unary_model(OperationCode.RELU)
    takes_condition = False
    for _ in range(levels - 1):
        build = Builder()
        condition, current = build.operand(BOOL8), build.operand(SQUARE)
        inputs = [condition, current]
        for _ in range(width):
            handed_on = [condition, current] if takes_condition else [current]
            branches = [build.reference(inner), build.reference(inner)]
            current = build.operation(OperationCode.IF, [condition, *branches, *handed_on], SQUARE)
        inner, takes_condition = build.finish(inputs, [current]), True
    return inner


def frozen_nested(levels: int) -> Model:
    """Models within models that nobody has checked."""
    type_ = OperandType(OperandCode.MODEL)
    inner = unary_model().frozen
    for _ in range(levels - 1):
        models = [Operand(type_, Lifetime.SUBGRAPH, subgraph=inner)] * 2
        inner = Model((*inner.operands[:2], *models), inner.operations, inner.inputs, inner.outputs)
    return inner


def run(compilation: nnvk.Compilation) -> list[float]:
    (output,) = nnvk.run(compilation, [np.array([True]), np.array([[-1, 2], [-3, 4]], np.float32)])
    return output.reshape(-1).tolist()


def test_a_model_that_is_referred_to_often_is_prepared_once(cpu: nnvk.Device) -> None:
    driver = Leaves(cpu.driver)
    compilation = compiled(nested(8, 4), nnvk.Device(driver))
    assert driver.asked == 8
    assert len(driver.prepared) == 1
    assert [partition.operations for partition in compilation.partitions] == [(0,)]


def test_models_of_another_relaxed_setting_stay_shared(cpu: nnvk.Device) -> None:
    build = Builder()
    condition, source = build.operand(BOOL8), build.operand(SQUARE)
    inner = nested(20)
    inputs = [condition, build.reference(inner), build.reference(inner), condition, source]
    output = build.operation(OperationCode.IF, inputs, SQUARE)
    build.model.relax_computation_float32_to_float16(True)
    driver = Leaves(cpu.driver)
    compilation = compiled(build.finish([condition, source], [output]), nnvk.Device(driver))
    assert len(driver.prepared) == 1
    assert {model.relaxed for model in (compilation.model, *compilation.model.referenced())} == {True}


@pytest.mark.parametrize("levels", [2, 12, MOST_LEVELS])
def test_nested_models_on_every_device(cpu: nnvk.Device, levels: int) -> None:
    model = nested(levels)
    for among in ([], nnvk.get_devices(), [cpu]):
        assert run(compiled(model, *among)) == [0, 2, 0, 4]


def test_decisions_of_the_runtime_nest_as_deep(cpu: nnvk.Device) -> None:
    assert run(compiled(nested(MOST_LEVELS), nnvk.Device(Leaves(cpu.driver)))) == [0, 2, 0, 4]


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 400])
def test_models_are_not_nested_too_deep(levels: int) -> None:
    with raises(ResultCode.BAD_DATA, f"nested more than {MOST_LEVELS} deep"):
        nested(levels)


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 400, 5000])
def test_drivers_check_the_nesting_themselves(levels: int) -> None:
    model = frozen_nested(levels)
    with raises(ResultCode.BAD_DATA, f"nested more than {MOST_LEVELS} deep"):
        validate_model(model)
    assert model.with_relaxed(True).operands[2].subgraph is not None


def test_one_pass_takes_a_limited_number_of_operations() -> None:
    """Four IFs at each of so many levels: 4 to the power of their number."""
    assert 4**6 < MOST_OPERATIONS < 4**9
    nested(7, 4)
    with raises(ResultCode.BAD_DATA, "operations in one pass"):
        nested(10, 4)


def test_the_digest_of_a_cached_model_sees_all_of_it() -> None:
    """Each model once, and what is within it counts."""
    one, same, other = nested(30).frozen, nested(30).frozen, nested(31).frozen
    assert _model_digest(one) == _model_digest(same)
    assert _model_digest(one) != _model_digest(other)
    assert len(_model_digest(frozen_nested(5000))) == 64


def test_a_model_is_described_without_those_that_it_refers_to() -> None:
    assert len(repr(frozen_nested(3000))) < 4000


# --- operands of type MODEL --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [OperationCode.IF, OperationCode.WHILE], ids=lambda code: code.name)
@pytest.mark.parametrize("place", [0, 1])
def test_the_models_of_control_flow_are_no_inputs(code: OperationCode, place: int) -> None:
    build = Builder()
    condition, source = build.operand(BOOL8), build.operand(SQUARE)
    late = build.operand(OperandType(OperandCode.MODEL))
    models = [build.reference(unary_model()), build.reference(unary_model())]
    models[place] = late
    inputs = [condition, *models, source] if code is OperationCode.IF else [*models, source]
    output = build.operation(code, inputs, SQUARE)
    with raises(ResultCode.BAD_DATA, f"operand {late} is of type MODEL and refers to none"):
        build.finish([condition, source, late], [output])


@pytest.mark.parametrize("what", ["input", "output", "omitted"])
def test_operands_of_type_model_that_nothing_reads_refer_to_one_too(what: str) -> None:
    build = Builder()
    source, late = build.operand(SQUARE), build.operand(OperandType(OperandCode.MODEL))
    output = build.operation(OperationCode.RELU, [source], SQUARE)
    inputs, outputs = [source], [output]
    if what == "input":
        inputs.append(late)
    elif what == "output":
        build.model.add_operation(build.model.get_extension_operation_type("com.example", 0), [source], [late])
        outputs.append(late)
    else:
        build.model.set_operand_value(late, None)
    with raises(ResultCode.BAD_DATA, "of type MODEL and refers to none"):
        build.finish(inputs, outputs)


@pytest.mark.parametrize("lifetime", [Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT, Lifetime.NO_VALUE])
def test_drivers_check_operands_of_type_model_themselves(lifetime: Lifetime) -> None:
    model = unary_model().frozen
    late = Operand(OperandType(OperandCode.MODEL), lifetime)
    operations = (*model.operations, Operation(ExtensionCode("com.example", 0), (0,), (2,)))
    if lifetime is not Lifetime.SUBGRAPH_OUTPUT:
        operations = model.operations
    inputs = (*model.inputs, 2) if lifetime is Lifetime.SUBGRAPH_INPUT else model.inputs
    outputs = (*model.outputs, 2) if lifetime is Lifetime.SUBGRAPH_OUTPUT else model.outputs
    with raises(ResultCode.BAD_DATA, "MODEL stands for a model"):
        validate_model(Model((*model.operands, late), operations, inputs, outputs))
