"""Change one expression or statement of a package at a time, and see whether its tests notice.

    make mutate PACKAGE=nnvk/importers TESTS=tests/importers SAMPLE=60 SEED=1

The tool draws a random sample of all mutants of the package, runs for each the tests that reach the changed lines, and
prints the mutants that survive. It works on a copy of the source tree, in which it first measures, with coverage.py,
which tests execute which lines and how long they take. The measurement of a test file is kept in ``build/mutate/``
until that file changes. Tests that fail without a mutant are left out.

Tests run in forks of a process that has imported pytest, numpy and onnx (`tools/mutant_tests.py`), the quickest first
and at most ``--budget`` seconds for a mutant.

Two other tools were tried. mutmut runs the tests in forked children of a process that has run them all, where Vulkan
devices are lost, and leaves tables at module level as they are. cosmic-ray changes the working tree in place, and runs
one command for all mutants.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutant_tests import function_of

ROOT = Path(__file__).resolve().parent.parent
_NOT_COPIED = (".git", ".venv", ".gpu", "build", "dist", "__pycache__", ".*_cache", ".hypothesis")
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
}
_FUNCTIONS = {"max": "min", "min": "max", "any": "all", "all": "any"}
_SPARE_SECONDS = 30
"""How much longer than four times as long as before the tests of a mutant may take, which includes pytest's start."""
_SURVIVED, _UNREACHED, _KILLED, _TIMED_OUT = "survived", "not reached", "killed", "timed out"
_VERDICTS = {"passed": _SURVIVED, "failed": _KILLED, "timed out": _TIMED_OUT}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of bytes ``begin`` to ``end`` of a file into ``text``. Lines are counted from 1."""

    path: str
    operator: str
    lines: range
    begin: int
    end: int
    text: str
    at_import: bool = False
    """Whether it runs when its file is imported, in no function's body."""

    def apply(self, source: bytes) -> bytes:
        """The changed source."""
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def describe(self, source: bytes) -> str:
        """One line: the place, the operator, and the text before and after."""
        before = " ".join(source[self.begin : self.end].decode().split())
        after = " ".join(self.text.split())
        return f"{self.path}:{self.lines.start}: {self.operator}: {before[:90]} -> {after[:90]}"


