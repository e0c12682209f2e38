"""Lists of checks: what ends them, what does not, and which shaders are suspected."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nnvk import NnapiError, ResultCode
from nnvk.check.checks import Check, Kind, Outcome, Result, Status, failure, passed_or, run_checks, suspects
from nnvk.check.report import Report, without_paths


def _check(run: Callable[[], Outcome] = lambda: passed_or(""), kind: Kind = Kind.CASE, name: str = "ADD") -> Check:
    return Check(kind, name, "f32[1]", run)


def _raising(error: Exception) -> Check:
    def run() -> Outcome:
        raise error

    return _check(run)


def _statuses(checks: list[Check], seconds: float = 60.0, *, revives: bool = False) -> list[str]:
    return [result.status.value for result in run_checks(checks, seconds, lambda: revives)]


def test_an_error_does_not_end_the_run() -> None:
    results = list(run_checks([_raising(ValueError("a\nb")), _check()], 60, lambda: False))
    assert [result.status for result in results] == [Status.FAILED, Status.PASSED]
    assert results[0].outcome.reason == "ValueError: a b"


@pytest.mark.parametrize(("revives", "then"), [(False, "not run"), (True, "passed")])
def test_a_lost_device_ends_the_run(revives: bool, then: str) -> None:
    lost = _raising(NnapiError(ResultCode.DEAD_OBJECT, "the device was lost"))
    found = _check(lambda: failure(NnapiError(ResultCode.DEAD_OBJECT, "it was lost"), ("x.f32",)))
    assert _statuses([lost, _check(), _check(kind=Kind.MODEL)], revives=revives) == ["failed", then, then]
    assert _statuses([found, _check()], revives=revives) == ["failed", then]


def test_only_cases_are_limited_by_the_time() -> None:
    def clock() -> Iterator[float]:
        now = 0.0
        while True:
            yield now
            now += 10.0

    ticks = clock()
    checks = [_check(kind=Kind.ASSUMPTION), _check(), _check(), _check(kind=Kind.MODEL)]
    results = run_checks(checks, 35, lambda: False, lambda: next(ticks))
    assert [result.status.value for result in results] == ["passed", "passed", "not run", "passed"]


def test_variants_that_others_passed_with_are_not_suspected() -> None:
    def result(reason: str, *shaders: str, kind: Kind = Kind.CASE) -> Result:
        return Result(_check(kind=kind), passed_or(reason, shaders))

    assert suspects([result("", "a", "b"), result("off", "a", "c")]) == ("c",)
    assert suspects([result("", "a"), result("off", "a")]) == ("a",)
    assert suspects([result("", "a"), result("")]) == ()
    model = result("off", "a", "c", "d", kind=Kind.MODEL)
    assert suspects([result("", "a"), result("off", "a", "c"), model]) == ("c",)
    assert suspects([result("", "a"), model]) == ("c", "d")


def test_a_report_says_that_the_device_was_lost() -> None:
    lost = Result(_check(), failure(NnapiError(ResultCode.DEAD_OBJECT, "gone")))
    rest = Result(_check(), Outcome(Status.NOT_RUN))
    assert Report({}, (), [lost, rest], 1.0).as_json()["device_lost"]
    assert not Report({}, (), [Result(_check(), passed_or("off")), rest], 1.0).as_json()["device_lost"]


@pytest.mark.parametrize("revives", [True, False])
def test_a_last_case_that_crashes_leaves_a_device_that_was_revived(revives: bool) -> None:
    crash = _raising(NnapiError(ResultCode.DEAD_OBJECT, "gone"))
    results = list(run_checks([_check(), crash], 60, lambda: revives))
    assert [result.status for result in results] == [Status.PASSED, Status.FAILED]
    assert Report({}, (), results, 1.0).is_lost is not revives


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("can't open /home/anna/nnvk/x.spv: denied", "can't open x.spv: denied"),
        ("can't open '/home/anna/nnvk/x.spv'", "can't open 'x.spv'"),
        ("~/models/secret/a.tflite", "a.tflite"),
        (r"C:\Users\anna\x.spv is no file", "x.spv is no file"),
        ("in /usr/share/vulkan/icd.d/a.json, line 3", "in a.json, line 3"),
        ("f32[2,3]*0.5+3 1/2 a/b NONE", "f32[2,3]*0.5+3 1/2 a/b NONE"),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe (LLVM 15.0.6, 256 bits)"),
    ],
)
def test_texts_have_no_paths(text: str, left: str) -> None:
    assert without_paths({"a": [text]}) == {"a": [left]}
