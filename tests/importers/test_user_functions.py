"""Functions of the user compute operators of files that nnvk does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import numpy_helper
from onnx_net import model, op, subgraph
from tflite_net import Net, T, write

import nnvk
from nnvk import NnapiError, ResultCode
from nnvk.importers import formats, operator, user_functions
from nnvk.importers.errors import ModelImportError, Unmapped

F = np.float32
CPU = "nnapi-reference"


@pytest.fixture
def given() -> Iterator[Callable[..., None]]:
    """Registers functions for the time of a test."""
    names = []

    def give(name: str, function: Callable[..., Any], **options: Any) -> None:
        names.append(name)
        operator(name, **options)(function)

    yield give
    for name in names:
        user_functions.forget(name)


def between(kind: str = "Scale", **attributes: Any) -> bytes:
    """An operator of the domain com.example between two of ONNX's."""
    nodes = [
        op("Relu", "x", "a"),
        op(kind, "a", "b", domain="com.example", name="it", **attributes),
        op("Neg", "b", "y"),
    ]
    return model(nodes, {"x": (F, ["n", 3])}, ["y"]).SerializeToString()


def cubed(x: np.ndarray) -> np.ndarray:
    return x**3


X = np.linspace(-2, 2, 6, dtype=F).reshape(2, 3)


def test_the_model_runs_in_partitions_and_says_where(given: Any) -> None:
    given("com.example.Scale", lambda x, factor: x**3 * F(factor))
    loaded = nnvk.load(between(factor=2.5))
    np.testing.assert_array_equal(loaded(X), -(np.maximum(X, 0) ** 3 * F(2.5)))
    places = loaded.where()
    own = next(place for place in places if place.layer.operator == "com.example.Scale")
    assert (own.device, own.layer.name) == (CPU, "it")
    preferred = nnvk.get_devices()[0].name
    if preferred != CPU:
        assert {place.device for place in places if place is not own} == {preferred}
        assert own.reason


def test_a_branch_of_an_if_with_a_function(given: Any) -> None:
    given("com.example.Scale", cubed)
    branches = [
        subgraph([op(kind, "x", "z", domain=domain)], ["z"]) for kind, domain in (("Scale", "com.example"), ("Neg", ""))
    ]
    net = model(
        [op("If", "c", "y", then_branch=branches[0], else_branch=branches[1])],
        {"c": (np.bool_, ()), "x": (F, (2, 3))},
        ["y"],
    )
    loaded = nnvk.load(net.SerializeToString())
    np.testing.assert_array_equal(loaded(np.array(True), X), X**3)
    np.testing.assert_array_equal(loaded(np.array(False), X), -X)


def test_every_length_calls_the_function_for_its_shapes(given: Any) -> None:
    given("com.example.Scale", lambda x: np.concatenate([x, x]))
    loaded = nnvk.load(between())
    for rows in (1, 4):
        x = np.full((rows, 3), 2, F)
        np.testing.assert_array_equal(loaded(x), np.full((2 * rows, 3), -2, F))


