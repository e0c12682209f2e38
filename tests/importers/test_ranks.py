"""Operations on tensors of five to eight dimensions: the same elements as NumPy has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from in_turn import devices

from nnvk import Compilation, ExtendedOperationCode, OperandCode, OperandType, OperationCode, get_device, run
from nnvk.importers.budget import Budget
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import MAX_RANK, Argument, Graph, Value
from nnvk.importers.ranks import add, broadcast

Op = OperationCode
RANKS = range(MAX_RANK + 1, 9)
SIZES = (2, 3, 2, 1, 3, 2, 2, 3)
CODES = {
    np.dtype(np.float32): OperandCode.TENSOR_FLOAT32,
    np.dtype(np.int32): OperandCode.TENSOR_INT32,
    np.dtype(np.bool_): OperandCode.TENSOR_BOOL8,
}


def computed(
    build: Callable[[Graph, list[Value]], Sequence[Value]], arrays: Sequence[np.ndarray], device: str
) -> list[np.ndarray]:
    """Run a graph with these inputs on a device. Every tensor in the graph must have a rank that NNAPI takes."""
    graph = Graph(Budget(1 << 20), relaxed=False)
    inputs = [graph.input(OperandType(CODES[array.dtype], array.shape)) for array in arrays]
    outputs = build(graph, inputs)
    shapes = [value.shape for value in outputs]
    model = graph.finish(outputs, [f"in{index}" for index in range(len(arrays))])
    frozen = model.frozen
    assert all(len(operand.type.dimensions) <= MAX_RANK for operand in frozen.operands)
    compilation = Compilation(model, [get_device(device)])
    compilation.finish()
    given = [array.reshape(type_.dimensions) for array, type_ in zip(arrays, frozen.input_types(), strict=True)]
    return [result.reshape(shape) for result, shape in zip(run(compilation, given), shapes, strict=True)]


def check(
    code: Op | ExtendedOperationCode,
    arrays: Sequence[np.ndarray],
    wanted: np.ndarray | Sequence[np.ndarray],
    arguments: Callable[[list[Value]], Sequence[Argument]],
    out: Any = np.float32,
) -> None:
    """The operation on the inputs, with ``arguments`` made of them, gives what is wanted on the devices of the case."""
    wants = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
    types = [OperandType(CODES[np.dtype(out)])] * len(wants)
    for device in devices():
        results = computed(lambda graph, inputs: add(graph, code, arguments(inputs), types), arrays, device)
        for got, want in zip(results, wants, strict=True):
            assert got.shape == want.shape, device
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6, err_msg=device)


def numbers(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def flags(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)


def alternating(rank: int, first: int) -> tuple[int, ...]:
    """Sizes of which every other one is 1."""
    return tuple(size + 1 if axis % 2 == first else 1 for axis, size in enumerate(SIZES[:rank]))


# --- each element by itself ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", RANKS)
def test_unary(rank: int) -> None:
    x = numbers(*SIZES[:rank])
    check(Op.TANH, [x], np.tanh(x), lambda values: values)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("shape", ["full", "row", "column", "middle", "lower"])
def test_broadcasting_that_can_be_merged(rank: int, shape: str) -> None:
    full = SIZES[:rank]
    other = {
        "full": full,
        "row": (1,) * (rank - 1) + full[-1:],
        "column": full[:1] + (1,) * (rank - 1),
        "middle": (1, *full[1:-1], 1),
        "lower": full[2:],
    }[shape]
    x, y = numbers(*full), numbers(*other, seed=4)
    check(Op.SUB, [x, y], x - y, lambda values: [*values, 0])
    check(Op.SUB, [y, x], y - x, lambda values: [*values, 0])


@pytest.mark.parametrize("rank", RANKS)
def test_broadcasting_axis_by_axis(rank: int) -> None:
    """Nothing can be merged: an operand is repeated."""
    x, y = numbers(*alternating(rank, 0)), numbers(*alternating(rank, 1), seed=4)
    check(Op.MUL, [x, y], x * y, lambda values: [*values, 0])
    check(Op.GREATER, [x, y], x > y, lambda values: values, out=np.bool_)


def test_a_constant_is_repeated_before_a_tensor() -> None:
    x, y = numbers(*alternating(8, 0)), numbers(*alternating(8, 1), seed=4)
    graph = Graph(Budget(1 << 20), relaxed=False)
    value = graph.input(OperandType(OperandCode.TENSOR_FLOAT32, x.shape))
    constant = graph.constant(OperandType(OperandCode.TENSOR_FLOAT32, y.shape), lambda: y)
    (result,) = add(graph, Op.ADD, [value, constant, 0], [OperandType(OperandCode.TENSOR_FLOAT32)])
    operations = graph.finish([result], ["x"]).frozen.operations
    tiles = [operation for operation in operations if operation.code is Op.TILE]
    assert len(tiles) == len([size for size in x.shape if size == 1])


@pytest.mark.parametrize("rank", RANKS)
def test_booleans(rank: int) -> None:
    x, y = flags(*alternating(rank, 0)), flags(*alternating(rank, 1), seed=6)
    check(Op.LOGICAL_OR, [x, y], x | y, lambda values: values, out=np.bool_)
    x = flags(*SIZES[:rank])
    check(Op.LOGICAL_NOT, [x], ~x, lambda values: values, out=np.bool_)
    check(Op.REDUCE_ANY, [x], x.any((0, 2, 4)), lambda values: [*values, np.array([0, 2, 4]), False], out=np.bool_)


@pytest.mark.parametrize("rank", RANKS)
def test_select(rank: int) -> None:
    condition, x, y = flags(*SIZES[:rank]), numbers(*SIZES[:rank]), numbers(*SIZES[:rank], seed=4)
    check(Op.SELECT, [condition, x, y], np.where(condition, x, y), lambda values: values)


def test_shapes_that_do_not_broadcast() -> None:
    graph = Graph(Budget(1 << 20), relaxed=False)
    x, y = (graph.input(OperandType(OperandCode.TENSOR_FLOAT32, shape)) for shape in ((2, 3, 4, 5, 6), (2, 3, 3, 5, 6)))
    with pytest.raises(Unmapped, match=r"ADD: shapes \[2, 3, 4, 5, 6\] and \[2, 3, 3, 5, 6\] don't broadcast"):
        add(graph, Op.ADD, [x, y, 0], [x.type])


# --- along one axis ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("axis", [0, 2, -1])
def test_along_an_axis(rank: int, axis: int) -> None:
    x, y = numbers(*SIZES[:rank]), numbers(*SIZES[:rank], seed=4)
    check(Op.ARGMAX, [x], x.argmax(axis), lambda values: [*values, axis], out=np.int32)
    check(Op.CONCATENATION, [x, y], np.concatenate([x, y], axis), lambda values: [*values, axis % rank])
    check(Op.SPLIT, [x], np.split(x, x.shape[axis], axis), lambda values: [*values, axis, x.shape[axis]])
    places = np.array([1, 0, 1], np.int32)
    check(Op.GATHER, [x, places], x.take(places, axis), lambda values: [values[0], axis, values[1]])
    soft = np.exp(x - x.max(axis, keepdims=True))
    soft /= soft.sum(axis, keepdims=True)
    check(Op.SOFTMAX, [x], soft, lambda values: [*values, 1.0, axis])


@pytest.mark.parametrize("rank", range(MAX_RANK, 8))
@pytest.mark.parametrize("axis", [0, 3, 4])
def test_pack_adds_an_axis(rank: int, axis: int) -> None:
    x, y = numbers(*SIZES[:rank]), numbers(*SIZES[:rank], seed=4)
    check(Op.PACK, [x, y], np.stack([x, y], axis), lambda values: [axis, *values])


@pytest.mark.parametrize("rank", RANKS)
def test_along_the_last_axis(rank: int) -> None:
    x = numbers(*SIZES[:rank])
    length = np.sqrt((x * x).sum(-1, keepdims=True))
    check(Op.L2_NORMALIZATION, [x], x / length, lambda values: values)
    check(Op.SOFTMAX, [x], np.exp(x) / np.exp(x).sum(-1, keepdims=True), lambda values: [*values, 1.0])


def test_shapes_that_do_not_fit_beside_the_axis() -> None:
    """Sizes that agree as a product are not the same shape."""
    graph = Graph(Budget(1 << 20), relaxed=False)
    x, y = (graph.input(OperandType(OperandCode.TENSOR_FLOAT32, shape)) for shape in ((2, 3, 4, 5, 6), (3, 2, 4, 5, 6)))
    with pytest.raises(Unmapped, match=r"CONCATENATION: shapes .* differ beside axis 2"):
        add(graph, Op.CONCATENATION, [x, y, 2], [x.type])


# --- axis by axis --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("every", [1, 2, 3])
def test_axis_by_axis(rank: int, every: int) -> None:
    """Parameters for all axes, for every other and for every third one."""
    x = numbers(*(size + 1 for size in SIZES[:rank]))
    chosen = [axis % every == 0 for axis in range(rank)]
    pads = np.array([[axis % 2, 1] if one else [0, 0] for axis, one in enumerate(chosen)])
    check(Op.PAD, [x], np.pad(x, pads), lambda values: [*values, pads])
    check(Op.PAD_V2, [x], np.pad(x, pads, constant_values=2), lambda values: [*values, pads, 2.0])
    check(Op.MIRROR_PAD, [x], np.pad(x, pads, "reflect"), lambda values: [*values, pads, 0])
    check(Op.MIRROR_PAD, [x], np.pad(x, pads, "symmetric"), lambda values: [*values, pads, 1])
    begins = np.array(chosen).astype(int)
    taken = x[tuple(slice(begin, None) for begin in begins)]
    check(Op.SLICE, [x], taken, lambda values: [*values, begins, np.full(rank, -1)])
    check(Op.SLICE, [x], taken, lambda values: [*values, begins, np.array(taken.shape)])


@pytest.mark.parametrize("rank", range(5, 8))
@pytest.mark.parametrize("every", [1, 2, 3])
def test_tile(rank: int, every: int) -> None:
    x = numbers(*SIZES[:rank])
    repeats = np.array([2 if axis % every == 0 else 1 for axis in range(rank)])
    check(Op.TILE, [x], np.tile(x, repeats), lambda values: [*values, repeats])


@pytest.mark.parametrize("rank", RANKS)
def test_strided_slice(rank: int) -> None:
    """Backwards along axes whose end can't be written down."""
    x = numbers(*(size + 2 for size in SIZES[:rank]))
    steps = [(None, None, -1) if axis % 3 == 0 else (None, None, 2) if axis % 3 == 1 else () for axis in range(rank)]
    ranges = [
        range(*slice(*step).indices(size)) if step else range(size) for step, size in zip(steps, x.shape, strict=True)
    ]
    starts, stops, strides = (np.array([getattr(one, name) for one in ranges]) for name in ("start", "stop", "step"))
    masked = sum(1 << axis for axis, one in enumerate(ranges) if one.stop < 0)
    wanted = x[tuple(slice(*step) if step else slice(None) for step in steps)]
    check(Op.STRIDED_SLICE, [x], wanted, lambda values: [*values, starts, stops, strides, 0, masked, 0])


