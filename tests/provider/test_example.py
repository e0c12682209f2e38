"""The example in C++, against the library of onnxruntime's Python package."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, load
from ort_header import header_folder
from ort_session import model_of, ort

from nnvk.serve.installed import PROVIDER

EXAMPLE = Path(__file__).parents[2] / "examples" / "c" / "onnxruntime_session.cpp"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    include, folder = header_folder(), tmp_path_factory.mktemp("example")
    (library,) = Path(ort.__file__).parent.glob("capi/libonnxruntime.so.*")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (folder / name).symlink_to(library)
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-isystem", include, EXAMPLE, "-o", folder / "program"]
    subprocess.run([*command, f"-L{folder}", "-lonnxruntime", f"-Wl,-rpath,{folder}"], check=True)
    return folder / "program"


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A run of the example with the provider's library."""
    command = [program, PROVIDER, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=os.environ)


def test_a_program_in_cpp(program: Path, tmp_path: Path) -> None:
    model, weights = tmp_path / "model.onnx", np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Softmax", ["m"], ["y"])]
    edges = [("x", np.float32, ["n", 6])], [("y", np.float32, ["n", 3])]
    model.write_bytes(model_of(nodes, *edges, {"w": weights}))
    done = run(program, model, "nnapi-reference")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "nnvk's device is nnapi-reference"
    assert second.startswith("1 outputs, the largest difference is ")
    assert float(second.split()[-1]) < 1e-6
    compiled, lines = tmp_path / "compiled.onnx", []
    for _ in range(2):
        done = run(program, model, "nnapi-reference", compiled)
        assert (done.returncode, done.stderr) == (0, "")
        lines.append(done.stdout.splitlines()[1])
        assert [node.op_type for node in load(compiled).graph.node] == ["EPContext"]
    assert lines == [second, second]
    missing = run(program, model, "gpu-9")
    assert missing.returncode == 1
    assert "there is no device gpu-9" in missing.stderr
