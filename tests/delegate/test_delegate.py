"""LiteRT's interpreter with libnnvk_delegate.so."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from c_library import kill_server, servers
from delegated import Delegated, invoke, plain, taken
from tflite_net import Net, T, write

import nnvk

MODELS = Path(__file__).parents[3] / "shared" / "models"
NAMES = sorted(path.parent.name for path in MODELS.glob("*/model.tflite"))
DEVICES = [device.name for device in nnvk.get_devices()]
CPU = "nnapi-reference"
Log = pytest.CaptureFixture[str]


@pytest.mark.skipif(not NAMES, reason="the models are not here")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_model(name: str, device: str, capfd: Log) -> None:
    folder = MODELS / name
    given, wanted = np.load(folder / "input.npz"), np.load(folder / "expected.npz")
    model = Delegated((folder / "model.tflite").read_bytes(), device=device, no_fallback=True)
    found = taken(capfd.readouterr().err)
    assert found["taken"] == found["operators"]
    assert found["partitions"] == 1
    for _ in range(2):
        outputs = model(*(given[str(position)] for position in range(len(given.files))))
        assert len(outputs) == len(wanted.files)
        for position, got in enumerate(outputs):
            want = wanted[str(position)]
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            if want.size > 1 and "autoencoder" not in name:
                assert got.argmax() == want.argmax()
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)
                continue
            steps = np.abs(got.astype(int) - want.astype(int))
            assert (steps <= 1).mean() >= (0.99 if name.startswith("mobilenet") else 1)
            assert steps.max() <= 3


def chain(*names: str, shape: tuple[int, ...] = (2, 3), signature: tuple[int, ...] | None = None) -> bytes:
    """Operators, one after the other; nnvk has no ATAN2."""
    source = T("FLOAT32", shape, signature=signature)
    net = Net([source])
    last = source
    for name in names:
        last = net.op(name, [last, last] if name == "ATAN2" else [last], T("FLOAT32", shape, signature=signature))
    net.outputs.append(last)
    return write(net)


VALUES = np.float32([[0.5, 1, 2], [0.1, 0.25, 3]])


def test_others_stay_with_reasons(capfd: Log) -> None:
    data = chain("NEG", "ABS", "ATAN2", "EXP", "NEG")
    model = Delegated(data)
    log = capfd.readouterr().err
    assert taken(log) == {"taken": 4, "operators": 5, "partitions": 2}
    assert "operator 2 stays with TensorFlow Lite: ATAN2: NNAPI has no counterpart" in log
    np.testing.assert_allclose(model(VALUES), invoke(plain(data), [VALUES]), rtol=1e-5)


def test_nothing_to_take(capfd: Log) -> None:
    model = Delegated(chain("ATAN2"))
    assert taken(capfd.readouterr().err) == {"taken": 0, "operators": 1, "partitions": 0}
    np.testing.assert_array_equal(model(VALUES), invoke(plain(chain("ATAN2")), [VALUES]))


def test_quiet(capfd: Log) -> None:
    Delegated(chain("ATAN2", "NEG"), verbosity=0)
    assert "nnvk" not in capfd.readouterr().err


def test_inputs_can_be_resized() -> None:
    model = Delegated(chain("NEG", "EXP", shape=(1, 3), signature=(-1, 3)))
    for rows in (1, 4, 2):
        values = np.random.default_rng(rows).random((rows, 3), np.float32)
        model.interpreter.resize_tensor_input(model.interpreter.get_input_details()[0]["index"], values.shape)
        model.interpreter.allocate_tensors()
        (got,) = model(values)
        np.testing.assert_allclose(got, np.exp(-values), rtol=1e-5)


def test_sizes_that_depend_on_data(capfd: Log) -> None:
    """WHERE's output has as many rows as elements are true; what reads it is compiled when that is known."""
    source, rows = T("BOOL", (5,)), T("INT64")
    net = Net([source])
    net.op("WHERE", [source], rows, "WhereOptions")
    net.outputs.append(net.op("ADD", [rows, T("INT64", data=[[10]])], T("INT64"), "AddOptions"))
    data = write(net)
    model = Delegated(data)
    assert "operator 0 stays with TensorFlow Lite: WHERE" in capfd.readouterr().err
    for values in ([1, 0, 1, 1, 0], [0, 0, 0, 1, 0], [1, 1, 1, 1, 1]):
        flags = np.array(values, bool)
        np.testing.assert_array_equal(model(flags), invoke(plain(data), [flags]))


def with_state() -> bytes:
    source, state = T("FLOAT32", (1, 2)), T("FLOAT32", (1, 2), variable=True)
    one, zero = T(data=np.eye(2)), T(data=[0.0, 0.0])
    net = Net([source], [T("FLOAT32", (1, 2))])
    net.op("RNN", [source, one, one, zero, state], net.outputs[0], "RNNOptions")
    return write(net)


