"""Fused elementwise operations, for `shaders/fused_elementwise.comp` and for the epilogues of GEMMs."""

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
"""The push constants of elementwise shaders if no tensor is a strided view."""
SOURCES, NUMBERS, RESULTS = 5, 8, 2
"""The most sources, numbers and results of a program."""
INSTRUCTIONS = {"short": 6, "long": 16}
"""The most instructions of a program, by the shader's axis LENGTH."""
_OPEN = 64
"""The number that is added to the code of an operation if its result is not rounded yet (elementwise.glsl)."""
_FIRST_SOURCE, _FIRST_NUMBER, _FIRST_INSTRUCTION = 1, 1 + SOURCES, 1 + SOURCES + NUMBERS


def operations_on(operands: int) -> dict[KnownCode, Elementwise]:
    """The elementwise operations with this number of operands, with their traits."""
    traits = {definition.code: definition.traits.elementwise for definition in registry.definitions().values()}
    return {code: trait for code, trait in traits.items() if trait is not None and len(trait.operands) == operands}


def types_of(code: KnownCode) -> frozenset[str]:
    """The values of the axis DTYPE for the types of an operation, those of the extension included."""
    definitions = (each for each in registry.definitions().values() if each.code is code)
    return frozenset(named(type_) for definition in definitions for type_ in definition.types)


class Spread(IntEnum):
    """The relation between the elements of a source and of the results."""

    ABSENT = 1
    EACH_ONE = 2
    """The source has an element for each result."""
    SINGLE = 3
    """The source has one element."""
    WITHIN = 4
    """The source is repeated after `Source.size` vec4s."""
    ACROSS = 5
    """Each of its elements counts for `Source.size` vec4s."""


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor that a program reads."""

    tensor: TensorRef
    spread: Spread = Spread.EACH_ONE
    size: int = 1


@dataclass(frozen=True, slots=True)
class Number:
    """A constant, by the bits of its float32, so that 0.0 and -0.0 differ."""

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
    """The limits of an activation follow, so rounding is left to the last of them."""

    @property
    def word(self) -> int:
        """The code of the instruction in elementwise.glsl."""
        return int(self.function) | (_OPEN if self.is_open else 0)


class Program:
    """Instructions in order. Each has sources, numbers and earlier results as operands."""

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

        ``is_stored``: the activation is a separate operation, so other operations may read its rounded input.
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
        """A constant with the numbers of the program."""
        bits = tuple(number.bits for number in self.numbers) or (0,)
        return g.once(("numbers", bits), lambda: g.constant(np.array(bits, np.uint32)))


def fused_elementwise(
    g: Lowering, program: Program, results: Mapping[TensorRef, Result], type_: DType, operation: int
) -> Dispatch | None:
    """The dispatch that computes a program on floats of a type, and writes some of its results.

    ``operation``: the operation of the dispatch.
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
