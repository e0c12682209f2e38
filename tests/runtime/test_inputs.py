"""`nnvk.run` takes arrays of any package, in order or by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builder import Builder
from samples import compiled, f32, label, raises

import nnvk
from nnvk import OperationCode, ResultCode

A, B = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.full((2, 3), 10, np.float32)


class WithArray:
    """An array of another package, as pandas' and the like are."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._array


class WithDlpack:
    """An array of a package that knows DLPack only."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class WithInterface:
    """An array by NumPy's older protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


class Elsewhere:
    """An array in the memory of a GPU."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


def difference(*names: str) -> nnvk.Compilation:
    """a - b, with these names."""
    build = Builder()
    a, b = build.operand(f32(2, 3)), build.operand(f32(2, 3))
    outputs = [build.operation(OperationCode.SUB, [a, b], f32(2, 3))]
    build.model.identify_inputs_and_outputs([a, b], outputs)
    if names:
        build.model.name_inputs(names)
    build.model.finish()
    return compiled(build.model)


@pytest.mark.parametrize(
    "kind", [WithArray, WithDlpack, WithInterface, np.asfortranarray, lambda array: array.tolist()]
)
def test_arrays_of_other_packages(kind: Any) -> None:
    (output,) = nnvk.run(difference(), [kind(A), kind(B)])
    assert (output == A - B).all()


def test_arrays_with_gaps() -> None:
    (output,) = nnvk.run(difference(), [np.repeat(A, 2, axis=1)[:, ::2], WithArray(A.T.copy().T)])
    assert (output == 0).all()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (WithArray(A.astype(np.float64)), r"input 1: TENSOR_FLOAT32\[2, 3\] takes arrays of float32, .* got float64"),
        (WithDlpack(A.T), r"input 1: .* shape \[3, 2\]"),
        (Elsewhere(), "input 1: a Elsewhere that can't be read as an array: can't convert cuda:0"),
    ],
    ids=label,
)
def test_arrays_that_do_not_fit(value: object, reason: str) -> None:
    with raises(ResultCode.BAD_DATA, reason):
        nnvk.run(difference(), [A, value])


def test_inputs_by_name() -> None:
    compilation = difference("minuend", "subtrahend")
    for given in ({"minuend": A, "subtrahend": B}, {"subtrahend": WithArray(B), "minuend": A.tolist()}, [A, B]):
        (output,) = nnvk.run(compilation, given)
        assert (output == A - B).all()


@pytest.mark.parametrize(
    ("names", "given", "reason"),
    [
        (("a", "b"), {"a": A}, r"expected the inputs \['a', 'b'\], got \['a'\]"),
        (("a", "b"), {"a": A, "b": B, "c": B}, r"expected the inputs \['a', 'b'\], got \['a', 'b', 'c'\]"),
        (("a", "b"), {0: A, 1: B}, r"expected the inputs \['a', 'b'\], got \['0', '1'\]"),
        (("a", "a"), {"a": A}, r"some inputs of \['a', 'a'\] have one name"),
        ((), {"a": A, "b": B}, "the model's inputs have no names: run takes a list of arrays, in their order"),
        ((), A, r"run takes a list of arrays, one for each input, got one ndarray: write \[it\]"),
        ((), WithDlpack(A), "got one WithDlpack"),
        ((), A.tobytes(), "got one bytes"),
    ],
)
def test_inputs_that_can_not_be_told(names: tuple[str, ...], given: Any, reason: str) -> None:
    with raises(ResultCode.BAD_DATA, reason):
        nnvk.run(difference(*names), given)


def test_names_are_one_for_each_input() -> None:
    build = Builder()
    a = build.operand(f32(2, 3))
    with raises(ResultCode.BAD_STATE, "identify_inputs_and_outputs must be called before name_inputs"):
        build.model.name_inputs(["a"])
    build.model.identify_inputs_and_outputs([a], [build.operation(OperationCode.NEG, [a], f32(2, 3))])
    with raises(ResultCode.BAD_DATA, "expected 1 names, one for each input, got 2"):
        build.model.name_inputs(["a", "b"])
    build.model.finish()
    assert build.model.frozen.input_names == ()
    with raises(ResultCode.BAD_STATE, "name_inputs can't be called after finish"):
        build.model.name_inputs(["a"])


def test_names_outlive_a_change_of_the_model() -> None:
    model = difference("a", "b").model
    assert model.with_relaxed(True).input_names == model.input_names == ("a", "b")
