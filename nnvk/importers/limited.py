"""Programs in processes of their own with limits: some files of a few hundred bytes make others' code run for ever."""

from __future__ import annotations

import multiprocessing.spawn
import os
import subprocess
import sys

from nnvk.base.text import printable

LIBRARY_BYTES = 2 << 30
"""The memory that a library may take beside a file and what it takes to start."""
_REASON_SHOWN = 400
_REFUSED = 3
_BEGIN = """
import sys
sys.path[:] = sys.argv[3:]  # without the current folder, where a model may lie beside modules of somebody's
import resource
def limit():
    seconds, nbytes = map(int, sys.argv[1:3])
    with open("/proc/self/statm") as file:
        nbytes += int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (nbytes, nbytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
def refuse(error):
    sys.stderr.buffer.write(b"\\n" + " ".join(str(error).split()).encode(errors="replace"))
    sys.exit(3)
"""


class Refused(Exception):
    """Raised if a program has refused what it was given, or has not come to its end."""


def run_limited(program: str, data: bytes, seconds: int, nbytes: int) -> bytes:
    """The standard output of a program in Python, for ``data`` at its standard input. Raises `Refused`.

    The program calls ``limit()`` when it has imported what it needs: it may take this processor time from there on, 0
    is any, and this memory beside what it has. It calls ``refuse(error)`` to end with a reason.
    """
    try:
        done = subprocess.run(
            _command(program, seconds, nbytes),
            input=data,
            capture_output=True,
            timeout=3 * seconds or None,
            env=_environment(),
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"it did not end within {3 * seconds} s") from None
    except (OSError, ValueError) as error:
        raise Refused(str(error)) from error
    if done.returncode == _REFUSED:
        raise Refused(printable(done.stderr.decode(errors="replace").rpartition("\n")[2], _REASON_SHOWN))
    if done.returncode:
        raise Refused(f"its process has ended with status {done.returncode}")
    return done.stdout


def start_limited(program: str, nbytes: int) -> subprocess.Popen[bytes]:
    """A program in Python that goes on, with pipes for its input and output. It ends when its input does. OSError."""
    return subprocess.Popen(
        _command(program, 0, nbytes),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env=_environment(),
    )


def _command(program: str, seconds: int, nbytes: int) -> list[str]:
    python = os.fsdecode(multiprocessing.spawn.get_executable())
    return [python, "-c", _BEGIN + program, str(seconds), str(nbytes), *map(str, sys.path)]


def _environment() -> dict[str, str]:
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # the stacks of its threads would count
