"""Shapes that a caller wants inputs to have, where they are not to be the file's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from nnvk.base.checks import sequence, whole
from nnvk.base.errors import bad_data
from nnvk.base.text import printable
from nnvk.importers.errors import NAME_SHOWN
from nnvk.types.operand import Shape

Shapes = Mapping[str, Sequence[int | None]]
"""Shapes of inputs by name. A size of None or -1 is the file's."""
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


def wanted_shapes(inputs: Sequence[Input], shapes: Shapes) -> list[Shape]:
    """The shapes of all inputs where a caller wants some to be others.

    BAD_DATA: a name is none of an input's, or that of several; a rank is not the file's; a size is below 1 or far too
    large. TypeError: an object is of a wrong kind.
    """
    if not isinstance(shapes, Mapping):
        raise TypeError(f"the shapes must be by name, {{'input': (4, 224, 224, 3)}}, got {type(shapes).__name__}")
    names = [one.name for one in inputs]
    for name in shapes:
        if names.count(name) != 1:
            known = ", ".join(repr(printable(known, NAME_SHOWN)) for known in names)
            how_many = "inputs" if name in names else "no input"
            raise bad_data(
                f"{how_many} of the model is called {printable(str(name), NAME_SHOWN)!r}, there are [{known}]"
            )
    return [_wanted(one, shapes[one.name]) if one.name in shapes else one.shape for one in inputs]


def _wanted(one: Input, given: Sequence[int | None]) -> Shape:
    what = f"the shape of '{printable(one.name, NAME_SHOWN)}'"
    sizes = list(sequence(what, given))
    if len(sizes) != len(one.shape):
        raise bad_data(f"{what} must have {len(one.shape)} sizes, as in {list(one.signature)}, got {len(sizes)}")
    shape = tuple(
        known if size is None or size == -1 else whole(f"a size in {what}", size, 1)
        for size, known in zip(sizes, one.shape, strict=True)
    )
    if math.prod(shape) * _LARGEST_ELEMENT > _MAX_BYTES:
        raise bad_data(f"{what}, {list(shape)}, is far too large")
    return shape
