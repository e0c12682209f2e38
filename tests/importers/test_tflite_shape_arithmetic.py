"""Shapes that files compute: an open size goes through an operator, and what comes out says how often a row repeats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tflite_net import Net, T, write
from tflite_oracle import compare, i32c, scalar

Made = Callable[[Net, T, T], "T | None"]
"""Adds operators that make a number of the open size and of the shape."""


def whole(*shape: int) -> T:
    return T("INT32", shape)


def truth(*shape: int) -> T:
    return T("BOOL", shape)


def with_whole(name: str, other: int) -> Made:
    """An operator on whole numbers."""
    return lambda net, size, shape: net.op(name, [size, scalar(other)], whole())


def with_real(name: str, *others: float) -> Made:
    """An operator on real numbers, between casts."""

    def made(net: Net, size: T, shape: T) -> T | None:
        real = net.op("CAST", [size], T(shape=()), "CastOptions")
        part = net.op("MUL", [real, T(data=np.float32(0.6))], T(shape=()), "MulOptions")
        result = net.op(name, [part, *(T(data=np.float32(other)) for other in others)], T(shape=()))
        return net.op("CAST", [result], whole(), "CastOptions")

    return made


def reduced(name: str) -> Made:
    """An operator that folds the shape."""
    return lambda net, size, shape: net.op(name, [shape, scalar(0)], whole(), "ReducerOptions")


def total(net: Net, row: T | None) -> T | None:
    return net.op("SUM", [row, scalar(0)], whole(), "ReducerOptions")


def second(net: Net, row: T | None) -> T | None:
    return net.op("GATHER", [row, scalar(1)], whole(), "GatherOptions")


def unpacked(net: Net, size: T, shape: T) -> T:
    parts = [whole(), whole()]
    net.op("UNPACK", [shape], parts, "UnpackOptions", Num=2)
    return parts[1]


def best(net: Net, size: T, shape: T) -> T | None:
    found = [whole(1), whole(1)]
    net.op("TOPK_V2", [shape, scalar(1)], found)
    return total(net, found[0])


def chosen(net: Net, size: T, shape: T) -> T | None:
    above = net.op("GREATER", [shape, scalar(3)], truth(2))
    some = net.op("REDUCE_ANY", [above, scalar(0)], truth(), "ReducerOptions")
    return net.op("SELECT_V2", [net.op("LOGICAL_NOT", [some], truth()), scalar(1), size], whole())


def places(net: Net, size: T, shape: T) -> T | None:
    above = net.op("GREATER", [shape, scalar(3)], truth(2))
    found = net.op("CAST", [net.op("WHERE", [above], T("INT64"))], T("INT32"), "CastOptions")
    return net.op("SUM", [found, i32c(0, 1)], whole(), "ReducerOptions")


def of_64_bits(net: Net, size: T, shape: T) -> T | None:
    wide = net.op("CAST", [size], T("INT64", ()), "CastOptions")
    twice = net.op("MUL", [wide, T("INT64", data=2)], T("INT64", ()), "MulOptions")
    return net.op("CAST", [twice], whole(), "CastOptions")


MADE: dict[str, Made] = {
    **{name: with_whole(name, 2) for name in ("ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "SQUARED_DIFFERENCE")},
    **{name: with_whole(name, 4) for name in ("FLOOR_MOD", "MAXIMUM", "MINIMUM")},
    **{name: with_real(name) for name in ("ABS", "CEIL", "EXP", "FLOOR", "RELU", "ROUND", "SIGN", "SQRT", "SQUARE")},
    **{f"real {name}": with_real(name, 1.6) for name in ("FLOOR_DIV", "FLOOR_MOD", "POW")},
    **{name: reduced(name) for name in ("MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM")},
    "ARG_MAX": lambda net, size, shape: net.op(
        "ADD", [net.op("ARG_MAX", [shape, scalar(0)], whole(), "ArgMaxOptions", OutputType=2), scalar(1)], whole()
    ),
    "CUMSUM": lambda net, size, shape: second(net, net.op("CUMSUM", [shape, scalar(0)], whole(2), "CumsumOptions")),
    "FILL": lambda net, size, shape: total(
        net, net.op("FILL", [net.op("EXPAND_DIMS", [size, scalar(0)], whole(1)), scalar(2)], T("INT32"))
    ),
    "GATHER": lambda net, size, shape: second(net, shape),
    "GATHER_ND": lambda net, size, shape: net.op("GATHER_ND", [shape, i32c(1)], whole()),
    "INT64": of_64_bits,
    "ONE_HOT": lambda net, size, shape: total(
        net, net.op("ONE_HOT", [scalar(1), scalar(2), size, scalar(0)], whole(2), "OneHotOptions", Axis=-1)
    ),
    "RANGE": lambda net, size, shape: total(net, net.op("RANGE", [scalar(0), size, scalar(1)], T("INT32"))),
    "REVERSE_V2": lambda net, size, shape: total(net, net.op("REVERSE_V2", [shape, i32c(0)], whole(2))),
    "SELECT_V2": chosen,
    "TOPK_V2": best,
    "UNPACK": unpacked,
    "WHERE": places,
}


@pytest.mark.parametrize("case", MADE)
def test_a_size_goes_through(case: str) -> None:
    x, y = T(shape=(1, 1), signature=(1, -1), name="x"), T()
    net = Net([x], [y])
    shape = net.op("SHAPE", [x], whole(2), "ShapeOptions", OutType=2)
    cut = [shape, i32c(1), i32c(2), i32c(1)]
    size = net.op("STRIDED_SLICE", cut, whole(), "StridedSliceOptions", ShrinkAxisMask=1)
    assert shape is not None and size is not None
    repeats = net.op("PACK", [MADE[case](net, size, shape), scalar(1)], whole(2), "PackOptions", ValuesCount=2)
    net.op("TILE", [x, repeats], y)
    imported = compare(write(net), [np.arange(7, dtype=np.float32)[None]], shapes={"x": (1, 7)})
    assert [operation.code.name for operation in imported.model.frozen.operations] == ["TILE"]


@pytest.mark.parametrize("name", ["MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"])
@pytest.mark.parametrize("keep", [False, True])
def test_whole_numbers_that_are_no_constants(name: str, keep: bool) -> None:
    x, y = whole(3, 5, 4), T("INT32")
    net = Net([x], [y])
    net.op(name, [x, i32c(0, 2)], y, "ReducerOptions", KeepDims=keep)
    compare(write(net), [np.random.default_rng(1).integers(-9, 9, (3, 5, 4), np.int32)])
