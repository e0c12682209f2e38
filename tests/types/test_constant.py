"""Constants whose elements are made when somebody looks at them."""

from __future__ import annotations

import gc
import mmap

import numpy as np
import pytest

from nnvk.types.constant import (
    Constant,
    DeferredConstant,
    QuantisedConstant,
    beginning,
    bytes_of,
    converted,
    deferred_bytes,
    elements,
    origin,
    portion,
    reshaped,
    transposed,
)


class DynamicExtent:
    """Makes the numbers from 5 to 0, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> np.ndarray:
        self.calls += 1
        return np.arange(6, dtype=np.int8)[::-1].reshape(2, 3)


def test_nothing_is_made_before_somebody_looks() -> None:
    make = DynamicExtent()
    constant = DeferredConstant((2, 3), np.dtype(np.float32), make)
    assert (constant.shape, constant.size, constant.nbytes, make.calls) == ((2, 3), 6, 24, 0)


def test_all_who_look_meanwhile_get_one_array_and_nobody_else_keeps_it() -> None:
    make = DynamicExtent()
    constant = DeferredConstant((2, 3), np.dtype(np.float32), make)
    first = constant.array
    assert constant.array is first
    assert elements(constant) is first
    assert make.calls == 1
    assert first.dtype == np.float32
    assert first.tolist() == [[5, 4, 3], [2, 1, 0]]
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1
    assert np.asarray(constant, np.int8).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert make.calls == 1
    del first
    gc.collect()
    assert constant.array.shape == (2, 3)
    assert make.calls == 2


def test_the_beginning_is_kept() -> None:
    make = DynamicExtent()
    constant = DeferredConstant((2, 3), np.dtype(np.int8), make)
    assert beginning(constant) == beginning(constant) == bytes([5, 4, 3, 2, 1, 0])
    assert make.calls == 1
    assert beginning(np.arange(40, dtype=np.int8)[::-1]) == bytes(range(39, 23, -1))


def test_other_shapes_stay_deferred() -> None:
    make = DynamicExtent()
    constant = reshaped(DeferredConstant((2, 3), np.dtype(np.int8), make), (3, 2))
    assert make.calls == 0
    assert elements(constant).tolist() == [[5, 4], [3, 2], [1, 0]]
    assert reshaped(np.arange(4), (2, 2)).tolist() == [[0, 1], [2, 3]]


def test_bytes() -> None:
    make = DynamicExtent()
    constant = deferred_bytes(6, make)
    assert make.calls == 0
    assert bytes_of(constant).tolist() == [5, 4, 3, 2, 1, 0]
    assert bytes_of(np.array([[1, 2]], np.int16)[:, ::-1]).tolist() == [2, 0, 1, 0]
    with pytest.raises(ValueError, match="6 bytes were made, not 7"):
        bytes_of(deferred_bytes(7, make))


@pytest.mark.parametrize("zero_point", [0, -3])
@pytest.mark.parametrize("scales", [[0.5], [0.5, 2.0, 0.25]])
def test_quantised(scales: list[float], zero_point: int) -> None:
    """It stays quantised in another order, in part, and with one scale in another shape."""
    steps = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    laid = np.array(scales, np.float32)
    constant = QuantisedConstant(steps, laid, zero_point, axis=1)
    real = (steps.astype(np.float32) - zero_point) * laid
    assert np.array_equal(constant.array, real)
    turned = transposed(constant, (1, 0))
    some = portion(turned, 0, 1, 2)
    rows = portion(constant, 0, 1, 3)
    for one, wanted in ((turned, real.T), (some, real.T[1:]), (rows, real[1:])):
        assert isinstance(one, QuantisedConstant)
        assert np.array_equal(one.array, wanted)
    flat = reshaped(constant, (2, 6))
    assert isinstance(flat, QuantisedConstant) == (len(scales) == 1)
    assert np.array_equal(elements(flat), real.reshape(2, 6))


@pytest.mark.parametrize("count", [0, 2, 4])
def test_scales_that_do_not_fit(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} scales do not fit"):
        QuantisedConstant(np.zeros((4, 3), np.int8), np.ones(count, np.float32), 0, axis=1)


def test_others_in_another_order_and_in_part_stay_deferred() -> None:
    make = DynamicExtent()
    constant = DeferredConstant((2, 3), np.dtype(np.int8), make)
    turned, some = transposed(constant, (1, 0)), portion(constant, 1, 1, 2)
    assert (turned.shape, some.shape, make.calls) == ((3, 2), (2, 2), 0)
    assert elements(turned).tolist() == [[5, 2], [4, 1], [3, 0]]
    assert elements(some).tolist() == [[4, 3], [1, 0]]
    assert elements(portion(np.arange(6).reshape(2, 3), 1, 1, 2)).tolist() == [[1, 2], [4, 5]]


def file_memory() -> np.ndarray:
    """An array on bytes that nobody can change."""
    return np.frombuffer(np.arange(24, dtype=np.int8).tobytes(), np.int8).reshape(2, 3, 4)


def test_the_origin_of_memory_that_may_change_is_unknown() -> None:
    own = np.zeros(4, np.float32)
    assert origin(own) is None
    own.setflags(write=False)
    assert origin(own) is None, "its owner can make it writable"
    assert origin(own[1:]) is None
    for memory in (bytearray(4), memoryview(bytearray(4)).toreadonly(), mmap.mmap(-1, 4)):
        assert origin(np.frombuffer(memory, np.uint8)) is None, "others may write it"
    assert origin(np.frombuffer(memoryview(bytes(4)), np.uint8)) is not None
    assert origin(DeferredConstant((4,), np.dtype(np.float32), lambda: own)) is None
    assert origin(converted(own, (2, 2), np.dtype(np.float32))) is None


def test_origins_tell_views_apart() -> None:
    memory = file_memory()
    views = [memory, memory[1:], memory[:1], memory.transpose(0, 2, 1), memory.reshape(-1), memory.view(np.uint8)]
    keys = [origin(view).key for view in views]  # type: ignore[union-attr]
    assert len(set(keys)) == len(views)
    again = [memory.reshape(2, 3, 4), memory[1:], memory[:1], memory.transpose(0, 2, 1), memory.reshape(24)]
    assert [origin(view).key for view in again] == keys[:-1]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["levels", "deferred"])
def test_origins_follow_what_is_made(kind: str) -> None:
    memory = file_memory()

    def made() -> Constant:
        if kind == "levels":
            return QuantisedConstant(memory, np.array([0.5], np.float32), 3)
        return converted(memory, (2, 3, 4), np.dtype(np.float32))

    forms = [
        lambda: made(),
        lambda: transposed(made(), (2, 1, 0)),
        lambda: transposed(made(), (0, 2, 1)),
        lambda: portion(made(), 1, 1, 2),
        lambda: portion(made(), 1, 0, 2),
        lambda: portion(made(), 2, 0, 2),
        lambda: reshaped(made(), (6, 4)),
        lambda: deferred_bytes(96, lambda: elements(made())).formed(made(), "packed"),
    ]
    found = [origin(form()) for form in forms]
    assert all(each is not None and np.shares_memory(each.memory, memory) for each in found)
    keys = [each.key for each in found if each is not None]
    assert len(set(keys)) == len(forms)
    assert keys == [origin(form()).key for form in forms]  # type: ignore[union-attr]


def test_quantised_constants_of_the_same_levels_differ() -> None:
    levels = file_memory()
    constants = [
        QuantisedConstant(levels, np.array([0.5], np.float32), 3),
        QuantisedConstant(levels, np.array([0.25], np.float32), 3),
        QuantisedConstant(levels, np.array([0.5], np.float32), 2),
        QuantisedConstant(levels, np.array([0.5, 0.5], np.float32), 3),
    ]
    assert len({origin(each).key for each in constants}) == len(constants)  # type: ignore[union-attr]
