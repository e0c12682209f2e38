"""Scripts that tests run in a process of their own: what is about exits, forks and signals."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence

SETUP = """
import faulthandler, gc, os, signal, sys, threading, time, traceback, warnings
import numpy as np
import nnvk
faulthandler.enable()
# Python 3.12 and later warn of every fork of a process that has threads, as drivers give it.
warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork", DeprecationWarning)
F32 = nnvk.OperandCode.TENSOR_FLOAT32

def compiled(name, count, operations=1):
    model = nnvk.Model()
    a, b = (model.add_operand(nnvk.OperandType(F32, (count,))) for _ in range(2))
    none = model.add_operand(nnvk.OperandType(nnvk.OperandCode.INT32))
    model.set_operand_value(none, 0)
    result = a
    for _ in range(operations):
        source, result = result, model.add_operand(nnvk.OperandType(F32, (count,)))
        model.add_operation(nnvk.OperationCode.ADD, [source, b, none], [result])
    model.identify_inputs_and_outputs([a, b], [result])
    model.finish()
    compilation = nnvk.Compilation(model, [nnvk.get_device(name)])
    compilation.finish()
    return compilation

def ready(compilation, source, target):
    run = nnvk.Execution(compilation)
    run.set_input(0, source)
    run.set_input(1, source)
    run.set_output(0, target)
    return run

def add(name, count, compilation=None, operations=1):
    source = np.arange(count, dtype=np.float32)
    (result,) = nnvk.run(compilation or compiled(name, count, operations), [source, source])
    assert np.array_equal(result, (1 + operations) * source), result

def refused(code, call, *arguments):
    try:
        call(*arguments)
    except nnvk.NnapiError as error:
        assert error.code.name == code, error
    else:
        raise AssertionError(f"expected {code}")

def in_child(work, seconds=30):
    "Do something in a forked child, which must then exit as any process does, well and soon."
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        sys.exit(0)
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            assert status == 0, status
            return
        time.sleep(0.005)
    os.kill(pid, signal.SIGABRT)  # faulthandler says where
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")
"""


def python(script: str, *arguments: str, timeout: float = 100, **environment: str) -> str:
    """Run a script in a process of its own, which `ends_well`. `SETUP` comes before it."""
    return ends_well(["-c", SETUP + textwrap.dedent(script), *arguments], timeout, environment)


def ends_well(words: Sequence[str], timeout: float = 100, environment: Mapping[str, str] | None = None) -> str:
    """Run Python, which must end well, soon, and with nothing on standard error.

    Returns what it prints.
    """
    # From 3.12 on, Python warns of every fork in a process with threads. Forks are what some of the scripts test.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", *words]
    # From another folder: the installed package is tested, which alone has the native module.
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd="/",
        env={**os.environ, **(environment or {})},
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout
