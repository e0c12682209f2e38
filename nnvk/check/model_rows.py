"""Models of one operation, or of a few, as rows of text, which name checks and tests: whoever reads one can repeat it.

    ADD f32[2,3,5] f32[5] RELU6
    AVERAGE_POOL_2D i8[1,7,5,4]*0.5-3 SAME 2 1 3 2 NONE nchw
    CONV_2D u8[1,5,5,3]*0.5+3 #u8[4,3,3,3]*0.1+9 #i32[4] SAME 1 1 RELU -> u8*0.7+100

A row is an operation's code, its inputs in NNAPI's order, and the types of its outputs where there are several, or the
type is another than the first input's; int32 is a scalar, and ``same`` the very type of the first input, scales per
channel included. An input is

* a tensor: type (f32, f16, u8, i8, i32, b8, u16, i16, s8, or pc and a channel dimension for per-channel weights),
  shape, scale and zero point where it is quantised. ``#`` before it makes it a constant, ``?`` behind a size leaves
  that size open in the model, and ``~3`` at the end draws integers (levels from the zero point) of -3 to 3 instead of
  anything, ``~3/64`` such integers divided by 64, ``<3`` ascending ones of 0 to 2, ``=200`` or ``=0.5`` is that
  everywhere, and ``^40x30`` draws boxes on an image of this width and height, in eighths;
* a constant of real numbers that are 8-bit levels: ``#f32i8`` or ``#f32u8``, shape, scale and zero point; without a
  scale there is one for each index of the first dimension, a power of two;
* a vector ``(1,-2)`` or matrix ``(0,1;2,0)`` or ``(0,1;)`` of INT32, constant;
* ``none``, a tensor of the first input's type that is omitted;
* a number: ``2`` (INT32), ``0.5f`` (FLOAT32), ``0.5h`` (FLOAT16), a FuseCode, a PaddingCode, or nhwc, nchw,
  false and true (BOOL).

``@`` before a vector, matrix or number makes it an input of the model, so that it comes with the execution.

An operation is the extension's of this name where there is one and an operand is i16, or with ``extension.`` before it.

The scale of an INT32 tensor beside quantised ones is the product of those of the two before it, because it is a bias,
unless it has one of its own. ``4:`` before an input stands for four such inputs, each with numbers of its own.

Several operations are separated by `` | ``. ``$`` is the first output of the operation before, ``$0`` that of the
operation with this number. The model's outputs are the outputs that no operation of the row reads.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.cpu.executor import run
from nnvk.hal import IDevice
from nnvk.ops.flow import Clock
from nnvk.ops.quant import is_quantised, limits
from nnvk.ops.registry import fitting, lookup
from nnvk.types.codes import FuseCode, OperandCode, OperationCode, PaddingCode
from nnvk.types.constant import QuantisedConstant
from nnvk.types.extension import ExtendedOperationCode, KnownCode
from nnvk.types.extract import exposed
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import ChannelQuant, OperandType, Shape
from nnvk.types.request import (
    ExecuteOptions,
    ExecutionResult,
    InputArgument,
    OutputArgument,
    PrepareOptions,
    Request,
)

TYPES = {
    "f32": OperandCode.TENSOR_FLOAT32,
    "f16": OperandCode.TENSOR_FLOAT16,
    "i32": OperandCode.TENSOR_INT32,
    "b8": OperandCode.TENSOR_BOOL8,
    "u8": OperandCode.TENSOR_QUANT8_ASYMM,
    "i8": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    "s8": OperandCode.TENSOR_QUANT8_SYMM,
    "pc": OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL,
    "u16": OperandCode.TENSOR_QUANT16_ASYMM,
    "i16": OperandCode.TENSOR_QUANT16_SYMM,
    "int32": OperandCode.INT32,
}
_LEVELS = {
    "f32i8": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    "f32u8": OperandCode.TENSOR_QUANT8_ASYMM,
}
"""Real numbers that are kept as levels of such a type."""
_QUANTISATION = r"(?:\*(?P<scale>[0-9.e-]+?))?(?P<zero>[+-][0-9]+)?"
_TYPE = "|".join(name for name in TYPES if name not in ("pc", "int32"))
_CONSTANT_TYPE = "|".join((*_LEVELS, _TYPE, "pc"))
_TENSOR = re.compile(
    rf"(?P<constant>#?)(?P<type>{'|'.join(_LEVELS)}|{_TYPE}|pc)(?P<channel>[0-9]?)\[(?P<shape>[0-9,?]*)\]{_QUANTISATION}"
    r"(?:~(?P<draw>[0-9]+)(?:/(?P<by>[0-9]+))?|=(?P<all>-?[0-9.]+)|<(?P<below>[0-9]+)|\^(?P<width>[0-9]+)x(?P<height>[0-9]+))?"
)
_EXTENSION = "extension."
_EARLIER = re.compile(r"\$(?P<number>[0-9]*)")
_OUTPUT = re.compile(rf"(?P<type>{_TYPE}|int32){_QUANTISATION}")
_NAMES = {
    **{code.name: int(code) for code in FuseCode},
    **{code.name: int(code) for code in PaddingCode},
    "nhwc": False,
    "nchw": True,
    "false": False,
    "true": True,
}


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A model with its inputs."""

    model: Model
    inputs: Sequence[np.ndarray]


