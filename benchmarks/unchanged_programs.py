"""Measure the programs of examples/programs with and without nnvk, and write the table of docs/programs.md.

    PYTHONPATH=.:tools python benchmarks/unchanged_programs.py --measure [NAME ...]  # those whose package is installed
    PYTHONPATH=.:tools python benchmarks/unchanged_programs.py  # writes the table
    PYTHONPATH=.:tools python benchmarks/unchanged_programs.py --check  # fails if it is old

Each program runs twice in a process of its own, plainly and by ``python -m nnvk.onnxruntime``, with empty caches.
`benchmarks/results/programs.json` keeps the figures.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import generated_page

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "examples" / "programs"
RESULTS = ROOT / "benchmarks" / "results" / "programs.json"
PAGE = ROOT / "docs" / "programs.md"
BEGIN = "<!-- Written by benchmarks/unchanged_programs.py: don't edit, run it. -->"
END = "<!-- End of what is written. -->"
CALLS = 10
_NUMBER = re.compile(r"-?\d+\.\d+")
_PLACEMENT = re.compile(r"^nnvk: (.*?): (\d+) of (\d+) nodes? on nnvk", re.MULTILINE)


def package(path: Path) -> tuple[str, str]:
    """The name and the version of the package that a program of examples/programs is for, which its first line has."""
    found = re.search(r"``pip install ([\w-]+)==([\w.]+)``", path.read_text(encoding="utf-8"))
    assert found is not None, path
    return found[1], found[2]


def is_installed(path: Path) -> bool:
    """Whether the package of a program is here, in this version, and onnxruntime."""
    name, version = package(path)
    try:
        return importlib.metadata.version(name) == version and bool(importlib.metadata.version("onnxruntime"))
    except importlib.metadata.PackageNotFoundError:
        return False


def differences(plain: str, own: str) -> tuple[bool, float]:
    """Whether two answers have equal texts, and the largest difference of a number with a point in them."""
    pairs = zip(_NUMBER.findall(plain), _NUMBER.findall(own), strict=False)
    return _NUMBER.sub("", plain) == _NUMBER.sub("", own), max((abs(float(a) - float(b)) for a, b in pairs), default=0)


def call(path: Path, calls: int) -> dict[str, Any]:
    """The answer of a program, and the times of its calls, of which the first one has the loading of models."""
    times = [time.perf_counter()]
    answer = runpy.run_path(str(path))["answer"]
    for _ in range(calls):
        lines = answer()
        times.append(time.perf_counter())
    seconds = [end - begin for begin, end in itertools.pairwise(times)]
    return {"answer": "\n".join(lines), "first": seconds[0], "last": seconds[-1], "mib": _most_mib()}


def _most_mib() -> int:
    """The most memory that this process and nnvk's server have had, in MiB: both have the caches of `run`."""
    caches = f"NNVK_CACHE_DIR={os.environ['NNVK_CACHE_DIR']}\0".encode()
    kib = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if caches in (folder / "environ").read_bytes() + b"\0":
                kib += int(re.findall(r"^VmHWM:\s*(\d+) kB$", (folder / "status").read_text(encoding="utf-8"), re.M)[0])
        except (OSError, IndexError):  # it has ended, or another user has it
            continue
    return kib // 1024


def run(path: Path, *, own: bool, calls: int = CALLS) -> tuple[dict[str, Any], str]:
    """Return what `call` finds in a new process, and what that prints as errors. Raises RuntimeError if it fails."""
    with tempfile.TemporaryDirectory() as caches:
        folders = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
        settings = {"NNVK_CACHE_DIR": caches, "MESA_SHADER_CACHE_DIR": caches, "PYTHONPATH": folders}
        command = [str(Path(__file__).resolve()), "--call", str(path.resolve()), f"{caches}/found.json", str(calls)]
        done = subprocess.run(
            [sys.executable, *(["-m", "nnvk.onnxruntime"] if own else []), *command],
            cwd=caches,  # some programs write caches of their own there
            env=os.environ | settings,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{path.name} ended with {done.returncode}:\n{done.stderr}")
        return json.loads(Path(caches, "found.json").read_text(encoding="utf-8")), done.stderr


def measure(path: Path) -> dict[str, Any]:
    """The row of a program."""
    name, version = package(path)
    (plain, _), (own, said) = run(path, own=False), run(path, own=True)
    is_equal, difference = differences(plain.pop("answer"), own.pop("answer"))
    placed = [tuple(map(int, found[1:])) for found in _PLACEMENT.findall(said)]
    return {
        "package": name,
        "version": version,
        "models": len(placed),
        "nodes": [sum(part) for part in zip(*placed, strict=True)],
        "equal": is_equal,
        "difference": round(difference, 6),
        "plain": {key: round(value, 4) for key, value in plain.items()},
        "nnvk": {key: round(value, 4) for key, value in own.items()},
        "measured": time.strftime("%Y-%m-%d"),
        "onnxruntime": importlib.metadata.version("onnxruntime"),
    }


def page(text: str, results: Mapping[str, Any]) -> str:
    """The page with the table of the results."""
    lines = [
        "| package | program | nodes on nnvk | answers | first call, s | tenth call, ms | memory, MiB |",
        "| --- | --- | --- | --- | --: | --: | --: |",
    ]
    for program, row in sorted(results.items(), key=lambda item: item[1]["package"]):
        here, count = row["nodes"]
        texts = "equal" if row["equal"] else "other texts"
        nodes = f"all {count}" if here == count else f"{here:,} of {count:,}"
        cells = [
            f"{row['package']} {row['version']}",
            f"[{program}.py](../examples/programs/{program}.py)",
            nodes if row["models"] == 1 else f"{nodes}, {row['models']} models",
            f"{texts}, numbers within {row['difference']:g}" if row["difference"] else texts,
            *(
                " / ".join(f"{scale * row[engine][key]:,.{digits}f}" for engine in ("nnvk", "plain"))
                for key, scale, digits in (("first", 1, 1), ("last", 1000, 0), ("mib", 1, 0))
            ),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return generated_page.between(text, BEGIN, END, "\n".join(lines))


def main() -> int:
    """Measure, write the page or check it. The status is 1 if a page that is checked is not up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--measure", nargs="*", metavar="NAME", help="measure these programs, or all that are installed"
    )
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    parser.add_argument("--call", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.call:
        path, result, calls = given.call
        Path(result).write_text(json.dumps(call(Path(path), int(calls))), encoding="utf-8")
        return 0
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    if given.measure is not None:
        for path in sorted(PROGRAMS.glob("*.py")):
            if (path.stem in given.measure or not given.measure) and is_installed(path):
                results[path.stem] = measure(path)
                print(path.stem, json.dumps(results[path.stem]), flush=True)
                RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    old = PAGE.read_text(encoding="utf-8")
    new = page(old, results)
    if given.check and new != old:
        print(f"{PAGE} is not up to date: run python benchmarks/unchanged_programs.py", file=sys.stderr)
        return 1
    if not given.check:
        PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
