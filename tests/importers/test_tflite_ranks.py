"""Operators on tensors of five to eight dimensions: LiteRT's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite")

from tflite_net import DTYPES, Net, T, write
from tflite_oracle import boolean, check, f32, i32, i32c, out, q8, scalar

from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Graph, Value
from nnvk.importers.tflite import partition
from nnvk.importers.tflite.schema import File

SIZES = (2, 3, 2, 1, 3, 2, 2, 2)
RANKS = (5, 6, 8)


LARGEST_RANK = {"BATCH_MATMUL": 5, "BATCH_MATMUL_BROADCAST": 5, "PAD": 5, "PADV2": 5}
"""The operators that LiteRT has for fewer than eight dimensions."""
NO_BOOLEANS = frozenset({"PACK", "REVERSE_SEQUENCE", "SPLIT", "SPLIT_V"})
"""The operators that LiteRT does not have for booleans."""


def ranks(name: str, *candidates: int) -> list[int]:
    """The ranks that LiteRT has an operator for."""
    return [rank for rank in candidates if rank <= LARGEST_RANK.get(name, 8)]


def swapped(rank: int) -> list[int]:
    return [*range(1, rank, 2), *range(0, rank, 2)]


def other(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with this one along every other axis."""
    return tuple(1 if axis % 2 else size for axis, size in enumerate(shape))


def paddings(rank: int) -> T:
    return i32c([[axis % 2, (axis + 1) % 2] for axis in range(rank)])


def number(kind: str, one: int) -> T:
    return T(kind, data=np.array(one, DTYPES[kind]))


MOVES: dict[str, Callable[[str, tuple[int, ...]], Any]] = {
    "BROADCAST_TO": lambda kind, shape: check(
        "BROADCAST_TO", [T(kind, other(shape)), i32c(*shape)], out(kind), version=2
    ),
    "CONCATENATION": lambda kind, shape: check(
        "CONCATENATION", [T(kind, shape), T(kind, shape)], out(kind), "ConcatenationOptions", Axis=2
    ),
    "DYNAMIC_UPDATE_SLICE": lambda kind, shape: check(
        "DYNAMIC_UPDATE_SLICE",
        [T(kind, shape), T(kind, (1,) * len(shape)), i32c(*(size - 1 for size in shape))],
        out(kind),
    ),
    "EXPAND_DIMS": lambda kind, shape: check("EXPAND_DIMS", [T(kind, shape[1:]), scalar(2)], out(kind)),
    "FILL": lambda kind, shape: check("FILL", [i32c(*shape), T(kind, ())], out(kind)),
    "GATHER": lambda kind, shape: check("GATHER", [T(kind, shape), i32c(2, 0, 0)], out(kind), "GatherOptions", Axis=1),
    "GATHER_ND": lambda kind, shape: check("GATHER_ND", [T(kind, shape), i32c([[1, 2], [0, 0]])], out(kind)),
    "GATHER_ND of all axes": lambda kind, shape: check(
        "GATHER_ND", [T(kind, shape), i32c([[size - 1 for size in shape], [0] * len(shape)])], out(kind)
    ),
    "GATHER of batches": lambda kind, shape: check(
        "GATHER", [T(kind, shape), i32c([[1, 0], [2, 2]])], out(kind), "GatherOptions", Axis=1, BatchDims=1
    ),
    "MIRROR_PAD": lambda kind, shape: check(
        "MIRROR_PAD",
        [T(kind, tuple(size + 1 for size in shape)), paddings(len(shape))],
        out(kind),
        "MirrorPadOptions",
        Mode=0,
    ),
    "PACK": lambda kind, shape: check(
        "PACK", [T(kind, shape[1:]), T(kind, shape[1:])], out(kind), "PackOptions", ValuesCount=2, Axis=1
    ),
    "PAD": lambda kind, shape: check("PAD", [T(kind, shape), paddings(len(shape))], out(kind)),
    "PADV2": lambda kind, shape: check("PADV2", [T(kind, shape), paddings(len(shape)), number(kind, 1)], out(kind)),
    "RESHAPE": lambda kind, shape: check("RESHAPE", [T(kind, shape), i32c(*shape[::-1])], out(kind)),
    "REVERSE_V2": lambda kind, shape: check("REVERSE_V2", [T(kind, shape), i32c(1, 2)], out(kind)),
    "REVERSE_SEQUENCE": lambda kind, shape: check(
        "REVERSE_SEQUENCE", [T(kind, shape), i32c(2, 3)], out(kind), "ReverseSequenceOptions", SeqDim=1, BatchDim=0
    ),
    "SCATTER_ND": lambda kind, shape: check(
        "SCATTER_ND", [i32c([[1, 2], [0, 1]]), T(kind, (2, *shape[2:])), i32c(*shape)], out(kind)
    ),
    "SELECT_V2": lambda kind, shape: check(
        "SELECT_V2", [boolean(*other(shape)), T(kind, shape), T(kind, shape[-1:])], out(kind)
    ),
    "SLICE": lambda kind, shape: check(
        "SLICE", [T(kind, shape), i32c(*(int(size > 1) for size in shape)), i32c(*[-1] * len(shape))], out(kind)
    ),
    "SPLIT": lambda kind, shape: check(
        "SPLIT", [scalar(1), T(kind, shape)], [out(kind) for _ in range(3)], "SplitOptions", NumSplits=3
    ),
    "SPLIT_V": lambda kind, shape: check(
        "SPLIT_V", [T(kind, shape), i32c(1, 2), scalar(1)], [out(kind), out(kind)], "SplitVOptions", NumSplits=2
    ),
    "SQUEEZE": lambda kind, shape: check("SQUEEZE", [T(kind, shape)], out(kind), "SqueezeOptions", SqueezeDims=[3]),
    "STRIDED_SLICE": lambda kind, shape: check(
        "STRIDED_SLICE",
        [T(kind, shape), i32c(*[0] * len(shape)), i32c(*shape), i32c(*([2, 1] * 4)[: len(shape)])],
        out(kind),
        "StridedSliceOptions",
    ),
    "TILE": lambda kind, shape: check("TILE", [T(kind, shape), i32c(*([1, 2] * 4)[: len(shape)])], out(kind)),
    "TRANSPOSE": lambda kind, shape: check("TRANSPOSE", [T(kind, shape), i32c(*swapped(len(shape)))], out(kind)),
    "UNPACK": lambda kind, shape: check(
        "UNPACK", [T(kind, shape)], [out(kind) for _ in range(3)], "UnpackOptions", Num=3, Axis=1
    ),
}


@pytest.mark.parametrize(
    ("name", "kind", "rank"),
    [
        (name, kind, rank)
        for name in MOVES
        for kind in ("FLOAT32", "INT32", "BOOL")
        if kind != "BOOL" or name not in NO_BOOLEANS
        for rank in ranks(name, 4, *RANKS)
    ],
)
def test_moves(name: str, kind: str, rank: int) -> None:
    """Elements of every type, booleans and integers too, which NNAPI does not move in each way."""
    MOVES[name](kind, SIZES[:rank])


CASES: dict[str, Callable[[tuple[int, ...]], Any]] = {
    **{
        name: lambda shape, name=name: check(name, [f32(*shape)])
        for name in ("ABS", "EXP", "NEG", "RELU", "RELU6", "TANH", "LOGISTIC", "ELU", "FLOOR", "SQUARE", "SIN", "CEIL")
    },
    **{
        f"{name}_{kind}": lambda shape, name=name, kind=kind: check(
            name, [f32(*shape), f32(*{"same": shape, "alternating": other(shape), "last": shape[-1:]}[kind])]
        )
        for name in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")
        for kind in ("same", "alternating", "last")
    },
    "ADD_INT8": lambda shape: check("ADD", [q8(*shape), q8(*other(shape))], q8(scale=0.1), "AddOptions"),
    "MUL_INT32": lambda shape: check("MUL", [i32(*shape), i32(*other(shape))], out("INT32"), "MulOptions"),
    **{
        name: lambda shape, name=name: check(name, [f32(*shape), f32(*other(shape))], out("BOOL"))
        for name in ("EQUAL", "NOT_EQUAL", "GREATER", "LESS_EQUAL")
    },
    **{
        name: lambda shape, name=name: check(name, [boolean(*shape), boolean(*other(shape))], out("BOOL"))
        for name in ("LOGICAL_AND", "LOGICAL_OR", "NOT_EQUAL")
    },
    "LOGICAL_NOT": lambda shape: check("LOGICAL_NOT", [boolean(*shape)], out("BOOL")),
    "SELECT": lambda shape: check("SELECT", [boolean(*shape), f32(*shape), f32(*shape)]),
    "SELECT_V2": lambda shape: check("SELECT_V2", [boolean(*other(shape)), f32(*shape), f32(*shape[-1:])]),
    "PRELU": lambda shape: check("PRELU", [f32(*shape), T(data=np.linspace(-1, 1, shape[-1]))]),
    "CAST": lambda shape: check("CAST", [i32(*shape)], out("FLOAT32")),
    "CAST_BOOL": lambda shape: check("CAST", [boolean(*shape)], out("FLOAT32")),
    "QUANTIZE": lambda shape: check("QUANTIZE", [f32(*shape)], q8()),
    "DEQUANTIZE": lambda shape: check("DEQUANTIZE", [q8(*shape)]),
    **{
        f"{name}_{axes}": lambda shape, name=name, axes=axes: check(
            name, [f32(*shape), i32c(*range(axes, len(shape), 2))], out(), "ReducerOptions", KeepDims=bool(axes)
        )
        for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
        for axes in (0, 1)
    },
    "REDUCE_ANY": lambda shape: check("REDUCE_ANY", [boolean(*shape), i32c(0, 2, 4)], out("BOOL"), "ReducerOptions"),
    "MEAN_INT8": lambda shape: check("MEAN", [q8(*shape), i32c(0, 2, 4)], q8(), "ReducerOptions"),
    "SUM_INT32": lambda shape: check("SUM", [i32(*shape), i32c(0, 2, 4)], out("INT32"), "ReducerOptions"),
    **{
        name: lambda shape, name=name: check(
            name, [f32(*shape), scalar(2)], out("INT32"), f"{name.title().replace('_', '')}Options", OutputType=2
        )
        for name in ("ARG_MAX", "ARG_MIN")
    },
    "CUMSUM": lambda shape: check("CUMSUM", [f32(*shape), scalar(1)], out(), "CumsumOptions"),
    "SOFTMAX": lambda shape: check("SOFTMAX", [f32(*shape)], out(), "SoftmaxOptions", Beta=1.0),
    "LOG_SOFTMAX": lambda shape: check("LOG_SOFTMAX", [f32(*shape)]),
    "L2_NORMALIZATION": lambda shape: check("L2_NORMALIZATION", [f32(*shape)], out(), "L2NormOptions"),
    "GATHER with indices of five": lambda shape: check(
        "GATHER", [f32(4, 3), i32c(np.arange(32).reshape((2,) * 5) % 4)], out(), "GatherOptions"
    ),
    "SCATTER_ND_5": lambda shape: check(
        "SCATTER_ND", [i32c(np.array([[1, 2, 1, 0, 2], [0, 0, 0, 0, 1]])), f32(2, *shape[5:]), i32c(*shape)]
    ),
    "EMBEDDING_LOOKUP": lambda shape: check("EMBEDDING_LOOKUP", [i32c(1, 0, 1), f32(*shape)]),
    "ONE_HOT": lambda shape: check(
        "ONE_HOT",
        [i32(*shape[1:]), scalar(4), T(data=np.float32(2)), T(data=np.float32(-1))],
        out(),
        "OneHotOptions",
        Axis=2,
    ),
    "SHAPE": lambda shape: check("SHAPE", [f32(*shape)], out("INT32"), "ShapeOptions", OutType=2),
    "ZEROS_LIKE": lambda shape: check("ZEROS_LIKE", [f32(*shape)]),
    "BATCH_MATMUL": lambda shape: check(
        "BATCH_MATMUL", [f32(*shape[:-2], 2, 5), f32(*shape[:-2], 5, 3)], out(), "BatchMatMulOptions"
    ),
    "BATCH_MATMUL_BROADCAST": lambda shape: check(
        "BATCH_MATMUL", [f32(*shape[:-2], 2, 5), f32(*other(shape[:-2]), 5, 3)], out(), "BatchMatMulOptions"
    ),
    "FULLY_CONNECTED": lambda shape: check(
        "FULLY_CONNECTED",
        [f32(*shape[:-1], 4), T(data=np.linspace(-1, 1, 12).reshape(3, 4)), None],
        out(),
        "FullyConnectedOptions",
        KeepNumDims=True,
    ),
    "TOPK_V2": lambda shape: check("TOPK_V2", [f32(*shape), scalar(1)], [out(), out("INT32")]),
    "ADD_N": lambda shape: check("ADD_N", [f32(*shape) for _ in range(3)]),
}


@pytest.mark.parametrize(("name", "rank"), [(name, rank) for name in CASES for rank in ranks(name, *RANKS)])
def test_ranks(name: str, rank: int) -> None:
    CASES[name](SIZES[:rank])


def test_what_cannot_be_handed_over_stays_with_tensorflow_lite(monkeypatch: pytest.MonkeyPatch) -> None:
    """The delegate takes an operator only if what it gives can leave the partition."""
    source, middle, result = (T("FLOAT32", SIZES[:5]) for _ in range(3))
    net = Net([source], [result])
    net.op("NEG", [source], middle)
    net.op("EXP", [middle], result)
    graph = File(write(net)).subgraph(0)
    loaded = partition.Loaded(graph, tuple(range(3)), 0, frozenset())
    assert partition.examine(loaded) == ["", ""]

    def refused(self: Graph, value: Value) -> None:
        raise Unmapped("no such rank")

    monkeypatch.setattr(Graph, "expose", refused)
    assert partition.examine(loaded) == ["its output can't be handed over: no such rank"] * 2