@pytest.mark.parametrize("axis", range(6))
@pytest.mark.parametrize("mask", ["begin", "end"])
def test_masks_of_strided_slices(mask: str, axis: int) -> None:
    """A mask of one axis, and parameters that would do something else without it."""
    x = numbers(3, 4, 3, 5, 3, 4)
    starts, stops, strides = np.ones(6, int), np.array(x.shape) - 1, np.ones(6, int)
    wanted = [slice(1, size - 1) for size in x.shape]
    masked = slice(None, x.shape[axis] - 1) if mask == "begin" else slice(1, None)
    masks = [1 << axis, 0] if mask == "begin" else [0, 1 << axis]
    for one in (0, 2, 4, 5):  # axes of which nothing is left out
        starts[one], stops[one], wanted[one] = 0, x.shape[one], slice(None)
    starts[axis], stops[axis], wanted[axis] = 1, x.shape[axis] - 1, masked
    check(Op.STRIDED_SLICE, [x], x[tuple(wanted)], lambda values: [*values, starts, stops, strides, *masks, 0])


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("axis", [0, 2, -1])
def test_reverse(rank: int, axis: int) -> None:
    x = numbers(*SIZES[:rank])
    check(Op.REVERSE, [x], np.flip(x, axis), lambda values: [*values, np.array([axis])])


