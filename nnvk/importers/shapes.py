"""Shapes that a caller wants inputs to have, where they are not to be the file's."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from nnvk.base.checks import sequence, whole
from nnvk.base.errors import WrongKind, bad_data
from nnvk.base.text import did_you_mean, printable
from nnvk.importers.errors import NAME_SHOWN
from nnvk.types.operand import Shape

Shapes = Mapping[str, Sequence[int | None] | int]
"""Shapes of inputs by name, in which None or -1 stands for the file's size, and open sizes by the file's names."""
USUAL_SIZE = 224
"""For open sizes, where the model can't be imported with the file's: images have it more often than any other."""
_MOST_TRIED = 8
"""The most sizes with a name that are tried as the sum of two others."""
_LARGEST_ELEMENT = 8
_MAX_BYTES = 2**32 - 1
"""The largest tensor that NNAPI can describe."""


class Input(Protocol):
    """An input as the file declares it."""

    @property
    def name(self) -> str:
        """The name of the input."""

    @property
    def shape(self) -> Shape:
        """Its shape, where nothing else is wanted."""

    @property
    def signature(self) -> Shape:
        """Its shape, with -1 for sizes that the file leaves open."""

    @property
    def symbols(self) -> Sequence[str]:
        """The names of its sizes, empty for sizes without one; no names at all where the format has none."""


def wanted_shapes(inputs: Sequence[Input], shapes: Shapes) -> list[Shape]:
    """The shapes of all inputs where a caller wants some to be others.

    A size that has a name in the file is the same in all inputs whose shape the caller does not give. BAD_DATA: a name
    is none of an input's and of a size's, or that of several inputs; a rank is not the file's; a size is below 0 or far
    too large; one name has two sizes. TypeError: an object is of a wrong kind.
    """
    if not isinstance(shapes, Mapping):
        raise WrongKind(f"the shapes must be by name, {{'input': (4, 224, 224, 3)}}, got {type(shapes).__name__}")
    names = [one.name for one in inputs]
    symbols = {symbol for one in inputs for symbol in one.symbols if symbol}
    sizes: dict[str, int] = {}
    for name, given in shapes.items():
        if name in names and names.count(name) == 1:
            continue
        if name not in symbols or name in names:
            raise bad_data(_unknown(str(name), names, symbols))
        sizes[name] = whole(f"the size {printable(name, NAME_SHOWN)!r}", _single(name, given), 0)
    wanted = {one.name: _wanted(one, shapes[one.name]) for one in inputs if one.name in shapes}
    for one in inputs:
        for symbol, size in zip(one.symbols, wanted.get(one.name, ()), strict=False):
            if symbol in shapes and sizes.get(symbol, size) != size:
                raise bad_data(f"{printable(symbol, NAME_SHOWN)!r} can't be {sizes[symbol]} and {size}")
            if symbol:
                sizes[symbol] = size
    return [wanted[one.name] if one.name in wanted else _checked(one, _named(one, sizes)) for one in inputs]


def fitting(inputs: Sequence[Input], shapes: Shapes) -> Iterator[Shapes]:
    """Sizes to try in turn, where a model can't be imported with the file's placeholders for open sizes, which are 1.

    A window may not fit into an image of one pixel. Each of `sums` is tried.
    """
    larger = enlarged(inputs, shapes)
    if larger is None:
        return
    yield larger
    given = {symbol for one in inputs if one.name in shapes for symbol in one.symbols}
    yield from ({**shapes, symbol: 2} for symbol in sums(inputs, {*shapes, *given}))


def sums(inputs: Sequence[Input], given: Collection[str] = ()) -> list[str]:
    """The names of sizes that may be the sum of two others, and are 2 where these are 1, but for ``given`` ones.

    The size of a mask is one, for tokens behind a cache. One size alone may be left open, or both of these.
    """
    names = {one.name for one in inputs}
    symbols = dict.fromkeys(symbol for one in inputs for symbol in one.symbols if symbol)
    tried = [symbol for symbol in symbols if symbol not in {*given, *names}]
    return tried[:_MOST_TRIED] if len(tried) > 1 else []


def enlarged(inputs: Sequence[Input], shapes: Shapes) -> Shapes | None:
    """The shapes with `USUAL_SIZE` for open sizes that are not in ``shapes``, which must fit the inputs.

    A first dimension, which mostly counts rows, stays as it is. None: there are no such sizes.
    """
    larger: dict[str, Sequence[int | None]] = {}
    for one in inputs:
        given = shapes.get(one.name, (None,) * len(one.signature))
        if isinstance(given, int):
            continue
        symbols = one.symbols or ("",) * len(one.signature)
        sizes = [
            _single(symbol, shapes[symbol]) if size in (None, -1) and symbol in shapes else size
            for size, symbol in zip(given, symbols, strict=True)
        ]
        opened = [
            place > 0 and size in (None, -1) and in_file == -1
            for place, (size, in_file) in enumerate(zip(sizes, one.signature, strict=True))
        ]
        if any(opened):
            larger[one.name] = [USUAL_SIZE if is_open else size for is_open, size in zip(opened, sizes, strict=True)]
    return {**shapes, **larger} if larger else None


def _unknown(name: str, names: Sequence[str], symbols: set[str]) -> str:
    known = ", ".join(repr(printable(known, NAME_SHOWN)) for known in names)
    sizes = ", ".join(repr(printable(symbol, NAME_SHOWN)) for symbol in sorted(symbols))
    how_many = "inputs" if name in names else "no input"
    and_sizes = f", and the sizes [{sizes}]" if sizes else ""
    hint = "" if name in names else did_you_mean(name, [*names, *symbols])
    return f"{how_many} of the model is called {printable(name, NAME_SHOWN)!r}, there are [{known}]{and_sizes}{hint}"


def _single(name: str, given: Sequence[int | None] | int) -> int | None:
    """One size, also in a list."""
    if isinstance(given, Sequence) and len(given) == 1:
        return given[0]
    if isinstance(given, Sequence):
        raise bad_data(f"{printable(name, NAME_SHOWN)!r} is one size of the model, got {list(given)}")
    return given


def _named(one: Input, sizes: Mapping[str, int]) -> Shape:
    """The shape of an input that the caller does not give, with the sizes that have a name."""
    if not one.symbols:
        return one.shape
    return tuple(sizes.get(symbol, size) for symbol, size in zip(one.symbols, one.shape, strict=True))


def _wanted(one: Input, given: Sequence[int | None] | int) -> Shape:
    what = f"the shape of '{printable(one.name, NAME_SHOWN)}'"
    sizes = [given] if isinstance(given, int) and len(one.shape) == 1 else list(sequence(what, given))
    if len(sizes) != len(one.shape):
        raise bad_data(f"{what} must have {len(one.shape)} sizes, as in {list(one.signature)}, got {len(sizes)}")
    shape = tuple(
        known if size is None or size == -1 else whole(f"a size in {what}", size, 0)
        for size, known in zip(sizes, one.shape, strict=True)
    )
    return _checked(one, shape)


def is_far_too_large(shape: Shape) -> bool:
    """Whether NNAPI can't describe a tensor of this shape."""
    return math.prod(shape) * _LARGEST_ELEMENT > _MAX_BYTES


def _checked(one: Input, shape: Shape) -> Shape:
    if is_far_too_large(shape) and shape != one.shape:
        raise bad_data(f"the shape of '{printable(one.name, NAME_SHOWN)}', {list(shape)}, is far too large")
    return shape
