"""Reproducible compilations: what they refuse, where they compute, and what they override."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from builder import Builder
from decorators import Decorated
from samples import add_model, compiled, execution, f32, raises, unary_model

import nnvk
from nnvk import OperationCode, ResultCode
from nnvk.base.settings import override
from nnvk.driver.cpu import CpuDevice
from nnvk.hal import IDevice
from nnvk.types.codes import OperandCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType
from nnvk.types.request import PrepareOptions

Use = Callable[[Sequence[IDevice]], list[nnvk.Device]]
ONES = np.ones((2, 2), np.float32)


class Observed(Decorated):
    """The CPU device under another name, which remembers the models that it prepares."""

    def __init__(self, name: str, reproduces: bool) -> None:
        super().__init__(CpuDevice(), name)
        self.reproduces = reproduces
        self.models: list[Model] = []

    def prepare_model(self, model: Model, options: PrepareOptions):
        self.models.append(model)
        return super().prepare_model(model, options)


def reproducible(model: nnvk.Model, devices: Sequence[nnvk.Device] | None = None) -> nnvk.Compilation:
    compilation = nnvk.Compilation(model, devices)
    compilation.set_reproducible()
    compilation.finish()
    return compilation


def test_an_operation_without_defined_bits_is_refused() -> None:
    model = unary_model(OperationCode.ABS)
    reproducible(model)
    build = Builder()
    source = build.operand(f32(2, 2))
    first = build.operation(OperationCode.ABS, [source], f32(2, 2))
    seeds, type_ = build.value(np.array([1, 2], np.int32)), OperandType(OperandCode.TENSOR_INT32, (2, 3))
    last = build.operation(OperationCode.RANDOM_MULTINOMIAL, [first, build.value(3), seeds], type_)
    with raises(ResultCode.BAD_DATA, r"operation 1 \(RANDOM_MULTINOMIAL\): its arithmetic .*docs/reproducible\.md"):
        reproducible(build.finish([source], [last]))


def test_a_device_that_may_compute_other_bits_is_refused(use_devices: Use) -> None:
    devices = use_devices([Observed("other", reproduces=False), CpuDevice()])
    with raises(ResultCode.BAD_DATA, "other does not compute reproducible floats"):
        reproducible(add_model(), devices[:1])


def test_where_nnvk_chooses_it_takes_devices_with_these_bits(use_devices: Use) -> None:
    drivers = [Observed("other", reproduces=False), Observed("own", reproduces=True), CpuDevice()]
    use_devices(drivers)
    compilation = reproducible(add_model())
    assert [partition.device.name for partition in compilation.partitions] == ["own"]
    outputs = [np.zeros((2, 2), np.float32)]
    execution(compilation, [ONES, ONES], outputs).compute()
    assert (outputs[0] == 2).all()


def test_models_that_are_referred_to_are_reproducible_as_well(use_devices: Use) -> None:
    driver = Observed("own", reproduces=True)
    devices = use_devices([driver])
    flag, pair = nnvk.OperandType(nnvk.OperandCode.TENSOR_BOOL8, (1,)), f32(2, 2)
    build = Builder()
    inputs = [build.operand(flag), build.operand(pair)]
    branches = [build.reference(unary_model(code, pair)) for code in (OperationCode.ABS, OperationCode.NEG)]
    output = build.operation(OperationCode.IF, [inputs[0], *branches, inputs[1]], pair)
    model = build.finish(inputs, [output])
    compiled(model, devices[0])
    reproducible(model, devices)
    plain, other = driver.models
    assert not any(each.reproducible for each in (plain, *plain.referenced()))
    assert all(each.reproducible and not each.relaxed for each in (other, *other.referenced()))


def test_a_relaxed_model_is_computed_as_if_it_were_not(use_devices: Use) -> None:
    driver = Observed("own", reproduces=True)
    devices = use_devices([driver])
    build = Builder()
    source = build.operand(f32(2, 2))
    output = build.operation(OperationCode.ABS, [source], f32(2, 2))
    build.model.relax_computation_float32_to_float16(True)
    reproducible(build.finish([source], [output]), devices)
    assert [model.relaxed for model in driver.models] == [False]


def test_the_variable_is_the_default(use_devices: Use) -> None:
    driver = Observed("own", reproduces=True)
    devices = use_devices([driver])
    with override(reproducible=True):
        compiled(add_model(), devices[0])
        compilation = nnvk.Compilation(add_model(), devices)
        compilation.set_reproducible(False)
        compilation.finish()
    assert [model.reproducible for model in driver.models] == [True, False]


def test_it_is_set_before_the_end() -> None:
    compilation = compiled(add_model(), nnvk.get_devices()[-1])
    with raises(ResultCode.BAD_STATE, "set_reproducible"):
        compilation.set_reproducible()


@pytest.mark.parametrize("device", nnvk.get_devices(), ids=lambda device: device.name)
def test_every_way_to_execute_has_the_same_bits(device: nnvk.Device) -> None:
    """Alone, in the background, in a burst, fenced, and with sizes that come with the execution."""
    rng = np.random.default_rng(2)
    left, right = rng.standard_normal((7, 23)).astype(np.float32), rng.standard_normal((5, 23)).astype(np.float32)
    build = Builder()
    source = build.operand(nnvk.OperandType(nnvk.OperandCode.TENSOR_FLOAT32, (0, 23)))
    operands = [source, build.value(right), build.value(np.zeros(5, np.float32)), build.value(0)]
    result = build.operation(OperationCode.FULLY_CONNECTED, operands, f32(7, 5))
    compilation = reproducible(build.finish([source], [result]), [device])
    want = np.zeros((7, 5), np.float32)
    for k in range(23):
        want += left[:, k, np.newaxis] * right[:, k]
    burst = nnvk.Burst(compilation)
    ways = {
        "compute": lambda execution: execution.compute(),
        "start_compute": lambda execution: execution.start_compute().wait(),
        "burst_compute": lambda execution: execution.burst_compute(burst),
        "fenced": lambda execution: execution.start_compute_with_dependencies([]).wait(),
    }
    for name, compute in ways.items():
        got = np.zeros((7, 5), np.float32)
        compute(execution(compilation, [left], [got]))
        np.testing.assert_array_equal(got, want, err_msg=name)