# --- several axes at once ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("axes", [[0], [1, 2], [0, 2, 4], [-1, 1], list(range(5))], ids=str)
@pytest.mark.parametrize("keeps", [False, True])
def test_reductions(rank: int, axes: list[int], keeps: bool) -> None:
    x = numbers(*SIZES[:rank])
    given, along = np.array(axes), tuple(axes)
    for code, wanted in ((Op.REDUCE_SUM, x.sum(along, keepdims=keeps)), (Op.REDUCE_MAX, x.max(along, keepdims=keeps))):
        check(code, [x], np.atleast_1d(wanted), lambda values: [*values, given, keeps])
    check(Op.MEAN, [x], np.atleast_1d(x.mean(along, keepdims=keeps)), lambda values: [*values, given, int(keeps)])


def test_reductions_of_every_other_axis() -> None:
    x = numbers(2, 3, 2, 3, 2, 3, 2, 3)
    for along in ((0, 2, 4, 6), (1, 3, 5, 7)):
        given = np.array(along)
        check(Op.MEAN, [x], x.mean(along), lambda values, given=given: [*values, given, 0])
        check(Op.REDUCE_MIN, [x], x.min(along), lambda values, given=given: [*values, given, False])


@pytest.mark.parametrize(
    "order", [(4, 3, 2, 1, 0), (1, 0, 3, 2, 4), (0, 2, 1, 3, 5, 4), (7, 5, 3, 1, 6, 4, 2, 0)], ids=str
)
def test_transpose(order: tuple[int, ...]) -> None:
    x = numbers(*SIZES[: len(order)])
    check(Op.TRANSPOSE, [x], x.transpose(order), lambda values: [*values, np.array(order)])


