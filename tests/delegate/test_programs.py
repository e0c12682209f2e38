"""Programs that know nothing of nnvk, in which interpreters use the delegate."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from delegated import chain
from slow_compilation import write_slow_server
from terminal import on_a_terminal, what_is_left
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


def test_other_names_of_the_interpreter(tmp_path: Path) -> None:
    """A module may have another one's class, which gets one delegate, and LiteRT has a class made of it."""
    (tmp_path / "neg.tflite").write_bytes(chain("NEG"))
    (tmp_path / "tflite_runtime").mkdir()
    (tmp_path / "tflite_runtime" / "interpreter.py").write_text("from ai_edge_litert.interpreter import *\n")
    (tmp_path / "program.py").write_text(
        "import inspect\n"
        "from ai_edge_litert.interpreter import InterpreterWithCustomOps\n"
        "from tflite_runtime.interpreter import Interpreter\n"
        "for made in Interpreter('neg.tflite'), InterpreterWithCustomOps(model_path='neg.tflite'):\n"
        "    made.allocate_tensors()\n"
        "    made.invoke()\n"
        "    print(sum(one['op_name'] == 'DELEGATE' for one in made._get_ops_details()))\n"
        "print(list(inspect.signature(Interpreter).parameters)[:2])\n"
    )
    done = run(tmp_path, "-m", "nnvk.litert", "--device", "nnapi-reference", "program.py")
    assert done.stdout == "1\n1\n['model_path', 'model_content']\n", done.stderr
    assert done.stderr.count("nnvk: neg.tflite: 1 of 1 operator on nnvk in 1 partition; 1 run, ") == 2


def test_a_long_compilation_is_shown_on_the_terminal(tmp_path: Path) -> None:
    """The server of the delegate writes it, whose standard error is the program's."""
    (tmp_path / "neg.tflite").write_bytes(chain("NEG"))
    program = "from ai_edge_litert.interpreter import Interpreter\nInterpreter('neg.tflite').allocate_tensors()\n"
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "nnvk.litert", "--device", "nnapi-reference", "program.py"]
    changes = {"NNVK_SERVER": str(write_slow_server(tmp_path)), "NNVK_PROGRESS": "1"}
    printed = on_a_terminal(command, changes, folder=tmp_path)
    assert re.search(r"\r\x1b\[Knnvk: compiling a model of 1 operation, once, \d+ s[;\r]", printed)
    assert "compiling" not in what_is_left(printed)


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


COMPILED = """
import sys
import numpy as np
from ai_edge_litert.compiled_model import CompiledModel, Environment, EnvironmentOptions, HardwareAccelerator, Options

CPU, GPU = HardwareAccelerator.CPU, HardwareAccelerator.GPU
values = np.float32([[0.5, 1, 2], [0.1, 0.25, 3]])
content = open("chain.tflite", "rb").read()
elsewhere = Environment.create(options=EnvironmentOptions(runtime_path="/nowhere"))
models = [
    CompiledModel.from_file("chain.tflite", GPU),
    CompiledModel.from_buffer(content, environment=elsewhere, options=Options(hardware_accelerators=CPU | GPU)),
    CompiledModel.from_file("mixed.tflite", CPU | GPU, Environment.create(runtime_path="/nowhere")),
    CompiledModel.from_file("chain.tflite"),
]
for number, model in enumerate(models):
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(values)
    for _ in range(number + 1):
        model.run_by_index(0, inputs, outputs)
    print((outputs[0].read(6, np.float32) * 100).round().tolist())
(key,) = models[0].get_signature_list()
models[0].run_by_name(key, {"t0": inputs[0]}, {"t1": outputs[0]})
"""


def test_compiled_models(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert.environment")
    chained = chain("NEG")
    (tmp_path / "chain.tflite").write_bytes(chained)
    (tmp_path / "mixed.tflite").write_bytes(chain("FLOAT64", "NEG"))
    (tmp_path / "program.py").write_text(COMPILED)
    done = run(tmp_path, "-m", "nnvk.litert", "--device", "nnapi-reference", "program.py")
    assert done.stdout == "[-50.0, -100.0, -200.0, -10.0, -25.0, -300.0]\n" * 4, done.stderr
    report = re.findall(r"^nnvk: (.*), \d+\.\d{3} s$", done.stderr, re.MULTILINE)
    assert report == [
        "chain.tflite: all operators on nnvk; 2 runs",
        f"a model of {len(chained)} bytes: operators on nnvk as logged above; 2 runs",
        "mixed.tflite: operators on nnvk as logged above; 3 runs",
        "chain.tflite: no operators on nnvk, because the program does not ask for the GPU; 4 runs",
    ]
    logged = re.findall(r"nnvk: (\d of \d operators?) in", done.stderr)
    assert logged == ["1 of 1 operators"] * 2 + ["1 of 3 operators"]
