"""Small networks of several operations, built with the public API."""

from __future__ import annotations

import numpy as np
from builder import Builder

from nnvk.api import FuseCode, Model, OperandCode, OperandType, OperationCode, PaddingCode

F32 = OperandCode.TENSOR_FLOAT32
CLASSES = 5


def classifier(batch: int = 0, seed: int = 0) -> Model:
    """[batch, 6, 6, 4] -> probabilities [batch, 5]: convolution, pool, matrix product, softmax. Batch 0 is open."""
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32) / 4

    build, values = Builder(), OperandType(F32)

    def apply(code: OperationCode, source: int, *rest: np.ndarray | float, type_: OperandType = values) -> int:
        return build.operation(code, [source, *map(build.value, rest)], type_)

    source = build.operand(OperandType(F32, (batch, 6, 6, 4)))
    same, relu, none = PaddingCode.SAME, FuseCode.RELU, FuseCode.NONE
    features = apply(OperationCode.CONV_2D, source, weights(8, 3, 3, 4), weights(8), same, 1, 1, relu)
    pooled = apply(OperationCode.AVERAGE_POOL_2D, features, PaddingCode.VALID, 2, 2, 2, 2, none)
    logits = apply(OperationCode.FULLY_CONNECTED, pooled, weights(CLASSES, 72), weights(CLASSES), none)
    result = apply(OperationCode.SOFTMAX, logits, 1.0, type_=OperandType(F32, (batch, CLASSES)))
    return build.finish([source], [result])


def increment(size: int = 1000) -> Model:
    """[size] -> [size]: every element and one, in two operations."""
    build = Builder()
    source = build.operand(OperandType(F32, (size,)))
    half = build.value(np.full(1, 0.5, np.float32))
    first = build.operation(OperationCode.ADD, [source, half], OperandType(F32))
    return build.finish([source], [build.operation(OperationCode.ADD, [first, half], OperandType(F32, (size,)))])


def images(batch: int, seed: int = 1) -> np.ndarray:
    """Input of `classifier`."""
    return np.random.default_rng(seed).standard_normal((batch, 6, 6, 4), np.float32)


def random_graph(seed: int) -> Model:
    """Operations on what came before, some of it several times, some of it as an output of the model too."""
    rng = np.random.default_rng(seed)
    build, type_ = Builder(), OperandType(F32)
    inputs = [build.operand(OperandType(F32, (4, 8))) for _ in range(rng.integers(1, 4))]
    shape, one = build.value(np.array([4, 8], np.int32)), build.value(1.0)
    weights = build.value(rng.standard_normal(8).astype(np.float32))
    values, outputs = list(inputs), []
    for _ in range(rng.integers(2, 16)):
        first, second = (values[int(index)] for index in rng.integers(0, len(values), 2))
        code, arguments = [
            (OperationCode.RELU, (first,)),
            (OperationCode.TANH, (first,)),
            (OperationCode.RESHAPE, (first, shape)),
            (OperationCode.ADD, (first, second)),
            (OperationCode.MUL, (first, weights)),
            (OperationCode.SOFTMAX, (first, one)),
        ][rng.integers(6)]
        values.append(build.operation(code, arguments, type_))
        if rng.random() < 0.25:
            outputs.append(values[-1])
    if values[-1] not in outputs:
        outputs.append(values[-1])
    return build.finish(inputs, outputs)
