"""Hold each folder of ``scripts/lines.txt`` to its lines, and functions of the Vulkan driver to `MOST_OF_FUNCTION`.

``python tools/lines.py`` prints one line for each folder that is not within its budget and for each function that is
too long, and exits with 1 if there are any. A folder that has become much smaller must give up what it does not need,
so that no other change spends it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "scripts" / "lines.txt"
SPARE = 100
"""Lines that a folder may be below its budget."""
MOST_OF_FUNCTION = 60
"""Lines of a function, with its signature and docstring."""
SHORT_FUNCTIONS = "nnvk/driver/vulkan/"
"""The folder whose functions are no longer than that."""
_SUFFIXES = frozenset({".py", ".pyi", ".comp", ".glsl", ".cpp", ".hpp", ".h", ".c"})


def read_budgets(text: str) -> dict[str, int]:
    """The most lines by folder, whose name ends with ``/``. ValueError: a line has another form."""
    budgets: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        lines, _, folder = line.strip().partition(" ")
        folder = folder.strip()
        if not lines.isdecimal() or not folder.endswith("/") or folder in budgets:
            raise ValueError(f"line {number} of the budgets must be: lines folder/, each folder once, got {line!r}")
        budgets[folder] = int(lines)
    return budgets


def lines_by_folder(files: Iterable[tuple[str, int]], folders: Iterable[str]) -> Counter[str]:
    """The lines of the files, each counted in the innermost of the folders that contain it."""
    innermost_first = sorted(folders, key=len, reverse=True)
    found: Counter[str] = Counter()
    for path, lines in files:
        folder = next((folder for folder in innermost_first if path.startswith(folder)), None)
        if folder:
            found[folder] += lines
    return found


def complaints(budgets: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    """One line for each folder that is not within its budget."""
    lines = []
    for folder, most in budgets.items():
        now = found.get(folder, 0)
        if now > most:
            lines.append(f"{folder} has {now} lines, and scripts/lines.txt allows {most}: remove some, or raise it")
        elif now < most - SPARE:
            lines.append(f"{folder} has {now} lines, and scripts/lines.txt allows {most}: lower it")
    return lines


def long_functions(path: str, text: str) -> list[str]:
    """One line for each function of a Python file that has more than `MOST_OF_FUNCTION` lines."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = [(node, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions]
    return [
        f"{path}:{node.lineno}: {node.name} has {length} lines, at most {MOST_OF_FUNCTION} are allowed: divide it"
        for node, length in lengths
        if length > MOST_OF_FUNCTION
    ]


def main() -> int:
    """Check the tree that git knows."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [path for path in listed.splitlines() if Path(path).suffix in _SUFFIXES and (ROOT / path).is_file()]
    files = [(path, (ROOT / path).read_bytes().count(b"\n")) for path in paths]
    budgets = read_budgets(BUDGETS.read_text(encoding="utf-8"))
    found = complaints(budgets, lines_by_folder(files, budgets))
    for path in paths:
        if path.startswith(SHORT_FUNCTIONS) and path.endswith(".py"):
            found += long_functions(path, (ROOT / path).read_text(encoding="utf-8"))
    print("\n".join(found) if found else f"{sum(budgets.values())} lines at most in {len(budgets)} folders")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