# --- by rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", range(1, 7))
def test_scatter_nd(depth: int) -> None:
    """Indices from the end too, of more axes than NNAPI takes."""
    shape = SIZES[:6]
    rng = np.random.default_rng(9)
    sizes = np.array(shape[:depth])
    places = rng.integers(-sizes, sizes, (5, depth)).astype(np.int32)
    updates, base = numbers(5, *shape[depth:]), numbers(*shape, seed=4)
    wanted = base.copy()
    np.add.at(wanted, tuple(places.T), updates)
    check(ExtendedOperationCode.SCATTER_ND, [base, places, updates], wanted, lambda values: [*values, 1])
    wanted = np.zeros(shape, np.float32)
    np.add.at(wanted, tuple(places.T), updates)
    check(ExtendedOperationCode.SCATTER_ND, [places, updates], wanted, lambda values: [*values, np.array(shape)])


@pytest.mark.parametrize("depth", range(1, 7))
@pytest.mark.parametrize("batch", [0, 1])
def test_gather_nd(depth: int, batch: int) -> None:
    shape = (*[5] * batch, *SIZES[:6])
    rng = np.random.default_rng(9)
    sizes = np.array(shape[batch : batch + depth])
    places = rng.integers(-sizes, sizes, (5, depth)).astype(np.int32)
    x = numbers(*shape)
    wanted = x[(*[np.arange(5)] * batch, *places.T)]
    check(ExtendedOperationCode.GATHER_ND, [x, places], wanted, lambda values: [*values, batch])