def parse(text: str) -> Row:
    """The row that a text stands for. The same text gives the same numbers.

    ValueError: a word is no operand. KeyError: there is no operation of a name.
    """
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    operands: list[Operand] = []
    operations: list[Operation] = []
    given: list[int] = []
    inputs: list[np.ndarray] = []
    for part in text.split(" | "):
        left, _, right = part.partition(" -> ")
        name, *words = left.split()
        own: list[int] = []
        for word in _repeated(words):
            earlier = _EARLIER.fullmatch(word)
            if earlier is not None:
                own.append(operations[int(earlier["number"] or -1)].outputs[0])
                continue
            operand, data = _operand(name, word, [operands[index] for index in own], rng)
            own.append(len(operands))
            if operand.lifetime is Lifetime.SUBGRAPH_INPUT:
                given.append(len(operands))
            if data is not None:
                inputs.append(data)
            operands.append(operand)
        types = [operands[index].type for index in own]
        outputs = _outputs(name, right.split(), types[0])
        code = fitting(code_of(name), [*types, *outputs])
        first = len(operands)
        operands += [Operand(output, Lifetime.SUBGRAPH_OUTPUT) for output in outputs]
        operations.append(Operation(code, tuple(own), tuple(range(first, len(operands)))))
    read = {index for operation in operations for index in operation.inputs}
    results = [index for operation in operations for index in operation.outputs]
    for index in read.intersection(results):
        operands[index] = replace(operands[index], lifetime=Lifetime.TEMPORARY_VARIABLE)
    left_over = tuple(index for index in results if index not in read)
    return Row(Model(tuple(operands), tuple(operations), tuple(given), left_over), tuple(inputs))


def _repeated(words: Sequence[str]) -> Iterator[str]:
    """The words, each as often as it says."""
    for word in words:
        count, _, repeated = word.rpartition(":")
        yield from [repeated] * int(count or 1)


def _outputs(name: str, words: Sequence[str], first: OperandType) -> list[OperandType]:
    """The types of an operation's outputs."""
    if words:
        return [first if word == "same" else _type(_match(_OUTPUT, word), ()) for word in words]
    output = replace(first, dimensions=(), channel_quant=None)
    if name == "SOFTMAX" and is_quantised(output.code):
        unit = 1 / 32768 if output.code is OperandCode.TENSOR_QUANT16_SYMM else 1 / 256
        output = replace(output, scale=unit, zero_point=min(0, limits(output.code)[0]) if unit == 1 / 256 else 0)
    return [output]


def code_of(name: str) -> KnownCode:
    """An operation by its name in a row."""
    if name in OperationCode.__members__:
        return OperationCode[name]
    return ExtendedOperationCode[name.removeprefix(_EXTENSION)]


