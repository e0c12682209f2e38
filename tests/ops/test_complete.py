"""Every operation has all that it needs. A failure names the operation, and the file to write or to change.

Generators, cases of `nnvk check` and rows of the benchmarks are derived from an operation's signature unless a file has
one of its own, so these fail only for an operation whose signature does not say enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import every_type
import operations_doc
import pytest
from generators import Draw, draw_case, run_case
from generators.derived import derived

from nnvk.base.errors import NnapiError
from nnvk.check.cases import cases
from nnvk.check.model_rows import parse, reference
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.ops import registry
from nnvk.ops.flow import CONTROL_FLOW
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import KnownCode

TESTS = Path(__file__).resolve().parents[1]
EVERY = pytest.mark.parametrize(
    "code", [pytest.param(code, id=operations_doc.title(code)) for code in registry.definitions()]
)
SEEDS = range(5)


@cache
def texts_of_tests() -> tuple[str, ...]:
    """The sources of all tests but this one."""
    return tuple(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py") if path != Path(__file__))


@cache
def page() -> str:
    """The page of operations."""
    return operations_doc.PAGE.read_text(encoding="utf-8") if operations_doc.PAGE.is_file() else ""


@cache
def measured() -> dict[tuple[KnownCode, OperandCode], str]:
    """The names of rows of the benchmarks."""
    return {(row.code, row.leading): row.name for row in every_type.rows()}


@cache
def smallest_cases() -> dict[tuple[KnownCode, OperandCode], str]:
    """The first case of `nnvk check` of each operation and leading type."""
    return {(case.code, case.leading): case.text for case in reversed(cases())}


def problem_of_generator(code: KnownCode, leading: OperandCode) -> str | None:
    """The reason why the generator draws no case that runs; None if it does."""
    try:
        for seed in SEEDS:
            case = draw_case(Draw(seed), code, leading)
            outputs = run_case(case)
            assert [output.dtype for output in outputs] == [type_.dtype for type_ in case.outputs]
    except NnapiError as error:
        return f"seed {seed} draws what it refuses ({error.reason}): register a generator in tests/support/generators/"
    return None


def problem_of_case(code: KnownCode, leading: OperandCode) -> str | None:
    """The reason why `nnvk check` has no case that runs; None if it has."""
    text = smallest_cases().get((code, leading))
    if text is None:
        return "no case for this type: add a line to nnvk/check/cases.txt"
    try:
        reference(parse(text))
    except NnapiError as error:
        return f"the case {text!r} is refused ({error.reason}): add a line to nnvk/check/cases.txt"
    return None


def problems(code: KnownCode) -> Iterator[str]:
    """All that an operation lacks."""
    definition = registry.lookup(code)
    for leading in definition.types:
        reason = problem_of_generator(code, leading)
        if reason is None and code not in CONTROL_FLOW:
            reason = problem_of_case(code, leading)
        if reason is None and (code, leading) not in measured():
            reason = "no benchmark for this type: add a row to benchmarks/every_type.py"
        if reason is not None:
            yield f"{leading.name}: {reason}"
    if definition.code not in kernels() and code not in CONTROL_FLOW:
        yield "no kernel: register one in nnvk/driver/vulkan/kernels/"
    if not any(definition.code.name in text for text in texts_of_tests()):
        yield "no test names it: write tests/driver/vulkan/test_<x>.py"
    if page() and f"| [{operations_doc.title(code)}](#" not in page():
        yield "docs/operations.md lacks it: run make docs"


@EVERY
def test_an_operation_is_complete(code: KnownCode) -> None:
    found = [f"{code.name}: {problem}" for problem in problems(code)]
    assert not found, "\n".join(found)


def test_a_generator_that_draws_nothing_valid_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.draw_case", derived)
    found = problem_of_generator(OperationCode.CONV_2D, OperandCode.TENSOR_FLOAT32)
    assert found is not None
    assert "tests/support/generators/" in found


def test_a_case_that_is_missing_or_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    key = OperationCode.ARGMAX, OperandCode.TENSOR_FLOAT32
    for texts in ({}, {key: "ARGMAX f32[3,5] 2 -> i32"}):
        monkeypatch.setattr(f"{__name__}.smallest_cases", lambda texts=texts: texts)
        found = problem_of_case(*key)
        assert found is not None
        assert "nnvk/check/cases.txt" in found


def test_all_that_an_operation_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.measured", dict)
    monkeypatch.setattr(f"{__name__}.kernels", dict)
    monkeypatch.setattr(f"{__name__}.texts_of_tests", tuple)
    monkeypatch.setattr(f"{__name__}.page", lambda: "empty")
    found = "\n".join(problems(OperationCode.RANK))
    for file in (
        "benchmarks/every_type.py",
        "nnvk/driver/vulkan/kernels/",
        "tests/driver/vulkan/",
        "docs/operations.md",
    ):
        assert file in found
