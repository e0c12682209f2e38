"""The map from changed files to the tests that they can reach, computed from imports, names and registered operations.

Every test runs operations through registries that import the whole package, so imports alone select everything. The
map therefore has two parts. Near tests import the changed file themselves, or are named after it in the folder of
tests/ that mirrors its own. Related tests are the parametrised cases whose id names an operation, operator or shader
of the changed file; a file without any has all tests of the mirroring folder.

The map is a heuristic for the time between two edits. The whole suite decides.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path

from nnvk.driver.vulkan.lowering.kernel import kernels

ROOT = Path(__file__).resolve().parents[1]
SCRIPT_FOLDERS = ("tests/support", "tools", "tools/isa", "benchmarks")
"""The folders of modules that tests import by their bare names (`pythonpath` in pyproject.toml)."""

_REGISTER = {"kernel", "define", "operator", "builtin", "custom", "microsoft"}
"""Functions whose positional arguments name operations."""

_CODES = {"OperationCode", "ExtendedOperationCode", "Op"}

_FIXED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("docs/", ("tests/docs",)),
    ("Makefile", ("tests/docs",)),
    ("pyproject.toml", ("tests/tools/test_version.py", "tests/tools/test_constraints.py")),
    ("scripts/constraints.txt", ("tests/tools/test_constraints.py",)),
    ("scripts/", ("tests/scripts",)),
    ("native/", ("tests/native",)),
    ("clib/delegate/", ("tests/delegate",)),
    ("clib/", ("tests/clib", "tests/provider")),
    ("provider/", ("tests/provider",)),
    ("nnvk/onnxruntime/", ("tests/provider",)),
    ("nnvk/litert/", ("tests/delegate",)),
    ("nnvk/serve/", ("tests/clib",)),
    ("examples/", ("tests/examples", "tests/docs/test_site.py")),
)
"""The tests of files that tests neither import nor mirror, by the beginning of their path; the first that fits."""

_AREAS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("nnvk/driver/vulkan/kernels/", ("tests/driver/vulkan", "tests/shaders", "tests/conformance/test_suite.py")),
    ("nnvk/driver/vulkan/lowering/", ("tests/driver/vulkan", "tests/shaders", "tests/conformance/test_suite.py")),
    ("nnvk/ops/", ("tests/ops", "tests/properties", "tests/driver/vulkan", "tests/conformance/test_suite.py")),
    ("nnvk/importers/onnx/", ("tests/importers/test_onnx_*.py",)),
    ("nnvk/importers/tflite/", ("tests/importers/test_tflite_*.py",)),
    ("nnvk/importers/", ("tests/importers",)),
    ("nnvk/contrib/", ("tests/contrib",)),
)
"""Where the tests lie whose ids name the operations of a file, by the beginning of its path."""


@dataclass(frozen=True, slots=True)
class Affected:
    """The tests that changed files can reach.

    Attributes:
        near: test files that run whole, and first.
        related: test files, each with the words that an id must contain one of; without words all tests count.
        unknown: changed files for which the map has no tests.
    """

    near: tuple[str, ...]
    related: Mapping[str, frozenset[str]]
    unknown: tuple[str, ...]


def contains_word(test_id: str, words: Iterable[str]) -> bool:
    """Whether a test's id has one of the words, between characters that are no letters and no digits.

    A word in capitals also counts in small letters, as in names of test functions and of files of vectors.
    """
    forms = {form for word in words for form in ((word, word.lower()) if word.isupper() else (word,))}
    pattern = "|".join(re.escape(form) for form in sorted(forms))
    return bool(forms) and re.search(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", test_id) is not None


class SourceMap:
    """The source tree's imports and names. All paths are relative to the root, with slashes."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._words: dict[str, frozenset[str]] = {}
        self._files = cache(partial(_files, root))

    @cached_property
    def _trees(self) -> dict[str, ast.Module]:
        files = (path for folder in ("nnvk", "tests", "tools", "benchmarks") for path in self._files(folder, "**/*.py"))
        return {file: ast.parse((self._root / file).read_text(encoding="utf-8")) for file in files}

    @cached_property
    def _imported_by(self) -> dict[str, set[str]]:
        """The files that import each file directly."""
        found: dict[str, set[str]] = {}
        for file, tree in self._trees.items():
            for target in self._targets(tree):
                found.setdefault(target, set()).add(file)
        return found

    def _targets(self, tree: ast.Module) -> set[str]:
        """The files that a module imports; imports stand at its top level, or in a block of it for types alone."""
        names: set[str] = set()
        for node in (inner for outer in tree.body for inner in (outer, *getattr(outer, "body", ()))):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
        return {file for name in names for file in self._resolved(name) if file in self._trees}

    @staticmethod
    def _resolved(name: str) -> tuple[str, ...]:
        path = name.replace(".", "/")
        bases = [path] if name.partition(".")[0] == "nnvk" else [f"{folder}/{path}" for folder in SCRIPT_FOLDERS]
        return tuple(base + end for base in bases for end in (".py", "/__init__.py"))

    def importers(self, file: str, under: tuple[str, ...]) -> set[str]:
        """All files in the given folders that import a file, directly or through other files there."""
        found: set[str] = set()
        pending = [file]
        while pending:
            for other in self._imported_by.get(pending.pop(), ()):
                if other not in found and other.startswith(under):
                    found.add(other)
                    pending.append(other)
        return found

    def words(self, file: str) -> frozenset[str]:
        """The operations that a file registers and the shaders that it declares; for other modules those of its users.

        Users are modules of the same kind (kernels and lowering, operations, importers) that import the file.
        """
        own = self._own_words(file)
        if own or not (areas := [prefix for prefix, _ in _AREAS if file.startswith(prefix)]):
            return own
        under = tuple(prefix for prefix, _ in _AREAS[:2]) if areas[0] in (_AREAS[0][0], _AREAS[1][0]) else (areas[-1],)
        return frozenset().union(*(self._own_words(other) for other in self.importers(file, under)))

    def _own_words(self, file: str) -> frozenset[str]:
        if file not in self._words:
            self._words[file] = self._find_words(file)
        return self._words[file]

    def _find_words(self, file: str) -> frozenset[str]:
        found: set[str] = set()
        codes: set[str] = set()
        registers = False
        for node in ast.walk(self._trees[file]):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _CODES:
                codes.add(node.attr)
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            registers |= called in _REGISTER
            if called in _REGISTER or called == "Shader":
                found.update(_texts(node.args))
        if registers:
            found.add(Path(file).stem)
        found |= self._kernels.get(file, set())
        # Tables and loops register operations too; mappers name NNAPI's operations only to emit them.
        return frozenset(found | (codes if registers and not file.startswith("nnvk/importers/") else set()))

    @cached_property
    def _kernels(self) -> dict[str, set[str]]:
        """The operations of each module of kernels, however it registers them."""
        found: dict[str, set[str]] = {}
        for code, kernel in kernels().items():
            found.setdefault(kernel.lower.__module__.replace(".", "/") + ".py", set()).add(code.name)
        return found

    @cached_property
    def _declarations(self) -> dict[str, set[str]]:
        """The modules that declare each shader, by the shader's name."""
        found: dict[str, set[str]] = {}
        for file, tree in self._trees.items():
            if file.startswith("nnvk/driver/vulkan/"):
                for node in ast.walk(tree):
                    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Shader":
                        for name in _texts(node.args[:1]):
                            found.setdefault(name, set()).add(file)
        return found

    def shader_users(self, shader: str) -> set[str]:
        """The modules that declare a shader, given by its file; of an include those of all shaders that include it."""
        texts = {
            file: (self._root / file).read_text(encoding="utf-8")
            for file in (*self._files("shaders", "*.comp"), *self._files("shaders", "include/**/*.glsl"))
        }
        including, pending = {shader}, [shader]
        while pending:
            file = Path(pending.pop())
            names = rf"{re.escape(file.name)}|{file.parent.name}/\{{\w+\}}\.glsl"  # {AXIS}: each file of the folder
            pattern = re.compile(rf'#include "(?:[^"]*/)?(?:{names})"')
            new = {file for file, text in texts.items() if file not in including and pattern.search(text)}
            including |= new
            pending += new
        return set().union(
            *(self._declarations.get(Path(file).stem, ()) for file in including if file.endswith(".comp"))
        )

    def affected(self, changed: Iterable[str]) -> Affected:
        """The tests that changed files can reach; files that are gone count with the tests of their folder."""
        near: dict[str, None] = {}
        related: dict[str, frozenset[str]] = {}
        unknown: list[str] = []
        for file in dict.fromkeys(changed):
            own, others, words = self._reached(file)
            near.update(dict.fromkeys(own))
            for other in others:
                known = related.get(other)
                everything = not words or known == frozenset()
                related[other] = frozenset() if everything else words | (known or frozenset())
            if not own and not others:
                unknown.append(file)
        return Affected(tuple(near), {f: w for f, w in related.items() if f not in near}, tuple(unknown))

    def _reached(self, file: str) -> tuple[list[str], list[str], frozenset[str]]:
        """The near tests of a file, its related tests and their words."""
        for prefix, places in _FIXED:
            if file.startswith(prefix):
                return self._tests(places), [], frozenset()
        if file.endswith(".md"):
            return self._tests(("tests/docs",)), [], frozenset()
        if file.startswith("shaders/"):
            return self._reached_by_shader(file)
        if file not in self._trees:
            mirror = self._mirror(file)
            return [], self._tests((mirror,)) if mirror else [], frozenset()
        if file.startswith("tests/"):
            if Path(file).name == "conftest.py":
                return [], self._tests((Path(file).parent.as_posix(),)), frozenset()
            users = {file} | self.importers(file, ("tests/",))
            return sorted(user for user in users if _is_test(user)), [], frozenset()
        through = {file} | self.importers(file, ("tests/support/",))
        direct = {user for one in through for user in self._imported_by.get(one, ()) if _is_test(user)}
        mirror = self._mirror(file)
        named = [test for test in self._tests((mirror,)) if _are_alike(test, file)] if mirror else []
        near = sorted({*named, *direct})
        words = self.words(file)
        places = next((places for prefix, places in _AREAS if file.startswith(prefix)), ()) if words else ()
        return near, self._tests(places or ((mirror,) if mirror else ())), words

    def _reached_by_shader(self, file: str) -> tuple[list[str], list[str], frozenset[str]]:
        parts = [self._reached(user) for user in sorted(self.shader_users(file))]
        near = {test for part in parts for test in part[0]}
        others = {test for part in parts for test in part[1]}
        return sorted(near), sorted(others), frozenset().union(*(part[2] for part in parts))

    def _mirror(self, file: str) -> str | None:
        """The deepest folder of tests/ that stands for the folder of a file."""
        first, *rest = Path(file).parent.parts or ("nnvk",)
        parts = ["tests", *rest] if first == "nnvk" else ["tests", first, *rest]
        while len(parts) > 1:
            if (self._root / "/".join(parts)).is_dir():
                return "/".join(parts)
            parts.pop()
        return None

    def _tests(self, places: Iterable[str]) -> list[str]:
        """The test files in folders, or that are given themselves, also by a pattern."""
        found: list[str] = []
        for place in places:
            folder, name = place.rsplit("/", 1) if place.endswith(".py") else (place, "**/test_*.py")
            found += self._files(folder, name)
        return found


def _files(root: Path, folder: str, pattern: str) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in (root / folder).glob(pattern))


def _is_test(file: str) -> bool:
    return file.startswith("tests/") and Path(file).name.startswith("test_")


def _are_alike(test: str, module: str) -> bool:
    """Whether a test file is named after a module, alone or with a folder of its path.

    test_partition.py is named after partitioner.py, and test_tflite_shape.py after tflite/mappers/shape.py.
    """
    name, path = Path(test).stem.removeprefix("test_"), Path(module)
    return (len(name) > 2 and (name.startswith(path.stem) or path.stem.startswith(name))) or any(
        name.startswith(f"{folder}_{path.stem}") for folder in path.parent.parts
    )


def _texts(arguments: Iterable[ast.expr]) -> set[str]:
    """The arguments that are texts."""
    return {node.value for node in arguments if isinstance(node, ast.Constant) and isinstance(node.value, str)}
