"""The one way in which tests build models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import nnvk
from nnvk import OperandCode, OperandType, OperationCode
from nnvk.types.extension import KnownCode
from nnvk.types.model import Lifetime
from nnvk.types.model import Model as FrozenModel

FUSED = (OperationCode.ADD, OperationCode.SUB, OperationCode.MUL, OperationCode.DIV)
_TENSORS = {
    np.dtype(np.float32): OperandCode.TENSOR_FLOAT32,
    np.dtype(np.float16): OperandCode.TENSOR_FLOAT16,
    np.dtype(np.int32): OperandCode.TENSOR_INT32,
    np.dtype(np.bool_): OperandCode.TENSOR_BOOL8,
}
_SCALARS = {bool: OperandCode.BOOL, int: OperandCode.INT32, float: OperandCode.FLOAT32}


class Builder:
    """A model under construction; operands are named by their numbers.

    The finished model is an `nnvk.Model`; drivers take the ``frozen`` of it.
    """

    def __init__(self) -> None:
        self.model = nnvk.Model()

    def operand(self, type_: OperandType) -> int:
        """Add an operand, with its scales per channel where it has them."""
        channels = type_.channel_quant
        index = self.model.add_operand(replace(type_, channel_quant=None))
        if channels is not None:
            self.model.set_operand_symm_per_channel_quant_params(index, channels.channel_dim, channels.scales)
        return index

    def constant(self, type_: OperandType, value: Any) -> int:
        """Add an operand that has a value; None leaves it out."""
        index = self.operand(type_)
        self.model.set_operand_value(index, value)
        return index

    def value(self, value: np.ndarray | float) -> int:
        """Add a constant whose type follows from its value: a tensor from an array, a scalar from a number."""
        if isinstance(value, np.ndarray):
            return self.constant(OperandType(_TENSORS[value.dtype], value.shape), value)
        # IntEnum members are numbers too.
        kind = next(kind for kind in _SCALARS if isinstance(value, kind))
        return self.constant(OperandType(_SCALARS[kind]), kind(value))

    def reference(self, model: nnvk.Model | FrozenModel) -> int:
        """Add an operand that refers to a model."""
        index = self.operand(OperandType(OperandCode.MODEL))
        self.model.set_operand_value_from_model(index, model if isinstance(model, nnvk.Model) else rebuilt(model))
        return index

    def operation(self, code: KnownCode | int, inputs: Sequence[int], type_: OperandType) -> int:
        """Add an operation, with NONE as its activation where it is left out; the number of its output."""
        fused = [self.value(0)] if code in FUSED and len(inputs) == 2 else []
        return self.outputs(code, [*inputs, *fused], type_)[0]

    def outputs(self, code: KnownCode | int, inputs: Sequence[int], *types: OperandType) -> list[int]:
        """Add an operation with these inputs and no others; the numbers of its outputs."""
        outputs = [self.operand(type_) for type_ in types]
        self.model.add_operation(code, inputs, outputs)
        return outputs

    def finish(self, inputs: Sequence[int], outputs: Sequence[int]) -> nnvk.Model:
        """Identify inputs and outputs, and finish."""
        self.model.identify_inputs_and_outputs(inputs, outputs)
        self.model.finish()
        return self.model


def rebuilt(model: FrozenModel) -> nnvk.Model:
    """A finished model from a frozen one, for operands that refer to it."""
    build = Builder()
    for operand in model.operands:
        if operand.value is None and operand.lifetime is not Lifetime.NO_VALUE:
            build.operand(operand.type)
        else:
            build.constant(operand.type, operand.value)
    for operation in model.operations:
        build.model.add_operation(operation.code, operation.inputs, operation.outputs)
    return build.finish(model.inputs, model.outputs)
