"""Runs on arrays that another process has: which of them are copied, and what is refused."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import ModelProto
from onnx_net import model, op

from nnvk import NnapiError, ResultCode, get_device
from nnvk.importers.onnx.backend import PreparedModel
from nnvk.importers.onnx.bound import BoundRun
from nnvk.importers.onnx.file import OnnxFile
from nnvk.importers.onnx.stored import StoredTensor, stored, stored_bytes

F, I64 = np.float32, np.int64


def tensor(array: np.ndarray) -> StoredTensor:
    """A tensor in memory of its own."""
    return StoredTensor(memoryview(bytearray(stored(array))), array.dtype, array.shape)


def bound(made: ModelProto, *inputs: StoredTensor) -> BoundRun:
    names = [port.name for port in made.graph.input]
    return BoundRun(PreparedModel(OnnxFile(made.SerializeToString()), names, [get_device("nnapi-reference")]), inputs)


def places(run: BoundRun) -> list[bytearray]:
    return [bytearray(stored_bytes(port.dtype, port.shape)) for port in run.outputs or ()]


DOUBLED = {
    "plain": (F, np.array([[1, -2, 3]], F), np.array([[0.5, 4, 5]], F)),
    "halves": (np.float16, np.array([1, -2, 0.1], np.float16), np.array([0.5, 4, 5], np.float16)),
    "doubles": (np.float64, np.array([1, -2, 0.25]), np.array([0.5, 4, 5.0])),
    "whole numbers of 64 bits": (I64, np.array([1, -2, 3]), np.array([7, 4, -5])),
    "bytes": (np.uint8, np.array([1, 2, 3], np.uint8), np.array([0, 4, 5], np.uint8)),
    "one element": (F, np.array(3, F), np.array(4, F)),
}


@pytest.mark.parametrize("name", DOUBLED)
def test_runs_on_the_same_arrays(name: str) -> None:
    """Inputs are read anew in each run, whatever the type that NNAPI has of them."""
    dtype, *turns = DOUBLED[name]
    made = model([op("Add", "x x", "y")], {"x": (dtype, turns[0].shape)}, ["y"])
    given = tensor(turns[0])
    run = bound(made, given)
    (first,) = run.compute() or ()
    np.testing.assert_array_equal(first, turns[0] * 2)
    memory = places(run)
    run.set_outputs([memoryview(one) for one in memory])
    for array in reversed(turns):
        given.write(array)
        assert run.compute() is None
        found = np.frombuffer(memory[0], dtype).reshape(array.shape)
        np.testing.assert_array_equal(found, array * 2)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.bfloat16], ids=str)
def test_elements_that_numpy_has_not(dtype: Any) -> None:
    array, other = np.array([1, -2, 3]).astype(dtype), np.array([-7, 5, 0]).astype(dtype)
    nodes = [op("Cast", "x", "r", to=1), op("Neg", "r", "y"), op("Identity", "x", "z")]
    made = model(nodes, {"x": (dtype, [3])}, ["y", "z"], opset=21)
    given = tensor(array)
    run = bound(made, given)
    memory = places(run)
    run.set_outputs([memoryview(one) for one in memory])
    for each in (array, other):
        given.write(each)
        run.compute()
        np.testing.assert_array_equal(np.frombuffer(memory[0], F), -each.astype(F))
        assert bytes(memory[1]) == bytes(stored(each))


def test_places_that_are_refused() -> None:
    made = model([op("Neg", "x", "y")], {"x": (F, [3])}, ["y"])
    run = bound(made, tensor(np.ones(3, F)))
    memory = memoryview(bytearray(12))
    for given, count in (([], 0), ([memory, memory], 2)):
        with pytest.raises(NnapiError) as raised:
            run.set_outputs(given)
        assert (raised.value.code, raised.value.reason) == (ResultCode.BAD_DATA, f"expected 1 outputs, got {count}")
    run.set_outputs([memory])
    with pytest.raises(NnapiError) as raised:
        run.set_outputs([memory])
    assert (raised.value.code, raised.value.reason) == (ResultCode.BAD_STATE, "the run has its outputs already")


def test_outputs_whose_sizes_are_not_known() -> None:
    made = model([op("NonZero", "x", "y")], {"x": (F, [3])}, ["y"])
    given = tensor(np.array([0, 5, 7], F))
    run = bound(made, given)
    assert run.outputs is None
    np.testing.assert_array_equal((run.compute() or ())[0], [[1, 2]])
    given.write(np.array([3, 0, 0], F))
    np.testing.assert_array_equal((run.compute() or ())[0], [[0]])
    with pytest.raises(NnapiError) as raised:
        run.set_outputs([])
    assert (raised.value.code, raised.value.reason) == (ResultCode.BAD_STATE, "the sizes of outputs are not known")


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"),
    [
        (F, (2, 3), 24),
        (np.dtype(np.bool_), (5,), 5),
        (ml_dtypes.int4, (3,), 2),
        (ml_dtypes.int4, (4,), 2),
        (ml_dtypes.int2, (5,), 2),
        (ml_dtypes.int2, (4,), 1),
        (ml_dtypes.float8_e4m3fn, (3,), 3),
        (F, (0, 3), 0),
        (F, (), 4),
    ],
    ids=str,
)
def test_bytes_of_tensors(dtype: Any, shape: tuple[int, ...], nbytes: int) -> None:
    assert stored_bytes(np.dtype(dtype), shape) == nbytes
    array = (np.arange(int(np.prod(shape))).reshape(shape) % 2).astype(dtype)
    assert len(stored(array)) == nbytes
    memory = tensor(array)
    assert memory.is_packed == (np.dtype(dtype).name[:4] in ("int4", "int2"))
    np.testing.assert_array_equal(memory.read(), array)


@pytest.mark.parametrize("first", [[1, 2], [1 << 40, 2]])
def test_the_cpu_computes_what_nnvk_can_not(first: list[int]) -> None:
    pytest.importorskip("onnxruntime")
    made = model([op("Add", "x x", "y")], {"x": (I64, ["n"])}, ["y"])
    file = OnnxFile(made.SerializeToString())
    library = import_module("nnvk.importers.onnx.library")
    devices = [get_device("nnapi-reference")]
    prepared = PreparedModel(file, ["x"], devices, cpu=lambda: library.part_of_file(file, ["x"]))
    given = tensor(np.array(first, I64))
    run = BoundRun(prepared, [given])
    memory = places(run)
    run.set_outputs([memoryview(one) for one in memory])
    for numbers in ([1 << 40, 2], [3, 4]):
        given.write(np.array(numbers, I64))
        run.compute()
        assert np.frombuffer(memory[0], I64).tolist() == [2 * one for one in numbers]
    (empty,) = prepared.run([np.zeros(0, I64)])
    assert empty.shape == (0,)
    with pytest.raises(NnapiError, match="must have values of 32 bits"):
        PreparedModel(file, ["x"], devices).run([np.array([1 << 40])])
