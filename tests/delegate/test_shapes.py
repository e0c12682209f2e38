"""Inputs that are resized, sizes that the file leaves open, and those that depend on data."""

from __future__ import annotations

import numpy as np
import pytest
from delegated import VALUES, Delegated, chain, invoke, plain, taken
from tflite_net import Net, T, write

import nnvk

DEVICES = [device.name for device in nnvk.get_devices()]
CPU = "nnapi-reference"
Log = pytest.CaptureFixture[str]


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).random(shape, np.float32) * 2 - 1


def images(shape: tuple[int, ...], signature: tuple[int, ...] | None = None) -> bytes:
    """Two convolutions without padding, a mean, and a row for each image."""
    image, row = T("FLOAT32", shape, signature=signature), T("FLOAT32", (shape[0], 4))
    row.signature = None if signature is None else (signature[0], 4)
    net, last, random = Net([image], [row]), image, np.random.default_rng(3)
    for before, after in ((3, 5), (5, 2)):
        weights = [T(data=random.random((after, 3, 3, before)) - 0.5), T(data=random.random(after))]
        sizes = tuple(max(size - 2, 1) for size in last.shape[1:3])
        made = T("FLOAT32", (shape[0], *sizes, after))
        made.signature = None if signature is None else (*signature[:3], after)
        last = net.op("CONV_2D", [last, *weights], made, "Conv2DOptions", Padding=1, StrideW=1, StrideH=1)
    mean = T("FLOAT32", (shape[0], 2), signature=None if signature is None else (signature[0], 2))
    net.op("MEAN", [last, T("INT32", data=[1, 2])], mean, "ReducerOptions")
    net.op("FULLY_CONNECTED", [mean, T(data=noise(4, 2)), T(data=noise(4))], row, "FullyConnectedOptions")
    return write(net)


@pytest.mark.parametrize("device", DEVICES)
def test_inputs_can_be_resized(device: str) -> None:
    model = Delegated(chain("NEG", "EXP", shape=(1, 3), signature=(-1, 3)), device=device)
    for rows in (1, 4, 2):
        values = np.random.default_rng(rows).random((rows, 3), np.float32)
        model.resize(values.shape)
        (got,) = model(values)
        np.testing.assert_allclose(got, np.exp(-values), rtol=1e-5)


@pytest.mark.parametrize("shape", [(4, 8, 6, 3), (1, 11, 9, 3), (3, 5, 7, 3)])
def test_before_tensors_are_allocated(shape: tuple[int, ...], capfd: Log) -> None:
    """The file's shapes of what comes behind the inputs are none any more."""
    data, values = images((1, 8, 6, 3)), noise(*shape)
    model = Delegated(data, shape)
    assert taken(capfd.readouterr().err) == {"taken": 4, "operators": 4, "partitions": 1}
    (got,) = model(values)
    assert got.shape == (shape[0], 4)
    np.testing.assert_allclose(got, invoke(plain(data, shape), [values])[0], rtol=1e-5, atol=1e-6)


def test_placeholders_are_not_taken_for_sizes(capfd: Log) -> None:
    """An image of one pixel is too small for the operators; those of other sizes are not, and all of them are taken."""
    data = images((1, 1, 1, 3), (-1, -1, -1, 3))
    model = Delegated(data)
    log = capfd.readouterr().err
    assert taken(log) == {"taken": 4, "operators": 4, "partitions": 1}
    assert "a partition waits for inputs of other sizes: " in log
    with pytest.raises(RuntimeError, match="nnvk: computing failed"):
        model(noise(1, 1, 1, 3))
    for shape in ((1, 9, 7, 3), (2, 5, 5, 3), (1, 30, 20, 3)):
        model.resize(shape)
        values = noise(*shape)
        np.testing.assert_allclose(model(values)[0], invoke(plain(data, shape), [values])[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_nothing_gives_nothing(shape: tuple[int, ...]) -> None:
    model = Delegated(chain("NEG", "EXP"), device=CPU)
    model.resize(shape)
    for _ in range(2):
        (got,) = model(np.zeros(shape, np.float32))
        assert got.shape == shape
    model.resize(VALUES.shape)
    np.testing.assert_allclose(model(VALUES), [np.exp(-VALUES)], rtol=1e-5)


def test_a_sum_of_nothing_is_an_error() -> None:
    source, result = T("FLOAT32", (2, 3)), T("FLOAT32", (3,))
    net = Net([source], [result])
    net.op("SUM", [source, T("INT32", data=[0])], result, "ReducerOptions")
    model = Delegated(write(net), device=CPU)
    with pytest.raises(RuntimeError, match="nnvk: compiling a partition failed"):
        model.resize((0, 3))
    model.resize((1, 3))
    np.testing.assert_array_equal(model(VALUES[:1]), VALUES[:1])


def test_sizes_that_depend_on_data(capfd: Log) -> None:
    """WHERE's output has as many rows as elements are true; what reads it is compiled when that is known."""
    source, rows = T("BOOL", (5,)), T("INT64")
    net = Net([source])
    net.op("WHERE", [source], rows, "WhereOptions")
    net.outputs.append(net.op("ADD", [rows, T("INT64", data=[[10]])], T("INT64"), "AddOptions"))
    data = write(net)
    model = Delegated(data)
    assert "operator 0 stays with TensorFlow Lite: WHERE" in capfd.readouterr().err
    for values in ([1, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0] * 5, [1, 1, 1, 1, 1], [0] * 5):
        flags = np.array(values, bool)
        np.testing.assert_array_equal(model(flags), invoke(plain(data), [flags]))


def test_states_of_a_resized_batch() -> None:
    """A state's shape is the file's: of another batch it is an error, and the interpreter goes on."""
    source, state = T("FLOAT32", (1, 2)), T("FLOAT32", (1, 2), variable=True)
    one, zero = T(data=np.eye(2)), T(data=[0.0, 0.0])
    net = Net([source], [T("FLOAT32", (1, 2))])
    net.op("RNN", [source, one, one, zero, state], net.outputs[0], "RNNOptions")
    model = Delegated(write(net), device=CPU)
    with pytest.raises(RuntimeError, match="nnvk: compiling a partition failed"):
        model.resize((3, 2))
    model.resize((1, 2))
    values = np.float32([[1, 2]])
    for times in (1, 2):
        np.testing.assert_array_equal(model(values), [times * values])
