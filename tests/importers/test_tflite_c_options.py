"""Options in the form of TFLite's C structures, as the delegate gets them."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from nnvk.importers.errors import Unmapped
from nnvk.importers.tflite.c_options import LAYOUTS, Options

LIST = "8ii"


@pytest.mark.parametrize("count", range(9))
def test_lists_of_numbers(count: int) -> None:
    """They have up to 8; without any they are 0, as accessors of the schema give it."""
    numbers = [3, -1, 5, 7, 2, 9, 4, 6]
    found = Options("SqueezeOptions", struct.pack(LIST, *numbers, count)).SqueezeDimsAsNumpy()
    if count:
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.tolist()) == (np.int32, numbers[:count])
    else:
        assert isinstance(found, int) and found == 0


@pytest.mark.parametrize("count", [-1, 9, 1 << 30])
def test_lists_of_too_many_numbers(count: int) -> None:
    with pytest.raises(Unmapped, match=f"SqueezeOptions must have at most 8 numbers, got {count}"):
        Options("SqueezeOptions", struct.pack(LIST, *range(8), count))


@pytest.mark.parametrize("table", LAYOUTS)
def test_structures_have_their_sizes(table: str) -> None:
    layout = LAYOUTS[table]
    options = Options(table, bytes(layout.size))
    for name, kind in layout.fields:
        assert getattr(options, name)() == (-1 if kind == "p" else 0), name
    for size in (layout.size - 1, layout.size + 1):
        with pytest.raises(Unmapped, match=f"expected options of type {table}, got {size} bytes of others"):
            Options(table, bytes(size))


def test_options_that_no_structure_has() -> None:
    with pytest.raises(Unmapped, match="expected options of type NoOptions, got 4 bytes of others"):
        Options("NoOptions", bytes(4))
