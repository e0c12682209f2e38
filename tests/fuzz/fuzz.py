"""Looks for inputs that crash nnvk, hang it, or get an exception that is not NnapiError out of it.

    python tests/fuzz/fuzz.py --seconds 3600 --seed 1
    python tests/fuzz/fuzz.py --seconds 3600 --atheris          # guided by coverage, where atheris is installed

Inputs are damaged operations (`cases`), also on tensors without elements, serialised models (`programs`), random
graphs on extreme data (`spoilt_graphs`) and against the reference (`differences`), ``.tflite`` and ``.onnx`` files
(`files`), also as commands read them (`commands`), and such as describe much in few bytes (`nets`). `mutations` damages
bytes, fields of FlatBuffers and protocol buffers, and archives. Inputs that get an answer that none got before are
kept and damaged further. An input that takes a lot of memory is a bug too. Inputs that show a bug are written to the
corpus, which the tests run again; so is the input of a hang or a crash, after which a new process goes on.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import hashlib
import os
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]

if "--atheris" in sys.argv:
    import atheris

    with atheris.instrument_imports(include=["nnvk"]):
        import nnvk.importers.onnx
        import nnvk.importers.tflite  # noqa: F401

import cases
import command_lines
import differences
import files
import nets
import programs
import spoilt_graphs
from mutations import mutate

from nnvk.api import Device, get_device, get_devices

HANG_SECONDS = 120
SLOW_SECONDS = 5
"""Processor time of an input that is worth a look."""
MOST_MEMORY = 4 << 30
"""Address space of the fuzzer: what wants more must end in OUT_OF_MEMORY."""
MOST_GROWTH = 1 << 30
"""Memory that one input may take beyond what those before it took."""
MOST_KEPT = 2000
"""Inputs of a kind that are kept to be damaged further."""

KINDS: dict[str, Callable[[bytes, Device], str]] = {
    "case": cases.execute,
    "command": command_lines.execute,
    "difference": differences.execute,
    "empty": cases.execute_empty,
    "graph": spoilt_graphs.execute,
    "net": nets.execute,
    "onnx": files.execute,
    "program": programs.execute,
    "tflite": files.execute,
}
_SHARES = {
    **{"case": 0.19, "command": 0.05, "difference": 0.03, "empty": 0.08, "graph": 0.05, "net": 0.02},
    **{"onnx": 0.16, "program": 0.19, "tflite": 0.23},
}
FORMATS = ("onnx", "tflite")


def check(kind: str, data: bytes, device: Device) -> str:
    """Run one input. Says how far it got and why not further; raises what is a bug."""
    return KINDS[kind](data, device)


class Source:
    """Draws inputs, the same ones from the same seed as long as the answers are the same."""

    def __init__(self, seed: int, corpus: Path | None = None) -> None:
        self.choice = random.Random(seed)
        self._kept = {"program": [], **{kind: files.seeds(kind) for kind in FORMATS}}
        self._answers: set[str] = set()
        if corpus is not None:
            for kind, kept in self._kept.items():
                kept += [path.read_bytes() for path in sorted(corpus.glob(f"{kind}-*"))]

    def draw(self) -> tuple[str, bytes]:
        """The next input."""
        (kind,) = self.choice.choices(list(_SHARES), list(_SHARES.values()))
        format_ = self.choice.choice(FORMATS) if kind == "command" else kind
        kept = self._kept.get(format_)
        if kept is None:
            return kind, self.choice.randbytes(8)
        if kind == "program" and (not kept or self.choice.random() < 0.4):
            return kind, self.choice.randbytes(self.choice.randrange(8, 200))
        return kind, mutate(format_, self.choice.choice(kept), self.choice, kept)

    def learn(self, kind: str, data: bytes, answer: str) -> None:
        """Keep an input whose answer, but for the numbers in it, is new."""
        words = f"{kind} {re.sub(r'[-0-9.e+]+', '0', answer)}"
        kept = self._kept.get(kind)
        if kept is None or words in self._answers:
            return
        self._answers.add(words)
        if len(kept) < MOST_KEPT:
            kept.append(data)
        else:
            kept[self.choice.randrange(len(kept) // 2, len(kept))] = data


class Record:
    """A run records here what it has seen."""

    def __init__(self, corpus: Path) -> None:
        self.answers: Counter[str] = Counter()
        self.bugs: set[str] = set()
        self.slowest = 0.0
        self._corpus = corpus
        self._last = corpus / f"last-{os.getpid()}"

    def run(self, kind: str, data: bytes, device: Device) -> str:
        """Run one input; its answer, "" if it is a bug."""
        self._last.write_bytes(kind.encode() + b" " + data)
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        began, before = time.process_time(), memory()
        try:
            answer = check(kind, data, device)
            if (grown := memory("VmHWM") - before) > MOST_GROWTH:
                raise MemoryError(f"it took {grown >> 20} MiB")
        except Exception as error:
            self._report(kind, data, device, error)
            answer = ""
        faulthandler.cancel_dump_traceback_later()
        took = time.process_time() - began
        if took > max(SLOW_SECONDS, self.slowest):
            print(f"{save(self._corpus, kind, data)} on {device.name}: slow, {took:.1f} s", flush=True)
        self.slowest = max(self.slowest, took)
        self.answers[f"{kind}: {answer.split(':')[0] or 'BUG'}"] += 1
        return answer

    def _report(self, kind: str, data: bytes, device: Device, error: Exception) -> None:
        where = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in where if "nnvk" in frame.filename] or list(where)
        bug = f"{type(error).__name__} at {own[-1].filename}:{own[-1].lineno}"
        if bug not in self.bugs:
            self.bugs.add(bug)
            name = save(self._corpus, kind, data)
            print(f"{name} on {device.name}: {bug}: {error}", flush=True)

    def close(self, seconds: float) -> None:
        """Print the statistics."""
        self._last.unlink(missing_ok=True)
        for answer, count in sorted(self.answers.items()):
            print(f"{count:9} {answer}")
        total = sum(self.answers.values())
        print(f"{total} inputs in {seconds:.0f} s, slowest {self.slowest:.1f} s of the processor", flush=True)
        print(f"{len(self.bugs)} bugs", flush=True)


def memory(field: str = "") -> int:
    """Bytes that the process has in memory; ``VmHWM``: the most that it has had since this was last asked for none."""
    if not field:
        Path("/proc/self/clear_refs").write_text("5")  # proc(5): the peak begins anew
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field or "VmRSS"))


def save(corpus: Path, kind: str, data: bytes) -> str:
    """Write an input to the corpus; its name."""
    name = f"{kind}-{hashlib.sha256(data).hexdigest()[:12]}"
    (corpus / name).write_bytes(data)
    return name


def fuzz(seconds: float, seed: int, corpus: Path, names: Sequence[str] = ()) -> int:
    """Run until the time is over, on these devices or all. The number of different bugs found."""
    source, record = Source(seed, corpus), Record(corpus)
    devices = [get_device(name) for name in names] or get_devices()
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        kind, data = source.draw()
        device = devices[-1] if source.choice.random() < 0.8 else devices[0]
        answer = record.run(kind, data, device)
        if answer:
            source.learn(kind, data, answer)
    record.close(time.monotonic() - began)
    return len(record.bugs)


def fuzz_by_coverage(seconds: float, seed: int, corpus: Path) -> int:
    """The same by atheris (libFuzzer): the first byte of an input is its kind. Its statistics are libFuzzer's."""
    record, device = Record(corpus), get_devices()[-1]
    kinds = ("program", *FORMATS)
    work = corpus / "coverage"
    work.mkdir(exist_ok=True)
    for number, kind in enumerate(kinds[1:], 1):
        for data in files.seeds(kind):
            save(work, kind, bytes([number]) + data)

    def one_input(data: bytes) -> None:
        if data:
            record.run(kinds[data[0] % len(kinds)], data[1:], device)

    options = [
        f"-max_total_time={seconds:.0f}",
        f"-seed={seed}",
        "-max_len=8192",
        "-timeout=120",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(work)], one_input)
    atheris.Fuzz()
    return len(record.bugs)