def test_states_live_in_the_interpreter(capfd: Log) -> None:
    model = Delegated(with_state())
    assert taken(capfd.readouterr().err)["taken"] == 1
    values = np.float32([[1, 2]])
    for times in (1, 2, 3):
        np.testing.assert_array_equal(model(values), [times * values])
    model.interpreter.reset_all_variables()
    np.testing.assert_array_equal(model(values), [values])


def test_int64_is_narrowed_and_widened() -> None:
    source = T("INT64", (2,))
    net = Net([source], [T("INT64", (2,))])
    net.op("ADD", [source, T("INT64", data=[1, 2])], net.outputs[0], "AddOptions")
    model = Delegated(write(net))
    (got,) = model(np.int64([10, -20]))
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, [11, -18])
    with pytest.raises(RuntimeError, match="nnvk: computing failed"):
        model(np.int64([2**40, 0]))


def test_control_flow_stays(capfd: Log) -> None:
    condition, source, result = T("BOOL", (1,)), T("FLOAT32", (2,)), T("FLOAT32", (2,))
    main = Net([condition, source], [result])
    main.op("IF", [condition, source], result, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    branches = []
    for name in ("NEG", "ABS"):
        read, written = T("FLOAT32", (2,)), T("FLOAT32", (2,))
        branch = Net([read], [written])
        branch.op(name, [read], written)
        branches.append(branch)
    model = Delegated(write(main, *branches))
    assert "its subgraphs stay with TensorFlow Lite" in capfd.readouterr().err
    np.testing.assert_array_equal(model(np.array([True]), np.float32([1, -2])), [[-1, 2]])
    np.testing.assert_array_equal(model(np.array([False]), np.float32([1, -2])), [[1, 2]])


def test_several_models_at_once() -> None:
    models = [Delegated(chain(*["NEG"] * count), device=CPU) for count in (1, 2, 3)]
    for _ in range(2):
        for count, model in enumerate(models, 1):
            np.testing.assert_array_equal(model(VALUES), [VALUES * (-1) ** count])


# --- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"devise": "x"}, "there is no option 'devise'; there are device, cache_dir, relaxed"),
        ({"relaxed": "maybe"}, "the option relaxed must be true or false, got 'maybe'"),
        ({"verbosity": "loud"}, "the option verbosity must be 0 or 1"),
        ({"device": "vulkan-77"}, r"there is no device vulkan-77; there are: .*nnapi-reference"),
    ],
)
def test_options_are_checked(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Delegated(chain("NEG"), **options)


def test_cache_dir(tmp_path: Path) -> None:
    device = DEVICES[0]
    for _ in range(2):
        model = Delegated(chain("NEG", "EXP"), device=device, cache_dir=tmp_path, relaxed=False)
        np.testing.assert_allclose(model(VALUES), [np.exp(-VALUES)], rtol=1e-5)
    if device != CPU:
        assert list(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match="compiling a partition failed"):
        Delegated(chain("NEG"), cache_dir=tmp_path / "absent")


# --- the server's end ----------------------------------------------------------------------------------------------


def seconds_of(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def test_a_server_that_dies_is_an_error_and_the_next_invocation_works() -> None:
    model = Delegated(chain("NEG"), device=CPU)
    np.testing.assert_array_equal(model(VALUES), [-VALUES])
    killed = kill_server()

    def fails() -> None:
        with pytest.raises(RuntimeError, match=r"nnvk: computing failed with NNAPI's result code 14"):
            model(VALUES)

    assert seconds_of(fails) < 2
    np.testing.assert_array_equal(model(VALUES), [-VALUES])
    assert servers()[-1] != killed


def test_a_server_that_dies_before_the_first_invocation() -> None:
    model = Delegated(chain("NEG"), device=CPU)
    kill_server()
    with pytest.raises(RuntimeError, match="result code 14"):
        model(VALUES)
    np.testing.assert_array_equal(model(VALUES), [-VALUES])


@pytest.mark.parametrize("seed", range(int(os.environ.get("NNVK_TEST_MOMENTS", "8"))))
def test_kill_at_a_random_moment(seed: int) -> None:
    """An invocation ends, well or with an error; nothing hangs; the next ones work."""
    model = Delegated(chain("NEG", "EXP"), device=CPU, verbosity=0)
    model(VALUES)
    timer = threading.Timer(random.Random(seed).uniform(0, 0.05), kill_server)
    timer.start()
    failures = 0
    while timer.is_alive():
        try:
            assert seconds_of(lambda: model(VALUES)) < 20  # a new server may have to start
        except RuntimeError as error:
            assert "nnvk: computing failed" in str(error)
            failures += 1
    timer.join()
    while failures < 3:
        try:
            np.testing.assert_allclose(model(VALUES), [np.exp(-VALUES)], rtol=1e-5)
            break
        except RuntimeError:
            failures += 1
    np.testing.assert_allclose(model(VALUES), [np.exp(-VALUES)], rtol=1e-5)
