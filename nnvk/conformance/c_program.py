"""Running models through the C library, by a program in C++ that is installed beside it (clib/vectors)."""

from __future__ import annotations

import signal
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.api import NnapiError, OperandType, ResultCode
from nnvk.serve.installed import VECTORS

_CREATE, _OPERAND, _CHANNELS, _VALUE, _FROM_MODEL, _OPERATION, _IDENTIFY, _RELAX, _FINISH, _RUN = range(10)
"""Calls, as the program numbers them."""
_LENGTH = struct.Struct("<Q")


class Script:
    """The calls that build models, to be sent to the program."""

    def __init__(self, device: str) -> None:
        self.calls = [_numbers("B", device.encode())]
        self.models = 0


class ScriptedModel:
    """A model that is noted in a script, with what `nnvk.Model` has."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.number = script.models
        script.models += 1
        script.calls.append(bytes([_CREATE]))

    def _note(self, call: int, *parts: bytes) -> None:
        self.script.calls += [struct.pack("<BI", call, self.number), *parts]

    def add_operand(self, type: OperandType) -> int:
        """As `nnvk.Model.add_operand`, but for the result."""
        described = struct.pack("<ifi", type.code, type.scale, type.zero_point)
        self._note(_OPERAND, described, _numbers("I", type.dimensions))
        return -1

    def set_operand_symm_per_channel_quant_params(self, index: int, channel_dim: int, scales: Sequence[float]) -> None:
        """As `nnvk.Model.set_operand_symm_per_channel_quant_params`."""
        self._note(_CHANNELS, struct.pack("<iI", index, channel_dim), _numbers("f", scales))

    def set_operand_value(self, index: int, value: np.ndarray | None) -> None:
        """As `nnvk.Model.set_operand_value`."""
        content = b"" if value is None else value.tobytes()
        self._note(_VALUE, struct.pack("<iB", index, value is not None), _data(content))

    def set_operand_value_from_model(self, index: int, value: ScriptedModel) -> None:
        """As `nnvk.Model.set_operand_value_from_model`."""
        self._note(_FROM_MODEL, struct.pack("<iI", index, value.number))

    def add_operation(self, code: int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """As `nnvk.Model.add_operation`."""
        self._note(_OPERATION, struct.pack("<i", code), _numbers("I", inputs), _numbers("I", outputs))

    def identify_inputs_and_outputs(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """As `nnvk.Model.identify_inputs_and_outputs`."""
        self._note(_IDENTIFY, _numbers("I", inputs), _numbers("I", outputs))

    def relax_computation_float32_to_float16(self, allow: bool) -> None:
        """As `nnvk.Model.relax_computation_float32_to_float16`."""
        self._note(_RELAX, bytes([allow]))

    def finish(self) -> None:
        """As `nnvk.Model.finish`."""
        self._note(_FINISH)

    def run(self, inputs: Sequence[np.ndarray | None], outputs: Sequence[np.ndarray], guard: int) -> bytes:
        """The script that runs it: ``outputs`` are bytes, with ``guard`` ones on either side that are not written."""
        given = [b"\0" if array is None else b"\1" + _data(array.tobytes()) for array in inputs]
        taken = [_data(array.tobytes()) for array in outputs]
        self._note(_RUN, struct.pack("<I", len(given)), *given, struct.pack("<II", guard, len(taken)), *taken)
        return b"".join(self.script.calls)


@dataclass(frozen=True, slots=True)
class Ran:
    """The outcome of a script."""

    unsupported: int | None
    """An operation that the device does not run; then there is nothing else."""
    dimensions: tuple[tuple[int, ...], ...] = ()
    """The dimensions of each output."""


class Program:
    """The program, started on the first need and again when it has crashed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, script: bytes, outputs: Sequence[np.ndarray]) -> Ran:
        """Follow a script; what it writes goes to the outputs, with their guards.

        NnapiError: a call fails; the log says why. ChildProcessError: the program crashes. FileNotFoundError: it was
        not built.
        """
        if self._process is None:
            self._process = subprocess.Popen([VECTORS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(_LENGTH.pack(len(script)))
            process.stdin.write(script)
            process.stdin.flush()
            answer = process.stdout.read(*_LENGTH.unpack(process.stdout.read(_LENGTH.size)))
        except (BrokenPipeError, struct.error):
            self._process = None
            code = process.wait()
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ends with exit code {code}"
            raise ChildProcessError(f"the program of the C library {how}") from None
        return _read(answer, outputs)

    def __del__(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def _read(answer: bytes, outputs: Sequence[np.ndarray]) -> Ran:
    (code,) = struct.unpack_from("<i", answer)
    if code != ResultCode.NO_ERROR:
        raise NnapiError(ResultCode(code), f"{answer[4:].decode()} failed")
    (unsupported,) = struct.unpack_from("<i", answer, 4)
    if unsupported >= 0:
        return Ran(unsupported)
    position, dimensions = 8, []
    for output in outputs:
        (rank,) = struct.unpack_from("<I", answer, position)
        dimensions.append(struct.unpack_from(f"<{rank}I", answer, position + 4))
        position += 4 + 4 * rank
        output[:] = np.frombuffer(answer, np.uint8, output.size, position)
        position += output.size
    return Ran(None, tuple(dimensions))


def _numbers(form: str, values: Sequence[float] | bytes) -> bytes:
    return struct.pack(f"<I{len(values)}{form}", len(values), *values)


def _data(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content
