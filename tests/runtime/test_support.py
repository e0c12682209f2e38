"""Devices say which operations of a model they support, in the order in which these were added."""

from __future__ import annotations

from typing import Any

import pytest
from decorators import Decorated
from samples import add_model, f32, raises

import nnvk
from nnvk import OperandCode, OperandType, OperationCode, ResultCode
from nnvk.hal import Support


def test_support_is_told_in_the_order_of_insertion(cpu: nnvk.Device) -> None:
    model = nnvk.Model()
    a, b, c = (model.add_operand(f32(2)) for _ in range(3))
    vendor = model.get_extension_operation_type("com.example", 0)
    model.add_operation(vendor, [b], [c])
    model.add_operation(OperationCode.NEG, [a], [b])
    model.identify_inputs_and_outputs([a], [c])
    model.finish()
    assert model.get_supported_operations_for_devices([cpu]) == [False, True]
    assert [support.supported for support in model.get_support(cpu)] == [False, True]


def test_support_in_two_forms(device: nnvk.Device) -> None:
    """LOG reads what CAST gives, but was added before it."""
    model = nnvk.Model()
    whole = OperandType(OperandCode.TENSOR_INT32, (2,))
    a, b, c = (model.add_operand(type_) for type_ in (whole, f32(2), f32(2)))
    model.add_operation(OperationCode.LOG, [b], [c])
    model.add_operation(OperationCode.CAST, [a], [b])
    model.identify_inputs_and_outputs([a], [c])
    model.finish()

    class OnlyLog(Decorated):
        def get_supported_operations(self, model: Any) -> list[Support]:
            return [
                Support(None if operation.code is OperationCode.LOG else "no LOG") for operation in model.operations
            ]

    only_log = nnvk.Device(OnlyLog(device.driver))
    assert [support.reason for support in model.get_support(only_log)] == [None, "no LOG"]
    assert model.get_supported_operations_for_devices([only_log]) == [True, False]
    assert model.get_supported_operations_for_devices([only_log, device]) == [
        True,
        model.get_support(device)[1].supported,
    ]


def test_support_by_several_devices(cpu: nnvk.Device) -> None:
    model = add_model()
    assert model.get_supported_operations_for_devices(nnvk.get_devices()) == [True]
    with raises(ResultCode.BAD_DATA, "empty"):
        model.get_supported_operations_for_devices([])
    with raises(ResultCode.BAD_DATA, "twice"):
        model.get_supported_operations_for_devices([cpu, cpu])


def test_a_reason_is_none_or_says_something() -> None:
    assert Support().supported
    assert not Support("no").supported
    with pytest.raises(ValueError, match="None or not empty"):
        Support("")
