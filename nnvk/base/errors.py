"""Result codes and the one exception that carries them."""

from __future__ import annotations

from enum import IntEnum


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
    """What every failing call of nnvk raises.

    ``code`` is the `ResultCode` that the C function would have returned, ``reason`` says what was wrong:
    the operation, the operand, what was expected and what came.
    """

    def __init__(self, code: ResultCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.code.name}: {self.reason}"


class UnfitData(NnapiError):
    """OP_FAILED because what came with an execution breaks a rule, so that no device could do better."""

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
