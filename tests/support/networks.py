"""Small networks of several operations, built with the public API."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnvk.api import FuseCode, Model, OperandCode, OperandType, OperationCode, PaddingCode
from nnvk.types import model as frozen
from nnvk.types.model import Lifetime, Operand, Operation

F32, I32, INT32, FLOAT32 = (
    OperandCode.TENSOR_FLOAT32,
    OperandCode.TENSOR_INT32,
    OperandCode.INT32,
    OperandCode.FLOAT32,
)
CLASSES = 5


class Builder:
    """A model in the making."""

    def __init__(self) -> None:
        self.model = Model()

    def constant(self, value: np.ndarray | int | float) -> int:
        """A constant operand."""
        if isinstance(value, np.ndarray):
            type_ = OperandType(F32 if value.dtype == np.float32 else I32, value.shape)
        else:
            type_ = OperandType(INT32 if isinstance(value, int) else FLOAT32)
        index = self.model.add_operand(type_)
        self.model.set_operand_value(index, value)
        return index

    def apply(self, code: OperationCode, *inputs: int | np.ndarray | float, output: tuple[int, ...] = ()) -> int:
        """An operation on operands (the first) and constants; its output."""
        first, *rest = inputs
        result = self.model.add_operand(OperandType(F32, output))
        self.model.add_operation(code, [int(first), *(self.constant(value) for value in rest)], [result])
        return result


def classifier(batch: int = 0, seed: int = 0) -> Model:
    """[batch, 6, 6, 4] -> probabilities [batch, 5]: convolution, pool, matrix product, softmax. Batch 0 is open."""
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32) / 4

    b = Builder()
    source = b.model.add_operand(OperandType(F32, (batch, 6, 6, 4)))
    same, relu, none = int(PaddingCode.SAME), int(FuseCode.RELU), int(FuseCode.NONE)
    features = b.apply(OperationCode.CONV_2D, source, weights(8, 3, 3, 4), weights(8), same, 1, 1, relu)
    pooled = b.apply(OperationCode.AVERAGE_POOL_2D, features, int(PaddingCode.VALID), 2, 2, 2, 2, none)
    logits = b.apply(OperationCode.FULLY_CONNECTED, pooled, weights(CLASSES, 72), weights(CLASSES), none)
    result = b.apply(OperationCode.SOFTMAX, logits, 1.0, output=(batch, CLASSES))
    b.model.identify_inputs_and_outputs([source], [result])
    b.model.finish()
    return b.model


def increment(size: int = 1000) -> Model:
    """[size] -> [size]: every element and one, in two operations."""
    b = Builder()
    source = b.model.add_operand(OperandType(F32, (size,)))
    half = np.full(1, 0.5, np.float32)
    first = b.apply(OperationCode.ADD, source, half, int(FuseCode.NONE))
    result = b.apply(OperationCode.ADD, first, half, int(FuseCode.NONE), output=(size,))
    b.model.identify_inputs_and_outputs([source], [result])
    b.model.finish()
    return b.model


def images(batch: int, seed: int = 1) -> np.ndarray:
    """Input of `classifier`."""
    return np.random.default_rng(seed).standard_normal((batch, 6, 6, 4), np.float32)


def random_graph(seed: int) -> frozen.Model:
    """Operations on what came before, some of it several times, some of it as an output of the model too."""
    rng = np.random.default_rng(seed)
    type_ = OperandType(F32)
    operands = [Operand(replace(type_, dimensions=(4, 8)), Lifetime.SUBGRAPH_INPUT) for _ in range(rng.integers(1, 4))]
    inputs = tuple(range(len(operands)))
    shape = Operand(OperandType(OperandCode.TENSOR_INT32, (2,)), Lifetime.CONSTANT, np.array([4, 8], np.int32))
    zero = Operand(OperandType(OperandCode.INT32), Lifetime.CONSTANT, np.array(0, np.int32))
    weights = rng.standard_normal(8).astype(np.float32)
    constant = Operand(replace(type_, dimensions=(8,)), Lifetime.CONSTANT, weights)
    extra = len(operands)
    one = Operand(OperandType(OperandCode.FLOAT32), Lifetime.CONSTANT, np.array(1.0, np.float32))
    operands += [shape, zero, constant, one]
    values, operations, outputs = list(inputs), [], []
    for _ in range(rng.integers(2, 16)):
        first, second = (values[int(index)] for index in rng.integers(0, len(values), 2))
        code, arguments = [
            (OperationCode.RELU, (first,)),
            (OperationCode.TANH, (first,)),
            (OperationCode.RESHAPE, (first, extra)),
            (OperationCode.ADD, (first, second, extra + 1)),
            (OperationCode.MUL, (first, extra + 2, extra + 1)),
            (OperationCode.SOFTMAX, (first, extra + 3)),
        ][rng.integers(6)]
        is_output = rng.random() < 0.25
        operands.append(Operand(type_, Lifetime.SUBGRAPH_OUTPUT if is_output else Lifetime.TEMPORARY_VARIABLE))
        operations.append(Operation(code, arguments, (len(operands) - 1,)))
        values.append(len(operands) - 1)
        if is_output:
            outputs.append(values[-1])
    if values[-1] not in outputs:
        operands[-1] = replace(operands[-1], lifetime=Lifetime.SUBGRAPH_OUTPUT)
        outputs.append(values[-1])
    return frozen.Model(tuple(operands), tuple(operations), inputs, tuple(outputs))
