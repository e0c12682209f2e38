"""The epilogue of a GEMM: operations on its results before they are stored (`shaders/include/epilogue.glsl`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.lowering.fused_elementwise import Number, Program, Result, Source, Spread, Value
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import are_small_shifts
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef

EPILOGUES = ("plain", "fused")
"""The values of the axis EPILOGUE of GEMM shaders: no epilogue, or fused elementwise operations."""
_NUMBERS, _INSTRUCTIONS = 4, 4
_OWN, _EXTRA, _FIRST_NUMBER, _FIRST_INSTRUCTION = 1, 2, 3, 7
_TABLE = 16
"""The words of an 8-bit epilogue's parameters, which precede its table."""


def exists(choice: Mapping[str, str]) -> bool:
    """Whether a data type has this variant of the axis EPILOGUE."""
    return choice["EPILOGUE"] == "plain" or choice["DTYPE"] not in ("i32", "q16")


@dataclass(frozen=True, slots=True)
class ByteEpilogue:
    """The epilogue of an 8-bit GEMM: combine with a second tensor, then look up in a table of 256 entries."""

    multipliers: np.ndarray
    """The requantisation multipliers of the GEMM."""
    code: int | None = None
    """The operation that combines with the second tensor, as elementwise.glsl numbers it: 1 for ADD and SUB, 3 for MUL.
    None without a second tensor.
    """
    parameters: tuple[int, ...] = ()
    """The fields of the shader's `Epilogue`, in vec4s."""
    extra: Source | None = None
    table: bytes = b""
    """The table of 256 bytes, or no bytes."""


def fits(program: Program, own: Source, channels: int) -> bool:
    """Whether a program can be the epilogue of a GEMM with so many channels. ``own``: the GEMM's result."""
    others = [source for source in program.sources if source != own]
    return (
        len(others) <= 1
        and all(is_extra(source, channels) for source in others)
        and len(program.numbers) <= _NUMBERS
        and len(program.instructions) <= _INSTRUCTIONS
    )


def is_extra(source: Source, channels: int) -> bool:
    """Whether a tensor can be the second tensor of an epilogue."""
    return source.spread in (Spread.EACH_ONE, Spread.SINGLE) or (
        source.spread is Spread.WITHIN and 4 * source.size == channels
    )


def with_program(g: Lowering, gemm: Dispatch, program: Program, own: Source, result: TensorRef) -> Dispatch:
    """Make a float GEMM with a program as its epilogue."""
    extra = next((source for source in program.sources if source != own), None)
    spec = {"EXTRA": int(extra.spread if extra else Spread.SINGLE)}
    numbers = list(program.numbers)

    def number_of(value: Value) -> int:
        if isinstance(value, Result):
            return _FIRST_INSTRUCTION + value.instruction
        return _FIRST_NUMBER + numbers.index(value) if isinstance(value, Number) else _OWN if value == own else _EXTRA

    for number, instruction in enumerate(program.instructions):
        spec |= {f"INSTRUCTION_{number}": instruction.word, f"LEFT_{number}": number_of(instruction.left)}
        spec[f"RIGHT_{number}"] = number_of(instruction.right)
    return _ended(g, gemm, spec, extra, {"parameters": program.table(g)}, result)


def with_bytes(g: Lowering, gemm: Dispatch, end: ByteEpilogue, result: TensorRef) -> Dispatch:
    """Make an 8-bit GEMM with an epilogue."""
    spec: dict[str, int | bool] = {"EXTRA": int(end.extra.spread if end.extra else Spread.SINGLE)}
    spec["LOOK_UP"] = bool(end.table)
    if end.code is not None:
        spec["COMBINE"] = end.code
        spec["SMALL_COMBINE"] = are_small_shifts(end.parameters[2:12:4])
    return _ended(g, gemm, spec, end.extra, {"multipliers": g.constant(_words(end))}, result)


def _words(end: ByteEpilogue) -> np.ndarray:
    """Parameters, table and multipliers, one after the other."""
    words: Sequence[int] = [*end.parameters, *[0] * (_TABLE - len(end.parameters))]
    table = np.frombuffer(end.table, np.int32)
    return np.concatenate([np.array(words, np.int64).astype(np.int32), table, end.multipliers.reshape(-1)])


def _ended(
    g: Lowering,
    gemm: Dispatch,
    spec: Mapping[str, int | bool],
    extra: Source | None,
    parameters: Mapping[str, TensorRef],
    result: TensorRef,
) -> Dispatch:
    shader = g.variant(gemm.shader.with_choice(*EPILOGUES))
    tensors = {
        **gemm.tensors,
        "dst": result,
        **parameters,
        "extra": extra.tensor if extra else next(iter(parameters.values())),
    }
    words = shader.specialization(spec, gemm.shader.named_constants(gemm.specialization))
    return replace(gemm, shader=shader, tensors=tensors, specialization=words)