def name_of(code: KnownCode, words: str) -> str:
    """The name of an operation in a row with these words."""
    is_plain = code.name not in OperationCode.__members__ or "i16" in words
    return code.name if is_plain or isinstance(code, OperationCode) else _EXTENSION + code.name


def _operand(
    name: str, word: str, before: list[Operand], rng: np.random.Generator
) -> tuple[Operand, np.ndarray | None]:
    """An input's operand of an operation, and its data where that is an input of the model."""
    if word.startswith("@"):
        given, _ = _operand(name, word[1:], before, rng)
        return Operand(given.type, Lifetime.SUBGRAPH_INPUT), given.value
    if word == "none":
        return Operand(before[0].type.with_dimensions(()), Lifetime.NO_VALUE), None
    if word.startswith("("):
        rows = [[int(number) for number in row.split(",")] for row in word[1:-1].split(";") if row]
        array = np.array(rows if ";" in word else rows[0], np.int32)
        return Operand(OperandType(OperandCode.TENSOR_INT32, array.shape), Lifetime.CONSTANT, array), None
    if word in _NAMES or re.fullmatch(r"-?[0-9]+", word):
        value = _NAMES[word] if word in _NAMES else int(word)
        code = OperandCode.BOOL if isinstance(value, bool) else OperandCode.INT32
        return _scalar(code, value), None
    if re.fullmatch(r"-?[0-9.]+[fh]", word):
        code = OperandCode.FLOAT32 if word.endswith("f") else OperandCode.FLOAT16
        return _scalar(code, float(word[:-1])), None
    match = _match(_TENSOR, word)
    sizes = [size for size in match["shape"].split(",") if size]
    shape = tuple(int(size.rstrip("?")) for size in sizes)
    if match["type"] in _LEVELS:
        return _kept_as_levels(match, shape, rng), None
    type_ = _type(match, shape)
    if type_.code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        channel = int(match["channel"])
        scales = rng.uniform(0.01, 0.04, shape[channel]).astype(np.float32).tolist()
        type_ = replace(type_, channel_quant=ChannelQuant(tuple(scales), channel))
    if match["type"] == "i32" and not match["scale"] and len(before) > 1 and is_quantised(before[0].type.code):
        product = np.float32(before[-2].type.scale) * np.float32(before[-1].type.scale)
        type_ = replace(type_, scale=float(product))
    data = _draw(type_, rng, match, _spread(name, shape) if len(before) == 1 else 2)
    if match["constant"]:
        return Operand(type_, Lifetime.CONSTANT, data), None
    declared = tuple(0 if size.endswith("?") else int(size) for size in sizes)
    return Operand(replace(type_, dimensions=declared), Lifetime.SUBGRAPH_INPUT), data


def _kept_as_levels(match: re.Match[str], shape: tuple[int, ...], rng: np.random.Generator) -> Operand:
    zero_point = int(match["zero"] or 0)
    levels = _draw(OperandType(_LEVELS[match["type"]], shape, 1.0, zero_point), rng, match, 1.0)
    given = match["scale"]
    scales = np.array([given], np.float32) if given else np.exp2(rng.integers(-7, -3, shape[0])).astype(np.float32)
    return Operand(
        OperandType(OperandCode.TENSOR_FLOAT32, shape),
        Lifetime.CONSTANT,
        QuantisedConstant(levels, scales, zero_point),
    )


def _scalar(code: OperandCode, value: float) -> Operand:
    type_ = OperandType(code)
    return Operand(type_, Lifetime.CONSTANT, np.array(value, type_.dtype))


def _spread(name: str, shape: Shape) -> float:
    """The spread of an operation's second input.

    The weights of a GEMM are drawn as those of trained networks are, so that sums keep the size of what is summed.
    Larger sums that happen to be near 0 differ by more than is allowed where a device sums in another order.
    """
    gemm = lookup(code_of(name)).traits.gemm
    return 2 if gemm is None else 2 / float(np.sqrt(max(1, math.prod(shape[gemm.summed]))))


