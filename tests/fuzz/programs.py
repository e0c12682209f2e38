"""Serialised models for the fuzzer: any bytes are a sequence of calls of the model builder, and then an execution."""

from __future__ import annotations

import numpy as np

from nnvk.api import Compilation, Device, Execution, Model, NnapiError, OperandCode, OperandType, run
from nnvk.ops import registry
from nnvk.ops.signature import Param, Signature
from nnvk.types.extension import KnownCode

TENSORS = [code for code in OperandCode if code.name.startswith("TENSOR_")]
SCALARS = [code for code in OperandCode if not code.name.startswith("TENSOR_") and code is not OperandCode.MODEL]
SCALES = (0.0, 0.5, 1 / 256, 1 / 128, 1e-30, 1e30, 0.05)
ZERO_POINTS = (0, 128, -128, 127, 255, 1, 32768)
VALID_ZERO_POINTS = {
    OperandCode.TENSOR_QUANT8_ASYMM: (0, 128, 255),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: (0, -128, 127),
    OperandCode.TENSOR_QUANT16_ASYMM: (0, 32768),
}
NUMBERS = (0, 1, 2, 3, -1, 4, 5, 7, -2, 100, -100, 2**31 - 1, -(2**31), 65536)
MOST_ELEMENTS = 4096
"""A constant has no more elements than this: the fuzzer looks for broken rules, not for full memory."""