def test_embedding_lookup() -> None:
    table, rows = numbers(4, *SIZES[:5]), np.array([3, 0, 3], np.int32)
    check(Op.EMBEDDING_LOOKUP, [rows, table], table[rows], lambda values: values)


# --- what is added -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "shape", "arguments", "codes"),
    [
        (Op.TANH, (2, 3, 2, 2, 2), [], "TANH"),
        (Op.TRANSPOSE, (2, 3, 1, 2, 4), [np.array([2, 0, 1, 3, 4])], ""),
        (Op.TRANSPOSE, (2, 3, 1, 2, 4), [np.array([3, 4, 2, 0, 1])], "RESHAPE TRANSPOSE"),
        (
            Op.TRANSPOSE,
            (2, 3, 5, 2, 4),
            [np.array([4, 3, 2, 1, 0])],
            "RESHAPE" + " TRANSPOSE RESHAPE" * 3 + " TRANSPOSE",
        ),
        (Op.TRANSPOSE, (2, 3, 5, 2, 4), [np.array([3, 4, 2, 1, 0])], "RESHAPE TRANSPOSE"),
        (Op.TILE, (2, 3, 5, 2, 4), [np.array([1, 2, 1, 1, 1])], "RESHAPE TILE"),
        (Op.TILE, (2, 3, 5, 2, 4), [np.array([2, 1, 2, 1, 2])], "RESHAPE TILE RESHAPE TILE"),
        (Op.TILE, (2, 3, 5, 2, 4), [np.array([1, 1, 1, 1, 1])], ""),
        (Op.MEAN, (2, 3, 5, 2, 4), [np.array([0, 2, 4]), 0], "RESHAPE TRANSPOSE RESHAPE TRANSPOSE RESHAPE MEAN"),
        (Op.REDUCE_MAX, (2, 3, 5, 2, 4), [np.array([1, 2]), False], "RESHAPE REDUCE_MAX"),
        (
            Op.REDUCE_MAX,
            (2, 3, 5, 2, 4),
            [np.array([0, 2, 4]), False],
            "RESHAPE REDUCE_MAX" + " RESHAPE REDUCE_MAX" * 2,
        ),
    ],
    ids=lambda one: one.name if isinstance(one, Op) else "-".join(map(str, one)) if isinstance(one, tuple) else None,
)
def test_operations(code: Op, shape: tuple[int, ...], arguments: list[Any], codes: str) -> None:
    """No more of them than it takes. The edges are of four dimensions."""
    graph = Graph(Budget(1 << 20), relaxed=False)
    x = graph.input(OperandType(OperandCode.TENSOR_FLOAT32, shape))
    add(graph, code, [x, *arguments], [x.type.with_dimensions(())])
    assert " ".join(operation.code.name for operation in graph._operations) == codes


@pytest.mark.parametrize("declared", [None, [(2, 2)]])
def test_the_largest_rank_counts(declared: list[tuple[int, ...]] | None) -> None:
    """Whether it is an operand's or the declared one of a result."""
    graph = Graph(Budget(1 << 20), relaxed=False)
    x = graph.input(OperandType(OperandCode.TENSOR_FLOAT32, (2, 3, 2, 2, 2)))
    add(graph, Op.TANH, [x], [x.type.with_dimensions(())], declared)
    assert [operation.code for operation in graph._operations] == [Op.TANH]
    y = graph.input(OperandType(OperandCode.TENSOR_FLOAT32, (1, 2, 2, 4)))
    with pytest.raises(Unmapped, match="DEPTH_TO_SPACE takes at most 4 dimensions"):
        add(graph, Op.DEPTH_TO_SPACE, [y, 2], [y.type], [(1, 4, 4, 1, 1)])


