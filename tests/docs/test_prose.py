"""Docstrings begin with a plain subject: few begin with "What" or "Of", and no package gets more of those.

The numbers can only go down. A package that has none stays at none.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "nnvk"
MOST = {"driver/vulkan/planning": 30}
"""Docstrings that still begin with "What" or "Of", by package; 0 where none is named."""
_BEGINS = re.compile(r"(?:What|Of)\b")


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring of a module, those of attributes among them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in node.body:
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                yield statement.lineno, statement.value.value


def package_of(path: Path) -> str:
    """The package below nnvk, or below the Vulkan driver, that a file is in."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[:3] if parts[:2] == ("driver", "vulkan") else parts[:1])


PACKAGES = sorted({package_of(path) for path in ROOT.rglob("*.py")})


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_begin_with_a_subject(package):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in sorted(ROOT.rglob("*.py"))
        if package_of(path) == package
        for line, text in docstrings(path)
        if _BEGINS.match(text)
    ]
    assert len(found) <= MOST.get(package, 0), "\n".join(found)


def test_all_kinds_of_docstrings_are_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""What."""\nX = 1\n"""Of X."""\n\n\nclass C:\n    """What."""\n\n    def f(self):\n        """Of."""\n'
    )
    assert sorted(docstrings(path)) == [(1, "What."), (3, "Of X."), (7, "What."), (10, "Of.")]