class Bytes:
    """Choices, made by bytes; past the end all bytes are 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def byte(self) -> int:
        """The next byte."""
        self._position += 1
        return self._data[self._position - 1] if self._position <= len(self._data) else 0

    def pick(self, choices: list | tuple) -> object:  # type: ignore[type-arg]
        """One of the choices."""
        return choices[self.byte() % len(choices)]

    def chance(self, one_in: int) -> bool:
        """Whether the next byte says so; never past the end."""
        return self.byte() % one_in == one_in - 1

    def array(self, type: OperandType) -> np.ndarray:
        """Values of a type: small numbers, mostly, and all kinds of floats."""
        count = int(np.prod(type.dimensions, dtype=np.int64))
        seed = self.byte() << 8 | self.byte()
        random = np.random.default_rng(seed)
        if type.dtype.kind == "f":
            values = random.normal(size=count)
            if seed % 5 == 0 and count:
                values[random.integers(count)] = random.choice([np.nan, np.inf, -np.inf, 1e38, 1e-40])
            with np.errstate(all="ignore"):
                return values.astype(type.dtype).reshape(type.dimensions)
        if seed % 3:
            return random.integers(-3, 6, count).astype(type.dtype).reshape(type.dimensions)
        return random.integers(0, 256, count * type.dtype.itemsize, np.uint8).view(type.dtype).reshape(type.dimensions)


def execute(data: bytes, device: Device) -> str:
    """Build the model that ``data`` describes and execute it. Says how far that got; raises what is a bug."""
    source = Bytes(data)
    try:
        model, inputs = _build(source)
    except NnapiError as error:
        return f"refused by the builder: {error}"
    try:
        model.finish()
    except NnapiError as error:
        return f"refused by finish: {error}"
    try:
        compilation = Compilation(model, [device])
        compilation.finish()
    except NnapiError as error:
        return f"refused by the device: {error}"
    try:
        arrays: list[np.ndarray | None] = [None if source.chance(20) else source.array(type_) for type_ in inputs]
        run(compilation, arrays)
        _execute_badly(source, compilation)
    except NnapiError as error:
        return f"refused at execution: {error}"
    return "executed"


def _build(source: Bytes) -> tuple[Model, list[OperandType]]:
    model = Model()
    known: list[tuple[int, OperandType]] = []
    inputs: list[tuple[int, OperandType]] = []
    outputs: list[int] = []
    for _ in range(1 + source.byte() % 3):
        code = source.pick(list(registry.definitions()))
        assert isinstance(code, KnownCode)
        definition = registry.lookup(code)
        signature = source.pick(definition.signatures)
        assert isinstance(signature, Signature)
        leading = source.pick(list(definition.types))
        assert isinstance(leading, OperandCode)
        rank = source.byte() % 5
        shape = tuple(1 + source.byte() % 5 for _ in range(rank))
        count = len(signature.params) - source.byte() % 3 if source.chance(4) else len(signature.params)
        arguments = [
            _argument(source, model, param, leading, shape, known, inputs) for param in signature.spread(max(count, 1))
        ]
        results = []
        for param in Signature(*definition.outputs).spread(len(definition.outputs)):
            type_ = _type(source, param, leading, () if source.chance(2) else (0,) * rank)
            index = model.add_operand(type_)
            known.append((index, type_))
            results.append(index)
        model.add_operation(code, arguments, results)
        outputs += results
    if source.chance(10) and outputs:
        outputs.pop(source.byte() % len(outputs))
    model.identify_inputs_and_outputs([index for index, _ in inputs], outputs)
    model.relax_computation_float32_to_float16(source.chance(2))
    return model, [type_ for _, type_ in inputs]


def _type(source: Bytes, param: Param, leading: OperandCode, shape: tuple[int, ...]) -> OperandType:
    accepted = sorted(param.accepts(leading))
    code = source.pick(accepted) if accepted and not source.chance(30) else source.pick(TENSORS + SCALARS)
    assert isinstance(code, OperandCode)
    if code in SCALARS:
        return OperandType(code)
    quantised = code.name.startswith("TENSOR_QUANT")
    scale = SCALES[1 + source.byte() % (len(SCALES) - 1)] if quantised or source.chance(30) else 0.0
    zero_points = ZERO_POINTS if source.chance(30) else VALID_ZERO_POINTS.get(code, (0,))
    zero_point = zero_points[source.byte() % len(zero_points)]
    return OperandType(code, shape, scale if "CHANNEL" not in code.name else 0.0, zero_point)


def _argument(
    source: Bytes,
    model: Model,
    param: Param,
    leading: OperandCode,
    shape: tuple[int, ...],
    known: list[tuple[int, OperandType]],
    inputs: list[tuple[int, OperandType]],
) -> int:
    if known and source.chance(4):
        return known[source.byte() % len(known)][0]
    dimensions = shape
    if source.chance(3):
        dimensions = tuple(source.byte() % 4 for _ in range(source.byte() % 6))
    elif leading is not OperandCode.TENSOR_INT32 and param.accepts(leading) == {OperandCode.TENSOR_INT32}:
        dimensions = (len(shape), 2) if source.chance(3) else (len(shape),)
    type_ = _type(source, param, leading, dimensions)
    index = model.add_operand(type_)
    channels = type_.dimensions[0] if type_.dimensions else 0
    if type_.code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL and channels and not source.chance(8):
        model.set_operand_symm_per_channel_quant_params(index, 0, [0.5] * channels)
    if (param.optional and source.chance(4)) or type_.code is OperandCode.MODEL:
        model.set_operand_value(index, None)
    elif not type_.is_tensor and not source.chance(10):
        number = NUMBERS[source.byte() % len(NUMBERS)]
        with np.errstate(all="ignore"):
            model.set_operand_value(index, np.array(number).astype(type_.dtype))
    elif source.chance(2) and int(np.prod(dimensions, dtype=np.int64)) <= MOST_ELEMENTS:
        model.set_operand_value(index, source.array(type_))
    else:
        inputs.append((index, type_))
        known.append((index, type_))
    return index


def _execute_badly(source: Bytes, compilation: Compilation) -> None:
    """Executions with arguments that don't fit."""
    execution = Execution(compilation)
    for index, type_ in enumerate(compilation.model.input_types()):
        fitting = source.array(type_)
        execution.set_input(index, fitting.reshape(-1)[: source.byte() % 5] if source.chance(2) else fitting)
    for index in range(len(compilation.model.outputs)):
        execution.set_output(index, np.empty(source.byte() * 16, np.uint8))
    execution.compute()
