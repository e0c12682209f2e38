"""Values of onnxruntime in memory that the server shares."""

from __future__ import annotations

import gc
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from c_library import await_end, is_running, servers
from onnx import helper
from ort_session import agrees, model_of, ort, provider, session

import nnvk

if tuple(map(int, ort.__version__.split(".")[:2])) < (1, 28):
    pytest.skip("onnxruntime's Python has no such values before 1.28", allow_module_level=True)

DEVICES = [device.name for device in nnvk.get_devices()]
CPU = "nnapi-reference"
F32 = np.float32
node = helper.make_node
ADD = model_of(
    [node("Add", ["x", "one"], ["y"]), node("Neg", ["x"], ["z"])],
    [("x", F32, ["n", 7])],
    [("y", F32, ["n", 7]), ("z", F32, ["n", 7])],
    {"one": np.ones(1, F32)},
)


def value(array: np.ndarray, device: str = CPU) -> Any:
    """A value in shared memory."""
    made = provider.empty(array.shape, array.dtype, device)
    made.numpy()[...] = array
    return made


def run(made: Any, inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
    binding = made.io_binding()
    for name, one in inputs.items():
        binding.bind_ortvalue_input(name, one)
    for name, one in outputs.items():
        binding.bind_ortvalue_output(name, one)
    made.run_with_iobinding(binding)
    return binding


@pytest.mark.parametrize("device", DEVICES)
def test_bound_inputs_and_outputs(device: str) -> None:
    provider.register()
    made = session(ADD, device)
    x = np.random.default_rng(0).standard_normal((3, 7)).astype(F32)
    given, sums, plain = value(x, device), value(x, device), ort.OrtValue.ortvalue_from_numpy(np.zeros((3, 7), F32))
    for number in range(3):
        given.numpy()[...] = x + F32(number)
        run(made, {"x": given}, {"y": sums, "z": plain})
        np.testing.assert_array_equal(sums.numpy(), x + F32(number) + F32(1))
        np.testing.assert_array_equal(plain.numpy(), -(x + F32(number)))
        agrees(made, ADD, {"x": x})  # of other memory, in between


@pytest.mark.parametrize("device", DEVICES)
def test_a_state_that_two_sessions_pass_to_each_other(device: str) -> None:
    """The output of one is the input of the other, in both directions, without copies."""
    provider.register()
    first, second = session(ADD, device), session(ADD, device)
    a, b, rest = (value(np.zeros((2, 7), F32), device) for _ in range(3))
    for _ in range(5):
        run(first, {"x": a}, {"y": b, "z": rest})
        run(second, {"x": b}, {"y": a, "z": rest})
    assert (a.numpy() == 10).all()
    assert (b.numpy() == 9).all()
    assert (rest.numpy() == -9).all()


def test_one_value_is_input_and_output() -> None:
    provider.register()
    made, state, rest = session(ADD, CPU), value(np.zeros((2, 7), F32)), value(np.zeros((2, 7), F32))
    for _ in range(4):
        run(made, {"x": state}, {"y": state, "z": rest})
    assert (state.numpy() == 4).all()


def test_more_places_than_are_kept() -> None:
    provider.register()
    made = session(ADD, CPU)
    values = [value(np.full((2, 7), number, F32)) for number in range(12)]
    results = [value(np.zeros((2, 7), F32)) for _ in range(24)]
    for _ in range(2):
        for number, one in enumerate(values):
            run(made, {"x": one}, {"y": results[2 * number], "z": results[2 * number + 1]})
    for number in range(12):
        assert (results[2 * number].numpy() == number + 1).all()
        assert (results[2 * number + 1].numpy() == -number).all()


def test_values_that_are_freed() -> None:
    """Their memory is used again for others, and runs go on."""
    provider.register()
    made = session(ADD, CPU)
    for number in range(30):
        one, y, z = (value(np.full((2, 7), number, F32)) for _ in range(3))
        run(made, {"x": one}, {"y": y, "z": z})
        assert (y.numpy() == number + 1).all()
        del one, y, z
        gc.collect()


def test_outputs_that_onnxruntime_allocates() -> None:
    provider.register()
    made = session(ADD, CPU)
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", value(np.ones((2, 7), F32)))
    binding.bind_output("y")
    binding.bind_output("z")
    made.run_with_iobinding(binding)
    assert (binding.copy_outputs_to_cpu()[0] == 2).all()


def test_sessions_of_the_cpu_provider_take_them() -> None:
    provider.register()
    made = ort.InferenceSession(ADD, providers=["CPUExecutionProvider"])
    y, z = value(np.zeros((2, 7), F32)), value(np.zeros((2, 7), F32))
    run(made, {"x": value(np.ones((2, 7), F32))}, {"y": y, "z": z})
    assert (y.numpy() == 2).all()


def test_nodes_of_both_providers() -> None:
    nodes = [node("MatMul", ["x", "x"], ["m"]), node("Inverse", ["m"], ["y"], domain="com.microsoft")]
    model = model_of(nodes, [("x", F32, [2, 2])], [("y", F32, [2, 2])])
    made, y = session(model, CPU, take_all="1"), value(np.zeros((2, 2), F32))
    run(made, {"x": value(np.array([[2, 0], [0, 4]], F32))}, {"y": y})
    np.testing.assert_allclose(y.numpy(), [[0.25, 0], [0, 0.0625]])


def test_a_value_of_a_wrong_shape() -> None:
    provider.register()
    made, x = session(ADD, CPU), value(np.ones((2, 7), F32))
    with pytest.raises(Exception, match=r"(?i)shape"):
        run(made, {"x": x}, {"y": value(np.zeros((3, 7), F32)), "z": value(np.zeros((2, 7), F32))})
    agrees(made, ADD, {"x": np.ones((2, 7), F32)})


def test_several_threads() -> None:
    provider.register()
    made = session(ADD, CPU)

    def work(number: int) -> None:
        x, y, z = (value(np.full((number % 3 + 1, 7), number, F32)) for _ in range(3))
        for _ in range(20):
            run(made, {"x": x}, {"y": y, "z": z})
            assert (y.numpy() == number + 1).all()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))


def test_a_server_that_dies() -> None:
    """Values outlive it: sessions of another server copy them."""
    provider.register()
    x, y, z = (value(np.ones((2, 7), F32)) for _ in range(3))
    run(session(ADD, CPU), {"x": x}, {"y": y, "z": z})
    for pid in filter(is_running, servers()):
        os.kill(pid, signal.SIGKILL)
        await_end(pid)
    y.numpy()[...] = 0
    run(session(ADD, CPU), {"x": x}, {"y": y, "z": z})
    assert (y.numpy() == 2).all()


def test_errors_of_empty() -> None:
    provider.register()
    with pytest.raises(nnvk.NnapiError, match="there is no device 'gpu-9'"):
        provider.empty([2], F32, "gpu-9")
