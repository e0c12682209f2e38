"""Compare the Vulkan driver's plans of two source trees: commands one by one, and bytes of memory.

    python tools/plan_diff.py ../before . --models ../shared/models --random 40
    python tools/plan_diff.py before.json . --models ../shared/models --random 40
    python tools/plan_diff.py before.json after.json

A source tree is a folder with a built ``nnvk/`` and with ``tests/support/``; `tools/plan_dump.py` writes its plans. A
file is one that `tools/plan_dump.py` or ``nnvk plan --json`` has written. The exit status is 1 if plans differ, or if
one side has a plan that the other lacks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Plan = Mapping[str, Any]
"""The outline of a plan, or an ``error`` in its place."""

ROOT = Path(__file__).resolve().parent.parent
MOST = 5
"""The number of differences of a plan that are printed."""


def plans_of(source: Path, models: Sequence[Path], graphs: int) -> dict[str, Plan]:
    """The plans of a source tree or of a file, by the names of model and profile.

    Raises CalledProcessError if the tree can't make them, OSError and ValueError if the file can't be read.
    """
    if source.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plans.json"
            _dump(source.resolve(), file, models, graphs)
            return plans_of(file, models, graphs)
    content = json.loads(source.read_text(encoding="utf-8"))
    return {"plan": content} if "commands" in content else content


def _dump(tree: Path, file: Path, models: Sequence[Path], graphs: int) -> None:
    command = [sys.executable, str(ROOT / "tools" / "plan_dump.py"), str(file), "--random", str(graphs)]
    if models:
        command += ["--models", *map(str, models)]
    path = os.pathsep.join((str(tree), str(tree / "tests" / "support")))
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)


def differences(before: Plan, after: Plan) -> Iterator[str]:
    """The differences between two plans of a model, one line each; none where the plans are equal.

    Tensors are compared by the order in which commands first use them, shaders by their names.
    """
    if before.get("error") != after.get("error"):
        yield f"error: {before.get('error', 'none')} -> {after.get('error', 'none')}"
    if "error" in before or "error" in after:
        return
    for name in sorted({*before["memory"], *after["memory"]}):
        pages = [plan["memory"].get(name) for plan in (before, after)]
        if pages[0] != pages[1]:
            yield f"{name} bytes: {pages[0]} -> {pages[1]}"
    commands = [_comparable(plan["commands"]) for plan in (before, after)]
    if len(commands[0]) != len(commands[1]):
        yield f"commands: {len(commands[0])} -> {len(commands[1])}"
    for number, (one, other) in enumerate(zip(*commands, strict=False)):
        for key in sorted({*one, *other}):
            if one.get(key) != other.get(key):
                yield f"command {number}, {key}: {_changed(one.get(key), other.get(key))}"


def _changed(one: Any, other: Any) -> str:
    """Two values that differ; of objects and of lists only the parts that do."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
        return ", ".join(f"{key} {_changed(one.get(key), other.get(key))}" for key in keys)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(number, *pair) for number, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]]
        return ", ".join(f"[{number}] {_changed(*pair)}" for number, *pair in pairs)
    return f"{one} -> {other}"


def _comparable(commands: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Commands without the paths of a tree, tensors numbered in the order in which they are first used."""
    numbers: dict[int, int] = {}
    found = []
    for command in commands:
        each = {key: value for key, value in command.items() if key != "spirv"}
        if "tensors" in each:
            each["tensors"] = [
                {**tensor, "number": numbers.setdefault(tensor["number"], len(numbers))} for tensor in each["tensors"]
            ]
        found.append(each)
    return found


def compare(before: Mapping[str, Plan], after: Mapping[str, Plan]) -> int:
    """Print the differences between two sets of plans; the number of plans that differ."""
    differing = 0
    for name in sorted({*before, *after}):
        if name in before and name in after:
            lines = list(differences(before[name], after[name]))
        else:
            lines = [f"only {'before' if name in before else 'after'}"]
        if lines:
            differing += 1
            print(f"{name}:", *lines[:MOST], sep="\n  ")
        if len(lines) > MOST:
            print(f"  and {len(lines) - MOST} more")
    planned = [plan for plan in after.values() if "error" not in plan]
    commands = sum(len(plan["commands"]) for plan in planned)
    refused = len(after) - len(planned)
    print(f"{len(after)} plans with {commands} commands, {refused} refused: {differing} differ")
    return differing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a source tree or a JSON file")
    parser.add_argument("after", type=Path, help="a source tree or a JSON file")
    parser.add_argument("--models", type=Path, nargs="+", default=[], help="models, or folders that have some")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="the number of random graphs")
    options = parser.parse_args(arguments)
    before, after = (plans_of(source, options.models, options.random) for source in (options.before, options.after))
    return int(compare(before, after) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
