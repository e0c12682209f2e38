"""Running one test on one device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np

from nnvk.api import Compilation, Device, Execution, Model, NnapiError, OperationCode, ResultCode, get_device
from nnvk.conformance import compare
from nnvk.conformance.c_program import Program, Script, ScriptedModel
from nnvk.conformance.paths import EXECUTION_PATHS, ExecutionPath, NotApplicable
from nnvk.conformance.vectors import MOST_BYTES, VectorOperand, VectorTest, build_model, read_test

GUARD = 64
"""Bytes on either side of an output's buffer that a driver must leave alone."""
PATTERN = 0xA5
"""The byte that guards, and outputs that are not float, hold before the execution."""
NANS = 0xFF
"""The byte that float outputs hold before the execution. As a float, `PATTERN` is as good as zero."""


class Status(Enum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a test ended, and why unless it passed."""

    status: Status
    reason: str = ""
    device_lost: bool = False
    """Nothing more can be run on this device until it is opened anew."""


PASSED = Verdict(Status.PASSED)


def connect(device: str, path: str) -> Callable[[Path, int], Verdict]:
    """A function that runs a test, named by file and position, on a device through an execution path."""
    return partial(_run_from_file, device=get_device(device), through=EXECUTION_PATHS[path])


def _run_from_file(file: Path, index: int, *, device: Device, through: ExecutionPath) -> Verdict:
    try:
        test = read_test(file, index)
    except (OSError, ValueError) as error:
        return Verdict(Status.FAILED, str(error))
    return run_test(test, device, through)


def run_test(test: VectorTest, device: Device, through: ExecutionPath) -> Verdict:
    """Run a test on exactly this device; nothing falls back to another.

    A test of an operation that the device does not support is UNSUPPORTED, even if it is expected to fail. Any
    exception other than `NnapiError` is a failure, even of a test that is expected to fail.
    """
    try:
        wrong = _run_in_c(test, device.name) if through.is_c else _run(test, device, through)
    except NnapiError as error:
        lost = error.code is ResultCode.DEAD_OBJECT
        return PASSED if test.expect_failure and not lost else Verdict(Status.FAILED, str(error), lost)
    except (NotApplicable, _Unsupported) as reason:
        return Verdict(Status.UNSUPPORTED, str(reason))
    except Exception as error:
        return Verdict(Status.FAILED, f"{type(error).__name__}: {error}")
    if test.expect_failure:
        return Verdict(Status.FAILED, "expected an error, but compilation and execution succeeded")
    return Verdict(Status.FAILED, wrong) if wrong else PASSED


class _Unsupported(Exception):
    """The device does not support an operation: which, and why."""


def _run(test: VectorTest, device: Device, through: ExecutionPath) -> str | None:
    """Compile, execute and compare. Returns the problem, or None."""
    model = build_model(test, Model, unspecified_outputs=through.unspecified)
    supports = device.driver.get_supported_operations(model.frozen)
    for operation, support in zip(model.frozen.operations, supports, strict=True):
        if not support.supported:
            raise _Unsupported(f"{operation}: {support.reason}")
    compilation = Compilation(model, [device])
    compilation.finish()
    execution = Execution(compilation)
    inputs = [_given(operand) for operand in test.inputs()]
    outputs = [_Output(operand) for operand in test.outputs()]
    fetch = through.feed(compilation, execution, inputs, [output.array for output in outputs])
    through.run(compilation, execution)
    fetch()
    return _difference(test, execution.get_output_operand_dimensions, outputs)


def _run_in_c(test: VectorTest, device: str) -> str | None:
    """The same through the C library, in C++."""
    script = Script(device)
    model = build_model(test, partial(ScriptedModel, script))
    outputs = [_Output(operand) for operand in test.outputs()]
    buffers = [output.raw for output in outputs]
    ran = _program.run(model.run([_given(operand) for operand in test.inputs()], buffers, GUARD), buffers)
    if ran.unsupported is not None:
        raise _Unsupported(f"operation {ran.unsupported} of the model")
    return _difference(test, ran.dimensions.__getitem__, outputs)


_program = Program()
"""The program of this process, which is started where it is needed."""


def _difference(
    test: VectorTest, dimensions_of: Callable[[int], tuple[int, ...]], outputs: Sequence[_Output]
) -> str | None:
    for index, output in enumerate(outputs):
        wrong = output.overrun()
        if not wrong and output.operand.type.is_tensor:  # a scalar has no dimensions to ask for
            wrong = compare.dimensions_difference(output.operand.type.dimensions, dimensions_of(index))
        if not wrong and not output.operand.ignored:
            if test.multinomial_tolerance > 0:
                wrong = compare.multinomial_difference(_logits(test), output.array, test.multinomial_tolerance)
            else:
                wrong = output.difference(test.relaxed)
        if wrong:
            return f"output {index}: {wrong}"
    return None


def _given(operand: VectorOperand) -> np.ndarray | None:
    return operand.array() if operand.data else None


class _Output:
    """A buffer of exactly the expected size between two guards."""

    def __init__(self, operand: VectorOperand) -> None:
        self.operand = operand
        type_ = operand.type
        size = math.prod(type_.dimensions) * type_.dtype.itemsize
        if size > MOST_BYTES:
            raise ValueError(f"an output of {type_} takes {size} bytes, no vector has more than {MOST_BYTES}")
        self.raw = np.full(size + 2 * GUARD, PATTERN, np.uint8)
        """The buffer with its guards."""
        inside = self.raw[GUARD : GUARD + size]
        inside[:] = NANS if type_.dtype.kind == "f" else PATTERN
        self.array = inside.view(type_.dtype).reshape(type_.dimensions)

    def overrun(self) -> str | None:
        for where, guard in (("before", self.raw[:GUARD]), ("after", self.raw[-GUARD:])):
            if (guard != PATTERN).any():
                return f"the device wrote {where} the buffer"
        return None

    def difference(self, relaxed: bool) -> str | None:
        return compare.first_difference(self.operand.array(), self.array, self.operand.type.code, relaxed)


def _logits(test: VectorTest) -> np.ndarray:
    for operation in test.main.operations:
        if operation.code is OperationCode.RANDOM_MULTINOMIAL:
            return test.main.operands[operation.inputs[0]].array()
    raise ValueError("a test with a multinomial tolerance must have a RANDOM_MULTINOMIAL")
