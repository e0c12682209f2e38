"""Programs that know nothing of nnvk, in which sessions run on it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from ort_session import model_of, ort
from slow_compilation import write_slow_server
from terminal import on_a_terminal, what_is_left

if tuple(map(int, ort.__version__.split(".")[:2])) < (1, 26):
    pytest.skip("onnxruntime 1.26 or later is needed", allow_module_level=True)

RELU = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", np.float32, [4])], [("y", np.float32, [4])])
MIXED = model_of(
    [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Identity", ["s"], ["t"]),
        helper.make_node("Neg", ["a"], ["y"]),
    ],
    [("x", np.float32, [4]), ("s", str, [2])],
    [("y", np.float32, [4]), ("t", str, [2])],
)
"""Text stays with onnxruntime."""
PROGRAM = """
import sys
import numpy as np
from onnxruntime import InferenceSession, SessionOptions

feed = {"x": np.array([-1, 2, -3, 4], np.float32)}
options = SessionOptions()
for _ in range(2):  # the same options twice
    session = InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        print(session.run(None, feed)[0].tolist())
with open(sys.argv[2], "rb") as file:
    other = InferenceSession(file.read(), providers=["CPUExecutionProvider"], provider_options=[{}])
print(other.run(None, {**feed, "s": np.array(["a", "b"], object)}))
print(__name__, sys.argv[3:])
sys.exit(7)
"""


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A run of Python in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment, cwd=folder
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program and its models."""
    made = tmp_path_factory.mktemp("program")
    (made / "program.py").write_text(PROGRAM)
    (made / "relu.onnx").write_bytes(RELU)
    (made / "mixed.onnx").write_bytes(MIXED)
    return made


@pytest.mark.parametrize("program", [("program.py",), ("-m", "program")])
def test_an_unchanged_program(folder: Path, program: tuple[str, ...]) -> None:
    arguments = (*program, "relu.onnx", "mixed.onnx", "--device", "-m")
    plain = run(folder, *arguments)
    done = run(folder, "-m", "nnvk.onnxruntime", "--device", "nnapi-reference", *arguments)
    assert (done.returncode, plain.returncode) == (7, 7), done.stderr
    assert done.stdout == plain.stdout
    assert "[W:onnxruntime" not in done.stderr  # the same options twice are no reason to warn
    lines = [line for line in done.stderr.splitlines() if line.startswith("nnvk: ")]
    assert [line.partition("run,")[0].partition("runs,")[0] for line in lines] == [
        "nnvk: relu.onnx: 1 of 1 node on nnvk in 1 part; 3 ",
        "nnvk: relu.onnx: 1 of 1 node on nnvk in 1 part; 3 ",
        f"nnvk: a model of {len(MIXED)} bytes: 2 of 3 nodes on nnvk in 1 part; elsewhere 1 Identity; 1 ",
    ]