def _match(pattern: re.Pattern[str], word: str) -> re.Match[str]:
    match = pattern.fullmatch(word)
    if match is None:
        raise ValueError(f"{word!r} is no operand")
    return match


def _type(match: re.Match[str], shape: tuple[int, ...]) -> OperandType:
    return OperandType(TYPES[match["type"]], shape, float(match["scale"] or 0), int(match["zero"] or 0))


def _draw(type_: OperandType, rng: np.random.Generator, match: re.Match[str], spread: float) -> np.ndarray:
    shape, dtype = type_.dimensions, type_.dtype
    if match["all"] is not None:
        return np.full(shape, float(match["all"]), dtype)
    if match["below"] is not None:
        return np.sort(rng.integers(0, int(match["below"]), shape)).astype(dtype)
    if match["width"] is not None:
        image = 8 * np.array([int(match["width"]), int(match["height"])])
        corners = np.sort(rng.integers(0, image + 1, (*shape[:-1], shape[-1] // 4, 2, 2)), axis=-2).reshape(shape)
        return (corners if is_quantised(type_.code) else corners / 8).astype(dtype)
    most = match["draw"]
    if most is not None:
        levels = rng.integers(-int(most), int(most) + 1, shape) + type_.zero_point
        return (levels / int(match["by"]) if match["by"] else levels).astype(dtype)
    if dtype.kind == "f":
        return (rng.standard_normal(shape, np.float32) * np.float32(spread)).astype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if type_.code is OperandCode.TENSOR_INT32:
        return rng.integers(-1000, 1000, shape, np.int32)
    low, high = limits(type_.code)
    if type_.code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        low += 1
    return rng.integers(low, high + 1, shape).astype(dtype)


# --- running -----------------------------------------------------------------------------------------------------


def reference(row: Row) -> list[np.ndarray]:
    """The outputs on the reference device."""
    with np.errstate(all="ignore"):
        return list(run(row.model, list(row.inputs), Clock(None, 2 * 10**9)))


def roundings(row: Row) -> int:
    """How many operations of a row round to FLOAT16, from the first one on whose exact results are other numbers."""
    operands = tuple(_widened(operand) for operand in row.model.operands)
    exact = exposed(replace(row.model, operands=operands))
    inputs = [array.astype(np.float32) if array.dtype == np.float16 else array for array in row.inputs]
    results = reference(Row(exact, inputs))
    results = [*results[len(row.model.outputs) :], *results[: len(row.model.outputs)]]  # the own outputs come last
    with np.errstate(over="ignore"):
        is_exact = [np.array_equal(result, result.astype(np.float16), equal_nan=True) for result in results]
    return len(is_exact) - is_exact.index(False) if False in is_exact else 1


def _widened(operand: Operand) -> Operand:
    """A FLOAT16 operand as FLOAT32, others as they are."""
    codes = {OperandCode.TENSOR_FLOAT16: OperandCode.TENSOR_FLOAT32, OperandCode.FLOAT16: OperandCode.FLOAT32}
    if operand.type.code not in codes:
        return operand
    value = None if operand.value is None else operand.value.astype(np.float32)
    return replace(operand, type=replace(operand.type, code=codes[operand.type.code]), constant=value)


def empty_like(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs to be written."""
    return [np.full(array.shape, 77, array.dtype) for array in arrays]


def request(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Request:
    """A request with arrays of the host."""
    buffers = [OutputArgument(output.reshape(-1).view(np.uint8)) for output in outputs]
    return Request([InputArgument(array) for array in inputs], buffers)


def execute(device: IDevice, row: Row, outputs: list[np.ndarray]) -> ExecutionResult:
    """Prepare and execute on a device. ValueError: it does not support all operations."""
    for operation, support in zip(row.model.operations, device.get_supported_operations(row.model), strict=True):
        if not support.supported:
            raise ValueError(f"{device.name} does not run {operation}: {support.reason}")
    prepared = device.prepare_model(row.model, PrepareOptions())
    return prepared.execute(request(row.inputs, outputs), ExecuteOptions())
