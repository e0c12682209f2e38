"""Elementwise operations that follow each other, as `shaders/fused_elementwise.comp` and the ends of GEMMs compute
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import DType, named
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops import registry
from nnvk.ops.traits import Elementwise, Function
from nnvk.types.extension import KnownCode

FUSED_ELEMENTWISE = Shader("fused_elementwise", DTYPE=("f32", "f16"), LENGTH=("short", "long"))
LOCAL = 64
DENSE = {"row": 1, "magic_row": magic(1), "src_pitch": 1, "dst_pitch": 1}
"""Push constants of shaders that take tensors element by element, where none is columns of a larger one."""
SOURCES, NUMBERS, RESULTS = 5, 8, 2
"""The most sources, numbers and results of a program."""
INSTRUCTIONS = {"short": 6, "long": 16}
"""The most instructions of a program, by the shader's axis LENGTH."""
_OPEN = 64
"""The number that elementwise.glsl adds to the code of an operation whose result is not rounded yet."""
_FIRST_SOURCE, _FIRST_NUMBER, _FIRST_INSTRUCTION = 1, 1 + SOURCES, 1 + SOURCES + NUMBERS


def operations_on(operands: int) -> dict[KnownCode, Elementwise]:
    """The elementwise operations on so many operands, with their traits."""
    traits = {definition.code: definition.traits.elementwise for definition in registry.definitions().values()}
    return {code: trait for code, trait in traits.items() if trait is not None and len(trait.operands) == operands}


def types_of(code: KnownCode) -> frozenset[str]:
    """The values of the axis DTYPE for the types of an operation, those of the extension included."""
    definitions = (each for each in registry.definitions().values() if each.code is code)
    return frozenset(named(type_) for definition in definitions for type_ in definition.types)


class Spread(IntEnum):
    """How elements of a source belong to those of the results."""

    ABSENT = 1
    EACH_ONE = 2
    """One for one."""
    SINGLE = 3
    """It has but one."""
    WITHIN = 4
    """It is repeated after `Source.size` vec4s."""
    ACROSS = 5
    """Each of its elements counts for `Source.size` vec4s."""


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor that is read."""

    tensor: TensorRef
    spread: Spread = Spread.EACH_ONE
    size: int = 1


@dataclass(frozen=True, slots=True)
class Number:
    """A constant, by the bits of its float32: zeros have signs."""

    bits: int

    @classmethod
    def of(cls, value: float) -> Number:
        """The nearest float32."""
        return cls(int(np.float32(value).view(np.uint32)))


@dataclass(frozen=True, slots=True)
class Result:
    """The result of the instruction with this number."""

    instruction: int


Value = Source | Number | Result


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation of a program. An operation on a single operand has it as both operands."""

    function: Function
    left: Value
    right: Value
    is_open: bool = False
    """The limits of its activation follow: only what these give is as if it had been stored."""

    @property
    def word(self) -> int:
        """As elementwise.glsl has it."""
        return int(self.function) | (_OPEN if self.is_open else 0)


class Program:
    """Instructions in order, each on sources, numbers, and results of operations before."""

    def __init__(self) -> None:
        self.sources: dict[Source, int] = {}
        self.numbers: dict[Number, int] = {}
        self.instructions: list[Instruction] = []

    def add(self, function: Function, left: Value, right: Value | None = None) -> Result:
        """Append an instruction. An operation on a single operand has it as both operands."""
        right = left if right is None else right
        for value in (left, right):
            if isinstance(value, Source):
                self.sources.setdefault(value, len(self.sources))
            elif isinstance(value, Number):
                self.numbers.setdefault(value, len(self.numbers))
        self.instructions.append(Instruction(function, left, right))
        return Result(len(self.instructions) - 1)

    def limit(self, value: Value, low: float, high: float, *, is_stored: bool) -> Result:
        """The limits of an activation, where they are not infinite.

        ``is_stored``: it is an operation by itself, so that others may take the value as it was stored before.
        """
        for function, end in ((Function.AT_LEAST, low), (Function.AT_MOST, high)):
            if math.isfinite(end):
                if isinstance(value, Result) and not is_stored:
                    self.instructions[value.instruction] = replace(self.instructions[value.instruction], is_open=True)
                value = self.add(function, value, Number.of(end))
        return value if isinstance(value, Result) else self.add(Function.AT_LEAST, value, Number.of(-math.inf))

    @property
    def fits(self) -> bool:
        """Whether one dispatch can compute it."""
        return (
            len(self.sources) <= SOURCES
            and len(self.numbers) <= NUMBERS
            and len(self.instructions) <= INSTRUCTIONS["long"]
        )

    def table(self, g: Lowering) -> TensorRef:
        """The numbers, as a constant."""
        bits = tuple(number.bits for number in self.numbers) or (0,)
        return g.once(("numbers", bits), lambda: g.constant(np.array(bits, np.uint32)))


def fused_elementwise(
    g: Lowering, program: Program, results: Mapping[TensorRef, Result], type_: DType, operation: int
) -> Dispatch | None:
    """The dispatch that computes a program on floats of a type, and writes some of its results.

    ``operation``: to which it belongs.
    """
    sources, written = list(program.sources), list(results)
    length = next(length for length, instructions in INSTRUCTIONS.items() if len(program.instructions) <= instructions)
    spec: dict[str, int | float | bool] = {
        "local_x": LOCAL,
        "PAST_NUMBERS": _FIRST_NUMBER + len(program.numbers),
        **{f"SOURCE_{number}": int(source.spread) for number, source in enumerate(sources)},
        **{
            f"RESULT_{number}": _FIRST_INSTRUCTION + result.instruction
            for number, result in enumerate(results.values())
        },
    }
    for number, instruction in enumerate(program.instructions):
        spec[f"INSTRUCTION_{number}"] = instruction.word
        for side, value in (("LEFT", instruction.left), ("RIGHT", instruction.right)):
            if isinstance(value, Result):
                place = _FIRST_INSTRUCTION + value.instruction
            elif isinstance(value, Source):
                place = _FIRST_SOURCE + program.sources[value]
            else:
                place = _FIRST_NUMBER + program.numbers[value]
            spec[f"{side}_{number}"] = place
    table = program.table(g)
    read = [source.tensor for source in sources] or [table]
    every = _padded(sources)
    count = -(-written[0].nbytes * 2 // type_.bits)
    return g.made(
        FUSED_ELEMENTWISE.variant(DTYPE=type_.name, LENGTH=length),
        groups=g.flat(count, LOCAL),
        spec=spec,
        tensors={
            **{f"in{number}": read[min(number, len(read) - 1)] for number in range(SOURCES)},
            "numbers": table,
            **{f"out{number}": written[min(number, len(written) - 1)] for number in range(RESULTS)},
        },
        push={
            "count": count,
            **{f"size_{number}": source.size if source else 1 for number, source in enumerate(every)},
            **{f"magic_{number}": magic(source.size if source else 1) for number, source in enumerate(every)},
            "row": 1,
            "magic_row": magic(1),
            **{f"pitch_{number}": 1 for number in range(SOURCES)},
            **{f"result_pitch_{number}": 1 for number in range(RESULTS)},
        },
        operation=operation,
    )


def _padded(sources: Sequence[Source]) -> list[Source | None]:
    return [*sources, *[None] * (SOURCES - len(sources))]
