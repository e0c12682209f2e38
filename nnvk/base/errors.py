"""Result codes and the one exception that carries them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from nnvk.base.text import printable

_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS}
_NO_MEMORY = {errno.ENOMEM, errno.ENOSPC, errno.EAGAIN, errno.ENOBUFS}


class ResultCode(IntEnum):
    """``ResultCode`` of NeuralNetworks.h (``ANEURALNETWORKS_`` left out)."""

    NO_ERROR = 0
    OUT_OF_MEMORY = 1
    INCOMPLETE = 2
    UNEXPECTED_NULL = 3
    BAD_DATA = 4
    OP_FAILED = 5
    BAD_STATE = 6
    UNMAPPABLE = 7
    OUTPUT_INSUFFICIENT_SIZE = 8
    UNAVAILABLE_DEVICE = 9
    MISSED_DEADLINE_TRANSIENT = 10
    MISSED_DEADLINE_PERSISTENT = 11
    RESOURCE_EXHAUSTED_TRANSIENT = 12
    RESOURCE_EXHAUSTED_PERSISTENT = 13
    DEAD_OBJECT = 14


class NnapiError(Exception):
    """The error that every failing call of nnvk raises.

    ``code`` is the `ResultCode` that the C function would have returned, ``reason`` says what was wrong:
    the operation, the operand, what was expected and what came.
    """

    def __init__(self, code: ResultCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.code.name}: {self.reason}"


class WrongKind(TypeError):
    """An argument of the caller's is an object of a wrong kind."""


class UnfitData(NnapiError):
    """OP_FAILED because what came with an execution breaks a rule, so that no device could do better."""

    def __init__(self, reason: str) -> None:
        super().__init__(ResultCode.OP_FAILED, reason)


class VerificationError(NnapiError):
    """OP_FAILED because a device has computed something twice, and the results differ."""

    def __init__(self, reason: str) -> None:
        super().__init__(ResultCode.OP_FAILED, reason)


def bad_data(reason: str) -> NnapiError:
    """The error for an argument, a model or data that breaks a rule."""
    return NnapiError(ResultCode.BAD_DATA, reason)


def bad_state(reason: str) -> NnapiError:
    """The error for a call that comes too early, too late, or twice."""
    return NnapiError(ResultCode.BAD_STATE, reason)


def op_failed(reason: str) -> NnapiError:
    """The error for an operation that can't be computed on the data that came."""
    return NnapiError(ResultCode.OP_FAILED, reason)


def system_error(what: str, error: OSError, otherwise: ResultCode = ResultCode.OP_FAILED) -> NnapiError:
    """The result code for an error of the operating system: no descriptors, no memory, or another one."""
    code = otherwise
    if error.errno in _EXHAUSTED:
        code = ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
    elif error.errno in _NO_MEMORY:
        code = ResultCode.OUT_OF_MEMORY
    return NnapiError(code, f"{what}: {error}")


def driver_error(what: str, error: Exception) -> NnapiError:
    """An exception of a driver as applications see it: an `NnapiError` as it is, others as the cause of one.

    Want of memory is OUT_OF_MEMORY, want of descriptors RESOURCE_EXHAUSTED_TRANSIENT, and all that a driver does not
    know itself OP_FAILED. ``what`` has failed.
    """
    if isinstance(error, NnapiError):
        return error
    if isinstance(error, MemoryError):
        made = NnapiError(ResultCode.OUT_OF_MEMORY, f"{what}: {error or 'there is not enough memory'}")
    elif isinstance(error, OSError):
        made = system_error(what, error)
    else:
        made = op_failed(f"{what}: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made


@contextmanager
def driving(what: str) -> Iterator[None]:
    """Raises the exceptions of a driver that is called inside as `driver_error` has them."""
    try:
        yield
    except Exception as error:
        raise driver_error(what, error)  # noqa: B904 - it has its cause


def mark_as_callers(error: Exception) -> None:
    """Say that a function of the caller's has raised an error: no model's file and no device is the cause of it."""
    error.__dict__["_nnvk_is_callers"] = True


def is_callers(error: BaseException) -> bool:
    """Whether `mark_as_callers` got the error."""
    return "_nnvk_is_callers" in error.__dict__


class Guard:
    """Raises what a hostile file may cause inside, which no check has foreseen, as BAD_DATA; ``what`` is the file.

    `NnapiError`, `WrongKind`, OSError and what `mark_as_callers` got remain as they are, and want of memory is
    OUT_OF_MEMORY. One object may guard many blocks, also at once.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, (NnapiError, WrongKind, OSError)) or is_callers(error):
            return
        if isinstance(error, MemoryError):
            raise driver_error(self._what, error)
        reason = printable(f"{type(error).__name__}: {error}")
        raise bad_data(f"{self._what} makes no sense to nnvk, which expected other content ({reason})") from error
