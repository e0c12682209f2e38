"""Operators of StableHLO, against LiteRT where it has a kernel, and against NumPy and plain loops elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from stablehlo import Array, agree, function, integers, longs, model, reals, rng, tensor_of
from tflite_net import Net, T, write
from tflite_oracle import actual, boolean, compare, f32, i32, i32c, out, scalar

from nnvk.importers.tflite import TfliteImportError, load

# --- single elements -----------------------------------------------------------------------------------------

UNARY: dict[str, Callable[[Array], Array]] = {
    "CBRT": np.cbrt,
    "COSINE": np.cos,
    "EXPONENTIAL": np.exp,
    "FLOOR": np.floor,
    "LOG": np.log,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "TANH": np.tanh,
    "ABS": np.abs,
    "NEGATE": np.negative,
}


@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str) -> None:
    x = reals(3, 5)
    x = np.abs(x) + np.float32(0.1) if name in ("LOG", "RSQRT") else x
    agree(model(f"STABLEHLO_{name}", [f32(3, 5)], out("FLOAT32", (3, 5))), [x], UNARY[name](x))


@pytest.mark.parametrize("name", ["ABS", "NEGATE"])
def test_functions_of_integers(name: str) -> None:
    x = integers(7)
    agree(model(f"STABLEHLO_{name}", [i32(7)], out("INT32", (7,))), [x], UNARY[name](x))


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "SUBTRACT": np.subtract,
    "DIVIDE": np.divide,
    "REMAINDER": np.fmod,
    "POWER": lambda x, y: np.power(np.abs(x), y),
}


@pytest.mark.parametrize("name", BINARY)
def test_pairs(name: str) -> None:
    x, y = reals(4, 3), reals(4, 3)
    x = np.abs(x) if name == "POWER" else x
    agree(model(f"STABLEHLO_{name}", [f32(4, 3), f32(4, 3)], out("FLOAT32", (4, 3))), [x, y], BINARY[name](x, y))


def test_pairs_of_integers() -> None:
    x, y = np.int32([7, -7, 7, -7, 0, 2**31 - 1]), np.int32([2, 2, -2, -2, 5, -3])
    quotients = np.int32([3, -3, -3, 3, 0, -((2**31 - 1) // 3)])
    for name, want in (("SUBTRACT", x - y), ("DIVIDE", quotients), ("REMAINDER", x - quotients * y), ("OR", x | y)):
        agree(model(f"STABLEHLO_{name}", [i32(6), i32(6)], out("INT32", (6,))), [x, y], want)


def test_or_of_truth_values() -> None:
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    agree(model("STABLEHLO_OR", [boolean(4), boolean(4)], out("BOOL", (4,))), [x, y], x | y)


@pytest.mark.parametrize(
    ("direction", "compared"),
    list(enumerate([np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less])),
)
def test_comparison(direction: int, compared: Callable[[Array, Array], Array]) -> None:
    for x, y in ((reals(5), reals(5)), (integers(9), integers(9)), (reals(4) > 0, reals(4) > 0)):
        x[0] = y[0]
        if x.dtype == np.bool_ and direction > 1:
            continue
        data = model(
            "STABLEHLO_COMPARE",
            [tensor_of(x), tensor_of(y)],
            out("BOOL", x.shape),
            "StablehloCompareOptions",
            ComparisonDirection=direction,
        )
        agree(data, [x, y], compared(x, y))


def test_an_order_that_is_refused() -> None:
    options = {"ComparisonDirection": 3, "CompareType": 4}
    data = model("STABLEHLO_COMPARE", [i32(3), i32(3)], out("BOOL", (3,)), "StablehloCompareOptions", **options)
    with pytest.raises(TfliteImportError, match="NNAPI compares no numbers in order 4"):
        load(data)


@pytest.mark.parametrize("shape", [(), (3, 4)])
def test_select(shape: tuple[int, ...]) -> None:
    x, y, condition = reals(3, 4), reals(3, 4), np.asarray(rng.random(shape) < 0.5)
    data = model("STABLEHLO_SELECT", [boolean(*shape), f32(3, 4), f32(3, 4)], out("FLOAT32", (3, 4)))
    agree(data, [condition, x, y], np.where(condition, x, y))


def test_clamp() -> None:
    x, low, high = reals(3, 4), np.float32(-0.5), np.abs(reals(3, 4))
    data = model("STABLEHLO_CLAMP", [f32(), f32(3, 4), f32(3, 4)], out("FLOAT32", (3, 4)))
    agree(data, [np.asarray(low), x, high], np.minimum(np.maximum(x, low), high))


def test_convert() -> None:
    x = np.float32([1.5, -2.5, 0.0])
    agree(model("STABLEHLO_CONVERT", [f32(3)], out("INT32", (3,))), [x], np.int32([1, -2, 0]))
    agree(model("STABLEHLO_CONVERT", [f32(3)], out("BOOL", (3,))), [x], x != 0)
    agree(model("STABLEHLO_CONVERT", [boolean(3)], out("FLOAT32", (3,))), [x != 0], np.float32([1, 1, 0]))


def test_types_that_are_refused() -> None:
    with pytest.raises(TfliteImportError, match="its input must be TENSOR_FLOAT32, got"):
        load(model("STABLEHLO_LOG", [i32(3)], out("INT32", (3,))))


# --- moving --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [reals, integers])
def test_reshape_transpose_and_concatenate(make: Callable[..., Array]) -> None:
    x, y = make(2, 3, 4), make(2, 2, 4)
    kind = tensor_of(x).type
    agree(model("STABLEHLO_RESHAPE", [tensor_of(x)], out(kind, (4, 6))), [x], x.reshape(4, 6))
    options = {"Permutation": longs([2, 0, 1])}
    data = model("STABLEHLO_TRANSPOSE", [tensor_of(x)], out(kind, (4, 2, 3)), "StablehloTransposeOptions", **options)
    agree(data, [x], x.transpose(2, 0, 1))
    both, table = [tensor_of(x), tensor_of(y)], "StablehloConcatenateOptions"
    data = model("STABLEHLO_CONCATENATE", both, out(kind, (2, 5, 4)), table, Dimension=1)
    agree(data, [x, y], np.concatenate([x, y], 1))


@pytest.mark.parametrize(
    ("shape", "axes", "wanted"),
    [
        ((), [], (2, 3)),
        ((3,), [1], (2, 3)),
        ((2, 1), [0, 2], (2, 4, 3)),
        ((3, 2), [2, 0], (2, 4, 3)),
        ((2, 1), [0, 1], (2, 3)),
        ((3, 2), [1, 0], (2, 3)),
    ],
)
def test_broadcast_in_dim(shape: tuple[int, ...], axes: list[int], wanted: tuple[int, ...]) -> None:
    x = reals(*shape)
    aligned = np.empty(wanted, np.float32)
    for place in np.ndindex(*wanted):
        aligned[place] = x[tuple(place[axis] if size > 1 else 0 for axis, size in zip(axes, shape, strict=True))]
    options = {"BroadcastDimensions": longs(axes)}
    table = "StablehloBroadcastInDimOptions"
    agree(model("STABLEHLO_BROADCAST_IN_DIM", [f32(*shape)], out("FLOAT32", wanted), table, **options), [x], aligned)


@pytest.mark.parametrize("kind", ["FLOAT32", "INT32"])
def test_iota(kind: str) -> None:
    source, drawn, result = T(kind, (2, 3, 4)), out(kind, (2, 3, 4)), out(kind, (2, 3, 4))
    net = Net([source], [result])
    net.op("STABLEHLO_IOTA", [], drawn, "StablehloIotaOptions", IotaDimension=1)
    net.op("STABLEHLO_ADD", [source, drawn], result)
    x = integers(2, 3, 4).astype(np.float32 if kind == "FLOAT32" else np.int32)
    agree(write(net), [x], x + np.indices((2, 3, 4), x.dtype)[1])


def test_slices() -> None:
    x = reals(5, 7)
    options = {"StartIndices": longs([1, 0]), "LimitIndices": longs([4, 7]), "Strides": longs([1, 3])}
    agree(
        model("STABLEHLO_SLICE", [f32(5, 7)], out("FLOAT32", (3, 3)), "StablehloSliceOptions", **options),
        [x],
        x[1:4, ::3],
    )
    options = {"StartIndices": longs([1, 0]), "LimitIndices": longs([6, 7]), "Strides": longs([1, 3])}
    with pytest.raises(TfliteImportError, match=r"is not within \[5, 7\]"):
        load(model("STABLEHLO_SLICE", [f32(5, 7)], out("FLOAT32", (5, 3)), "StablehloSliceOptions", **options))


@pytest.mark.parametrize("start", [(1, 2), (-3, 9), (4, 0)])
@pytest.mark.parametrize("is_constant", [False, True])
def test_slices_at_places_that_the_model_computes(start: tuple[int, int], is_constant: bool) -> None:
    x, update = reals(5, 7), reals(2, 3)
    first = np.clip(start, 0, [3, 4])
    places = [scalar(number) if is_constant else i32() for number in start]
    feed = [] if is_constant else [np.asarray(number, np.int32) for number in start]
    box = slice(first[0], first[0] + 2), slice(first[1], first[1] + 3)
    options = {"SliceSizes": longs([2, 3])}
    table = "StablehloDynamicSliceOptions"
    data = model("STABLEHLO_DYNAMIC_SLICE", [f32(5, 7), *places], out("FLOAT32", (2, 3)), table, **options)
    agree(data, [x, *feed], x[box])
    data = model("STABLEHLO_DYNAMIC_UPDATE_SLICE", [f32(5, 7), f32(2, 3), *places], out("FLOAT32", (5, 7)))
    wanted = x.copy()
    wanted[box] = update
    agree(data, [x, update, *feed], wanted)


# --- reducing ------------------------------------------------------------------------------------------------

REDUCED: dict[str, Any] = {
    "STABLEHLO_ADD": np.add,
    "MUL": np.multiply,
    "STABLEHLO_MAXIMUM": np.maximum,
    "STABLEHLO_MINIMUM": np.minimum,
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("make", [reals, integers])
@pytest.mark.parametrize("axes", [[1], [0, 2]])
def test_reduce(name: str, make: Callable[..., Array], axes: list[int]) -> None:
    x, first = make(3, 4, 2), make()
    wanted = REDUCED[name].reduce(x, tuple(axes), initial=first).astype(x.dtype)
    kind, table = tensor_of(x).type, "StablehloReduceOptions"
    data = model(
        "STABLEHLO_REDUCE",
        [tensor_of(x), T(kind, ())],
        out(kind, wanted.shape),
        table,
        function(name, kind),
        Dimensions=longs(axes),
        BodySubgraphIndex=1,
    )
    agree(data, [x, np.asarray(first)], wanted, atol=1e-5)


def test_reduce_of_truth_values() -> None:
    x = rng.random((3, 4)) < 0.7
    for name, reduced in (("STABLEHLO_AND", x.all(1)), ("LOGICAL_OR", x.any(1))):
        first = T("BOOL", data=name == "STABLEHLO_AND")
        options: dict[str, Any] = {"Dimensions": longs([1]), "BodySubgraphIndex": 1}
        inputs, body = [boolean(3, 4), first], function(name, "BOOL")
        data = model("STABLEHLO_REDUCE", inputs, out("BOOL", (3,)), "StablehloReduceOptions", body, **options)
        agree(data, [x], reduced)


def test_a_function_that_is_refused() -> None:
    options: dict[str, Any] = {"Dimensions": longs([1]), "BodySubgraphIndex": 1}
    inputs, body = [f32(3, 4), f32()], function("STABLEHLO_SUBTRACT")
    data = model("STABLEHLO_REDUCE", inputs, out("FLOAT32", (3,)), "StablehloReduceOptions", body, **options)
    with pytest.raises(TfliteImportError, match=r"AND or OR of its inputs, got STABLEHLO_SUBTRACT"):
        load(data)


@pytest.mark.parametrize("direction", [2, 3, 4, 5])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["FLOAT32", "INT32"])
def test_sort(direction: int, axis: int, kind: str) -> None:
    ascends = direction > 3
    key = rng.integers(-4, 5, (5, 6)).astype(np.float32 if kind == "FLOAT32" else np.int32)
    if kind == "INT32":
        key[0, 0], key[1, 0] = -(2**31), 2**31 - 1
    carried = np.arange(30, dtype=np.float32).reshape(5, 6)
    numbers = [T(kind, ()), T(kind, ()), T("FLOAT32", ()), T("FLOAT32", ())]
    body = Net(numbers, [T("BOOL", ())])
    options = {"ComparisonDirection": direction}
    body.op("STABLEHLO_COMPARE", numbers[:2], body.outputs[0], "StablehloCompareOptions", **options)
    order = np.argsort(key.astype(np.int64) * (1 if ascends else -1), axis, kind="stable")
    data = model(
        "STABLEHLO_SORT",
        [T(kind, (5, 6)), f32(5, 6)],
        [out(kind, (5, 6)), out("FLOAT32", (5, 6))],
        "StablehloSortOptions",
        body,
        Dimension=axis,
        IsStable=True,
        ComparatorSubgraphIndex=1,
    )
    agree(data, [key, carried], np.take_along_axis(key, order, axis), np.take_along_axis(carried, order, axis))


@pytest.mark.parametrize(
    ("direction", "order", "places", "reason"),
    [
        *((direction, 1, (0, 1), "the function must compare both elements") for direction in (0, 1)),
        *((4, order, (0, 1), "the function must compare both elements") for order in (2, 4)),
        (4, 1, (0, 2), "the function must compare both elements"),
        (4, 1, (0, 0), "the function must compare both elements"),
        (4, 1, (0, 1), ""),
        (4, 0, (1, 0), ""),
        (4, 3, (3, 2), ""),
    ],
)
def test_functions_that_order(direction: int, order: int, places: tuple[int, int], reason: str) -> None:
    """They compare both elements of one input by LT, LE, GT or GE, in an order that NNAPI has."""
    numbers = [T("FLOAT32", ()) for _ in range(4)]
    body = Net(numbers, [T("BOOL", ())])
    options = {"ComparisonDirection": direction, "CompareType": order}
    body.op("STABLEHLO_COMPARE", [numbers[at] for at in places], body.outputs, "StablehloCompareOptions", **options)
    inputs, outputs = [f32(3, 4), f32(3, 4)], [out("FLOAT32", (3, 4)), out("FLOAT32", (3, 4))]
    data = model(
        "STABLEHLO_SORT", inputs, outputs, "StablehloSortOptions", body, Dimension=1, ComparatorSubgraphIndex=1
    )
    if not reason:
        assert load(data).outputs
        return
    with pytest.raises(TfliteImportError, match=reason):
        load(data)


@pytest.mark.parametrize(("count", "key"), [(1, 0), (3, 0), (3, 1), (3, 2)])
@pytest.mark.parametrize("swapped", [False, True])
def test_sort_of_several(count: int, key: int, swapped: bool) -> None:
    """The function compares the elements of any of the inputs, in either order."""
    arrays = [rng.permuted(np.arange(12, dtype=np.float32)).reshape(3, 4) for _ in range(count)]
    numbers = [T("FLOAT32", ()) for _ in range(2 * count)]
    body = Net(numbers, [T("BOOL", ())])
    pair = numbers[2 * key : 2 * key + 2]
    body.op(
        "STABLEHLO_COMPARE",
        pair[::-1] if swapped else pair,
        body.outputs[0],
        "StablehloCompareOptions",
        ComparisonDirection=5,
    )
    data = model(
        "STABLEHLO_SORT",
        [f32(3, 4) for _ in range(count)],
        [out("FLOAT32", (3, 4)) for _ in range(count)],
        "StablehloSortOptions",
        body,
        Dimension=1,
        ComparatorSubgraphIndex=1,
    )
    order = np.argsort(-arrays[key] if swapped else arrays[key], 1)
    agree(data, arrays, *(np.take_along_axis(array, order, 1) for array in arrays))


def test_functions_that_sort_nothing() -> None:
    """They compare elements of two inputs, or one with itself, compute something else, or compare other numbers."""
    cases = [
        ((0, 2), "STABLEHLO_COMPARE", "compare both elements of one input", 4),
        ((0, 0), "STABLEHLO_COMPARE", "compare both elements of one input", 4),
        ((0, 1), "STABLEHLO_ADD", "must be one STABLEHLO_COMPARE", 4),
        ((0, 1), "STABLEHLO_COMPARE", "must be one STABLEHLO_COMPARE", 2),
    ]
    for pair, name, reason, count in cases:
        numbers = [T("FLOAT32", ()) for _ in range(count)]
        is_compare = name == "STABLEHLO_COMPARE"
        body = Net(numbers, [T("BOOL" if is_compare else "FLOAT32", ())])
        options = {"ComparisonDirection": 5} if is_compare else {}
        table = "StablehloCompareOptions" if is_compare else None
        body.op(name, [numbers[at] for at in pair], body.outputs[0], table, **options)
        data = model(
            "STABLEHLO_SORT",
            [f32(3, 4), f32(3, 4)],
            [out("FLOAT32", (3, 4)), out("FLOAT32", (3, 4))],
            "StablehloSortOptions",
            body,
            Dimension=1,
            ComparatorSubgraphIndex=1,
        )
        with pytest.raises(TfliteImportError, match=reason):
            load(data)


# --- subgraphs -----------------------------------------------------------------------------------------------


def test_while() -> None:
    number, limit = T("INT32", ()), T("INT32", data=10)
    condition = Net([number], [T("BOOL", ())])
    condition.op(
        "STABLEHLO_COMPARE",
        [number, limit],
        condition.outputs[0],
        "StablehloCompareOptions",
        ComparisonDirection=5,
    )
    before, step = T("INT32", ()), T("INT32", data=3)
    body = Net([before], [T("INT32", ())])
    body.op("STABLEHLO_ADD", [before, step], body.outputs[0])
    options = {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2}
    data = model("STABLEHLO_WHILE", [i32()], out("INT32", ()), "StablehloWhileOptions", condition, body, **options)
    agree(data, [np.asarray(2, np.int32)], np.asarray(11, np.int32).reshape(()))


NO_ATTRIBUTES = np.frombuffer(flexbuffers.Dumps({}), np.uint8)


def norm(inner: str | None = None) -> Net:
    """A tensor divided by its sum, in a subgraph."""
    source, sums, result = f32(2, 3), f32(2, 1), f32(2, 3)
    net = Net([source], [result])
    net.op(inner or "SUM", [source, i32c(1)], sums, "ReducerOptions", KeepDims=True)
    net.op("DIV", [source, sums], result, "DivOptions")
    return net


def composite(*nets: Net, name: str = "STABLEHLO_COMPOSITE") -> bytes:
    source, middle, result = f32(2, 3), f32(2, 3), f32(2, 3)
    net = Net([source], [result])
    options: dict[str, Any] = {"Subgraph": 1}
    table = "CallOptions"
    if name == "STABLEHLO_COMPOSITE":
        options, table = (
            {"Name": "own.norm", "DecompositionSubgraphIndex": 1, "CompositeAttributes": NO_ATTRIBUTES},
            "StableHLOCompositeOptions",
        )
    net.op(name, [source], middle, table, **options)
    net.op("NEG", [middle], result)
    return write(net, *nets)


def test_composite() -> None:
    """The operators of the subgraph are part of the model, and keep the name of the operator that they stand for."""
    imported = compare(composite(norm()), [np.abs(reals(2, 3))])
    sources = [source.operator for source in imported.sources if source is not None]
    assert set(sources) == {"STABLEHLO_COMPOSITE", "NEG"}
    assert len(imported.model.frozen.operations) == len(sources) == 3


def test_composite_of_another_size() -> None:
    source, result = T("FLOAT32", (1, 3), signature=(-1, 3)), out("FLOAT32", None)
    net = Net([source], [result])
    options = {"Name": "own.norm", "DecompositionSubgraphIndex": 1, "CompositeAttributes": NO_ATTRIBUTES}
    net.op("STABLEHLO_COMPOSITE", [source], result, "StableHLOCompositeOptions", **options)
    inner = norm()
    inner.inputs[0].shape, inner.outputs[0].shape = (1, 3), (1, 3)
    inner.ops[0].outputs[0].shape = (1, 1)
    x = np.abs(reals(4, 3))
    imported = load(write(net, inner), shapes={"t0": (4, 3)})
    (found,) = actual(imported, [x])[0]
    np.testing.assert_allclose(found, x / x.sum(1, keepdims=True), rtol=1e-6)


def test_call() -> None:
    x = np.abs(reals(2, 3))
    agree(composite(norm(), name="CALL"), [x], -x / x.sum(1, keepdims=True))


def test_composite_of_what_can_not_be_mapped() -> None:
    with pytest.raises(TfliteImportError) as caught:
        load(composite(norm("CONCAT_EMBEDDINGS")))
    found = [(problem.operation, problem.subgraph) for problem in caught.value.problems]
    assert found == [("CONCAT_EMBEDDINGS", 1), ("STABLEHLO_COMPOSITE", 0)]


def test_composite_of_itself() -> None:
    net = Net([f32(2, 3)], [f32(2, 3)])
    options = {"Name": "own.norm", "DecompositionSubgraphIndex": 0}
    net.op("STABLEHLO_COMPOSITE", net.inputs, net.outputs[0], "StableHLOCompositeOptions", **options)
    with pytest.raises(TfliteImportError, match="subgraph 0 contains itself"):
        load(write(net))
