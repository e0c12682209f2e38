"""Python programs that run inside this process as ``python PROGRAM.py`` and ``python -m MODULE`` would run them."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from nnvk.base.text import plural, printable, title


@dataclass(frozen=True, slots=True)
class ProgramArguments:
    """The arguments of a command that runs a program."""

    device: str | None
    """The name of nnvk's device; None leaves the choice to nnvk."""
    relaxed: bool
    program: list[str]
    """The program and its arguments, for `run_program`."""


def read_arguments(command: str, description: str) -> ProgramArguments:
    """The arguments of this process: ``[--device NAME] [--relaxed] PROGRAM.py|-m MODULE [ARGUMENT ...]``."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {command}",
        description=description,
        usage="%(prog)s [--device NAME] [--relaxed] (PROGRAM.py | -m MODULE) [ARGUMENT ...]",
    )
    parser.add_argument("--device", metavar="NAME", help="a device that `nnvk devices` shows, or auto; or nnvk chooses")
    parser.add_argument("--relaxed", action="store_true", help="float32 may be computed as float16")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="a module to run, and its arguments")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="a Python program, and its arguments")
    given = parser.parse_args()
    program = given.program if given.module is None else ["-m", *given.module]
    if program in ([], ["-m"]):
        parser.error("a program is missing: PROGRAM.py, or -m and a module")
    return ProgramArguments(given.device, given.relaxed, program)


def run_program(arguments: Sequence[str]) -> None:
    """Run a program: a path or ``-m`` and a module, and its own arguments. Raises what the program raises.

    ``sys.argv`` and ``sys.path`` stay as the program has them.
    """
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


@dataclass
class ModelRecord:
    """The use that a program has made of a model."""

    model: Path | str
    """The path of the file, or the size of a model in memory."""
    placement: str
    """Where the nodes run."""
    runs: int = 0
    seconds: float = 0.0


class Report:
    """The models of a program, and how long they ran. Threads may share it."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._records: list[ModelRecord] = []
        self._lock = Lock()

    def add(self, model: object, placement: str) -> ModelRecord:
        """Remember a model: its path, or its bytes."""
        record = ModelRecord(_named(model), placement)
        with self._lock:
            self._records.append(record)
        return record

    @contextmanager
    def timed(self, record: ModelRecord) -> Iterator[None]:
        """Count a run, and the time that it takes."""
        end = self.begun(record)
        try:
            yield
        finally:
            end()

    def begun(self, record: ModelRecord) -> Callable[[], None]:
        """Begin a run. The caller calls the result at its end, which counts the run and its time."""
        begun = time.perf_counter()

        def end() -> None:
            taken = time.perf_counter() - begun
            with self._lock:
                record.runs += 1
                record.seconds += taken

        return end

    def lines(self) -> list[str]:
        """A line for each model; files of the same name get as many folders as tell them apart."""
        paths = [one.model for one in self._records if isinstance(one.model, Path)]
        names = [title(one.model, paths) if isinstance(one.model, Path) else one.model for one in self._records]
        runs = [f"{one.placement}; {plural(one.runs, 'run')}, {one.seconds:.3f} s" for one in self._records]
        return [f"{printable(name)}: {each}" for name, each in zip(names, runs, strict=True)]

    def print_after(self, program: Callable[[], None]) -> None:
        """Call a program, and print the report on standard error at its end, however it ends.

        A forked child prints nothing.
        """
        try:
            program()
        finally:
            if os.getpid() == self._process:
                lines = self.lines() or ["the program has loaded no model"]
                print("\n".join(f"nnvk: {line}" for line in lines), file=sys.stderr, flush=True)


def _named(model: object) -> Path | str:
    if isinstance(model, str | os.PathLike):
        return Path(model).resolve()
    try:
        return f"a model of {plural(memoryview(model).nbytes, 'byte')}"  # type: ignore[arg-type]
    except TypeError:
        return f"a model in a {type(model).__name__}"
