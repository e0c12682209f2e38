"""The epilogue of a GEMM: the way from its sums to what it stores.

First come bias, scales and activation (`shaders/include/filter_output.glsl`), then operations on the results
(`shaders/include/epilogue.glsl`). Floats go through a program of a few instructions. Quantised values of 8 bits are
combined with those of a second tensor, then looked up in a table; both are optional. Float16 results may be stored as
float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nnvk.driver.vulkan.graph.program import (
    ElementwiseProgram,
    Number,
    Result,
    Source,
    Spread,
    Value,
    source_of,
)
from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.copies.convert import as_float32, convert
from nnvk.driver.vulkan.lowering.copies.relayout import finish_pixels, pixels_of, round_up
from nnvk.driver.vulkan.lowering.copies.side_by_side import Matrices, written
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, Q8, of
from nnvk.driver.vulkan.lowering.elementwise.fused import memory_of, numbers_of
from nnvk.driver.vulkan.lowering.gemm import half_weights
from nnvk.driver.vulkan.lowering.gemm.problem import Epilogue, Gemm, Operands
from nnvk.driver.vulkan.lowering.gemm.weights import Weights
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.float_sums import Operand, QuantisedSum
from nnvk.driver.vulkan.lowering.quantised.tensors import (
    SMALL,
    activation_limits,
    are_small_shifts,
    is_lookup,
    rescaling,
    table_of,
    zero_point,
)
from nnvk.driver.vulkan.lowering.strided_view import Constants, RowAccess, Rows, Views, pitch_of
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Call, Tensor
from nnvk.ops.fused import activation_range
from nnvk.ops.linear import Rounding, factors_of, has_wide_bias, output_multipliers, rounding_of
from nnvk.ops.quant import INT32_MAX
from nnvk.ops.traits import Function
from nnvk.types.codes import FuseCode, OperationCode

EPILOGUES = ("plain", "fused")
"""The values of the axis EPILOGUE of GEMM shaders: no epilogue, or fused elementwise operations."""
TO_FLOATS = "TO_FLOATS"
"""The specialisation constant by which float16 variants store float32 results."""
_COMBINED = {OperationCode.ADD: 1, OperationCode.SUB: -1, OperationCode.MUL: 1}
"""The operations on two 8-bit tensors, with the sign of the second tensor in the sum that the epilogue computes."""
_NUMBERS, _INSTRUCTIONS = 4, 4
_OWN, _EXTRA, _FIRST_NUMBER, _FIRST_INSTRUCTION = 1, 2, 3, 7
_TABLE = 16
"""The words of an 8-bit epilogue's parameters, which precede its table."""
_LARGEST_PRODUCT = 255 * 255
"""The largest product of two bytes less their zero points."""
BYTE_ERROR = 2.0**-12
"""A bound on the error of floats of a `ByteMultiplier` (`shaders/include/requantise.glsl`), in units of a result.

The numbers from which results follow are at most 257 from the zero point. The roundings of a sum to a float, of the
multiplier, and of their product, are each at most 2^-23 of that, that of the addend is 2^-16, and those of two more
operations are 2^-15 each. Together that is less than 1.7e-4.
"""
_LARGEST_PITCH = (1 << 16) - 1
"""The most channels of the larger pixels that products write to: two numbers share a push constant."""
BYTE_SHIFTS = -10, -2
"""The least and the largest shift of such multipliers."""


def exists(choice: Mapping[str, str]) -> bool:
    """Whether a data type has this variant of the axis EPILOGUE."""
    return choice["EPILOGUE"] == "plain" or choice["DTYPE"] not in ("i32", "q16")