SHAPE = (2, 3, 5, 2, 4)
PLACES = np.array([1, 0, 1], np.int32)
GIVEN: dict[str, tuple[Op | ExtendedOperationCode, Callable[[Value], list[Argument]], list[tuple[int, ...]]]] = {
    "PACK": (Op.PACK, lambda x: [1, x, x], [(2, 2, 3, 5, 2, 4)]),
    "PACK behind": (Op.PACK, lambda x: [5, x, x, x], [(2, 3, 5, 2, 4, 3)]),
    "ARGMAX": (Op.ARGMAX, lambda x: [x, 2], [(2, 3, 2, 4)]),
    "ARGMIN": (Op.ARGMIN, lambda x: [x, -1], [(2, 3, 5, 2)]),
    "SPLIT": (Op.SPLIT, lambda x: [x, 2, 5], [(2, 3, 1, 2, 4)] * 5),
    "CONCATENATION": (Op.CONCATENATION, lambda x: [x, x, 2], [(2, 3, 10, 2, 4)]),
    "GATHER": (Op.GATHER, lambda x: [x, 2, PLACES], [(2, 3, 3, 2, 4)]),
    "SOFTMAX": (Op.SOFTMAX, lambda x: [x, 1.0, 2], [SHAPE]),
    "SOFTMAX of rows": (Op.SOFTMAX, lambda x: [x, 1.0], [SHAPE]),
    "LOG_SOFTMAX": (Op.LOG_SOFTMAX, lambda x: [x, 1.0, 2], [SHAPE]),
    "L2_NORMALIZATION": (Op.L2_NORMALIZATION, lambda x: [x, 2], [SHAPE]),
    "LOCAL_RESPONSE_NORMALIZATION": (Op.LOCAL_RESPONSE_NORMALIZATION, lambda x: [x, 1, 1.0, 1.0, 0.5, 2], [SHAPE]),
    "TOPK_V2": (Op.TOPK_V2, lambda x: [x, 3], [(2, 3, 5, 2, 3)] * 2),
    "PAD": (Op.PAD, lambda x: [x, np.array([[0, 0], [1, 2], [0, 0], [0, 0], [0, 1]])], [(2, 6, 5, 2, 5)]),
    "REVERSE": (Op.REVERSE, lambda x: [x, np.array([2])], [SHAPE]),
    "SLICE": (Op.SLICE, lambda x: [x, np.array([0, 1, 2, 0, 0]), np.array([2, 2, -1, 2, 1])], [(2, 2, 3, 2, 1)]),
    "MEAN": (Op.MEAN, lambda x: [x, np.array([1, 2]), 1], [(2, 1, 1, 2, 4)]),
    "REDUCE_SUM": (Op.REDUCE_SUM, lambda x: [x, np.array([0, 4]), False], [(3, 5, 2)]),
    "EMBEDDING_LOOKUP": (Op.EMBEDDING_LOOKUP, lambda x: [PLACES, x], [(3, 3, 5, 2, 4)]),
}


@pytest.mark.parametrize("what", GIVEN)
def test_shapes_of_results(what: str) -> None:
    code, arguments, shapes = GIVEN[what]
    graph = Graph(Budget(1 << 20), relaxed=False)
    x = graph.input(OperandType(OperandCode.TENSOR_FLOAT32, SHAPE))
    real, whole = OperandType(OperandCode.TENSOR_FLOAT32), OperandType(OperandCode.TENSOR_INT32)
    types = [whole if what.startswith("ARG") else real] * len(shapes)
    if what == "TOPK_V2":
        types[1] = whole
    given = [graph.input(whole.with_dimensions(one.shape)) if one is PLACES else one for one in arguments(x)]
    assert [value.shape for value in add(graph, code, given, types)] == shapes


# --- refused -------------------------------------------------------------------------------------------------