@pytest.mark.parametrize("device", [CPU, None])
def test_types_shapes_attributes_and_left_out_inputs_are_those_of_the_file(given: Any, device: str | None) -> None:
    seen: list[Any] = []

    def check(*inputs: np.ndarray | None, **attributes: Any) -> tuple[np.ndarray, ...]:
        seen.append(([None if one is None else (one.dtype, one.shape) for one in inputs], attributes))
        half, _, whole, scalar, flag, constant = inputs
        np.testing.assert_array_equal(constant, [5, 6])  # at import, too
        assert not half.flags.writeable
        return half * 2, whole + scalar, ~flag

    given("com.example.Check", check)
    array = np.arange(4, dtype=np.int16).reshape(2, 2)
    attributes = {
        "f": 0.5,
        "i": -3,
        "s": "text",
        "fs": [1.0, 2.0],
        "ss": ["a", "b"],
        "t": numpy_helper.from_array(array),
    }
    net = model(
        [op("Check", "h - w s b c", "hh ww bb", domain="com.example", **attributes)],
        {"h": (np.float16, (1, 2, 1, 2, 1, 2)), "w": (np.int64, (3,)), "s": (np.int64, ()), "b": (np.bool_, (2,))},
        ["hh", "ww", "bb"],
        {"c": np.array([5, 6], np.uint8)},
    )
    loaded = nnvk.load(net.SerializeToString(), device=device)
    h, w = np.arange(8, dtype=np.float16).reshape(1, 2, 1, 2, 1, 2), np.array([1, -2, 3])
    doubled, sums, flipped = loaded(h, w, np.array(10), np.array([True, False]))
    np.testing.assert_array_equal(doubled, h * 2)
    np.testing.assert_array_equal(sums, w + 10)
    np.testing.assert_array_equal(flipped, [False, True])
    assert (doubled.dtype, sums.dtype, flipped.dtype) == (np.float16, np.int64, np.bool_)
    types = [(np.float16, h.shape), None, (np.int64, (3,)), (np.int64, ()), (np.bool_, (2,)), (np.uint8, (2,))]
    for inputs, got in seen:
        assert inputs == types
        np.testing.assert_array_equal(got.pop("t"), array)
        assert got == {"f": 0.5, "i": -3, "s": "text", "fs": [1.0, 2.0], "ss": ["a", "b"]}
    assert len(seen) == 2


def quantised(kind: str, custom: bytes) -> bytes:
    source, result = (T("INT8", (1, 4), scale=scale, zero_point=3) for scale in (0.5, 0.25))
    index = T("INT64", (1,))
    net = Net([source, index], [result])
    net.op(kind, [source, index], result, custom=custom)
    return write(net)


def test_a_custom_operator_of_a_tflite_file(given: Any) -> None:
    def shifted(levels: np.ndarray, by: np.ndarray, custom_options: bytes) -> np.ndarray:
        assert (levels.dtype, by.dtype, custom_options) == (np.int8, np.int64, b"\x02\xff")
        return np.roll(levels, by[0], axis=1)

    given("Shifted", shifted)
    loaded = nnvk.load(quantised("Shifted", b"\x02\xff"))
    levels = np.array([[1, 2, 3, 4]], np.int8)
    np.testing.assert_array_equal(loaded(levels, np.array([1])), [[4, 1, 2, 3]])
    assert [place.device for place in loaded.where()] == [CPU]


def test_no_plan_that_is_kept_has_results_of_an_earlier_function(given: Any, tmp_path: Path) -> None:
    results = []
    for factor in (2, 5):
        given("com.example.Scale", lambda x, factor=factor: x * F(factor))
        results.append(nnvk.load(between(), cache=tmp_path)(X))
    for result, factor in zip(results, (2, 5), strict=True):
        np.testing.assert_array_equal(result, -np.maximum(X, 0) * F(factor))


def test_a_function_replaces_a_mapping_of_nnvk(given: Any) -> None:
    given("Relu", lambda x: np.maximum(x, 1))
    net = model([op("Relu", "x", "y")], {"x": (F, (2, 3))}, ["y"])
    np.testing.assert_array_equal(nnvk.load(net.SerializeToString())(X), np.maximum(X, 1))


