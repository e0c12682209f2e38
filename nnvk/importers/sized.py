"""Imports of one file for many input sizes: one is traced, and the models of others are filled with their numbers.

An import on extents (`nnvk.base.extents`) gives a model in which dimensions and parameters are expressions, and guards:
the conditions under which an import would have decided the same. For sizes that meet them, nothing is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nnvk.api import Model
from nnvk.base.errors import NnapiError
from nnvk.base.extents import Number, Trace, attempted, filled
from nnvk.base.log import logger
from nnvk.base.settings import settings
from nnvk.importers.errors import Unmapped
from nnvk.importers.ports import ImportedModel, Port, Signatures
from nnvk.ops import registry
from nnvk.types import model as frozen
from nnvk.types.codes import OperandCode
from nnvk.types.constant import OpenConstant, bytes_of
from nnvk.types.operand import Shape
from nnvk.types.template import ModelTemplate, has_open

_log = logger("model")
_MOST = 16
"""The most traced imports of a file that are kept."""
_MOST_FAILED = 2
"""So many imports that need sizes themselves, or can't be traced, are enough to know that the file's do."""

Shapes = Mapping[str, Shape]
"""The shapes of all inputs by their names."""
Load = Callable[[Shapes], ImportedModel]
Place = tuple[str, int]
"""A dimension of an input."""


class SizedImports:
    """Imports a file for shapes of its inputs, and traces an import once sizes differ."""

    def __init__(self, load: Load) -> None:
        """``load`` imports the file."""
        self._load = load
        self._last: Shapes | None = None
        self._traced: tuple[_TracedImport, ...] = ()
        self._failed = 0

    def __len__(self) -> int:
        """The number of traced imports."""
        return len(self._traced)

    def __call__(self, shapes: Shapes) -> ImportedModel:
        """The model for these shapes. Raises what ``load`` does."""
        for traced in self._traced:
            found = traced.model_for(shapes)
            if found is not None:
                if settings().verify_sizes:
                    _compare(found, self._load(shapes))
                return found
        last, self._last = self._last, shapes
        if last is not None and last != shapes and self._failed < _MOST_FAILED:
            made = _traced(self._load, last, shapes)
            found = None if made is None else made.model_for(shapes)
            if made is not None and found is not None:
                self._traced = (made, *self._traced[: _MOST - 1])
                return found
            self._failed += 1
        return self._load(shapes)


class _TracedImport:
    """A model in which numbers are extents."""

    def __init__(
        self, imported: ImportedModel, symbols: Sequence[Sequence[Place]], shapes: Shapes, trace: Trace
    ) -> None:
        """``symbols`` are the places of sizes that are the same in each call, ``shapes`` those that were traced."""
        self._imported = imported
        self._symbols = symbols
        self._shapes = shapes
        model = imported.model.frozen
        ports = (*imported.inputs, *imported.outputs)
        self._template = ModelTemplate(model, trace, [(port.shape, port.type.dimensions) for port in ports])
        self._checked = [one for one in model.operations if any(_is_data(model.operands[at]) for at in one.inputs)]
        """Operations whose rules depend on elements that are known when the sizes are."""

    def model_for(self, shapes: Shapes) -> ImportedModel | None:
        """The model for these shapes; None if an import would have decided otherwise."""
        sizes = self._sizes(shapes)
        try:
            numbers = None if sizes is None else self._template.numbers(sizes)
            if sizes is None or numbers is None:
                return None
            model = self._template.filled(sizes, numbers)
        except (Unmapped, ValueError, LookupError, ArithmeticError):  # constants that do not fit, as an import says
            return None
        if not all(_is_valid(operation, model.operands) for operation in self._checked):
            return None
        imported = self._imported
        inputs, outputs = (_filled_ports(ports, numbers) for ports in (imported.inputs, imported.outputs))
        return replace(imported, model=Model.of(model), inputs=inputs, outputs=outputs, signatures=Signatures())

    def _sizes(self, shapes: Shapes) -> list[int] | None:
        """The sizes that the symbols are; None if shapes differ in others."""
        if _ranks(shapes) != _ranks(self._shapes):
            return None
        sizes = []
        rest = {name: list(shape) for name, shape in shapes.items()}
        for places in self._symbols:
            first, *others = (shapes[name][axis] for name, axis in places)
            if any(other != first for other in others):
                return None
            sizes.append(first)
            for name, axis in places:
                rest[name][axis] = self._shapes[name][axis]
        return sizes if all(tuple(rest[name]) == shape for name, shape in self._shapes.items()) else None


def _traced(load: Load, last: Shapes, shapes: Shapes) -> _TracedImport | None:
    """An import on extents in the place of sizes that differ from the last ones; None: it is not possible."""
    symbols: dict[tuple[int, int], list[Place]] = {}
    if _ranks(last) != _ranks(shapes):
        return None
    for name, shape in shapes.items():
        for axis, (before, size) in enumerate(zip(last[name], shape, strict=True)):
            if before != size:
                symbols.setdefault((before, size), []).append((name, axis))
    trace = Trace()
    opened: dict[str, tuple[Any, ...]] = dict(shapes)
    for (_, size), places in symbols.items():
        symbol = trace.symbol(size)
        for name, at in places:
            opened[name] = tuple(symbol if axis == at else one for axis, one in enumerate(opened[name]))

    def made() -> _TracedImport | None:
        imported = load(opened)
        has_models = any(operand.subgraph is not None for operand in imported.model.frozen.operands)
        if imported.rest is not None or imported.states or has_models or trace.fixed:
            return None
        return _TracedImport(imported, list(symbols.values()), shapes, trace)

    return attempted(trace, made, _log, "models of other sizes are imported one by one", (NnapiError,))


def _ranks(shapes: Shapes) -> dict[str, int]:
    return {name: len(shape) for name, shape in shapes.items()}


def _is_data(operand: frozen.Operand) -> bool:
    return isinstance(operand.constant, OpenConstant) and operand.type.code is OperandCode.TENSOR_INT32


def _is_valid(operation: frozen.Operation, operands: Sequence[frozen.Operand]) -> bool:
    """Whether an operation takes its operands, which have all their dimensions."""
    try:
        call = registry.bind(
            operation, operands, lambda at: operands[at].constant, lambda at: operands[at].type.dimensions or None
        )
        registry.infer(call)
    except NnapiError:  # the error is one of an import
        return False
    return True


def _filled_ports(ports: Sequence[Port], numbers: Mapping[str, Number]) -> tuple[Port, ...]:
    return tuple(
        replace(
            port,
            shape=filled(port.shape, numbers),
            type=port.type.with_dimensions(filled(port.type.dimensions, numbers)),
        )
        if has_open((port.shape, port.type.dimensions))
        else port
        for port in ports
    )


def _compare(found: ImportedModel, imported: ImportedModel) -> None:
    """AssertionError if a model that was filled is not the one that is imported."""
    one, other = found.model.frozen, imported.model.frozen
    for name in ("operations", "inputs", "outputs", "relaxed", "input_names"):
        assert getattr(one, name) == getattr(other, name), f"{name} of other sizes differ"
    assert (found.inputs, found.outputs) == (imported.inputs, imported.outputs), "edges of other sizes differ"
    for place, (mine, theirs) in enumerate(zip(one.operands, other.operands, strict=True)):
        assert (mine.type, mine.lifetime) == (theirs.type, theirs.lifetime), f"operand {place} of other sizes differs"
        if mine.constant is not None:
            assert theirs.constant is not None and mine.constant.shape == theirs.constant.shape, place
            assert np.array_equal(bytes_of(mine.constant), bytes_of(theirs.constant)), f"constant {place} differs"
