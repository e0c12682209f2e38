"""Elementwise operations that one dispatch of `shaders/fused_elementwise.comp` computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nnvk.driver.vulkan.graph.program import (
    INSTRUCTIONS,
    NUMBERS,
    RESULTS,
    SOURCES,
    ElementwiseProgram,
    Result,
    Source,
    Spread,
)
from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import SIZES, dtype, named
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.strided_view import Constants, RowAccess, Rows, Views, common_width, pitch_of
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader, Variant
from nnvk.ops import registry
from nnvk.ops.call import Tensor
from nnvk.ops.traits import Elementwise
from nnvk.types.extension import KnownCode

FUSED_ELEMENTWISE = Shader("fused_elementwise", DTYPE=("f32", "f16"), LENGTH=("short", "long"))
LOCAL = 64
_FIRST_SOURCE, _FIRST_NUMBER, _FIRST_INSTRUCTION = 1, 1 + SOURCES, 1 + SOURCES + NUMBERS


def operations_on(operands: int) -> dict[KnownCode, Elementwise]:
    """The elementwise operations with this number of operands, with their traits."""
    traits = {definition.code: definition.traits.elementwise for definition in registry.definitions().values()}
    return {code: trait for code, trait in traits.items() if trait is not None and len(trait.operands) == operands}


def types_of(code: KnownCode) -> frozenset[str]:
    """The values of the axis DTYPE for the types of an operation, those of the extension included."""
    definitions = (each for each in registry.definitions().values() if each.code is code)
    return frozenset(named(type_) for definition in definitions for type_ in definition.types)


def variant_of(program: ElementwiseProgram, type_: str) -> Variant:
    """The variant that computes a program on floats of a type, as the axis DTYPE has it."""
    length = next(length for length, instructions in INSTRUCTIONS.items() if len(program.instructions) <= instructions)
    return FUSED_ELEMENTWISE.variant(DTYPE=type_, LENGTH=length)


def access_to_vec4s(source: int, target: int) -> RowAccess:
    """The access of shaders from ``src`` to ``dst``, whose elements have so many bytes."""
    return _by_vec4s({"src": Rows(source), "dst": Rows(target)}, {"src": "src_pitch", "dst": "dst_pitch"})


def _by_vec4s(rows: Mapping[str, Rows | None], names: Mapping[str, str]) -> RowAccess:
    """The access of elementwise shaders; ``names`` are of the push constants that are pitches of tensors."""

    def pitches(views: Views) -> Constants | None:
        row = common_width(views) if views else 4
        if row is None:
            return None
        push = {name: pitch_of(views, tensor, row) // 4 for tensor, name in names.items()}
        return {"STRIDED": True} if views else {}, {"row": row // 4, "magic_row": magic(row // 4), **push}

    return RowAccess(rows, (pitches,))


def memory_of(g: Lowering, program: ElementwiseProgram, source: Source) -> TensorRef:
    """The memory of a source of a program."""
    return g.tensor(program.tensors[source.index])


def numbers_of(g: Lowering, program: ElementwiseProgram) -> TensorRef:
    """A constant with the numbers of a program."""
    bits = tuple(number.bits for number in program.numbers) or (0,)
    return g.once(("numbers", bits), lambda: g.constant(np.array(bits, np.uint32)))


def fuse_elementwise(g: Lowering, program: ElementwiseProgram, outputs: Sequence[Tensor]) -> None:
    """Compute a program by one dispatch that writes some of its results."""
    sources, results = list(program.sources), [program.result(output) for output in outputs]
    spec: dict[str, int | float | bool] = {
        "local_x": LOCAL,
        "PAST_NUMBERS": _FIRST_NUMBER + len(program.numbers),
        **{f"SOURCE_{number}": int(source.spread) for number, source in enumerate(sources)},
        **{f"RESULT_{number}": _FIRST_INSTRUCTION + result.instruction for number, result in enumerate(results)},
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
    table = numbers_of(g, program)
    read = [memory_of(g, program, source) for source in sources] or [table]
    written = [g.tensor(output) for output in outputs]
    count, type_ = -(-outputs[0].size // 4), dtype(outputs[0])
    every = [*sources, *[None] * (SOURCES - len(sources))]
    push = {f"size_{number}": source.size if source else 1 for number, source in enumerate(every)}
    push |= {f"magic_{number}": magic(source.size if source else 1) for number, source in enumerate(every)}
    arguments = Arguments(
        spec,
        {
            **{f"in{number}": read[min(number, len(read) - 1)] for number in range(SOURCES)},
            "numbers": table,
            **{f"out{number}": written[min(number, len(written) - 1)] for number in range(RESULTS)},
        },
        {"count": count, **push},
        _access(every, len(outputs), Rows(SIZES[type_])),
    )
    arguments.dispatch(g, variant_of(program, type_), g.flat(count, LOCAL))


def _access(sources: Sequence[Source | None], outputs: int, rows: Rows) -> RowAccess:
    """The access of a program. A source that is not read element by element can't be a view."""
    whole = {number: source for number, source in enumerate(sources) if not source or source.spread is Spread.EACH_ONE}
    read = {f"in{number}": rows if source else None for number, source in whole.items()}
    written = {f"out{number}": rows if number < outputs else None for number in range(RESULTS)}
    names = {f"in{number}": f"pitch_{number}" for number in range(SOURCES)}
    return _by_vec4s(read | written, names | {f"out{number}": f"result_pitch_{number}" for number in range(RESULTS)})
