"""Barriers: exactly where a command reads or writes what earlier ones write, or writes what they read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnvk.driver.vulkan.planning.barriers import _Disjoint, barriers
from nnvk.driver.vulkan.planning.plan import Address
from nnvk.driver.vulkan.shaders.commands import Copy, Storage, StridedView, TensorRef

# A command copies from the first tensor to the second; a tensor is a letter, its place comes from LAYOUT.
LAYOUT = {
    "a": Address(Storage.ARENA, 0, 0, 100),
    "b": Address(Storage.ARENA, 0, 128, 64),
    "c": Address(Storage.ARENA, 0, 192, 64),
    "d": Address(Storage.ARENA, 1, 0, 256),  # another page
    "e": Address(Storage.ARENA, 0, 64, 128),  # lies over the end of a (with its padding) and b
    "s": Address(Storage.STAGING, 0, 0, 256),
    "w": Address(Storage.CONSTANTS, 0, 0, 256),
}
NUMBERS = {letter: number for number, letter in enumerate(LAYOUT)}
ADDRESSES = {NUMBERS[letter]: address for letter, address in LAYOUT.items()}


def needed(*copies: str, by_buffer: bool = False) -> list[int]:
    refs = {letter: TensorRef(NUMBERS[letter], at.nbytes, at.storage) for letter, at in LAYOUT.items()}
    return sorted(barriers([Copy(refs[a], refs[b], 4) for a, b in copies], ADDRESSES, by_buffer=by_buffer))


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        ([], []),
        (["ab"], []),
        (["ab", "bc"], [1]),  # read after write
        (["ab", "ca"], [1]),  # write after read
        (["ab", "cb"], [1]),  # write after write
        (["ab", "ac"], []),  # both only read
        (["wb", "wc", "wd"], []),
        (["ab", "cd"], []),  # nothing in common
        (["ab", "cd", "dc"], [2]),
        (["sa", "bc", "as"], [2]),
        (["sa", "ad", "db", "bs"], [1, 2, 3]),
        (["ab", "bc", "ad"], [1]),  # a barrier serves all later commands
        (["ab", "ce"], [1]),  # other tensors, the same bytes
        (["sa", "ec"], [1]),  # padding counts
        (["cd", "sa"], []),  # the same offsets of other pages and storages
        (["ed", "as", "wb"], [2]),  # two ranges that were read overlap, and one of them ends at the other's middle
        (["ad", "es", "wa"], [2]),
    ],
    ids=lambda value: "-".join(map(str, value)),
)
def test_hazards(copies: Sequence[str], expected: list[int]) -> None:
    assert needed(*copies) == expected


def test_for_the_validation_layer_whole_buffers_count() -> None:
    assert needed("ab", "wd", "sc", by_buffer=True) == [2]
    assert needed("wa", "wb", by_buffer=True) == [1]
    assert needed("ws", "wd", "wa", by_buffer=True) == []


@given(st.lists(st.tuples(st.sampled_from("abcdesw"), st.sampled_from("abcdes")).map("".join), max_size=12))
def test_no_hazard_is_left_between_barriers(copies: list[str]) -> None:
    at = needed(*copies)

    def clash(a: str, b: str) -> bool:
        one, other = LAYOUT[a], LAYOUT[b]
        same = one.storage is other.storage and one.page == other.page
        return (
            same
            and one.offset < other.offset + -(-other.nbytes // 64) * 64
            and other.offset < one.offset + -(-one.nbytes // 64) * 64
        )

    def hazard(first: str, second: str) -> bool:
        return clash(first[1], second[0]) or clash(first[1], second[1]) or clash(first[0], second[1])

    for later in range(len(copies)):
        begin = max((position for position in at if position <= later), default=0)
        assert not any(hazard(copies[earlier], copies[later]) for earlier in range(begin, later))
    for position in at:
        begin = max((other for other in at if other < position), default=0)
        assert any(hazard(copies[earlier], copies[position]) for earlier in range(begin, position)), "one too many"


# --- columns of rows ---------------------------------------------------------------------------------------------


class Columns:
    """Copies between tensors of a page, of which some are columns of rows of 64 bytes, four rows each."""

    def __init__(self, **views: tuple[int, int, int] | None) -> None:
        """``views`` gives each tensor the byte at which rows begin, and its columns; None for one of another page."""
        self.addresses, self.refs = {}, {}
        for number, (letter, view) in enumerate(views.items()):
            address = Address(Storage.ARENA, 1 + number, 0, 64)
            if view is not None:
                begin, first, width = view
                address = Address(Storage.ARENA, 0, begin + first, 4 * width, StridedView(first, width, 64))
            self.addresses[number] = address
            self.refs[letter] = TensorRef(number, address.nbytes, address.storage)

    def needed(self, *copies: str) -> list[int]:
        refs = self.refs
        return sorted(barriers([Copy(refs[a], refs[b], 4) for a, b in copies], self.addresses))


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ((0, 0, 16), (0, 16, 16), False),
        ((0, 0, 16), (0, 0, 16), True),
        ((0, 0, 20), (0, 16, 16), True),
        ((0, 48, 16), (0, 32, 16), False),
        ((0, 32, 20), (0, 48, 16), True),
        # Rows that begin elsewhere are seen as if they were dense, from their first byte to their last.
        ((0, 0, 16), (256, 0, 16), False),
        ((0, 48, 16), (256, 0, 16), False),
        ((0, 48, 16), (192, 0, 16), True),
        ((192, 0, 16), (0, 48, 16), True),
        ((0, 0, 16), (192, 16, 16), False),
        ((0, 0, 16), (128, 16, 16), True),
    ],
    ids=str,
)
def test_columns_of_rows(one: tuple[int, int, int], other: tuple[int, int, int], clash: bool) -> None:
    columns = Columns(a=one, b=other, x=None, y=None)
    at = [1] * clash
    assert columns.needed("xa", "yb") == at
    assert columns.needed("xa", "by") == at
    assert columns.needed("ax", "yb") == at
    assert columns.needed("ax", "by") == []


def test_columns_beside_a_tensor_of_the_page() -> None:
    whole = Columns(a=(0, 16, 16), x=None, y=None)
    for offset, nbytes, clash in ((0, 16, False), (0, 17, True), (224, 16, False), (208, 16, True), (64, 16, True)):
        whole.addresses[3] = Address(Storage.ARENA, 0, offset, nbytes)
        whole.refs["b"] = TensorRef(3, nbytes, Storage.ARENA)
        assert whole.needed("xa", "yb") == [1] * clash, (offset, nbytes)
        assert whole.needed("xb", "ya") == [1] * clash, (offset, nbytes)


def test_columns_that_are_touched_again() -> None:
    """All columns since the last barrier count, and none from before it."""
    columns = Columns(a=(0, 0, 16), b=(0, 16, 16), c=(0, 32, 16), d=(192, 0, 16), x=None, y=None)
    assert columns.needed("xa", "xb", "xc", "by") == [3]
    assert columns.needed("xa", "ax", "xb", "xc") == [1, 2]
    assert columns.needed("xa", "xb", "xc", "yd") == [3]
    assert columns.needed("xc", "xa", "yd") == [2]


_RANGES = st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda one: (one[0], sum(one)))


@given(st.lists(_RANGES, max_size=8), _RANGES)
def test_ranges_are_sets_of_bytes(added: list[tuple[int, int]], asked: tuple[int, int]) -> None:
    """Ranges that share something become one, however many they are."""
    ranges, taken = _Disjoint(), set[int]()
    for first, end in added:
        assert ranges.overlaps(first, end) == (not taken.isdisjoint(range(first, end)))
        ranges.add(first, end)
        taken.update(range(first, end))
    assert ranges.overlaps(*asked) == (not taken.isdisjoint(range(*asked)))


@pytest.mark.parametrize(
    ("added", "asked", "is_taken"),
    [
        ([(0, 10), (20, 40), (5, 25)], (30, 35), True),
        ([(0, 40), (50, 60), (5, 10)], (41, 49), False),
        ([(0, 40), (50, 60), (5, 10)], (39, 40), True),
        ([(10, 20), (30, 40), (50, 60), (15, 55)], (59, 60), True),
        ([(10, 20), (30, 40), (50, 60), (15, 55)], (60, 61), False),
        ([(10, 20), (30, 40), (50, 60), (15, 55)], (9, 10), False),
        ([(10, 20), (20, 30)], (19, 20), True),
    ],
    ids=str,
)
def test_ranges_that_join_others(added: list[tuple[int, int]], asked: tuple[int, int], is_taken: bool) -> None:
    ranges = _Disjoint()
    for each in added:
        ranges.add(*each)
    assert ranges.overlaps(*asked) == is_taken