def broken(x: np.ndarray) -> np.ndarray:
    if x.any():
        raise ValueError("no such thing")
    return x


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (broken, r"operator 1 \(com.example.Scale 'it'\): its function fails \(ValueError: no such thing\)"),
        (
            lambda x: x[x[:, 0] >= 0][: 2 - int(x.any())],
            r"'it'\): output 0 must be float32 \[2, 3\], .* got float32 \[1, 3\]",
        ),
        (lambda x: (x, x)[: 1 + int(x.any())], r"'it'\): 1 outputs are expected, got 2"),
        (lambda x: np.full(2, 2**31 * int(x.any())), r"'it'\): output 0 must fit into 32 bits"),
    ],
)
def test_a_failing_function_names_the_node(given: Any, function: Callable[..., Any], reason: str) -> None:
    given("com.example.Scale", function)
    loaded = nnvk.load(between())
    with pytest.raises(NnapiError, match=reason) as caught:
        loaded(X)
    assert caught.value.code is ResultCode.OP_FAILED


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x[5], r"its function fails on arrays of zeros \(IndexError: "),
        (lambda x: (x, x), "its function must give 1 outputs, got 2"),
        (lambda x: x[:0], r"its function gives output 0 of shape \[0, 3\], without elements"),
        (lambda x: x + 1j, "NNAPI has no tensors of complex"),
    ],
)
def test_an_import_names_the_node_of_a_function_that_does_not_fit(given: Any, function: Any, reason: str) -> None:
    given("com.example.Scale", function)
    with pytest.raises(ModelImportError, match=rf"operator 1 \(com.example.Scale 'it'\): {reason}"):
        nnvk.load(between(), shapes={"n": 2})(X)


def test_a_tflite_function_of_another_type_is_refused(given: Any) -> None:
    given("Shifted", lambda levels, by: levels.astype(F))
    with pytest.raises(ModelImportError, match=r"operator 0 \(Shifted\): its function must give output 0 as int8, got"):
        nnvk.load(quantised("Shifted", b""))


def custom(kind: str, inputs: list[T | None], *before: tuple[str, list[T], T]) -> bytes:
    """A custom operator of a .tflite file behind others."""
    free = [x for x in inputs if x is not None and all(x is not made for _, _, made in before)]
    net = Net([T("FLOAT32", (2,)), *(x for x in free if x.is_free)], [T("FLOAT32", (2,))])
    for name, given_to, made in before:
        net.inputs += [x for x in given_to if x.is_free]
        net.op(name, given_to, made, "VarHandleOptions" if name == "VAR_HANDLE" else None)
    net.op(kind, [net.inputs[0], *inputs], net.outputs, custom=b"")
    return write(net)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            custom("Own", [places := T("INT64")], ("WHERE", [T("BOOL", (4,))], places)),
            "data decide the size of an input, which a function can't take",
        ),
        (
            custom("Own", [handle := T("RESOURCE", ())], ("VAR_HANDLE", [], handle)),
            "input 1 is a resource, which a function can't take",
        ),
    ],
    ids=["size", "resource"],
)
def test_a_tflite_function_of_what_it_can_not_take(given: Any, data: bytes, reason: str) -> None:
    given("Own", lambda x, y: x)
    with pytest.raises(ModelImportError) as caught:
        formats.load(data)
    assert f"operator 1 (Own): {reason}" in str(caught.value)


def test_shapes_that_a_tflite_function_gets(given: Any) -> None:
    """Those of the file, and those that follow from others where the file has none."""
    shapes = []

    def seen(x: np.ndarray, scalar: np.ndarray, behind: np.ndarray) -> np.ndarray:
        shapes.append((x.shape, scalar.shape, behind.shape))
        return x

    given("Own", seen)
    matrix, negated = T("FLOAT32", (3, 2)), T("FLOAT32")
    nnvk.load(custom("Own", [T("FLOAT32", ()), negated], ("NEG", [matrix], negated)))
    assert set(shapes) == {((2,), (), (3, 2))}


def test_a_tflite_function_of_an_input_that_is_left_out(given: Any) -> None:
    given("Own", lambda x, nothing: x + (nothing is None))
    np.testing.assert_array_equal(nnvk.load(custom("Own", [None]))(np.float32([1, 2])), [2, 3])


def test_an_error_of_nnapi_stays_what_it_is(given: Any) -> None:
    def fail(x: np.ndarray) -> np.ndarray:
        if x.any():
            raise NnapiError(ResultCode.MISSED_DEADLINE_TRANSIENT, "too late")
        return x

    given("com.example.Scale", fail)
    with pytest.raises(NnapiError, match="too late") as caught:
        nnvk.load(between(), device=CPU)(X)
    assert caught.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT


