"""Change one expression or statement of a package at a time, and see whether its tests notice.

    make mutate PACKAGE=nnvk/importers TESTS=tests/importers SAMPLE=60 SEED=1

The tool draws a random sample of all mutants of the package, runs for each the tests that reach the changed lines, and
prints the mutants that survive. It works on a copy of the source tree, in which it first measures, with coverage.py,
which test functions execute which lines and how long they take; that measurement is kept in ``build/mutate/`` until a
source or test changes. Tests that fail without a mutant are left out.

Two other tools were tried. mutmut runs the tests in forked children of a process that has run them all, where Vulkan
devices are lost, and leaves tables at module level as they are. cosmic-ray changes the working tree in place, and runs
one command for all mutants.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
_SPARE_SECONDS = 60
"""How much longer than four times as long as before the tests of a mutant may take, which includes pytest's start."""
_SURVIVED, _UNREACHED, _KILLED, _TIMED_OUT = "survived", "not reached", "killed", "timed out"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of bytes ``begin`` to ``end`` of a file into ``text``. Lines are counted from 1."""

    path: str
    operator: str
    lines: range
    begin: int
    end: int
    text: str

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
        self.found.append(Mutant(self._path, operator, lines, begin, end, text))

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
        for child in (*node.args.defaults, *(one for one in node.args.kw_defaults if one), *node.body):
            self.visit(child)

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
    """The lines that each test function executes, and its duration in seconds with all its parameters."""

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that reach a mutant, the quickest first.

        Tests of a line that runs at import are those of its whole file.
        """
        lines = self.tests.get(mutant.path, {})
        reached = {test for line in mutant.lines for test in lines.get(line, ())}
        if "" in reached and len(reached) == 1:
            reached = {test for tests in lines.values() for test in tests}
        return sorted(reached & self.seconds.keys(), key=lambda test: (self.seconds[test], test))


def _environment(copy: Path) -> dict[str, str]:
    inherited = [Path(path).resolve() for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths = [copy, *(path for path in inherited if path != ROOT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"}


def _measured(copy: Path, package: str, tests: Sequence[str]) -> Reach:
    """Run the unchanged tests under coverage.py."""
    rules, data, report, times = (copy / f".mutate.{end}" for end in ("ini", "coverage", "json", "xml"))
    rules.write_text(
        f"[run]\ninclude = {copy}/{package}/*\ndynamic_context = test_function\ndata_file = {data}\n"
        "[json]\nshow_contexts = True\n"
    )
    coverage = [sys.executable, "-m", "coverage"]
    run = [*coverage, "run", f"--rcfile={rules}", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header"]
    environment = _environment(copy)
    subprocess.run([*run, f"--junitxml={times}", *tests], cwd=copy, env=environment)
    if not times.exists() or not data.exists():
        raise SystemExit("the tests can't be run, or coverage.py is missing, which `make mutate` brings")
    subprocess.run([*coverage, "json", "-q", f"--rcfile={rules}", "-o", report], cwd=copy, env=environment, check=True)
    return reach_of(json.loads(report.read_text()), ElementTree.parse(times).iter("testcase"))


def reach_of(report: dict, cases: Iterable[ElementTree.Element]) -> Reach:
    """`Reach` of coverage.py's JSON report and pytest's JUnit report, without the tests that fail as it is."""
    seconds: dict[str, float] = defaultdict(float)
    failing = set()
    for case in cases:
        path = case.attrib["classname"].replace(".", "/") + ".py"
        test = f"{path}::{case.attrib['name'].partition('[')[0]}"
        seconds[test] += float(case.attrib["time"])
        if case.find("failure") is not None or case.find("error") is not None:
            failing.add(test)
    for test in sorted(failing):
        print(f"left out, for it fails without a mutant: {test}")
        del seconds[test]
    found: dict[str, dict[int, list[str]]] = {}
    for path, one in report["files"].items():
        found[path] = {int(line): [_node(test) for test in tests] for line, tests in one["contexts"].items()}
    return Reach(found, dict(seconds))


def _node(context: str) -> str:
    """A test function as pytest names it, of ``package.module.function``; empty for none."""
    module, _, function = context.rpartition(".")
    return f"{module.replace('.', '/')}.py::{function}" if module else ""


def _known(copy: Path, package: str, tests: Sequence[str]) -> Reach:
    """`_measured`, or what it gave before for the same sources and tests."""
    digest = hashlib.sha256(repr((package, list(tests))).encode())
    for folder in ("nnvk", "tests"):
        for path in sorted((copy / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    kept = ROOT / "build" / "mutate" / f"{digest.hexdigest()[:16]}.json"
    if kept.exists():
        content = json.loads(kept.read_text())
        lines = {path: {int(line): names for line, names in one.items()} for path, one in content["tests"].items()}
        return Reach(lines, content["seconds"])
    reach = _measured(copy, package, tests)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"tests": reach.tests, "seconds": reach.seconds}))
    return reach


def _affordable(tests: Sequence[str], reach: Reach, budget: float) -> tuple[list[str], float]:
    """The quickest tests that take ``budget`` seconds together, at least one, and how long they take."""
    chosen: list[str] = []
    total = 0.0
    for test in tests:
        if chosen and total + reach.seconds[test] > budget:
            break
        chosen.append(test)
        total += reach.seconds[test]
    return chosen, total


def _run(copy: Path, tests: Sequence[str], limit: float) -> str:
    """The verdict on a mutant that is in place: whether one of the tests fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    with subprocess.Popen(
        command,
        cwd=copy,
        env=_environment(copy),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return _TIMED_OUT
    return _KILLED if status else _SURVIVED


def examine(copy: Path, sample: Iterable[Mutant], reach: Reach, budget: float) -> Iterator[tuple[Mutant, str, str]]:
    """Each mutant, what became of it, and a line that says so."""
    for mutant in sample:
        begun = time.monotonic()
        path = copy / mutant.path
        source = path.read_bytes()
        tests = reach.of(mutant)
        chosen, seconds = _affordable(tests, reach, budget)
        result = _UNREACHED
        if chosen:
            path.write_bytes(mutant.apply(source))
            try:
                result = _run(copy, chosen, 4 * seconds + _SPARE_SECONDS)
            finally:
                path.write_bytes(source)
        of = f"{len(chosen)} of {len(tests)} tests, {time.monotonic() - begun:.0f} s"
        yield mutant, result, f"{result}: {mutant.describe(source)} ({of})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", help="the package to change, as nnvk/importers")
    parser.add_argument("tests", nargs="+", help="its tests, as pytest takes them")
    parser.add_argument("--sample", type=int, default=60, help="how many mutants to draw (60)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--only", default="", help="draw only from files whose path contains this")
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for each mutant (60)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="nnvk-mutate-") as folder:
        copy = Path(folder) / "nnvk"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        reach = _known(copy, options.package, options.tests)
        everything = [one for one in mutants(copy, options.package) if options.only in one.path]
        sample = drawn(everything, options.sample, options.seed)
        results: Counter[str] = Counter()
        for _, result, line in examine(copy, sample, reach, options.budget):
            results[result] += 1
            print(line, flush=True)
        killed = results[_KILLED] + results[_TIMED_OUT]
        counts = ", ".join(f"{number} {result}" for result, number in results.items())
        print(f"{killed} of {len(sample)} killed ({100 * killed / max(1, len(sample)):.0f} %): {counts}")
        print(f"drawn with seed {options.seed} from {len(everything)} mutants")
    return 0


if __name__ == "__main__":
    sys.exit(main())