def test_an_operation_of_four_dimensions_by_definition() -> None:
    graph = Graph(Budget(1 << 20), relaxed=False)
    x = graph.input(OperandType(OperandCode.TENSOR_FLOAT32, (1, 2, 2, 2, 4)))
    with pytest.raises(Unmapped, match=r"DEPTH_TO_SPACE takes at most 4 dimensions, got \[1, 2, 2, 2, 4\]"):
        add(graph, Op.DEPTH_TO_SPACE, [x, 2], [x.type])


@pytest.mark.parametrize("is_constant", [True, False])
def test_broadcasts(is_constant: bool) -> None:
    graph, array = Graph(Budget(1 << 20), relaxed=False), numbers(3, 1)
    type_ = OperandType(OperandCode.TENSOR_FLOAT32, (3, 1))
    value = graph.constant(type_, lambda: array) if is_constant else graph.input(type_)
    assert broadcast(graph, value, (2, 3, 4)).shape == (2, 3, 4)
    if is_constant:
        np.testing.assert_array_equal(broadcast(graph, value, (2, 3, 4)).array, np.broadcast_to(array, (2, 3, 4)))
        for shape in ((2, 1, 4), (1,)):
            with pytest.raises(Unmapped) as caught:
                broadcast(graph, value, shape)
            assert str(caught.value) == f"a tensor of shape [3, 1] can't be broadcast to {list(shape)}"


def test_parameters_that_are_not_constant() -> None:
    graph = Graph(Budget(1 << 20), relaxed=False)
    x = graph.input(OperandType(OperandCode.TENSOR_FLOAT32, SIZES[:5]))
    repeats = graph.input(OperandType(OperandCode.TENSOR_INT32, (5,)))
    with pytest.raises(Unmapped, match="TILE: its parameters must be constants above 4 dimensions"):
        add(graph, Op.TILE, [x, repeats], [x.type])


@pytest.mark.parametrize("axes", [[0, 5], [5], [-6, 1]], ids=str)
def test_every_axis_of_a_reduction_must_be_there(axes: list[int]) -> None:
    graph = Graph(Budget(1 << 20), relaxed=False)
    x = graph.input(OperandType(OperandCode.TENSOR_FLOAT32, (2, 3, 4, 5, 6)))
    with pytest.raises(Unmapped, match=r"REDUCE_SUM: the axes must be in \[-5, 5\), got"):
        add(graph, Op.REDUCE_SUM, [x, np.array(axes), False], [x.type])


@pytest.mark.parametrize(
    ("code", "arguments", "reason"),
    [
        (Op.SLICE, [[0] * 4, [1] * 5], "begin and size must name each axis of"),
        (Op.SLICE, [[0] * 5, [1] * 6], "begin and size must name each axis of"),
        (Op.SLICE, [[0] * 6, [1] * 6], "begin and size must name each axis of"),
        (Op.TILE, [[1] * 4], "there must be parameters for each axis of .*, got 4"),
        (Op.TILE, [[1] * 6], "there must be parameters for each axis of .*, got 6"),
        (Op.PAD, [[[0, 1]] * 4], "there must be parameters for each axis of .*, got 4"),
        (Op.SPLIT, [5, 2], r"the axis must be in \[-5, 5\), got 5"),
        (Op.SPLIT, [-6, 2], r"the axis must be in \[-5, 5\), got -6"),
        (Op.SPLIT, [1.0, 2], r"the axis must be in \[-5, 5\), got 1.0"),
        (Op.TILE, [3], "its parameters must be constants above 4 dimensions"),
    ],
    ids=str,
)
def test_parameters_must_be_of_the_tensors_axes(code: Op, arguments: list[Any], reason: str) -> None:
    graph = Graph(Budget(1 << 20), relaxed=False)
    x = graph.input(OperandType(OperandCode.TENSOR_FLOAT32, (2, 3, 4, 5, 6)))
    given = [np.array(one, np.int32) if isinstance(one, list) else one for one in arguments]
    with pytest.raises(Unmapped, match=f"{code.name}: {reason}"):
        add(graph, code, [x, *given], [x.type])
