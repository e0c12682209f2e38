"""What goes through the driver interface beside models: requests, results, timing, capabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nnvk.base.errors import ResultCode
from nnvk.types.codes import PreferenceCode, PriorityCode
from nnvk.types.operand import Shape

NOT_MEASURED = 2**64 - 1
"""The duration, in nanoseconds, that stands for "not available" (UINT64_MAX)."""
DEFAULT_LOOP_TIMEOUT_NS = 2_000_000_000
MAXIMUM_LOOP_TIMEOUT_NS = 15_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class InputArgument:
    """One input of a request: a C-contiguous array of the operand's dtype and actual shape, or None (omitted)."""

    array: np.ndarray | None


@dataclass(frozen=True, slots=True, eq=False)
class OutputArgument:
    """One output of a request: writable bytes (a flat uint8 array, not smaller than needed), or None (ignored)."""

    buffer: np.ndarray | None


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


@dataclass(frozen=True, slots=True)
class ExecuteOptions:
    """How to execute: what to measure and when to give up (monotonic clock, nanoseconds)."""

    measure: bool = False
    deadline_ns: int | None = None
    loop_timeout_ns: int = DEFAULT_LOOP_TIMEOUT_NS


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """How to prepare a model."""

    preference: PreferenceCode = PreferenceCode.FAST_SINGLE_ANSWER
    priority: PriorityCode = PriorityCode.MEDIUM
    deadline_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device promises: the partitioner prefers the smaller time."""

    relative_time: float = 1.0
    """Expected time relative to the CPU reference device; smaller is faster."""
    relative_power: float = 1.0
    """Expected energy relative to the CPU reference device."""
