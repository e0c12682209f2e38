"""The C library under test: its server, models for it, and programs that are built against it."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from c_client import CCompilation, CExecution, CModel, library

import nnvk
from nnvk import NnapiError, OperandCode, OperandType, OperationCode, ResultCode
from nnvk.serve.installed import INCLUDES, LIBRARY

FLOATS = OperandType(OperandCode.TENSOR_FLOAT32, (6,))
SCALAR = OperandType(OperandCode.INT32)
CHECKOUT = Path(__file__).parents[2]
EXAMPLES = CHECKOUT / "examples" / "c"
SCRIPT_PATH = os.pathsep.join(
    map(str, (Path(nnvk.__file__).parents[1], Path(__file__).parent, CHECKOUT / "benchmarks"))
)
"""``PYTHONPATH`` of scripts that import this module."""


def write_server(folder: Path) -> Path:
    """A command that is the server of the package under test. It notes its process in a file beside it."""
    command = folder / "nnvk-server"
    root = Path(nnvk.__file__).parents[1]
    # Not in the source tree, whose package would hide the installed one.
    command.write_text(
        f'#!/bin/sh\necho $$ >> "$0.pids"\ncd /\nPYTHONPATH="{root}" exec "{sys.executable}" -m nnvk.cli "$@"\n'
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return command


def servers() -> list[int]:
    """The processes that were started as servers of this test's process, in order."""
    pids = Path(os.environ["NNVK_SERVER"] + ".pids")
    return [int(line) for line in pids.read_text().split()] if pids.exists() else []


def is_running(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def await_end(pid: int, seconds: float = 30) -> None:
    """Wait until a process is gone. AssertionError: it stays."""
    await_that(lambda: not is_running(pid), seconds, f"process {pid} is still there")


def await_that(happens: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Wait until something is true."""
    limit = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < limit, otherwise
        time.sleep(0.01)


def kill_server() -> int:
    """Kill the last server, and wait until it is gone."""
    pid = servers()[-1]
    os.kill(pid, signal.SIGKILL)
    await_end(pid)
    return pid


def code_of(name: str, *arguments: object) -> ResultCode:
    """The result code of a function of the C library."""
    try:
        library().call(name, *arguments)
    except NnapiError as error:
        return error.code
    return ResultCode.NO_ERROR


def add_model(type_: OperandType = FLOATS) -> CModel:
    """output = input0 + input1."""
    model = CModel()
    for given in (type_, type_, SCALAR, type_):
        model.add_operand(given)
    model.set_operand_value(2, np.zeros(1, np.int32))
    model.add_operation(OperationCode.ADD, [0, 1, 2], [3])
    model.identify_inputs_and_outputs([0, 1], [3])
    model.finish()
    return model


class Adding:
    """An execution of `add_model`, with its arrays: `first` + `second` = `sum`."""

    def __init__(self, device: str = "nnapi-reference", type_: OperandType = FLOATS, *, reusable: bool = False) -> None:
        self.model = add_model(type_)
        self.compilation = CCompilation(self.model, device)
        self.execution = CExecution(self.compilation)
        if reusable:
            library().call("Execution_setReusable", self.execution.handle, True)
        self.first, self.second, self.sum = (np.full(type_.dimensions, value, np.float32) for value in (1.5, 2, 0))
        self.execution.set_input(0, self.first)
        self.execution.set_input(1, self.second)
        self.execution.set_output(0, self.sum)

    @property
    def handle(self) -> ctypes.c_void_p:
        """The execution."""
        return self.execution.handle

    def is_right(self) -> bool:
        """Whether the output is the sum of the inputs."""
        return bool((self.sum == self.first + self.second).all())


def build(source: Path, target: Path, options: Sequence[str] = (), folder: Path = LIBRARY.parent) -> Path:
    """Compile a C or C++ program against the library in a folder. Skips where there is no compiler."""
    compiler = shutil.which("cc" if source.suffix == ".c" else "c++")
    if compiler is None:
        pytest.skip("there is no compiler")
    standard = ["-std=c99", "-D_DEFAULT_SOURCE"] if source.suffix == ".c" else ["-std=c++17"]
    flags = [f"-I{INCLUDES}", f"-L{folder}", "-lneuralnetworks", f"-Wl,-rpath,{folder}", "-lm", "-pthread"]
    warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic-errors"]
    command = [compiler, *standard, *warnings, *options, str(source), "-o", str(target), *flags]
    built = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert built.returncode == 0, built.stderr
    return target


def run(program: Path, *arguments: str) -> str:
    """Run a program and return its output.

    The program must end well, without an error of a sanitizer, and its server must end with it.
    """
    server = write_server(program.parent)
    environment = {**os.environ, "NNVK_SERVER": str(server), "ASAN_OPTIONS": "detect_leaks=1"}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=environment, timeout=250)
    assert done.returncode == 0 and "Sanitizer" not in done.stderr, done.stdout + done.stderr
    for pid in Path(f"{server}.pids").read_text().split():
        await_end(int(pid))
    return done.stdout


def sanitizer(folder: Path) -> list[str]:
    """The address sanitizer's options, where the compiler has it."""
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    compiler = shutil.which("cc") or "cc"
    made = subprocess.run([compiler, "-fsanitize=address", probe, "-o", folder / "probe"], capture_output=True)
    return ["-g", "-fsanitize=address"] if made.returncode == 0 else ["-g"]