def arguments_of(g: Lowering, epilogue: Epilogue) -> Arguments:
    """The arguments for an epilogue on floats."""
    spec: dict[str, int | bool] = {TO_FLOATS: True} if epilogue.is_converted else {}
    program = epilogue.program
    if program is None:
        return Arguments(spec)
    extra = next((source for source in program.sources if source.index != epilogue.result), None)
    numbers = list(program.numbers)

    def number_of(value: Value) -> int:
        if isinstance(value, Result):
            return _FIRST_INSTRUCTION + value.instruction
        if isinstance(value, Number):
            return _FIRST_NUMBER + numbers.index(value)
        return _OWN if value.index == epilogue.result else _EXTRA

    for number, instruction in enumerate(program.instructions):
        spec |= {f"INSTRUCTION_{number}": instruction.word, f"LEFT_{number}": number_of(instruction.left)}
        spec[f"RIGHT_{number}"] = number_of(instruction.right)
    spec["EXTRA"] = int(extra.spread if extra else Spread.SINGLE)
    table = numbers_of(g, program)
    tensors = {"parameters": table, "extra": table if extra is None else memory_of(g, program, extra)}
    return Arguments(spec, tensors)


def arguments_on_bytes(g: Lowering, epilogue: Epilogue, words: np.ndarray) -> tuple[Arguments, np.ndarray]:
    """The arguments for an epilogue on quantised values of 8 bits, and the epilogue's own words.

    ``words`` requantise sums of products. They follow the epilogue's own in the tensor ``multipliers``.
    """
    spec: dict[str, int | bool] = {"EXTRA": int(Spread.SINGLE), "LOOK_UP": False}
    parameters: list[int] = [0] * _TABLE
    table: np.ndarray = np.zeros(0, np.int32)
    extra = None
    for call in epilogue.calls:
        if is_lookup(call):
            table = np.frombuffer(np.ascontiguousarray(table_of(call)).tobytes(), np.int32)
            spec["LOOK_UP"] = True
        else:
            extra = _second(call, epilogue.result)
            parameters = _combination(call, epilogue.result)
            source = source_of(extra, call.output)
            assert source is not None
            spec["EXTRA"] = int(source.spread)
            spec["COMBINE"] = int(Function.MUL if call.code is OperationCode.MUL else Function.ADD)
            spec["SMALL_COMBINE"] = are_small_shifts(parameters[2:12:4])
            if spec["COMBINE"] == Function.ADD and not g.device.is_cpu:
                spec["FLOAT_SUM"] = _add_floats(g, parameters)
    own = np.concatenate([np.array(parameters, np.int64).astype(np.int32), table])
    together = g.constant(np.concatenate([own, words]))
    tensors = {"multipliers": together, "extra": together if extra is None else g.tensor(extra.whole)}
    return Arguments(spec, tensors), own


def _add_floats(g: Lowering, parameters: list[int]) -> bool:
    """Put the floats of a sum among the fields of the shader's `Epilogue`; whether there are such (`QuantisedSum`)."""
    own, other, result = (Operand(*parameters[first : first + 4]) for first in (0, 4, 8))
    total = QuantisedSum(own, other, result, *parameters[12:14])
    floats = g.once(("quantised sum", total), lambda: total.floats(saturates=g.device.saturates))
    if floats is None:
        return False
    parameters[11], *parameters[14:16] = (int(word) for word in np.array(floats, np.float32).view(np.int32))
    return True


def combined_one_for_one(epilogue: Epilogue) -> Tensor | None:
    """The 8-bit tensor of which an epilogue combines each element with a result, if it does nothing else."""
    if len(epilogue.calls) > 1 or is_lookup(epilogue.calls[0]):
        return None
    extra = _second(epilogue.calls[0], epilogue.result)
    source = source_of(extra, epilogue.calls[0].output)
    return extra if source is not None and source.spread is Spread.EACH_ONE else None


