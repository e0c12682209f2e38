"""Checks of a device. `run_checks` runs a list of them until the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from nnvk.api import NnapiError, ResultCode


class Kind(Enum):
    """The kinds of checks, in the order in which they are run."""

    ASSUMPTION = "assumption"
    """Something that the Vulkan driver takes for granted of every device."""
    CASE = "case"
    """Operations at one size, against the reference device."""
    MODEL = "model"
    """A model that nnvk ships."""


class Status(Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    """The device does not run the operation; models run it on the CPU."""
    NOT_RUN = "not run"
    """The time was over before, the device was lost, or the outcome has the reason."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run of a check."""

    status: Status
    reason: str = ""
    """Why it failed, or was not run, or why the device does not run the operation."""
    shaders: tuple[str, ...] = ()
    """The shader variants that were dispatched; empty where that is not known."""
    is_lost: bool = False
    """The device, or the driver's process, is gone since. In a `Result`: and could not be started anew."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is checked."""

    kind: Kind
    name: str
    """The operation, or what else it is about."""
    details: str
    """Types and sizes of a case, or what an assumption says."""
    run: Callable[[], Outcome]
    """May raise anything, which is a failure."""


@dataclass(frozen=True, slots=True)
class Result:
    """A check with its outcome."""

    check: Check
    outcome: Outcome
    seconds: float = 0.0

    @property
    def status(self) -> Status:
        """How it ended."""
        return self.outcome.status


def passed_or(reason: str, shaders: tuple[str, ...] = ()) -> Outcome:
    """A failure for this reason; passed where there is none."""
    return Outcome(Status.FAILED if reason else Status.PASSED, reason, shaders)


def failure(error: Exception, shaders: tuple[str, ...] = ()) -> Outcome:
    """The outcome of a check that raised this error."""
    if isinstance(error, NnapiError):
        text, is_lost = f"{error.code.name}: {error.reason}", error.code is ResultCode.DEAD_OBJECT
    else:
        text, is_lost = f"{type(error).__name__}: {error}", False
    return Outcome(Status.FAILED, " ".join(text.split()), shaders, is_lost)


def run_checks(
    checks: Iterable[Check], seconds: float, revive: Callable[[], bool], clock: Callable[[], float] = time.monotonic
) -> Iterator[Result]:
    """Run checks in their order. Cases that would begin after so many seconds are not run, all others are.

    A check that raises has failed. Where the device is lost, ``revive`` says whether it can go on; if it can't, nothing
    else is run.
    """
    end = clock() + seconds
    lost = False
    for check in checks:
        started = clock()
        if lost or (check.kind is Kind.CASE and started >= end):
            yield Result(check, Outcome(Status.NOT_RUN))
            continue
        try:
            outcome = check.run()
        except Exception as error:  # whatever it is, it must not end the run
            outcome = failure(error)
        lost = outcome.is_lost and not revive()
        outcome = replace(outcome, is_lost=lost)
        yield Result(check, outcome, clock() - started)


def suspects(results: Sequence[Result]) -> tuple[str, ...]:
    """The shader variants that failures are likely to come of, to be switched off by NNVK_AVOID_SHADERS.

    These are the variants of a failed case that no passed case used, or all of its variants if there are none. Models
    use many shaders, so they count only if all cases have passed.
    """
    good = {name for result in results if result.status is Status.PASSED for name in result.outcome.shaders}
    failed = [result for result in results if result.status is Status.FAILED]
    found: dict[str, None] = {}
    for result in [each for each in failed if each.check.kind is Kind.CASE] or failed:
        names = result.outcome.shaders
        found.update(dict.fromkeys([name for name in names if name not in good] or names))
    return tuple(sorted(found))
