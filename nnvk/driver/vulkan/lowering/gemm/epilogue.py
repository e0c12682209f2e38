"""The epilogue of a GEMM: operations on its results before they are stored (`shaders/include/epilogue.glsl`).

Floats go through a program of a few instructions. Quantised values of 8 bits are combined with those of a second
tensor, then looked up in a table; both are optional. Float16 results may be stored as float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.graph.program import (
    ElementwiseProgram,
    Number,
    Result,
    Source,
    Spread,
    Value,
    source_of,
    widens,
)
from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, Q8, of
from nnvk.driver.vulkan.lowering.elementwise.fused import memory_of, numbers_of
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.float_sums import Operand, QuantisedSum
from nnvk.driver.vulkan.lowering.quantised.tensors import are_small_shifts, clamp, is_lookup, rescaling, table_of
from nnvk.driver.vulkan.shaders.commands import integer
from nnvk.ops.call import Call, Tensor
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


def exists(choice: Mapping[str, str]) -> bool:
    """Whether a data type has this variant of the axis EPILOGUE."""
    return choice["EPILOGUE"] == "plain" or choice["DTYPE"] not in ("i32", "q16")


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The calls on the result of a GEMM that compute what it stores."""

    calls: tuple[Call, ...]
    result: int
    """The index of the tensor that is the GEMM's result by itself."""
    output: Tensor
    """The tensor that is stored, in the shape of the GEMM's result."""
    program: ElementwiseProgram | None = None
    """The program of the calls on floats but for a conversion to float32 at the end; None if they are not such."""

    @property
    def is_converted(self) -> bool:
        """Whether the last call only converts the results to float32."""
        return widens(self.calls[-1])

    @property
    def computes(self) -> bool:
        """Whether there are other calls than such a conversion."""
        return len(self.calls) > self.is_converted


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """The operations that a GEMM's dispatch computes besides: the prologue and the epilogue of its node."""

    epilogue: Epilogue | None = None
    """The operations that follow the activation."""
    wide_input: Tensor | None = None
    """The float32 tensor from which the input has yet to be converted, if it has float16."""
    depthwise: Call | None = None
    """The depthwise convolution that gives the input, if it is computed in the same dispatch (`separable.py`)."""


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


def has_bound_with(epilogue: Epilogue, call: Call) -> bool:
    """Whether `verification/bound.py` knows a product of floats together with an epilogue: sums behind no activation.

    A filter that sees a channel has no bound with an epilogue.
    """
    is_activated = call.has("activation") and call.known("activation") != FuseCode.NONE
    if is_activated or call.code is OperationCode.DEPTHWISE_CONV_2D:
        return False
    return added_one_for_one(epilogue) is not None


def _second(call: Call, own: int) -> Tensor:
    """The operand of a call on two tensors that is not the GEMM's result."""
    other: Tensor = call.input1 if call.input0.index == own else call.input0
    return other


def _combination(call: Call, own: int) -> list[int]:
    """The fields of the shader's `Epilogue`, in vec4s: of the GEMM's result, the other operand, and the output."""
    push, parameters = rescaling(call), []
    sides = {"lhs": 1, "rhs": _COMBINED[call.code]}
    order = ("lhs", "rhs") if call.input0.index == own else ("rhs", "lhs")
    for side in order:
        parameters += [integer(push, f"{side}_{name}") for name in ("zero", "mantissa", "shift")] + [sides[side]]
    parameters += [integer(push, f"dst_{name}") for name in ("zero", "mantissa", "shift")] + [0]
    limits = clamp(call)
    return [*parameters, int(limits["low"]), int(limits["high"]), 0, 0]


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