def test_a_device_that_has_no_functions_refuses(given: Any) -> None:
    given("com.example.Scale", cubed)
    if nnvk.get_devices()[0].name == CPU:
        pytest.skip("there is no other device")
    with pytest.raises(NnapiError, match=r"python\.com\.example\.Scale"):
        nnvk.load(between(), device=nnvk.get_devices()[0].name, fallback=False)(X)


def test_the_name_must_be_a_text() -> None:
    with pytest.raises(TypeError, match="expected the name of an operator"):
        operator(cubed)  # type: ignore[arg-type]


# --- states, unsigned numbers and real numbers -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int16, np.uint32, np.uint64])
def test_an_operator_that_keeps_a_sum(given: Any, dtype: type[np.generic]) -> None:
    """Unsigned numbers of 32 and 64 bits keep all their bits."""
    first = np.array([7, np.iinfo(dtype).max - 20], dtype)

    def total(x: np.ndarray, kept: np.ndarray, *, custom_options: bytes) -> tuple[np.ndarray, np.ndarray]:
        assert (x.dtype, kept.dtype, x.shape, kept.shape) == (dtype, dtype, (2,), (2,))
        return x + kept, x + kept

    given("Total", total, states=lambda x, *, custom_options: {"sum": first})
    type_ = np.dtype(dtype).name.upper()
    net = Net([T(type_, (2,))], [T(type_, (2,))])
    net.op("Total", net.inputs, net.outputs, custom=b"x")
    loaded = nnvk.load(write(net))
    x = np.array([1, 10], dtype)
    np.testing.assert_array_equal(loaded(x), first + x)
    np.testing.assert_array_equal(loaded(x), first + x + x)
    loaded.reset()
    np.testing.assert_array_equal(loaded(x), first + x)
    (state,) = formats.load(write(net)).states
    assert (state.input.name, state.input.file_type) == ("Total 0/sum", type_)


def test_a_state_of_another_type_is_refused(given: Any) -> None:
    given("Total", lambda x, kept: (x, kept.astype(F)), states=lambda x: {"sum": np.zeros(2, np.int32)})
    with pytest.raises(ModelImportError, match="its function must give Total 0/sum as int32, got float32"):
        formats.load(custom("Total", []))
    given("Total", lambda x, kept: x, states=lambda x: {"sum": np.zeros(2, np.int32)})
    with pytest.raises(ModelImportError, match="its function must give 2 outputs and states, got 1"):
        formats.load(custom("Total", []))


def test_files_of_onnx_have_no_states(given: Any) -> None:
    given("com.example.Scale", lambda x, kept: (x, kept), states=lambda x: {"sum": np.zeros(2, F)})
    with pytest.raises(ModelImportError, match=r"its function keeps states, which only \.tflite files have"):
        nnvk.load(between(), fallback=False)(X)


def test_levels_as_real_numbers(given: Any) -> None:
    """They are rounded to the levels of the output."""

    def halved(x: np.ndarray, by: np.ndarray) -> np.ndarray:
        assert (x.dtype, by.dtype) == (F, np.int64)
        return x / F(2)

    given("Halved", halved, real=True)
    loaded = nnvk.load(quantised("Halved", b""))
    np.testing.assert_array_equal(loaded(np.array([[3, 5, 7, 8]], np.int8), np.array([1])), [[3, 5, 7, 8]])


def test_a_function_refuses_an_operator_in_its_own_words(given: Any) -> None:
    def refuse(x: np.ndarray) -> np.ndarray:
        raise Unmapped("not on Sundays")

    given("Own", refuse)
    with pytest.raises(ModelImportError, match=r"operator 0 \(Own\): not on Sundays"):
        formats.load(custom("Own", []))