def supervise(run: Callable[[float, int, Path], int], seconds: float, seed: int, corpus: Path) -> int:
    """Run in a child process; where it dies, keep what it died of and go on with another one. The number of bugs."""
    end, bugs = time.monotonic() + seconds, 0
    while (rest := end - time.monotonic()) > 0:
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
            os._exit(min(run(rest, seed, corpus), 100))
        _, status = os.waitpid(child, 0)
        last = corpus / f"last-{child}"
        if status == 0 or (os.WIFEXITED(status) and not last.exists()):
            last.unlink(missing_ok=True)  # libFuzzer ends the process itself
            return bugs + os.WEXITSTATUS(status)
        if last.exists():
            kind, _, data = last.read_bytes().partition(b" ")
            last.unlink()
            how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "a hang"
            print(f"{save(corpus, kind.decode(), data)}: the process died of {how}", flush=True)
        bugs, seed = bugs + 1, seed + 1000
    return bugs


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path, default=Path(__file__).parent / "corpus")
    parser.add_argument("--atheris", action="store_true", help="guide by coverage (needs the package atheris)")
    parser.add_argument("--device", action="append", default=[], help="fuzz this device alone (may be repeated)")
    options = parser.parse_args()
    options.corpus.mkdir(parents=True, exist_ok=True)
    run = fuzz_by_coverage if options.atheris else functools.partial(fuzz, names=options.device)
    sys.exit(1 if supervise(run, options.seconds, options.seed, options.corpus) else 0)


if __name__ == "__main__":
    main()
