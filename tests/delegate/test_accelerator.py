"""LiteRT's compiled models with libLiteRtGpuAccelerator.so, in Python and in C++."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import in_turn
import numpy as np
import pytest
from accelerated import CPU, GPU, Accelerated, compiled
from c_library import await_end, is_running, servers
from delegated import VALUES, Delegated, chain, invoke, litert, taken
from tflite_net import Net, Signature, T, write

import nnvk
from nnvk.demo.assets import MODELS as DEMO
from nnvk.serve.installed import library_paths

MODELS = [model.path for model in DEMO]
MODELS += sorted((Path(__file__).parents[3] / "shared" / "models").glob("*/model.tflite"))
DEVICES = [device.name for device in nnvk.get_devices()]
LITERT = Path(compiled.__file__).parent
Log = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def reference_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNVK_LITERT_OPTIONS", "device:nnapi-reference")


def reference(model: bytes) -> litert.Interpreter:
    interpreter = litert.Interpreter(
        model_content=model, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    return interpreter


def random_inputs(interpreter: litert.Interpreter) -> list[np.ndarray]:
    generator, inputs = np.random.default_rng(2), []
    for detail in interpreter.get_input_details():
        shape, dtype = detail["shape"], np.dtype(detail["dtype"])
        if dtype.kind == "f":
            inputs.append(generator.random(shape, dtype))
        else:
            inputs.append(generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True))
    return inputs


@pytest.mark.parametrize(
    ("path", "device"),
    [(path, device) for number, path in enumerate(MODELS) for device in in_turn.devices(number) if device in DEVICES],
    ids=lambda value: value.parent.name + "-" + value.stem if isinstance(value, Path) else value,
)
def test_model(path: Path, device: str, capfd: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """All operators run on the device. Integers have the bits of LiteRT's reference kernels."""
    monkeypatch.setenv("NNVK_LITERT_OPTIONS", f"device:{device};no_fallback:true")
    data = path.read_bytes()
    model, wanted = Accelerated(data), reference(data)
    found = taken(capfd.readouterr().err)
    assert (found["taken"], found["partitions"]) == (found["operators"], 1)
    assert model.model.is_fully_accelerated()
    inputs = random_inputs(wanted)
    for _ in range(2):
        for got, want in zip(model(inputs), invoke(wanted, inputs), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 if want.dtype.kind == "f" else 0)


def test_others_stay_with_the_cpu(capfd: Log) -> None:
    data = chain("NEG", "FLOAT64", "EXP")
    model = Accelerated(data, CPU | GPU)
    assert not model.model.is_fully_accelerated()
    assert taken(capfd.readouterr().err) == {"taken": 2, "operators": 4, "partitions": 2}
    np.testing.assert_allclose(model([VALUES]), [np.exp(-VALUES)], rtol=1e-5)


def test_others_without_the_cpu_are_an_error(capfd: Log) -> None:
    """LiteRT 2.3 says that some operators are not accelerated; 2.2 says nothing."""
    with pytest.raises(RuntimeError, match=r"litert_compiled_model\.h"):
        Accelerated(chain("NEG", "FLOAT64", "EXP"))
    assert taken(capfd.readouterr().err) == {"taken": 2, "operators": 4, "partitions": 2}