def test_the_optimised_model_that_a_program_asks_for(folder: Path) -> None:
    """onnxruntime can't write a session that has parts of a provider, nor nnvk run the fused operators of its CPU."""
    ports = [("x", np.float32, [1, 2, 8, 8])], [("y", np.float32, [1, 16, 6, 6])]
    weights = {"w": np.ones((16, 2, 3, 3), np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    (folder / "conv.onnx").write_bytes(model_of(nodes, *ports, weights))
    (folder / "optimised.py").write_text(
        "import numpy as np, onnxruntime\n"
        "options = onnxruntime.SessionOptions()\n"
        "options.optimized_model_filepath = 'optimised.onnx'\n"
        "onnxruntime.InferenceSession('conv.onnx', options)\n"
        "print(options.optimized_model_filepath, options.graph_optimization_level.name)\n"
        "session = onnxruntime.InferenceSession('optimised.onnx')\n"
        "print(session.run(None, {'x': np.ones([1, 2, 8, 8], np.float32)})[0].max())\n"
    )
    done = run(folder, "-m", "nnvk.onnxruntime", "optimised.py")
    assert done.stdout == "optimised.onnx ORT_ENABLE_ALL\n18.0\n", done.stderr
    assert "nnvk: optimised.onnx: 2 of 2 nodes on nnvk in 1 part; 1 run, " in done.stderr


PROVIDERS = """
import threading
import numpy as np, onnxruntime
from onnxruntime import InferenceSession
from onnxruntime.capi._pybind_state import get_available_providers as get_all_providers

feed, cpu = {"x": np.array([-1, 2, -3, 4], np.float32)}, "CPUExecutionProvider"
for providers, options in [
    (onnxruntime.get_available_providers(), None),
    (get_all_providers(), None),
    (get_all_providers(), [{} for _ in get_all_providers()]),
    (["CUDAExecutionProvider", cpu], None),
    ([("CUDAExecutionProvider", {"device_id": 0}), (cpu, {})], None),
    ([], None),
    (cpu, None),  # these four make no sense to onnxruntime, which goes on without them
    (["Missing"], None),
    ([""], None),
    ([cpu], [{}, {}]),
]:
    print(InferenceSession("relu.onnx", None, providers, options).run(None, feed)[0].tolist())
print(onnxruntime.get_available_providers())
try:
    InferenceSession("relu.onnx", providers=["Missing"], enable_fallback=0)
except RuntimeError as error:
    print(error)
session = InferenceSession("relu.onnx")
for providers, options in ([cpu], None), ([cpu], [{}]):
    session.set_providers(providers, options)
    print(session.run(["y"], feed)[0].tolist(), session.get_providers()[-1])
done = threading.Event()
session.run_async(["y"], feed, lambda *results: print(results[0][0].tolist(), *results[1:]) or done.set(), "given")
done.wait(60)
"""


def test_the_providers_that_a_program_asks_for(folder: Path) -> None:
    """nnvk stays the first, is not named twice, and onnxruntime says the same of wrong ones."""
    (folder / "providers.py").write_text(PROVIDERS)
    plain = run(folder, "providers.py")
    done = run(folder, "-m", "nnvk.onnxruntime", "--device", "nnapi-reference", "providers.py")
    assert (done.returncode, plain.returncode) == (0, 0), done.stderr
    assert done.stdout == plain.stdout
    assert done.stdout.count("EP Error") == 8
    assert "Duplicate provider 'nnvk'" not in done.stderr
    placed = "nnvk: relu.onnx: 1 of 1 node on nnvk in 1 part; "
    report = [line.partition(placed)[2].partition(",")[0] for line in done.stderr.splitlines() if placed in line]
    assert report == ["1 run"] * 10 + ["3 runs"]


def test_a_long_compilation_is_shown_on_the_terminal(folder: Path, tmp_path: Path) -> None:
    """The server of the provider writes it, whose standard error is the program's."""
    (tmp_path / "session.py").write_text("import onnxruntime, sys\nonnxruntime.InferenceSession(sys.argv[1])\n")
    command = [sys.executable, "-m", "nnvk.onnxruntime", "--device", "nnapi-reference", "session.py"]
    changes = {"NNVK_SERVER": str(write_slow_server(tmp_path)), "NNVK_PROGRESS": "1"}
    printed = on_a_terminal([*command, str(folder / "relu.onnx")], changes, folder=tmp_path)
    assert re.search(r"\r\x1b\[Knnvk: compiling a model of 1 operation, once, \d+ s[;\r]", printed)
    assert what_is_left(printed) == "nnvk: relu.onnx: 1 of 1 node on nnvk in 1 part; 0 runs, 0.000 s\n"


def test_arguments(folder: Path) -> None:
    none = run(folder, "-m", "nnvk.onnxruntime")
    assert none.returncode == 2
    assert "a program is missing" in none.stderr
    missing = run(folder, "-m", "nnvk.onnxruntime", "--device", "gpu-9", "program.py")
    assert missing.returncode == 1
    assert "there is no device 'gpu-9'" in missing.stderr


def test_errors_are_the_programs(folder: Path) -> None:
    """The session of a model that nnvk can't compute fails, and does not go over to the CPU."""
    (folder / "wide.py").write_text(
        "import numpy as np, onnxruntime\n"
        "session = onnxruntime.InferenceSession('wide.onnx')\n"
        "session.run(None, {'x': np.array([1 << 40])})\n"
    )
    ports = [("x", np.int64, [1])], [("y", np.int64, [1])]
    (folder / "wide.onnx").write_bytes(model_of([helper.make_node("Neg", ["x"], ["y"])], *ports))
    done = run(folder, "-m", "nnvk.onnxruntime", "wide.py")
    assert done.returncode == 1
    assert "must have values of 32 bits" in done.stderr
    assert "nnvk: wide.onnx: 1 of 1 node on nnvk in 1 part; 1 run, " in done.stderr
