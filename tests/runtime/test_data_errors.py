"""An error that only the data of an execution shows is OP_FAILED, on every device and in every way of computing.

An error that an argument shows by itself is BAD_DATA when the argument is set.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from builder import Builder
from samples import BOOL8, INT, add_model, compiled, execution, f32, if_model, raises

import nnvk
from nnvk import OperandCode, OperandType, OperationCode, ResultCode

I32 = OperandCode.TENSOR_INT32
ONES = np.ones((2, 3), np.float32)


@dataclass(frozen=True)
class Case:
    """A model and inputs that are each allowed, but not together."""

    model: Callable[[], nnvk.Model]
    inputs: tuple[object, ...]
    words: str


def late_activation() -> nnvk.Model:
    build = Builder()
    a, b, activation = build.operand(f32(2, 3)), build.operand(f32(2, 3)), build.operand(INT)
    output = build.operand(f32(2, 3))
    build.model.add_operation(OperationCode.ADD, [a, b, activation], [output])
    return build.finish([a, b, activation], [output])


def late_axis() -> nnvk.Model:
    build = Builder()
    source, axis = build.operand(f32(2, 3)), build.operand(INT)
    return build.finish([source, axis], [build.operation(OperationCode.EXPAND_DIMS, [source, axis], f32(0, 0, 0))])


def late_shape() -> nnvk.Model:
    build = Builder()
    source, shape = build.operand(f32(2, 3)), build.operand(OperandType(I32, (2,)))
    return build.finish([source, shape], [build.operation(OperationCode.RESHAPE, [source, shape], f32(0, 0))])


def gather() -> nnvk.Model:
    build = Builder()
    source, indices = build.operand(f32(2, 3)), build.operand(OperandType(I32, (2,)))
    inputs = [source, build.constant(INT, 0), indices]
    return build.finish([source, indices], [build.operation(OperationCode.GATHER, inputs, f32(2, 3))])


def open_if() -> nnvk.Model:
    """Its branches add and multiply what may not broadcast."""
    return if_model(f32(0))


CASES = {
    "an activation": Case(late_activation, (ONES, ONES, 999), "activation must be a FuseCode"),
    "an axis": Case(late_axis, (ONES, 7), "axis must be in"),
    "a shape": Case(late_shape, (ONES, np.array([4, 4], np.int32)), "shape"),
    "an index": Case(gather, (ONES, np.array([0, 2], np.int32)), "indices must be in"),
    "dimensions": Case(lambda: add_model(f32(0)), (np.ones(2, np.float32), np.ones(3, np.float32)), "broadcast"),
    "ranks": Case(lambda: add_model(f32()), (np.ones((1,) * 5, np.float32), np.ones(1, np.float32)), "rank 4 at most"),
    "within a branch": Case(open_if, (np.array([True]), np.ones(2, np.float32), np.ones(3, np.float32)), "broadcast"),
    "an omission": Case(lambda: add_model(f32(2, 3)), (ONES, None), "omitted"),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
RUNS: dict[str, Callable[[nnvk.Execution], object]] = {
    "compute": lambda run: run.compute(),
    "start_compute": lambda run: run.start_compute().wait(),
    "start_compute_with_dependencies": lambda run: run.start_compute_with_dependencies([]).wait(),
    "burst_compute": lambda run: run.burst_compute(nnvk.Burst(run.compilation)),
}


def prepared(case: Case, *devices: nnvk.Device) -> nnvk.Execution:
    compilation = compiled(case.model(), *devices)
    (type_,) = compilation.model.output_types()
    run = execution(compilation, case.inputs, [], reusable=True)
    full = None if type_.is_fully_specified else type_.with_dimensions([1] * (len(type_.dimensions) or 1))
    run.set_output(0, np.zeros((full or type_).dimensions, np.float32), full)
    return run


@cases
@pytest.mark.parametrize("compute", RUNS.values(), ids=RUNS)
def test_data_that_breaks_a_rule(device: nnvk.Device, case: Case, compute: Callable[[nnvk.Execution], object]) -> None:
    support = case.model().get_support(device)
    if not all(answer.supported for answer in support):
        pytest.skip(support[0].reason)
    run = prepared(case, device)
    for _ in range(2):
        with raises(ResultCode.OP_FAILED, case.words):
            compute(run)
        with raises(ResultCode.BAD_STATE, "failed"):
            run.get_output_operand_dimensions(0)


@cases
def test_no_other_device_is_tried_in_vain(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    """Where the runtime chooses the devices, the CPU does not take over what it can't do either."""
    run = prepared(case)
    with caplog.at_level(logging.WARNING, "nnvk"), raises(ResultCode.OP_FAILED, case.words):
        run.compute()
    if case.words != "omitted":  # the CPU can do without some inputs that others can't do without
        assert not caplog.records


def test_what_an_argument_shows_by_itself(device: nnvk.Device) -> None:
    run = nnvk.Execution(compiled(add_model(f32(0, 3)), device))
    for wrong in (np.ones((2, 4), np.float32), np.ones((2, 3), np.int32), np.ones(3, np.float32)):
        with raises(ResultCode.BAD_DATA, "input 0"):
            run.set_input(0, wrong)
    with raises(ResultCode.BAD_DATA, "input 0"):
        run.set_input(0, np.ones((2, 3), np.float32), f32(2, 4))
    with raises(ResultCode.BAD_DATA, "output 0"):
        run.set_output(0, np.ones((2, 3), np.int32))
    with raises(ResultCode.BAD_DATA, "input 0 was not set"):
        run.compute()


def test_a_condition_of_no_truth_value_is_refused_when_it_is_set(device: nnvk.Device) -> None:
    run = nnvk.Execution(compiled(if_model(), device))
    with raises(ResultCode.BAD_DATA, "input 0"):
        run.set_input(0, np.array([True, False]))
    run.set_input(0, np.array([True]), BOOL8)
