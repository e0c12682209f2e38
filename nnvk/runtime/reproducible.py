"""Checks of reproducible compilations: their operations have defined bits, and their devices compute these."""

from __future__ import annotations

from collections.abc import Sequence

from nnvk.base.errors import bad_data
from nnvk.ops.reproducible import refuse
from nnvk.runtime.devices import Device
from nnvk.types.model import Lifetime, Model, Operation


def check_reproducible(model: Model, devices: Sequence[Device] = ()) -> None:
    """Raise BAD_DATA if one of the devices, or an operation of the model or of one that it refers to, is refused."""
    for device in devices:
        if not device.driver.reproduces:
            raise bad_data(f"{device.name} does not compute reproducible floats")
    for each in (*model.referenced(), model):
        for number, operation in enumerate(each.operations):
            if reason := refusal(each, operation):
                raise bad_data(f"operation {number} ({operation}): {reason} (docs/reproducible.md)")


def refusal(model: Model, operation: Operation) -> str | None:
    """Why an operation has no reproducible results; None if it has."""
    operands = (model.operands[index] for index in (*operation.inputs, *operation.outputs))
    given = (operand.type for operand in operands if operand.lifetime is not Lifetime.NO_VALUE)
    return refuse(operation.code, given)