def added_one_for_one(epilogue: Epilogue) -> Tensor | None:
    """The tensor of floats whose elements an epilogue adds to the results, if only an activation follows."""
    call, *others = epilogue.calls
    if (
        others
        or call.code is not OperationCode.ADD
        or of(call.output) not in (F32, F16)
        or call.known("activation") is None
    ):
        return None
    extra = _second(call, epilogue.result)
    source = source_of(extra, call.output)
    is_added = source is not None and source.spread is Spread.EACH_ONE and extra.index != epilogue.result
    return extra if is_added else None


def is_exact_with(epilogue: Epilogue, call: Call) -> bool:
    """Whether `verification/exact.py` knows an epilogue of a product of floats: sums, behind no activation."""
    is_activated = call.has("activation") and call.known("activation") != FuseCode.NONE
    return not is_activated and added_one_for_one(epilogue) is not None


def _second(call: Call, own: int) -> Tensor:
    """The operand of a call on two tensors that is not the GEMM's result."""
    other: Tensor = call.input1 if call.input0.index == own else call.input0
    return other


def _combination(call: Call, own: int) -> list[int]:
    """The fields of the shader's `Epilogue`, in vec4s: of the GEMM's result, the other operand, and the output."""
    sides = rescaling(call)
    operands = [*sides["lhs"], 1], [*sides["rhs"], _COMBINED[call.code]]
    first, second = operands if call.input0.index == own else reversed(operands)
    limits = map(int, activation_limits(call.activation, call.output))
    return [*first, *second, *sides["dst"], 0, *limits, 0, 0]


# --- what fits -----------------------------------------------------------------------------------------------


def fits(program: ElementwiseProgram, result: Tensor, channels: int) -> bool:
    """Whether a program can be the epilogue of a GEMM whose pixels have so many channels.

    ``result``: the GEMM's result by itself.
    """
    others = [source for source in program.sources if source.index != result.index]
    return (
        len(others) <= 1
        and all(_can_be_extra(source, channels) for source in others)
        and len(program.numbers) <= _NUMBERS
        and len(program.instructions) <= _INSTRUCTIONS
    )


def combines(call: Call, own: Tensor, channels: int) -> bool:
    """Whether a call combines 8-bit results of a GEMM with a tensor that an epilogue can read."""
    if call.code not in _COMBINED or of(call.output) is not Q8 or call.known("activation") is None:
        return False
    if own.size != call.output.size or call.input0.index == call.input1.index:
        return False
    source = source_of(_second(call, own.index), call.output)
    return source is not None and _can_be_extra(source, channels)


def _can_be_extra(source: Source, channels: int) -> bool:
    """Whether a tensor can be the second tensor of an epilogue."""
    return source.spread in (Spread.EACH_ONE, Spread.SINGLE) or (
        source.spread is Spread.WITHIN and 4 * source.size == channels
    )


# --- from sums to results ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """The memory that a dispatch stores the pixels of a GEMM to."""

    gemm: Gemm
    tensor: Tensor
    """The output, or the tensor of which it is a view."""
    interleaved: int
    """The matrices that lie side by side in a row of the tensor."""
    pixels: TensorRef

    @classmethod
    def of(cls, g: Lowering, operands: Operands, gemm: Gemm) -> Target:
        """The memory for the output of a GEMM."""
        tensor, interleaved = written(operands.target, Matrices(gemm.parts, gemm.rows, gemm.columns))
        return cls(gemm, tensor, interleaved, pixels_of(g, tensor, gemm.target, gemm.pixel_parts))

    def arguments(self, operands: Operands, output: FilterOutput) -> Arguments:
        """The arguments for the memory, and the access of `filter_output.glsl`, also to an extra element per result."""
        gemm, type_, epilogue = self.gemm, of(operands.input), operands.epilogue
        is_whole, is_widened = gemm.columns % 4 == 0, epilogue is not None and epilogue.is_converted
        width, multiple = gemm.pixel_parts * self.interleaved * gemm.columns, 4 if is_whole else 1

        def pitches(views: Views) -> Constants | None:
            stored, extra = (pitch_of(views, name, 0) for name in ("dst", "extra"))
            fit = stored <= _LARGEST_PITCH and extra <= _LARGEST_PITCH
            return ({}, {"pitches": extra << 16 | stored}) if fit else None

        rows: dict[str, Rows] = {}
        if is_whole or type_ is F32:  # other pixels are stored in words
            rows["dst"] = Rows((F32 if is_widened else type_).size, width, multiple)
            if output.spec.get("EXTRA") == Spread.EACH_ONE:
                rows["extra"] = Rows(type_.size, width, multiple)
        spec = {} if self.interleaved == 1 else {"TARGET_PARTS": self.interleaved}
        return Arguments(spec, {"dst": self.pixels}, access=RowAccess(rows, (pitches,)))

    def finish(self, g: Lowering) -> None:
        """Make the tensor of the pixels that a dispatch has stored."""
        finish_pixels(g, self.pixels, self.tensor, self.gemm.target, self.gemm.pixel_parts)


