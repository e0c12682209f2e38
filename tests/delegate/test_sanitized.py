"""The C library and the delegate under sanitizers, for addresses and undefined behaviour, and under valgrind."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from c_library import EXAMPLES, build, run

from nnvk import get_devices
from nnvk.serve.installed import DELEGATE

ROOT = Path(__file__).parents[2]
SANITIZERS = "-fsanitize=address,undefined"
DEVICES = [device.name for device in get_devices()]
TARGETS = "neuralnetworks", "nnvk_delegate", "nnvk_accelerator"
LITERT = """
import os
import sys
import numpy as np
import ai_edge_litert.interpreter as litert

path, model = sys.argv[1:]
for device in {devices}:
    delegate = litert.load_delegate(path, {{"device": device}})
    interpreter = litert.Interpreter(model, experimental_delegates=[delegate])
    (detail,) = interpreter.get_input_details()
    for rows in (1, 3):
        interpreter.resize_tensor_input(detail["index"], [rows, *detail["shape"][1:]])
        interpreter.allocate_tensors()
        interpreter.set_tensor(detail["index"], np.zeros([rows, *detail["shape"][1:]], detail["dtype"]))
        interpreter.invoke()
    try:
        litert.load_delegate(path, {{"device": "no such"}})
    except ValueError:
        print("right")
try:
    from ai_edge_litert.compiled_model import CompiledModel, Environment, HardwareAccelerator
except ImportError:
    sys.exit()  # before LiteRT 2.2
# Plugins for other hardware are loaded with RTLD_DEEPBIND, which sanitizers refuse.
environment = Environment.create(runtime_path=os.path.dirname(path), compiler_plugin_path="/nowhere")
for device in {devices}:
    os.environ["NNVK_LITERT_OPTIONS"] = "device:" + device
    compiled = CompiledModel.from_file(model, HardwareAccelerator.GPU, environment)
    compiled.run_by_index(0, compiled.create_input_buffers(0), compiled.create_output_buffers(0))
    os.environ["NNVK_LITERT_OPTIONS"] = "device:no such"
    try:
        CompiledModel.from_file(model, HardwareAccelerator.GPU, environment)
    except RuntimeError:
        compiled.close()
"""


def command(*words: object) -> str:
    """Run a command that must succeed, and return its output."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both libraries, built with sanitizers, once for all workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "sanitized"
    folder.mkdir(exist_ok=True)
    if not (shutil.which("cmake") and shutil.which("ninja") and shutil.which("c++")):
        pytest.skip("needs cmake, ninja and a C++ compiler")
    (folder / "probe.cpp").write_text("int main() {}\n")
    probe = ["c++", SANITIZERS, folder / "probe.cpp", "-o", folder / "probe"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip("the compiler has no sanitizers")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_in(folder)
    return folder


def build_in(folder: Path) -> None:
    """Build what is not built yet. ONNX Runtime's provider, which takes as long as all of these, is not built."""
    options = ["-DNNVK_SANITIZE=address,undefined", "-DCMAKE_BUILD_TYPE=Debug", f"-DPython_EXECUTABLE={sys.executable}"]
    command("cmake", "-G", "Ninja", "-S", ROOT / "clib", "-B", folder, *options)
    command("cmake", "--build", folder, "--parallel", "2", "--target", *TARGETS)


def test_the_examples(libraries: Path, tmp_path: Path) -> None:
    flags = ["-g", SANITIZERS, "-fno-sanitize-recover=all"]
    add = build(EXAMPLES / "add.c", tmp_path / "add", flags, libraries)
    assert "0 of 20000 elements are wrong" in run(add, "1.5", "2.5")
    block = build(EXAMPLES / "mobilenet_block.cpp", tmp_path / "block", flags, libraries)
    for device in DEVICES:
        assert run(block, device).count(" right") == 4


def test_a_host_of_the_delegate(libraries: Path, tmp_path: Path) -> None:
    """Every structure that the delegate sees is on the heap of a program that is watched as well."""
    flags = ["-g", SANITIZERS, "-fno-sanitize-recover=all", "-isystem", str(ROOT / "clib"), "-ldl"]
    host = build(Path(__file__).with_name("host.cpp"), tmp_path / "host", flags, libraries)
    for device in DEVICES:
        assert run(host, str(libraries / "libnnvk_delegate.so"), device, "4") == "right\n"


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_valgrind(tmp_path: Path) -> None:
    """The libraries as they are installed, which sanitizers don't see."""
    add = build(EXAMPLES / "add.c", tmp_path / "add", ["-g"])
    host = build(
        Path(__file__).with_name("host.cpp"), tmp_path / "host", ["-g", "-isystem", str(ROOT / "clib"), "-ldl"]
    )
    valgrind = Path(shutil.which("valgrind") or "")
    options = ["-q", "--error-exitcode=9", "--fair-sched=yes"]
    command(valgrind, *options, "--leak-check=full", "--errors-for-leak-kinds=definite", add, "1.5", "2.5")
    assert command(valgrind, *options, host, DELEGATE, "nnapi-reference", "3") == "right"


def test_litert(libraries: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    preloaded = [command("c++", f"-print-file-name={name}") for name in ("libasan.so", "libubsan.so", "libstdc++.so")]
    environment = {**os.environ, "LD_PRELOAD": " ".join(preloaded), "ASAN_OPTIONS": "detect_leaks=0"}
    model = ROOT / "nnvk" / "demo" / "data" / "digits_int8.tflite"
    script = LITERT.format(devices=DEVICES)
    arguments = [sys.executable, "-c", script, libraries / "libnnvk_delegate.so", model]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=250)
    assert done.returncode == 0 and "Sanitizer" not in done.stderr, done.stdout + done.stderr
    assert done.stdout.split() == ["right"] * len(DEVICES)
