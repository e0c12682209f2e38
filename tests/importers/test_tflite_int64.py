"""Whole numbers of INT64 that leave 32 bits, against TFLite's reference kernels: exact, or an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tflite_net import Net, T, write
from tflite_oracle import compare, f32, i32c

import nnvk
from nnvk import Compilation, NnapiError, get_device
from nnvk.driver.cpu.executor import run
from nnvk.importers.tflite import ImportedModel, TfliteImportError, load
from nnvk.ops.flow import Clock

SHAPE = (3, 5)


def wide(*shape: int) -> T:
    return T("INT64", shape)


def numbers(seed: int, shape: Sequence[int] = SHAPE) -> np.ndarray:
    """Numbers of 32 bits, some of them at the ends."""
    rng = np.random.default_rng(seed)
    found = rng.integers(-(2**31), 2**31, shape)
    ends = rng.choice([0, 1, -1, 2, -7, 2**31 - 1, -(2**31)], shape)
    return np.where(rng.random(shape) < 0.4, ends, found)


def names(imported: ImportedModel) -> set[str]:
    return {operation.code.name for operation in imported.model.frozen.operations}


def on_product(name: str, others: Sequence[T | None], out: T, table: str | None = None, **options: object) -> set[str]:
    """An operator on a product of two inputs, ``others`` behind it, where None is the first input."""
    x, y = wide(*SHAPE), wide(*SHAPE)
    net = Net([x, y], [out])
    product = net.op("MUL", [x, y], wide(*SHAPE), "MulOptions")
    net.op(name, [product, *(x if other is None else other for other in others)], out, table, **options)
    return names(compare(write(net), [numbers(1), numbers(2)]))


@pytest.mark.parametrize("name", ["ADD", "SUB", "MUL"])
def test_arithmetic(name: str) -> None:
    table = f"{name.capitalize()}Options"
    assert f"{name}_INT64" in on_product(name, [None], wide(*SHAPE), table)
    assert f"{name}_INT64" in on_product(name, [T("INT64", data=numbers(3, (5,)))], wide(*SHAPE), table)


@pytest.mark.parametrize("name", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("activation", [0, 1, 3])
def test_results_that_leave_32_bits(name: str, activation: int) -> None:
    x, y, z = wide(*SHAPE), wide(*SHAPE), wide(*SHAPE)
    net = Net([x, y], [z])
    net.op(name, [x, y], z, f"{name.capitalize()}Options", FusedActivationFunction=activation)
    data, feeds = write(net), [numbers(1), numbers(2)]
    if not activation:
        assert f"{name}_INT64" in names(compare(data, feeds))
        return
    imported = load(data)
    exact = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}[name](*feeds)
    (got,), _ = imported.decode(run(imported.model.frozen, imported.encode(feeds), Clock(None, 2 * 10**9)))
    np.testing.assert_array_equal(got, np.clip(exact, 0, None if activation == 1 else 6))


@pytest.mark.parametrize("name", ["FLOOR_DIV", "FLOOR_MOD"])
@pytest.mark.parametrize("divisor", [7, -3, -1, 2**31 - 1])
def test_quotients(name: str, divisor: int) -> None:
    x, out = wide(*SHAPE), wide(*SHAPE)
    given = numbers(1)
    other = np.where(given == 0, 5, divisor)
    for wide_first in (False, True):
        y = wide(*SHAPE)
        net = Net([x, y], [out])
        first = net.op("MUL", [x, x], wide(*SHAPE), "MulOptions") if wide_first else x
        net.op(name, [first, y], out)
        imported = load(write(net))
        source = given * given if wide_first else given
        (got,), _ = imported.decode(run(imported.model.frozen, imported.encode([given, other]), Clock(None, 2 * 10**9)))
        expected = source // other if name == "FLOOR_DIV" else source - source // other * other
        np.testing.assert_array_equal(got, expected)


def test_negative_numbers() -> None:
    on_product("NEG", [], wide(*SHAPE))
    x, z = wide(4), wide(4)
    net = Net([x], [z])
    net.op("NEG", [x], z)
    compare(write(net), [np.array([-(2**31), 2**31 - 1, 5, -5])])


def test_quotients_of_the_lowest_number_of_32_bits() -> None:
    """It has no magnitude in INT32."""
    x, y, z = T("INT32", (6,)), T("INT32", (6,)), T("INT32", (6,))
    net = Net([x, y], [z])
    net.op("DIV", [x, y], z, "DivOptions")
    dividends = np.array([-(2**31), -(2**31), 2**31 - 1, 7, -7, -6], np.int32)
    compare(write(net), [dividends, np.array([2, -3, -(2**31), -2, 2, 3], np.int32)])


@pytest.mark.parametrize("name", ["MAXIMUM", "MINIMUM"])
def test_extremes(name: str) -> None:
    on_product(name, [None], wide(*SHAPE), "MaximumMinimumOptions")


@pytest.mark.parametrize("name", ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"])
def test_comparisons(name: str) -> None:
    assert "COMPARE_INT64" in on_product(name, [None], T("BOOL", SHAPE))


@pytest.mark.parametrize("type_", ["FLOAT32", "INT32", "INT64", "BOOL"])
def test_to_other_types(type_: str) -> None:
    on_product("CAST", [], T(type_, SHAPE), "CastOptions")


def test_from_real_numbers() -> None:
    reals = np.array([3e9, -3e9, 2.5, -2.5, 0.0, 1e18, -1e18, 4294967296.0, 2147483648.0, 7.0], np.float32)
    x, z = f32(*reals.shape), wide(*reals.shape)
    net = Net([x], [z])
    net.op("CAST", [x], z, "CastOptions")
    compare(write(net), [reals])


@pytest.mark.parametrize("name", ["SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"])
@pytest.mark.parametrize("keep", [False, True])
def test_reductions(name: str, keep: bool) -> None:
    out = wide(3, 1) if keep else wide(3)
    on_product(name, [i32c(1)], out, "ReducerOptions", KeepDims=keep)


@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums(exclusive: bool) -> None:
    on_product("CUMSUM", [i32c(1)], wide(*SHAPE), "CumsumOptions", Exclusive=exclusive, Reverse=not exclusive)


MOVED = [
    ("RESHAPE", [i32c(5, 3)], (5, 3), "ReshapeOptions", {}),
    ("TRANSPOSE", [i32c(1, 0)], (5, 3), None, {}),
    ("SLICE", [i32c(1, 1), i32c(2, 3)], (2, 3), None, {}),
    ("STRIDED_SLICE", [i32c(0, 1), i32c(2, 4), i32c(1, 1)], (2, 3), "StridedSliceOptions", {}),
    ("GATHER", [i32c(2, 0)], (2, 5), "GatherOptions", {"Axis": 0}),
    ("CONCATENATION", [None], (6, 5), "ConcatenationOptions", {"Axis": 0}),
    ("PACK", [None], (2, 3, 5), "PackOptions", {"ValuesCount": 2, "Axis": 0}),
    ("EXPAND_DIMS", [i32c(0)], (1, 3, 5), None, {}),
    ("TILE", [i32c(1, 2)], (3, 10), None, {}),
]


@pytest.mark.parametrize(("name", "others", "shape", "table", "options"), MOVED, ids=[row[0] for row in MOVED])
def test_elements_in_other_places(name, others, shape, table, options) -> None:
    on_product(name, others, wide(*shape), table, **options)


def test_scattered_sums() -> None:
    """Updates of one place are added up. Sums that may leave 32 bits are refused."""
    flags, updates, z = T("BOOL", (6,)), wide(6), wide(4)
    places = T("INT32", data=np.array([[0], [3], [0], [0], [2], [3]], np.int32))
    few = Net([flags], [z])
    few.op("SCATTER_ND", [places, few.op("CAST", [flags], wide(6)), i32c(4)], z)
    compare(write(few), [np.array([True, True, True, False, True, True])])
    many = Net([updates], [z])
    many.op("SCATTER_ND", [places, updates, i32c(4)], z)
    with pytest.raises(TfliteImportError, match="its sums may leave 32 bits, which NNAPI does not have"):
        load(write(many))


def test_choice() -> None:
    x, y, z = wide(*SHAPE), wide(*SHAPE), wide(*SHAPE)
    net = Net([x, y], [z])
    product = net.op("MUL", [x, y], wide(*SHAPE), "MulOptions")
    larger = net.op("GREATER", [product, x], T("BOOL", SHAPE))
    net.op("SELECT_V2", [larger, product, y], z)
    compare(write(net), [numbers(1), numbers(2)])


def test_constants() -> None:
    """An import computes constants exactly."""
    x, z = wide(2), wide(2)
    net = Net([x], [z])
    product = net.op("MUL", [T("INT64", data=np.array([50000, 3]))] * 2, wide(2), "MulOptions")
    net.op("ADD", [product, x], z, "AddOptions")
    compare(write(net), [np.array([7, -(2**31)])])


def test_indices_are_checked() -> None:
    """An index that would be right if it came round is an error."""
    x, z = wide(2), f32(2)
    net = Net([x], [z])
    index = net.op("ADD", [x, T("INT64", data=np.array([2**31 - 1]))], wide(2), "AddOptions")
    net.op("GATHER", [T(data=np.arange(7, dtype=np.float32)), index], z, "GatherOptions")
    imported = load(write(net))

    def computed(first: int, second: int) -> list[float]:
        given = imported.encode([np.array([first, second])])
        return imported.decode(run(imported.model.frozen, given, Clock(None, 2 * 10**9)))[0][0].tolist()

    assert computed(1 - 2**31, 4 - 2**31) == [0, 3]
    with pytest.raises(NnapiError, match="INT64_TO_INT32: a number must be in"):
        computed(2**31 - 1, 0)


def test_counts_have_32_bits() -> None:
    x, z = T("BOOL", SHAPE), wide(*SHAPE)
    net = Net([x], [z])
    number = net.op("CAST", [x], wide(*SHAPE), "CastOptions")
    running = net.op("CUMSUM", [number, i32c(1)], wide(*SHAPE), "CumsumOptions")
    net.op("SUB", [running, T("INT64", data=np.array([1]))], z, "SubOptions")
    imported = compare(write(net), [np.arange(15).reshape(SHAPE) % 3 == 0])
    assert not any("INT64" in name for name in names(imported))


@pytest.mark.parametrize("device", ["vulkan-0", "nnapi-reference"])
def test_loops_carry_32_bits(device: str) -> None:
    """Values that a loop carries from one iteration to the next are checked."""
    net = Net([wide(1), wide(2)], [wide(1), wide(2)])
    net.op("WHILE", net.inputs, net.outputs, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    condition = Net([wide(1), wide(2)], [T("BOOL", (1,))])
    condition.op("LESS", [condition.inputs[0], T("INT64", data=np.array([5]))], condition.outputs[0], "LessOptions")
    body = Net([wide(1), wide(2)], [wide(1), wide(2)])
    body.op("ADD", [body.inputs[0], T("INT64", data=np.array([1]))], body.outputs[0], "AddOptions")
    body.op("ADD", [body.inputs[1], body.inputs[1]], body.outputs[1], "AddOptions")
    data = write(net, condition, body)
    compare(data, [np.array([0]), np.array([3, -(2**26)])])
    imported = load(data)
    compilation = Compilation(imported.model, [get_device(device)])
    compilation.finish()

    def computed(*numbers: int) -> list[list[int]]:
        results = nnvk.run(compilation, imported.encode([np.array([0]), np.array(numbers)]))
        return [output.tolist() for output in imported.decode(results)[0]]

    assert computed(3, -(2**26)) == [[5], [96, -(2**31)]]
    with pytest.raises(NnapiError, match="INT64_TO_INT32: a number must be in"):
        computed(3, 2**26)


@pytest.mark.parametrize("name", ["SQUARE", "SQUARED_DIFFERENCE", "ADD_N"])
def test_sums_and_squares_within_32_bits(name: str) -> None:
    """An execution in which one leaves 32 bits fails."""
    count = {"SQUARE": 1, "SQUARED_DIFFERENCE": 2, "ADD_N": 3}[name]
    inputs, out = [wide(*SHAPE) for _ in range(count)], wide(*SHAPE)
    net = Net(inputs, [out])
    net.op(name, inputs, out)
    imported = load(write(net))

    def computed(feeds: list[np.ndarray]) -> np.ndarray:
        (got,), _ = imported.decode(run(imported.model.frozen, imported.encode(feeds), Clock(None, 2 * 10**9)))
        return got

    few = [numbers(seed) // (1 << 17) for seed in range(1, count + 1)]
    wanted = {"SQUARE": lambda: few[0] ** 2, "ADD_N": lambda: sum(few)}.get(name, lambda: (few[0] - few[1]) ** 2)()
    np.testing.assert_array_equal(computed(few), wanted)
    with pytest.raises(NnapiError, match="INT64_TO_INT32: a number must be in"):
        computed([np.full(SHAPE, 2**31 - 1), np.full(SHAPE, 5), np.full(SHAPE, 5)][:count])


def test_magnitudes_that_leave_32_bits() -> None:
    source, out = wide(*SHAPE), wide(*SHAPE)
    net = Net([source], [out])
    net.op("ABS", [source], out)
    imported = load(write(net))
    feeds = [numbers(1)]
    (got,), _ = imported.decode(run(imported.model.frozen, imported.encode(feeds), Clock(None, 2 * 10**9)))
    np.testing.assert_array_equal(got, np.abs(feeds[0]))


def turned(x: np.ndarray, lengths: list[int]) -> np.ndarray:
    return np.stack([np.concatenate([row[:count][::-1], row[count:]]) for row, count in zip(x, lengths, strict=True)])


def with_diagonal(x: np.ndarray) -> np.ndarray:
    result = np.arange(9).reshape(3, 3)
    np.fill_diagonal(result, x[:, 0])
    return result


Wanted = Callable[[np.ndarray], "np.ndarray | Sequence[np.ndarray]"]
ON_WORDS: dict[str, tuple[list[T], str | None, dict[str, int], Wanted]] = {
    "SIGN": ([], None, {}, np.sign),
    "MIRROR_PAD": ([i32c([[0, 0], [1, 2]])], "MirrorPadOptions", {}, lambda x: np.pad(x, [(0, 0), (1, 2)], "reflect")),
    "PAD": ([i32c([[1, 0], [0, 2]])], None, {}, lambda x: np.pad(x, [(1, 0), (0, 2)])),
    "REVERSE_V2": ([i32c(1)], None, {}, lambda x: x[:, ::-1]),
    "REVERSE_SEQUENCE": (
        [i32c(2, 5, 0)],
        "ReverseSequenceOptions",
        {"SeqDim": 1, "BatchDim": 0},
        lambda x: turned(x, [2, 5, 0]),
    ),
    "UNPACK": ([], "UnpackOptions", {"Num": 3, "Axis": 0}, list),
    "SPLIT_V": ([i32c(2, 3), i32c(1)], None, {}, lambda x: [x[:, :2], x[:, 2:]]),
    "BROADCAST_TO": ([i32c(2, 3, 5)], None, {}, lambda x: np.broadcast_to(x, (2, 3, 5))),
    "GATHER_ND": ([i32c([[2, 0], [1, 4]])], None, {}, lambda x: x[[2, 1], [0, 4]]),
    "DYNAMIC_UPDATE_SLICE": (
        [T("INT64", data=[[5, -6]]), i32c(1, 2)],
        None,
        {},
        lambda x: np.concatenate([x[:1], [[*x[1, :2], 5, -6, x[1, 4]]], x[2:]]),
    ),
}


@pytest.mark.parametrize("name", ON_WORDS)
def test_other_operators_on_words(name: str) -> None:
    """TFLite has no kernel of INT64 for some of them."""
    others, table, options, wanted = ON_WORDS[name]
    x, y = wide(*SHAPE), wide(*SHAPE)
    feeds = [numbers(1), numbers(2)]
    result = wanted(feeds[0] * feeds[1])
    wants = result if isinstance(result, list) else [result]
    net = Net([x, y], [wide(*want.shape) for want in wants])
    product = net.op("MUL", [x, y], wide(*SHAPE), "MulOptions")
    net.op(name, [product, *others], net.outputs, table, **options)
    imported = load(write(net))
    got, _ = imported.decode(run(imported.model.frozen, imported.encode(feeds), Clock(None, 2 * 10**9)))
    for array, want in zip(got, wants, strict=True):
        np.testing.assert_array_equal(array, want)


@pytest.mark.parametrize("name", ["FILL", "SPLIT", "SELECT"])
def test_words_that_are_not_the_first_input(name: str) -> None:
    x, y = wide(3, 1), wide(3, 1)
    feeds = [numbers(1, (3, 1)), numbers(2, (3, 1))]
    product = feeds[0] * feeds[1]
    inputs: dict[str, Callable[[T], list[T]]] = {
        "FILL": lambda made: [i32c(2, 3, 4), made],
        "SPLIT": lambda made: [T("INT32", data=0), made],
        "SELECT": lambda made: [T("BOOL", data=[[True], [False], [True]]), made, T("INT64", data=[[7], [8], [9]])],
    }
    wants = {
        "FILL": [np.broadcast_to(product, (2, 3, 4))],
        "SPLIT": [product[at : at + 1] for at in range(3)],
        "SELECT": [np.where([[1], [0], [1]], product, [[7], [8], [9]])],
    }[name]
    net = Net([x, y], [wide(*want.shape) for want in wants])
    made = net.op("MUL", [x, y], wide(3, 1), "MulOptions")
    if name == "MATRIX_SET_DIAG":
        made = net.op("SQUEEZE", [made], wide(3), "SqueezeOptions")
    net.op(name, inputs[name](made), net.outputs, "SplitOptions" if name == "SPLIT" else None)
    imported = load(write(net))
    got, _ = imported.decode(run(imported.model.frozen, imported.encode(feeds), Clock(None, 2 * 10**9)))
    for array, want in zip(got, wants, strict=True):
        np.testing.assert_array_equal(array, want)