@dataclass(frozen=True, slots=True)
class FilterOutput(Arguments):
    """The arguments of a dispatch that turn sums into results, for `shaders/include/filter_output.glsl`."""

    parameters: np.ndarray | None = None
    """The words of the tensor ``multipliers`` of 8-bit values up to the last multiplier: those of an epilogue first."""
    limits: tuple[float, float] = 0, 0
    """The push constants ``low`` and ``high``."""


def narrowed(g: Lowering, operands: Operands) -> Tensor:
    """The input of a GEMM, which is converted now if it has yet to be."""
    if operands.wide_input is not None:
        convert(g, operands.wide_input, operands.input, saturate=True)
    return operands.input


def bias_of(
    g: Lowering, operands: Operands, gemm: Gemm, *, folded: bool = False, scales: np.ndarray | None = None
) -> TensorRef:
    """The bias, which is zeros if there is none.

    ``folded``: inputs of 8 bits keep their zero point in the sums, so the bias has what is due to it. ``scales`` are
    those of weights of 8 bits that floats are multiplied by. They follow the bias, which is a constant then.
    """
    bias = operands.bias
    if folded:
        return half_weights.folded_bias(g, operands.input, operands.weights, bias)
    if bias is None:
        channels = gemm.pixel_parts * gemm.columns
        return g.computed_constant((channels,), np.int32, _zeros, channels)  # as floats they are 0 too
    if scales is None:
        return accumulated(g, bias)
    both = np.concatenate([bias.data.reshape(-1), np.broadcast_to(scales, gemm.columns)]).astype(np.float32)
    return g.constant_form(bias, ("scales", operands.weights.tensor.index), lambda: both)


def bias_words(g: Lowering, operands: Operands, gemm: Gemm, *, folded: bool) -> np.ndarray:
    """A constant bias of 8-bit tensors in int32, each part padded to vec4s. ``folded`` is as for `bias_of`."""
    words = np.zeros((gemm.pixel_parts, round_up(gemm.columns, 4)), np.int32)
    if folded:
        values = half_weights.folded_values(g, operands.input, operands.weights, operands.bias)
        words[:, : gemm.columns] = values.reshape(gemm.pixel_parts, -1)
    elif operands.bias is not None:
        words[:, : gemm.columns] = operands.bias.data.reshape(gemm.pixel_parts, -1)
    return words.reshape(-1)


