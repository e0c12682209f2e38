"""Programs that know nothing of nnvk, in which interpreters use the delegate."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from delegated import chain
from tflite_net import Net, Signature, T, write

PROGRAM = """
import sys
import numpy as np
from MODULE import Interpreter

values = np.float32([[0.5, 1, 2], [0.1, 0.25, 3]])
with open(sys.argv[1], "rb") as file:
    content = file.read()
for interpreter in Interpreter(sys.argv[1]), Interpreter(model_content=content, num_threads=1):
    interpreter.allocate_tensors()
    for factor in 1, 2:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], factor * values)
        interpreter.invoke()
        print(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).round(5).tolist())
"""


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A run of Python in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment, cwd=folder
    )


@pytest.mark.parametrize("module", ["ai_edge_litert.interpreter", "tflite_runtime.interpreter"])
def test_an_unchanged_program(tmp_path: Path, module: str) -> None:
    """A stand-in for tflite-runtime, which has the same interface, has LiteRT's classes."""
    model = chain("NEG", "FLOAT64", "NEG", "ABS")
    (tmp_path / "chain.tflite").write_bytes(model)
    (tmp_path / "program.py").write_text(PROGRAM.replace("MODULE", module))
    (tmp_path / "tflite_runtime").mkdir()
    (tmp_path / "tflite_runtime" / "interpreter.py").write_text(
        "import ai_edge_litert.interpreter as real\n"
        "load_delegate = real.load_delegate\n"
        "class Interpreter(real.Interpreter.__mro__[-2]): pass\n"  # LiteRT's own, without nnvk
        if module.startswith("tflite_runtime")
        else "raise ImportError\n"
    )
    plain = run(tmp_path, "program.py", "chain.tflite")
    done = run(tmp_path, "-m", "nnvk.litert", "--device", "nnapi-reference", "program.py", "chain.tflite")
    assert (done.returncode, plain.returncode) == (0, 0), done.stderr
    assert done.stdout == plain.stdout
    report = re.findall(r"^nnvk: (.*); 2 runs, \d+\.\d{3} s$", done.stderr, re.MULTILINE)
    placement = "3 of 5 operators on nnvk in 2 partitions"
    assert f"chain.tflite: {placement}" in report
    assert f"a model of {len(model)} bytes: {placement}" in report


def test_signatures_are_counted(tmp_path: Path) -> None:
    source, result = T("FLOAT32", (3,)), T("FLOAT32", (3,))
    net = Net([source])
    net.outputs.append(net.op("NEG", [source], result))
    signature = Signature("negate", 0, {"x": source}, {"y": result})
    (tmp_path / "negate.tflite").write_bytes(write(net, signatures=[signature]))
    (tmp_path / "program.py").write_text(
        "import numpy as np\n"
        "from ai_edge_litert.interpreter import Interpreter\n"
        "runner = Interpreter('negate.tflite').get_signature_runner('negate')\n"
        "print(list(runner.get_input_details()), runner(x=np.float32([1, -2, 3]))['y'].tolist())\n"
    )
    done = run(tmp_path, "-m", "nnvk.litert", "--device", "nnapi-reference", "program.py")
    assert done.stdout == "['x'] [-1.0, 2.0, -3.0]\n", done.stderr
    assert "nnvk: negate.tflite: 1 of 1 operator on nnvk in 1 partition; 1 run, " in done.stderr
