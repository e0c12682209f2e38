"""LiteRT's interpreter with libnnvk_delegate.so."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import in_turn
import numpy as np
import pytest
from c_library import kill_server, servers
from delegated import VALUES, Delegated, chain, invoke, plain, taken
from tflite_net import Net, T, write

import nnvk

MODELS = Path(__file__).parents[3] / "shared" / "models"
NAMES = sorted(path.parent.name for path in MODELS.glob("*/model.tflite"))
DEVICES = [device.name for device in nnvk.get_devices()]
CPU = "nnapi-reference"
Log = pytest.CaptureFixture[str]


@pytest.mark.skipif(not NAMES, reason="the models are not here")
@pytest.mark.parametrize(
    ("name", "device"),
    [(name, device) for number, name in enumerate(NAMES) for device in in_turn.devices(number) if device in DEVICES],
)
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


def test_others_stay_with_reasons(capfd: Log) -> None:
    data = chain("NEG", "ABS", "FLOAT64", "EXP", "NEG")
    model = Delegated(data)
    log = capfd.readouterr().err
    assert taken(log) == {"taken": 4, "operators": 6, "partitions": 2}
    assert re.search(r"operator 2 stays with TensorFlow Lite: CAST: .* is of type FLOAT64, which NNAPI does not", log)
    np.testing.assert_allclose(model(VALUES), invoke(plain(data), [VALUES]), rtol=1e-5)


def test_nothing_to_take(capfd: Log) -> None:
    model = Delegated(chain("FLOAT64"))
    assert taken(capfd.readouterr().err) == {"taken": 0, "operators": 2, "partitions": 0}
    np.testing.assert_array_equal(model(VALUES), invoke(plain(chain("FLOAT64")), [VALUES]))


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


def test_variables_stay(capfd: Log) -> None:
    """Each invocation adds to one."""
    source = T("FLOAT32", (2,))
    net, first = Net([source], [T("FLOAT32", (2,))]), Net()
    of_net, of_first = (
        one.op("VAR_HANDLE", [], T("RESOURCE", ()), "VarHandleOptions", SharedName="sum") for one in (net, first)
    )
    first.op("ASSIGN_VARIABLE", [of_first, T(data=[5.0, 7.0])], [None], "AssignVariableOptions")
    net.op("CALL_ONCE", [], [None], "CallOnceOptions", InitSubgraphIndex=1)
    before = net.op("READ_VARIABLE", [of_net], T("FLOAT32", (2,)), "ReadVariableOptions")
    after = net.op("ADD", [before, source], net.outputs[0], "AddOptions")
    net.op("ASSIGN_VARIABLE", [of_net, after], [None], "AssignVariableOptions")
    model = Delegated(write(net, first))
    log = capfd.readouterr().err
    for name in ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"):
        assert f"stays with TensorFlow Lite: {name}: " in log
    for times in (1, 2, 3):
        np.testing.assert_array_equal(model(np.float32([1, 2])), [[5 + times, 7 + 2 * times]])


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
    log = capfd.readouterr().err
    assert "its subgraphs stay with TensorFlow Lite" in log
    assert log.count("nnvk: 1 of 1 operators in 1 partition") == 2, "operators in the branches are taken"
    np.testing.assert_array_equal(model(np.array([True]), np.float32([1, -2])), [[-1, 2]])
    np.testing.assert_array_equal(model(np.array([False]), np.float32([1, -2])), [[1, 2]])


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


@pytest.mark.parametrize("seed", range(int(os.environ.get("NNVK_TEST_MOMENTS", "4"))))
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
