"""The data that passes through the driver interface beside models: requests, results, timing, capabilities."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from nnvk.base.errors import ResultCode
from nnvk.types.codes import PreferenceCode, PriorityCode
from nnvk.types.operand import Shape

NOT_MEASURED = 2**64 - 1
"""The duration, in nanoseconds, that stands for "not available" (UINT64_MAX)."""
DEFAULT_LOOP_TIMEOUT_NS = 2_000_000_000
MAXIMUM_LOOP_TIMEOUT_NS = 15_000_000_000
LONGEST_NS = 2**64 - 1
"""The longest duration that can be given (UINT64_MAX)."""
_FOREVER_NS = 2**62
"""A duration that is longer than anybody waits, but short enough to be added to a clock and passed to any wait."""


def is_unlimited(timeout_ns: int) -> bool:
    """Whether a timeout is unlimited: negative, or longer than anybody waits."""
    return not 0 <= timeout_ns <= _FOREVER_NS


def deadline_after(now_ns: int, duration_ns: int) -> int | None:
    """The deadline ``duration_ns`` from now; None where it is further away than anybody waits."""
    return None if duration_ns > _FOREVER_NS else now_ns + duration_ns


@dataclass(frozen=True, slots=True, eq=False)
class InputArgument:
    """One input of a request: an array, a device buffer, or nothing (omitted)."""

    array: np.ndarray | None
    """A C-contiguous array of the operand's dtype and actual shape."""
    token: int = 0
    """The token of the device's IBuffer that holds the input, or 0."""
    dimensions: Shape = ()
    """The actual dimensions of the IBuffer's content."""

    @property
    def shape(self) -> Shape | None:
        """Actual dimensions; None where the input is omitted."""
        if self.token:
            return self.dimensions
        return None if self.array is None else self.array.shape


@dataclass(frozen=True, slots=True, eq=False)
class OutputArgument:
    """One output of a request: bytes to write, a device buffer, or nothing (not wanted)."""

    buffer: np.ndarray | None
    """A flat, writable uint8 array, not smaller than needed."""
    token: int = 0
    """The token of the device's IBuffer that takes the output, or 0."""
    updates_input: bool = False
    """Whether this buffer may be an input of the same execution, which then has what the input was before."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Inputs and outputs of one execution, in the model's order."""

    inputs: Sequence[InputArgument]
    outputs: Sequence[OutputArgument]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long an execution took, in nanoseconds; `NOT_MEASURED` where it was not measured."""

    on_hardware_ns: int = NOT_MEASURED
    in_driver_ns: int = NOT_MEASURED


@dataclass(frozen=True, slots=True)
class OutputShape:
    """Actual dimensions of an output, and whether its buffer was large enough."""

    dimensions: Shape
    is_sufficient: bool = True


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """``code`` is NO_ERROR, or OUTPUT_INSUFFICIENT_SIZE (no output was written); other failures are raised."""

    code: ResultCode
    output_shapes: tuple[OutputShape, ...]
    timing: Timing = field(default_factory=Timing)
    fenced_timing: Timing | None = None
    """The duration of a fenced execution without the time that it waited for others; None if it did not wait."""


@dataclass(frozen=True, slots=True)
class ExecuteOptions:
    """How to execute: what to measure and when to give up (monotonic clock, nanoseconds)."""

    measure: bool = False
    deadline_ns: int | None = None
    loop_timeout_ns: int = DEFAULT_LOOP_TIMEOUT_NS
    duration_ns: int = 0
    """How long a fenced execution may take from when all it waits for has signalled; 0: as long as it needs."""

    def started(self, now_ns: int) -> ExecuteOptions:
        """The options once the fences that were waited for have signalled: the duration becomes a deadline."""
        if not self.duration_ns:
            return self
        deadlines = (deadline_after(now_ns, self.duration_ns), self.deadline_ns)
        deadline = min((deadline for deadline in deadlines if deadline is not None), default=None)
        return replace(self, deadline_ns=deadline, duration_ns=0)


class Redundancy(IntEnum):
    """The computations of a driver that let an execution with a wrong result end with VerificationError."""

    NONE = 0
    CHECKSUMS = 1
    """Checksums, or bounds on rounding errors, where they can check a result, and everything else a second time."""
    DUPLICATION = 2
    """Everything a second time."""


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """The options for preparing a model."""

    preference: PreferenceCode = PreferenceCode.FAST_SINGLE_ANSWER
    priority: PriorityCode = PriorityCode.MEDIUM
    deadline_ns: int | None = None
    cache: Path | None = None
    """File in which the driver may keep the prepared model, and find one that it kept."""
    redundancy: Redundancy = Redundancy.NONE
    """A driver without it computes as ever."""
    other_strategies: bool = False
    """The model is computed by other strategies than those without this option, which have computed it wrong. A driver
    computes operations for which it has one strategy alone as ever."""
    families: dict[Hashable, Any] | None = field(default=None, compare=False)
    """A driver keeps here what models that differ in sizes alone share: plans for all sizes, and memory."""
    progress: Callable[[int, int], None] | None = None
    """Called on the preparing thread with the number of finished parts of the work and of all parts."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The performance that a device promises: the partitioner prefers the smaller time."""

    relative_time: float = 1.0
    """Expected time relative to the CPU reference device; smaller is faster."""
    relative_power: float = 1.0
    """Expected energy relative to the CPU reference device."""