def test_models_for_the_cpu_are_left_alone(capfd: Log) -> None:
    np.testing.assert_array_equal(Accelerated(chain("NEG"), CPU)([VALUES]), [-VALUES])
    assert "operators in" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("device:vulkan-77", r"LiteRT: nnvk: there is no device vulkan-77; there are: .*nnapi-reference"),
        ("device:vulkan-77:x", "there is no device vulkan-77:x"),
        ("devise:x", "LiteRT: nnvk: there is no option 'devise'; there are device, no_fallback, relaxed"),
        ("device:nnapi-reference;relaxed:maybe", "the option relaxed must be true or false, got 'maybe'"),
        ("relaxed", "NNVK_LITERT_OPTIONS must be like device:NAME;relaxed:true, got 'relaxed'"),
        ("relaxed;device:x", "NNVK_LITERT_OPTIONS must be like device:NAME;relaxed:true, got 'relaxed;device:x'"),
    ],
)
def test_options_are_checked(options: str, reason: str, capfd: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteRT raises an error, whose reason is in the log, and goes on with other models."""
    monkeypatch.setenv("NNVK_LITERT_OPTIONS", options)
    with pytest.raises(RuntimeError, match=r"litert_compiled_model\.h"):
        Accelerated(chain("NEG"))
    assert re.search(reason, capfd.readouterr().err)
    monkeypatch.setenv("NNVK_LITERT_OPTIONS", "device:nnapi-reference;verbosity:0;relaxed:false;")
    np.testing.assert_array_equal(Accelerated(chain("NEG"))([VALUES]), [-VALUES])
    assert "operators in" not in capfd.readouterr().err


def test_an_interface_of_another_version_is_refused(capfd: Log) -> None:
    """Another major version has another layout, and a smaller structure lacks what the library calls."""
    library = ctypes.CDLL(str(Path(library_paths().accelerator, "libLiteRtGpuAccelerator.so")))
    words = (ctypes.c_void_p * 25).in_dll(library, "LiteRtAcceleratorImpl")
    assert bytes(words)[:8] == np.uint16([200, 1, 0, 0]).tobytes()
    create = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)(words[5])
    for header in ([408, 2, 0, 0], [144, 1, 0, 0]):
        context = (ctypes.c_uint16 * 204)(*header)
        wrong_version = 8
        assert create(ctypes.addressof(context), None, None, None, None) == wrong_version
    assert capfd.readouterr().err.count("an interface for accelerators that nnvk does not know") == 2


def test_resized_inputs() -> None:
    model = Accelerated(chain("NEG", "EXP", shape=(1, 3), signature=(-1, 3)))
    for rows in (1, 4, 2):
        model.resize((rows, 3))
        values = np.random.default_rng(rows).random((rows, 3), np.float32)
        np.testing.assert_allclose(model([values]), [np.exp(-values)], rtol=1e-5)


@pytest.mark.parametrize("count", [2, 6])
def test_sets_of_buffers_in_turn(count: int) -> None:
    """Each has its own numbers, also where there are more than the partition remembers, and where one is new."""
    model = Accelerated(chain("NEG", "EXP")).model
    sets = [(model.create_input_buffers(0), model.create_output_buffers(0)) for _ in range(count)]
    for turn in range(4):
        for number, (inputs, outputs) in enumerate(sets):
            inputs[0].write(VALUES / (1 + turn + number))
            model.run_by_index(0, inputs, outputs)
        for number, (_, outputs) in enumerate(sets):
            wanted = np.exp(-VALUES / (1 + turn + number)).ravel()
            np.testing.assert_allclose(outputs[0].read(6, np.float32), wanted, rtol=1e-5)
        sets[turn % count] = model.create_input_buffers(0), model.create_output_buffers(0)


def test_signatures() -> None:
    """Each is a subgraph, whose operators are taken."""
    nets, signatures = [], []
    for number, name in enumerate(("NEG", "ABS")):
        source, result = T("FLOAT32", (2, 3)), T("FLOAT32", (2, 3))
        net = Net([source])
        net.outputs.append(net.op(name, [source], result))
        nets.append(net)
        signatures.append(Signature(name, number, {"x": source}, {"y": result}))
    model = Accelerated(write(*nets, signatures=signatures)).model
    for name, wanted in (("NEG", -VALUES), ("ABS", abs(VALUES)), ("NEG", -VALUES)):
        source, result = (
            model.create_input_buffer_by_name(name, "x"),
            model.create_output_buffer_by_name(name, "y"),
        )
        source.write(VALUES)
        model.run_by_name(name, {"x": source}, {"y": result})
        np.testing.assert_array_equal(result.read(6, np.float32), wanted.ravel())


@pytest.mark.parametrize("device", DEVICES)
def test_a_forked_child_goes_on(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the model and none of its parent's server; it gets one of its own."""
    monkeypatch.setenv("NNVK_LITERT_OPTIONS", f"device:{device};verbosity:0")
    model = Accelerated(chain("NEG"))
    np.testing.assert_array_equal(model([VALUES]), [-VALUES])
    child = os.fork()
    if child == 0:
        try:
            is_right = all((model([VALUES * times])[0] == -VALUES * times).all() for times in (1, 2))
        except BaseException:
            is_right = False
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(model([2 * VALUES]), [-2 * VALUES])


def test_several_models_and_what_is_deleted_first() -> None:
    models = [Accelerated(chain(*["NEG"] * count)) for count in (1, 2, 3)]
    interpreter = Delegated(chain("NEG"), device="nnapi-reference")
    while models:
        for model in models:
            np.testing.assert_array_equal(abs(model([VALUES])[0]), VALUES)
        np.testing.assert_array_equal(interpreter(VALUES), [-VALUES])
        del model, models[0]
        gc.collect()


@pytest.mark.parametrize("device", DEVICES)
def test_threads(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with models of its own, which it makes and deletes while others compute."""
    monkeypatch.setenv("NNVK_LITERT_OPTIONS", f"device:{device};verbosity:0")

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(3):
            model = Accelerated(chain("NEG", "EXP"))
            for _ in range(5):
                values = generator.random((2, 3), np.float32)
                np.testing.assert_allclose(model([values]), [np.exp(-values)], rtol=1e-5)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))


def test_a_server_that_dies_is_an_error_and_the_next_run_works() -> None:
    model = Accelerated(chain("NEG"))
    np.testing.assert_array_equal(model([VALUES]), [-VALUES])
    killed = [pid for pid in servers() if is_running(pid)]  # the delegate's, too
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
        await_end(pid)
    with pytest.raises(RuntimeError):
        model([VALUES])
    np.testing.assert_array_equal(model([VALUES]), [-VALUES])
    assert servers()[-1] not in killed


PROGRAM = f"""
import sys
import numpy as np
from ai_edge_litert.compiled_model import CompiledModel, Environment, HardwareAccelerator

environment = Environment.create(runtime_path={library_paths().accelerator!r})
model = CompiledModel.from_file("chain.tflite", HardwareAccelerator(int(sys.argv[1])), environment)
inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
inputs[0].write(np.ones((2, 3), np.float32))
model.run_by_index(0, inputs, outputs)
print(outputs[0].read(6, np.float32).sum())
"""


def run_program(folder: Path, hardware: int, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "chain.tflite").write_bytes(chain("NEG"))
    command = [sys.executable, "-c", PROGRAM, str(int(hardware))]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=folder, env={**os.environ, **environment}
    )


def test_the_process_ends_well(tmp_path: Path) -> None:
    """Also with models that nobody has closed."""
    done = run_program(tmp_path, GPU)
    assert (done.returncode, done.stdout) == (0, "-6.0\n"), done.stderr
    assert "1 of 1 operators in 1 partition" in done.stderr


def test_where_there_are_only_cpus(tmp_path: Path) -> None:
    """LiteRT's CPU computes the model if the program allows it, not nnvk's."""
    none = {"VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json", "NNVK_LITERT_OPTIONS": ""}
    done = run_program(tmp_path, CPU | GPU, **none)
    assert (done.returncode, done.stdout) == (0, "-6.0\n"), done.stderr
    assert "nnvk: there is no device but CPUs; there are: nnapi-reference" in done.stderr
    assert "operators in" not in done.stderr
    assert "RuntimeError" in run_program(tmp_path, GPU, **none).stderr
    assert "RuntimeError" in run_program(tmp_path, CPU | GPU, **{**none, "NNVK_LITERT_OPTIONS": "devise:x"}).stderr
    done = run_program(tmp_path, GPU, **{**none, "NNVK_LITERT_OPTIONS": "device:nnapi-reference"})
    assert (done.returncode, done.stdout) == (0, "-6.0\n"), done.stderr


def test_a_server_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    done = run_program(tmp_path, CPU | GPU, NNVK_SERVER="/nowhere", NNVK_LITERT_OPTIONS="")
    assert done.returncode == 1 and "RuntimeError" in done.stderr


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_program_in_cpp(tmp_path: Path, is_copied: bool) -> None:
    """The library is found in the runtime folder, and by the loader, where it may be a copy."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no compiler")
    (tmp_path / "chain.tflite").write_bytes(chain("NEG"))
    source = Path(__file__).with_name("compiled.cpp")
    library = LITERT / "libLiteRt.so"
    command = [compiler, "-Wall", "-Wextra", "-Werror", source, library, f"-Wl,-rpath,{LITERT}", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    folder = library_paths().accelerator
    environment, arguments = dict(os.environ), [folder]
    if is_copied:
        shutil.copy(Path(folder, "libLiteRtGpuAccelerator.so"), tmp_path)
        environment["LD_LIBRARY_PATH"], arguments = str(tmp_path), []
    program = [tmp_path / "program", tmp_path / "chain.tflite", *arguments]
    done = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout) == (0, "1: -1 -2 -3 -4 -5 -6\n"), done.stdout + done.stderr
    assert "1 of 1 operators in 1 partition" in done.stderr
