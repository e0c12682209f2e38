"""Generators: for each operation, a way to draw valid cases, with all overloads and options, of any leading type.

`draw_case` gives a `Case`, `run_case` its outputs on the reference device. Properties, random graphs and the fuzzer
use them. `generators.derived` serves the operations that no module registers a generator for.
"""

from __future__ import annotations

from generators import control, detection, elementwise, extension, filters, recurrent, shape
from generators.draw import Arg, Case, Draw
from generators.run import drawn, frozen, run_case
from generators.table import generators
from nnvk.ops import registry
from nnvk.types.codes import OperandCode
from nnvk.types.extension import KnownCode

__all__ = ["Arg", "Case", "Draw", "draw_case", "drawn", "frozen", "generators", "run_case"]

_FAMILIES = (control, detection, elementwise, extension, filters, recurrent, shape)


def draw_case(d: Draw, code: KnownCode, leading: OperandCode | None = None) -> Case:
    """Draw a valid case of an operation, of any leading type unless one is given."""
    types = list(registry.lookup(code).types)
    return generators()[code](d, code, d.pick(types) if leading is None else leading)
