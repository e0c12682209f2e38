"""Shapes that callers want inputs to have: what they may say, and what is taken for sizes that stay open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from nnvk import NnapiError
from nnvk.importers.shapes import USUAL_SIZE, enlarged, fitting, wanted_shapes


@dataclass
class Given:
    """An input as a file declares it."""

    name: str
    signature: tuple[int, ...]
    symbols: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(1 if size == -1 else size for size in self.signature)


IMAGE = Given("image", (-1, 3, -1, -1), ("batch", "", "height", "width"))
MASK = Given("mask", (-1, 7), ("batch", ""))
ROW = Given("row", (-1,), ("length",))
PLAIN = Given("plain", (2, 3))
INPUTS = [IMAGE, MASK, ROW, PLAIN]


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({}, [(1, 3, 1, 1), (1, 7), (1,), (2, 3)]),
        ({"batch": 4}, [(4, 3, 1, 1), (4, 7), (1,), (2, 3)]),
        ({"batch": [4]}, [(4, 3, 1, 1), (4, 7), (1,), (2, 3)]),
        ({"image": (4, 3, 5, 6)}, [(4, 3, 5, 6), (4, 7), (1,), (2, 3)]),
        ({"image": (4, 3, 5, 6), "batch": 4}, [(4, 3, 5, 6), (4, 7), (1,), (2, 3)]),
        ({"image": (None, -1, 5, 6)}, [(1, 3, 5, 6), (1, 7), (1,), (2, 3)]),
        ({"mask": (2, 7), "height": 9}, [(2, 3, 9, 1), (2, 7), (1,), (2, 3)]),
        ({"row": 5}, [(1, 3, 1, 1), (1, 7), (5,), (2, 3)]),
        ({"row": (5,)}, [(1, 3, 1, 1), (1, 7), (5,), (2, 3)]),
        ({"batch": 0}, [(0, 3, 1, 1), (0, 7), (1,), (2, 3)]),
        ({"plain": (3, 2)}, [(1, 3, 1, 1), (1, 7), (1,), (3, 2)]),
        ({"image": (2, 3, 1, 1), "mask": (3, 7)}, [(2, 3, 1, 1), (3, 7), (1,), (2, 3)]),
    ],
    ids=str,
)
def test_shapes(shapes: Any, expected: list[tuple[int, ...]]) -> None:
    """A size that has a name is the same in all inputs whose shape is not given."""
    assert wanted_shapes(INPUTS, shapes) == expected


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"batches": 4}, r"no input of the model is called 'batches', there are .*, and the sizes .*did you mean"),
        ({"image": (4, 3, 5)}, r"the shape of 'image' must have 4 sizes, as in \[-1, 3, -1, -1\], got 3"),
        ({"image": (4, 3, 5, 6, 7)}, "must have 4 sizes"),
        ({"batch": -3}, "the size 'batch'"),
        ({"batch": [4, 5]}, r"'batch' is one size of the model, got \[4, 5\]"),
        ({"image": (-2, 3, 5, 6)}, "a size in the shape of 'image'"),
        ({"image": (4, 3, 5, 6), "batch": 5}, "'batch' can't be 5 and 4"),
        ({"image": (1 << 14, 1 << 15, 1, 1)}, r"'image', \[16384, 32768, 1, 1\], is far too large"),
        ({"plain": 6}, "the shape of 'plain'"),
    ],
    ids=str,
)
def test_shapes_that_are_refused(shapes: Any, said: str) -> None:
    with pytest.raises((NnapiError, TypeError), match=said):
        wanted_shapes(INPUTS, shapes)


def test_the_largest_shape() -> None:
    """A tensor of 8 bytes for each element must have less than 4 GiB, unless the file has the shape itself."""
    largest = (1 << 29) - 1
    assert wanted_shapes([Given("x", (-1,))], {"x": largest}) == [(largest,)]
    with pytest.raises(NnapiError, match="far too large"):
        wanted_shapes([Given("x", (-1,))], {"x": largest + 1})
    assert wanted_shapes([Given("x", (largest + 1,))], {}) == [(largest + 1,)]


@pytest.mark.parametrize("shapes", [[("x", 1)], 5, "x"], ids=str)
def test_shapes_are_by_name(shapes: Any) -> None:
    with pytest.raises(TypeError, match="the shapes must be by name"):
        wanted_shapes(INPUTS, shapes)


def test_names_of_several_inputs() -> None:
    twice = [Given("x", (-1, 2)), Given("x", (-1, 3))]
    with pytest.raises(NnapiError, match="inputs of the model is called 'x'"):
        wanted_shapes(twice, {"x": (1, 2)})


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({}, {"image": [None, None, USUAL_SIZE, USUAL_SIZE]}),
        ({"height": 5}, {"height": 5, "image": [None, None, 5, USUAL_SIZE]}),
        ({"height": 5, "width": 6}, None),
        ({"image": (2, 3, 5, None)}, {"image": [2, 3, 5, USUAL_SIZE]}),
        ({"image": (2, 3, -1, 6)}, {"image": [2, 3, USUAL_SIZE, 6]}),
        ({"image": (2, 3, 5, 6)}, None),
        ({"batch": 4, "row": 3}, {"batch": 4, "row": 3, "image": [4, None, USUAL_SIZE, USUAL_SIZE]}),
    ],
    ids=str,
)
def test_usual_sizes(shapes: Any, expected: Any) -> None:
    """First dimensions and sizes that the file or the caller gives stay; None without open ones."""
    assert enlarged(INPUTS, shapes) == expected


def test_usual_sizes_without_names() -> None:
    assert enlarged([Given("x", (-1, -1, 3))], {}) == {"x": [None, USUAL_SIZE, None]}
    assert enlarged([PLAIN, Given("x", (-1,))], {}) is None


def test_sizes_to_try() -> None:
    """Each size that has a name may be the sum of two others."""
    tokens, cache, mask = (Given(name, (-1, -1), ("batch", name + "s")) for name in ("token", "cache", "mask"))
    found = list(fitting([tokens, cache, mask], {"batch": 4}))
    assert found[1:] == [{"batch": 4, size: 2} for size in ("tokens", "caches", "masks")]
    assert list(fitting([cache, mask], {"batch": 4}))[1:] == [{"batch": 4, size: 2} for size in ("caches", "masks")]
    assert len(list(fitting([tokens], {"batch": 4}))) == 1
    assert not list(fitting([PLAIN], {}))
