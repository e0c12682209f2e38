"""One operation at a time: bind, infer and compute it from plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nnvk.ops import registry
from nnvk.ops.call import Call
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType, Shape

_TENSORS = {
    np.dtype(np.float32): OperandCode.TENSOR_FLOAT32,
    np.dtype(np.float16): OperandCode.TENSOR_FLOAT16,
    np.dtype(np.int32): OperandCode.TENSOR_INT32,
    np.dtype(np.bool_): OperandCode.TENSOR_BOOL8,
}
_QUANTISED = {
    np.dtype(np.uint8): OperandCode.TENSOR_QUANT8_ASYMM,
    np.dtype(np.int8): OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
}


def _operand(value: Any) -> Operand:
    """The operand for a plain value, see `Ops`."""
    if isinstance(value, Operand):
        return value
    if value is None:
        return Operand(OperandType(OperandCode.INT32), Lifetime.NO_VALUE)
    if isinstance(value, Model):
        return Operand(OperandType(OperandCode.MODEL), Lifetime.SUBGRAPH, subgraph=value)
    if isinstance(value, OperandType):
        return Operand(value, Lifetime.SUBGRAPH_INPUT)
    if isinstance(value, tuple):
        data, scale, zero_point = value
        return Operand(OperandType(_QUANTISED[data.dtype], data.shape, scale, zero_point), Lifetime.CONSTANT, data)
    if isinstance(value, np.ndarray):
        return Operand(OperandType(_TENSORS[value.dtype], value.shape), Lifetime.CONSTANT, value)
    if isinstance(value, bool):
        return Operand(OperandType(OperandCode.BOOL), Lifetime.CONSTANT, np.array(value))
    if isinstance(value, int):
        return Operand(OperandType(OperandCode.INT32), Lifetime.CONSTANT, np.array(value, np.int32))
    scalar = np.asarray(value, value.dtype if isinstance(value, np.floating) else np.float32)
    code = OperandCode.FLOAT16 if scalar.dtype == np.float16 else OperandCode.FLOAT32
    return Operand(OperandType(code), Lifetime.CONSTANT, scalar)


class Ops:
    """Binds and runs operations.

    An input is an array (its dtype gives the type), ``(array, scale, zero point)`` for a quantised tensor, a Python
    or NumPy number for a scalar, a `Model`, None where it is omitted, an `OperandType` where its value is not known,
    or an `Operand`. Outputs are types; by default there is one, of the first tensor's type, of unknown dimensions.
    """

    def call(self, code: OperationCode, *inputs: Any, outputs: Sequence[OperandType] | None = None) -> Call:
        """The bound operation."""
        operands = [_operand(value) for value in inputs]
        if outputs is None:
            leading = next(operand.type for operand in operands if operand.type.is_tensor)
            outputs = [leading.with_dimensions(())]
        results = [Operand(type_, Lifetime.SUBGRAPH_OUTPUT) for type_ in outputs]
        count = len(operands)
        operation = Operation(code, tuple(range(count)), tuple(range(count, count + len(results))))

        def shape_of(index: int) -> Shape | None:
            operand = (operands + results)[index]
            if operand.value is not None:
                return operand.value.shape
            return operand.type.dimensions if operand.type.is_fully_specified else None

        return registry.bind(operation, operands + results, lambda index: operands[index].value, shape_of)

    def infer(
        self, code: OperationCode, *inputs: Any, outputs: Sequence[OperandType] | None = None
    ) -> list[Shape] | None:
        """Shapes of the outputs, None where they are not known."""
        return registry.infer(self.call(code, *inputs, outputs=outputs))

    def run(self, code: OperationCode, *inputs: Any, outputs: Sequence[OperandType] | None = None) -> list[np.ndarray]:
        """The outputs, which have the dtypes and shapes that inference promised."""
        call = self.call(code, *inputs, outputs=outputs)
        shapes = registry.infer(call)
        reference = registry.lookup(code).reference
        assert shapes is not None and reference is not None
        result = reference(call)
        arrays = result if isinstance(result, list) else [result]
        assert [array.shape for array in arrays] == shapes
        assert [array.dtype for array in arrays] == [output.dtype for output in call.outputs]
        return arrays


@pytest.fixture(scope="session")
def ops() -> Ops:
    """The fixture runs one operation at a time."""
    return Ops()