def filter_output(
    g: Lowering, operands: Operands, gemm: Gemm, bias: TensorRef | np.ndarray | None = None
) -> FilterOutput:
    """The arguments for sums of the output channels of a GEMM.

    ``bias`` is the result of `bias_of`, which is called if it is None. Words (`bias_words`) follow the multipliers of
    8-bit tensors with an epilogue in the place of a tensor.
    """
    if bias is None:
        bias = bias_of(g, operands, gemm)
    tensors, words = ({"bias": bias}, []) if isinstance(bias, TensorRef) else ({}, [bias])
    following, parameters, limits = operands.epilogue, None, activation_limits(operands.activation, operands.output)
    if operands.is_quantised:
        scaling = _wide_scaling(g, operands, gemm) if operands.is_wide else _byte_scaling(g, operands)
        pairs = scaling.pairs(gemm)
        parameters = np.ascontiguousarray(pairs.reshape(2, -1, 4).transpose(1, 0, 2)).reshape(-1)
        every = np.concatenate([parameters, *words, scaling.floats(pairs, zero_point(operands.output))])
        arguments, limits = Arguments(scaling.spec, tensors, scaling.push), scaling.limits
        if following is None:
            arguments |= Arguments(tensors={"multipliers": g.constant(every)})
        else:
            after, own = arguments_on_bytes(g, following, every)
            arguments, parameters = arguments | after, np.concatenate([own, parameters])
    else:
        spec: dict[str, int | bool] = {}
        if of(operands.input) in (F32, F16):
            is_activated = operands.activation != FuseCode.NONE
            spec = {"ACTIVATED": is_activated, "PRESERVES_NAN": is_activated and g.device.preserves_special}
        arguments = Arguments(spec, tensors)
        if following is not None:
            arguments |= arguments_of(g, following)
    push = {**arguments.push, "low": limits[0], "high": limits[1]}
    return FilterOutput(arguments.spec, arguments.tensors, push, parameters=parameters, limits=limits)


@dataclass(frozen=True, slots=True)
class _Scaling:
    """How sums of products of quantised values become quantised values."""

    mantissas: np.ndarray
    shifts: np.ndarray
    shift_of_padding: int
    """The shift of output channels that are not there: these are shifted as well."""
    spec: Mapping[str, int | bool]
    limits: tuple[int, int]
    push: Mapping[str, int] = field(default_factory=dict)
    """The push constants that are zero points."""

    def pairs(self, gemm: Gemm) -> np.ndarray:
        """Mantissas and shifts, int32 [2, parts, output channels of a part padded to vec4s]."""
        pairs = np.zeros((2, gemm.pixel_parts, round_up(gemm.columns, 4)), np.int32)
        pairs[1] = self.shift_of_padding
        channels = gemm.pixel_parts * gemm.columns
        each = np.broadcast_to(np.stack([self.mantissas, self.shifts]), (2, channels))
        pairs[:, :, : gemm.columns] = each.reshape(2, gemm.pixel_parts, gemm.columns)
        return pairs

    def floats(self, pairs: np.ndarray, zero: int) -> np.ndarray:
        """The words of the `byte_multipliers` of `pairs` if the shader takes them, else none."""
        if not self.spec.get("TO_BYTES"):
            return np.zeros(0, np.int32)
        saturates, once = bool(self.spec["SATURATES"]), bool(self.spec["ROUNDS_ONCE"])
        floats = byte_multipliers(pairs[0], pairs[1], zero, self.limits, saturates=saturates, once=once)
        return floats.reshape(3, -1, 4).transpose(1, 0, 2).reshape(-1).view(np.int32)


def byte_multipliers(
    mantissas: np.ndarray, shifts: np.ndarray, zero: int, limits: tuple[int, int], *, saturates: bool, once: bool
) -> np.ndarray:
    """`scale`, `below` and `above` of multipliers, float32 [3, ...], for results with a zero point and limits.

    ``saturates``: results are fractions of the range, and are rounded, not truncated, to integers.
    ``once``: there is one rounding.
    """
    low, high = limits
    rounded = 0.0 * shifts if once else np.ldexp(1.0, shifts - 1)
    base, size = (low, max(high - low, 1)) if saturates else (-0.5, 1)
    below = zero - base + (rounded if low >= zero else -rounded) - BYTE_ERROR
    every = np.stack([np.ldexp(1.0, shifts - 31) * mantissas, below, zero - base + rounded + BYTE_ERROR]) / size
    return every.astype(np.float32)


