"""Devices that are wrong, or refuse, as tests of insight want them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from decorators import Decorated

import nnvk
from nnvk import OperationCode
from nnvk.driver.cpu import CpuDevice
from nnvk.hal import IPreparedModel
from nnvk.types.model import Model
from nnvk.types.request import PrepareOptions


class Mistaken(Decorated):
    """Takes one operation for another of the same operands."""

    def __init__(self, taken: OperationCode, for_: OperationCode) -> None:
        super().__init__(CpuDevice())
        self._taken, self._for = taken, for_

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        operations = (
            replace(operation, code=self._for) if operation.code is self._taken else operation
            for operation in model.operations
        )
        return super().prepare_model(replace(model, operations=tuple(operations)), options)


@pytest.fixture
def subtracts() -> nnvk.Device:
    """A device that subtracts where it should add."""
    return nnvk.Device(Mistaken(OperationCode.ADD, OperationCode.SUB))


@pytest.fixture
def reference() -> nnvk.Device:
    return nnvk.get_device("nnapi-reference")