class _Finder(ast.NodeVisitor):
    """Collects the mutants of one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._source = source
        lengths = [len(line) for line in source.splitlines(keepends=True)]
        self._starts = [sum(lengths[:index]) for index in range(len(lengths) + 1)]
        self.found: list[Mutant] = []
        self._depth = 0

    def _begin(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._source[self._begin(node) : self._end(node)].decode()

    def _add(self, operator: str, node: ast.expr | ast.stmt, begin: int, end: int, text: str) -> None:
        assert node.end_lineno is not None
        lines = range(node.lineno, node.end_lineno + 1)
        self.found.append(Mutant(self._path, operator, lines, begin, end, text, at_import=not self._depth))

    def _replace(self, operator: str, node: ast.expr | ast.stmt, text: str) -> None:
        self._add(operator, node, self._begin(node), self._end(node), text)

    def _between(self, operator: str, node: ast.expr, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Replace the operator between two operands, which may stand in parentheses."""
        begin, end = self._end(left), self._begin(right)
        gap = self._source[begin:end].decode()
        match = re.search(old, gap)
        if match is not None and "#" not in gap:
            self._add(operator, node, begin, end, gap[: match.start()] + new + gap[match.end() :])

    # --- what is left as it is -----------------------------------------------------------------------------------

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts stay: before Python 3.12 the positions in them are not those of the file."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """Annotations stay."""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Decorators stay: whether a dataclass is frozen or has slots changes no result."""
        for child in node.body:
            self.visit(child)

    def visit_keyword(self, node: ast.keyword) -> None:
        """The strictness of zip stays: it is an assertion."""
        if node.arg != "strict":
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for child in (*node.args.defaults, *(one for one in node.args.kw_defaults if one)):
            self.visit(child)
        self._depth += 1
        for child in node.body:
            self.visit(child)
        self._depth -= 1

    # --- operators -----------------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            old, new = _COMPARISONS[type(operator)]
            self._between("comparison swapped", node, left, right, old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _ARITHMETIC:
            old, new = _ARITHMETIC[type(node.op)]
            self._between("arithmetic swapped", node, node.left, node.right, re.escape(old), new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between("and/or swapped", node, left, right, rf"\b{old}\b", new)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace("constant negated", node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace("constant off by one", node, f"({self._text(node)} + 1)")

    def _negate(self, test: ast.expr) -> None:
        self._replace("branch negated", test, f"(not ({self._text(test)}))")

    def visit_If(self, node: ast.If) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func
        if isinstance(name, ast.Name) and name.id in _FUNCTIONS:
            self._replace("function swapped", name, _FUNCTIONS[name.id])
        for one, other in zip(node.args, node.args[1:], strict=False):
            if any(isinstance(each, ast.Starred | ast.GeneratorExp) for each in (one, other)):
                continue
            first, second = self._text(one), self._text(other)
            gap = self._source[self._end(one) : self._begin(other)].decode()
            are_names = all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in (one, other))
            if first != second and not are_names and "#" not in gap and gap.strip() == ",":
                self._add("arguments swapped", node, self._begin(one), self._end(other), second + gap + first)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._replace("statement dropped", node, "pass")
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replace("statement dropped", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace("statement dropped", node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._replace("statement dropped", node, "pass")
        self.generic_visit(node)


def mutants(root: Path, package: str) -> list[Mutant]:
    """All mutants of a package, in the order of files and places."""
    found: list[Mutant] = []
    for path in sorted((root / package).rglob("*.py")):
        source = path.read_bytes()
        finder = _Finder(path.relative_to(root).as_posix(), source)
        finder.visit(ast.parse(source))
        found += sorted(finder.found, key=lambda one: (one.begin, one.end, one.operator))
    return found


def drawn(everything: Sequence[Mutant], number: int, seed: int) -> list[Mutant]:
    """A random sample that has about as many mutants of each operator, in random order."""
    turn: Counter[str] = Counter()
    ranks = []
    for mutant in random.Random(seed).sample(everything, len(everything)):
        turn[mutant.operator] += 1
        ranks.append((turn[mutant.operator], mutant))
    return [mutant for _, mutant in sorted(ranks, key=lambda one: one[0])[:number]]


@dataclass(frozen=True, slots=True)
class Reach:
    """The lines that each test executes, and its duration in seconds."""

    tests: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]
    with_processes: frozenset[str] = frozenset()
    """The tests during which other processes ran, whose lines are not known."""

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that reach a mutant, the quickest of each function before the second of any.

        Those of files that are named after its file come twice as early.
        Tests of a line that runs at import are those of its whole file. A line that no test reaches by itself may run
        in other processes of any test that has some.
        """
        lines = self.tests.get(mutant.path, {})
        if mutant.at_import:
            reached = set[str]().union(*lines.values())
        else:
            reached = set[str]().union(*(lines.get(line, ()) for line in mutant.lines))
        if not reached - {""}:
            reached = set(self.with_processes)
        turn: Counter[str] = Counter()
        ranks = []
        for test in sorted(reached & self.seconds.keys(), key=lambda test: (self.seconds[test], test)):
            turn[function_of(test)] += 1
            is_other = Path(mutant.path).stem not in test.partition("::")[0]
            ranks.append((turn[function_of(test)] * (2 if is_other else 1), test))
        return [test for _, test in sorted(ranks, key=lambda one: one[0])]

    def affordable(self, tests: Sequence[str], budget: float) -> list[str]:
        """The first tests that fit into ``budget`` seconds together, at least one, those of each file together."""
        files: dict[str, list[str]] = {}
        total = 0.0
        for test in tests:
            if files and total + self.seconds[test] > budget:
                continue
            files.setdefault(test.partition("::")[0], []).append(test)
            total += self.seconds[test]
        return [test for some in files.values() for test in some]


def merged(measured: Iterable[dict], sources: dict[str, str], text_of: Callable[[str], str]) -> Reach:
    """`Reach` of the measurements of test files, each with the digests of the sources that it was made for.

    ``sources`` are the digests of the sources now, and ``text_of`` gives a source by its digest. If a source has
    changed since, all tests that reach it reach the lines that are new.
    """
    found: dict[str, dict[int, set[str]]] = {}
    seconds: dict[str, float] = {}
    with_processes: set[str] = set()
    for one in measured:
        seconds.update(one["seconds"])
        with_processes.update(one["with_processes"])
        for path, lines in one["lines"].items():
            target = found.setdefault(path, {})
            numbered = {int(line): tests for line, tests in lines.items()}
            if path in sources and one["sources"][path] != sources[path]:
                numbered = _moved(numbered, text_of(one["sources"][path]), text_of(sources[path]))
            for line, tests in numbered.items():
                target.setdefault(line, set()).update(tests)
    return Reach(found, seconds, frozenset(with_processes))


def _moved(lines: dict[int, list[str]], before: str, now: str) -> dict[int, list[str]]:
    """The tests of each line of a source, from those of its lines before."""
    old, new = before.splitlines(), now.splitlines()
    every = sorted(set().union(*lines.values()))
    found = dict.fromkeys(range(1, len(new) + 1), every)
    for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        for place in range(block.size):
            found[block.b + place + 1] = lines.get(block.a + place + 1, [])
    return found


def _digest(*contents: bytes | str) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content.encode() if isinstance(content, str) else content)
    return digest.hexdigest()[:16]


def _test_files(copy: Path, tests: Iterable[str]) -> list[str]:
    """The test files that arguments name, as files and folders."""
    found: dict[str, None] = {}
    for test in tests:
        path = copy / test
        if not path.exists():
            raise SystemExit(f"{test}: expected a file or folder of tests, found none")
        files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
        found |= dict.fromkeys(file.relative_to(copy).as_posix() for file in files)
    return list(found)


def _reach(copy: Path, package: str, tests: Iterable[str], most: float) -> Reach:
    """Measure the test files that were not measured before, and merge all measurements."""
    kept = ROOT / "build" / "mutate"
    texts = kept / "sources"
    texts.mkdir(parents=True, exist_ok=True)
    sources = {}
    for path in (copy / package).rglob("*.py"):
        sources[path.relative_to(copy).as_posix()] = digest = _digest(path.read_bytes())
        shutil.copyfile(path, texts / digest)
    measured = []
    for file in _test_files(copy, tests):
        path = kept / f"{_digest(package, str(most), file, (copy / file).read_bytes())}.json"
        if not path.exists():
            output = copy / ".measured.json"
            command = [sys.executable, "tools/mutant_tests.py", "measure", package, str(most), str(output), file]
            subprocess.run(command, cwd=copy, env=_environment(copy), check=True, stdout=subprocess.DEVNULL)
            content = json.loads(output.read_text()) | {"sources": sources}
            path.write_text(json.dumps(content))
            print(f"measured {len(content['seconds'])} tests of {file}", flush=True)
        measured.append(json.loads(path.read_text()))
        for test in measured[-1]["failed"]:
            print(f"left out, for it fails without a mutant: {test}")
    return merged(measured, sources, lambda digest: (texts / digest).read_text())


def _environment(copy: Path) -> dict[str, str]:
    inherited = [Path(path).resolve() for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths = [copy, *(path for path in inherited if path != ROOT)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # Threads of numpy's libraries don't survive a fork.
    return environment | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OPENBLAS_NUM_THREADS": "1"}


class Tests:
    """The process that runs tests (`tools/mutant_tests.py`)."""

    def __init__(self, copy: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("mutant_tests.py"), "serve"],
            cwd=copy,
            env=_environment(copy),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, tests: Sequence[str], limit: float, *, keep: bool = False) -> str:
        """Whether tests "passed", "failed" or "timed out". ``keep``: whether bytecode is kept for later runs."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"tests": list(tests), "limit": limit, "keep": keep}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise SystemExit("the process that runs the tests has ended")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def examine(
    copy: Path, sample: Iterable[Mutant], reach: Reach, tests: Tests, budget: float
) -> Iterator[tuple[Mutant, str, str]]:
    """Each mutant, what became of it, and a line that says so."""
    for mutant in sample:
        begun = time.monotonic()
        path = copy / mutant.path
        source, status = path.read_bytes(), path.stat()
        reached = reach.of(mutant)
        chosen = reach.affordable(reached, budget)
        result = _UNREACHED
        if chosen:
            path.write_bytes(mutant.apply(source))
            try:
                result = _VERDICTS[tests.run(chosen, 4 * sum(map(reach.seconds.__getitem__, chosen)) + _SPARE_SECONDS)]
            finally:
                path.write_bytes(source)
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # its bytecode stays
        of = f"{len(chosen)} of {len(reached)} tests, {time.monotonic() - begun:.0f} s"
        yield mutant, result, f"{result}: {mutant.describe(source)} ({of})"


def _control(reach: Reach, tests: Tests) -> None:
    """Check that the quickest test of each file passes as mutants' tests do."""
    quickest: dict[str, str] = {}
    for test in sorted(reach.seconds, key=reach.seconds.__getitem__):
        quickest.setdefault(test.partition("::")[0], test)
    if tests.run(list(quickest.values()), 600, keep=True) != "passed":
        raise SystemExit(f"tests that passed fail together: {' '.join(quickest.values())}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", help="the package to change, as nnvk/importers")
    parser.add_argument("tests", nargs="+", help="its test files, or folders of them")
    parser.add_argument("--sample", type=int, default=60, help="how many mutants to draw (60)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--only", default="", help="draw only from files whose path contains this")
    parser.add_argument(
        "--lines", nargs="+", metavar="FILE:LINE", help="all mutants of these lines instead of a sample"
    )
    parser.add_argument("--budget", type=float, default=15, help="seconds of tests for each mutant (15)")
    parser.add_argument(
        "--most", type=float, default=3, help="seconds of a test function's cases without a new line (3)"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="nnvk-mutate-") as folder:
        copy = Path(folder) / "nnvk"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        reach = _reach(copy, options.package, options.tests, options.most)
        everything = [one for one in mutants(copy, options.package) if options.only in one.path]
        sample = drawn(everything, options.sample, options.seed)
        if options.lines:
            wanted = tuple(options.lines)
            sample = [one for one in everything if f"{one.path}:{one.lines.start}".endswith(wanted)]
        results: Counter[str] = Counter()
        tests = Tests(copy)
        with contextlib.closing(tests):
            _control(reach, tests)
            for _, result, line in examine(copy, sample, reach, tests, options.budget):
                results[result] += 1
                print(line, flush=True)
        killed = results[_KILLED] + results[_TIMED_OUT]
        counts = ", ".join(f"{number} {result}" for result, number in results.items())
        print(f"{killed} of {len(sample)} killed ({100 * killed / max(1, len(sample)):.0f} %): {counts}")
        print(f"drawn with seed {options.seed} from {len(everything)} mutants")
    return 0


if __name__ == "__main__":
    sys.exit(main())