def _wide_scaling(g: Lowering, operands: Operands, gemm: Gemm) -> _Scaling:
    """The scaling of sums of products of 16-bit values."""
    bias, channels = operands.bias, gemm.pixel_parts * gemm.columns
    rounding = rounding_of(operands.code, bias, channels)
    factors = output_multipliers(operands.code, operands.input, operands.weights.tensor, operands.output, once=False)
    low, high = activation_range(operands.activation, operands.output)
    spec = {
        "NARROW_SUMS": has_narrow_sums(g, operands),
        "WIDE_BIAS": has_wide_bias(bias, channels),
        "ROUNDING": int(rounding),
    }
    return _Scaling(*factors_of(rounding, *factors), 1, spec, (int(low), int(high)))


def _byte_scaling(g: Lowering, operands: Operands) -> _Scaling:
    """The scaling of sums of products of bytes."""
    tensor, once = operands.weights.tensor, operands.rounds_once
    mantissas, shifts = output_multipliers(operands.code, operands.input, tensor, operands.output, once=once)
    low, high = map(int, activation_limits(operands.activation, operands.output))
    zero = zero_point(operands.output)
    push = {"input_zero": zero_point(operands.input), "weight_zero": zero_point(tensor), "output_zero": zero}
    is_small = are_small_shifts(shifts) and largest_sum(operands.bias, operands.weights) < SMALL
    fit = all(BYTE_SHIFTS[0] <= shift <= BYTE_SHIFTS[1] for shift in shifts)
    to_bytes = is_small and fit and g.device.lacks_high_products
    spec = {
        "SMALL": is_small,
        "TO_BYTES": to_bytes,
        "NONNEGATIVE": low >= zero,
        "SATURATES": g.device.saturates,
        "ROUNDS_ONCE": once,
    }
    return _Scaling(mantissas, shifts, BYTE_SHIFTS[0] if to_bytes else 0, spec, (low, high), push)


def largest_sum(bias: Tensor | None, weights: Weights) -> float:
    """A bound on sums of products of bytes, for any bytes and zero points."""
    products = _LARGEST_PRODUCT * weights.taps * weights.channels
    if bias is None or not bias.size:
        return products
    if not bias.is_constant:
        return math.inf
    return products + int(np.abs(bias.data.astype(np.int64)).max())


def accumulated(g: Lowering, tensor: Tensor) -> TensorRef:
    """A bias, or weights that need no packing, in the type of the sums: float16 becomes float32."""
    if of(tensor) is not F16:
        return g.tensor(tensor)
    if tensor.is_constant:
        return g.constant_form(tensor, "float32", lambda: tensor.data.astype(np.float32))
    return as_float32(g, tensor)


def has_narrow_sums(g: Lowering, operands: Operands) -> bool:
    """Whether products of 16-bit quantised values and the bias add up within 32 bits, or wrap there by definition."""
    bias, weights = operands.bias, operands.weights
    tensor, channels = weights.tensor, weights.outputs * weights.parts
    if rounding_of(operands.code, bias, channels) is Rounding.TWICE:
        return True
    if not tensor.is_constant or not (bias is None or bias.is_constant):
        return False

    def largest() -> int:
        return int(np.abs(weights.array(), dtype=np.int64).sum((2, 3)).max(initial=0))

    products = g.once((tensor.index, "largest sum", weights.shape, weights.strides), largest) << 15
    numbers: np.ndarray = np.zeros(1, np.int64)
    if bias is not None:
        numbers = np.ascontiguousarray(bias.data)
        numbers = numbers.view(np.int64) if has_wide_bias(bias, channels) else numbers.astype(np.int64)
    # As Python's numbers: there is no magnitude of the least one.
    return products + max(-int(np.min(numbers, initial=0)), int(np.max(numbers, initial=0))) <= INT32_MAX


def _zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.int32)
