"""LiteRT beside nnvk: an interpreter with nnvk's delegate runs a file that has what NNAPI has nothing for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, load_delegate

from nnvk.api import Device
from nnvk.base import forks
from nnvk.base.errors import bad_data
from nnvk.base.log import logger
from nnvk.base.settings import settings
from nnvk.importers.emitter import F32
from nnvk.importers.errors import ModelImportError
from nnvk.importers.graph_builder import Source, at_least_1d
from nnvk.importers.limited import LIBRARY_BYTES, Refused, run_limited
from nnvk.importers.mixed import MixedFile, PlacedOperator, Step, failing, first_reason
from nnvk.importers.ports import COMPLEX, DTYPES, Port
from nnvk.importers.shapes import Shapes, wanted_shapes
from nnvk.importers.tflite.delegated import is_delegate, operators_of, taken_by_delegates
from nnvk.serve.installed import DELEGATE, name_server
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType, Shape

NAME = "LiteRT"
_TEXTS = "STRING"
_LOOK = """
import os, signal, numpy
from ai_edge_litert.interpreter import Interpreter
limit()
try:
    interpreter = Interpreter(model_content=sys.stdin.buffer.read(), num_threads=1)
    for one in interpreter.get_input_details():
        shape = [new if new >= 0 else own for new, own in zip(given.get(one["name"], ()), one["shape"])]
        interpreter.resize_tensor_input(one["index"], shape) if shape else None
    interpreter.allocate_tensors()
    inputs = interpreter.get_input_details()
except Exception as error:
    refuse(error)
if any(one["dtype"] in (numpy.bytes_, numpy.str_) for one in inputs):
    sys.exit()
if not (child := os.fork()):
    signal.alarm(int(sys.argv[1]))
    try:
        for one in inputs:
            interpreter.set_tensor(one["index"], numpy.zeros(one["shape"], one["dtype"]))
        interpreter.invoke()
    finally:
        os._exit(0)
status = os.waitpid(child, 0)[1]
number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
if number in (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV):
    refuse(f"it ends its process by {signal.Signals(number).name} when it computes")
"""
"""Prepares a file and computes zeros. Some damaged files end the process there, which would be ours. An error, and a
computation that takes too long, are for the user's own call to meet."""
_QUANTISED = {
    "INT8": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    "UINT8": OperandCode.TENSOR_QUANT8_ASYMM,
    "INT16": OperandCode.TENSOR_QUANT16_SYMM,
}
_UNKNOWN = (-1,)
_log = logger("model")


class Library:
    """A ``.tflite`` file for LiteRT."""

    name = NAME

    def __init__(self, source: str | os.PathLike[str] | bytes, options: Mapping[str, Any]) -> None:
        """``options`` are those of the importer."""
        self._source = source
        self._shapes: Shapes = options["shapes"]
        self._relaxed: bool = options["relaxed"]

    def mixed(self, refusal: ModelImportError, devices: Sequence[Device]) -> MixedFile:
        """See `nnvk.importers.mixed.Library`; LiteRT gives its delegate what nnvk computes."""
        data = self._looked_at(refusal)
        reasons = {one.index: one.reason for one in refusal.problems if not one.subgraph}
        part = LiteRtPart(data, devices[0].name, self._relaxed, reasons)
        inputs, outputs = part.ports()
        pairs = zip(inputs, wanted_shapes(inputs, self._shapes), strict=True)
        sized = tuple(_with_shape(port, shape) if port.name in self._shapes else port for port, shape in pairs)
        keys = [str(place) for place in range(len(inputs))], [f"out {place}" for place in range(len(outputs))]
        return MixedFile(sized, outputs, [Step(*keys, part)], *keys, reason=first_reason(refusal))

    def whole(self, inputs: Sequence[str], outputs: Sequence[str]) -> LiteRtPart:
        """See `nnvk.importers.mixed.Library`."""
        data = self._looked_at()
        part = LiteRtPart(data)
        own = part.ports()
        if (len(inputs), len(outputs)) != tuple(map(len, own)):
            raise bad_data(f"the file has {len(own[0])} inputs and {len(own[1])} outputs")
        return part

    def _looked_at(self, refusal: ModelImportError | None = None) -> bytes:
        """The file, which LiteRT has computed in a process of its own. Raises ``refusal``, or BAD_DATA without one."""
        data = self._source if isinstance(self._source, bytes) else Path(self._source).read_bytes()
        sizes = {name: [shape] if isinstance(shape, int) else shape for name, shape in self._shapes.items()}
        given = {name: [-1 if one is None else int(one) for one in shape] for name, shape in sizes.items()}
        try:
            run_limited(f"given = {given}\n{_LOOK}", data, settings().patience, LIBRARY_BYTES + 2 * len(data))
        except Refused as error:
            said = f"{NAME} can't run it either: {error}"
            if refusal is None:
                raise bad_data(said) from error
            refusal.add(said)
            raise refusal from error
        return data


class LiteRtPart:
    """A file for an interpreter, which one thread at a time may use."""

    def __init__(
        self, data: bytes, device: str = "", relaxed: bool = False, reasons: Mapping[int, str] | None = None
    ) -> None:
        """``device`` is nnvk's that the delegate uses; empty: there is no delegate. OP_FAILED: LiteRT refuses it.

        ``reasons`` say by its index why nnvk does not compute an operator.
        """
        self._data = data
        self._lock = forks.lock()
        self._plain: _Ready | None = None
        self._ready = self._made(device, relaxed)
        with failing(NAME):
            self.operators = self._placed(device, reasons or {})

    def _made(self, device: str, relaxed: bool) -> _Ready:
        if device and DELEGATE.exists():
            name_server()
            try:
                own = load_delegate(os.fspath(DELEGATE), {"device": device, "relaxed": relaxed, "verbosity": 0})
                return _Ready(Interpreter(model_content=self._data, experimental_delegates=[own]))
            except (ValueError, RuntimeError) as error:
                _log.warning("LiteRT computes all operators of the model: %s", error)
        with failing(NAME):
            return _Ready(Interpreter(model_content=self._data))

    def _placed(self, device: str, reasons: Mapping[int, str]) -> list[PlacedOperator]:
        operators = operators_of(self._ready.interpreter)
        taken = taken_by_delegates(operators) if device else ()  # LiteRT has a delegate for the CPU, too
        return [
            PlacedOperator(
                Source(one["index"], one["op_name"], ""),
                device if one["index"] in taken else NAME,
                "" if one["index"] in taken else reasons.get(one["index"], ""),
            )
            for one in operators
            if not is_delegate(one)
        ]

    def ports(self) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        """The inputs and outputs of the file. OP_FAILED: LiteRT can't tell, of names that are no text, say."""
        with failing(NAME):
            return (
                tuple(map(_port, self._ready.interpreter.get_input_details())),
                tuple(map(_port, self._ready.interpreter.get_output_details())),
            )

    def prepare(self) -> None:
        """See `nnvk.importers.mixed.LibraryPart`: the interpreter is there."""

    def run(self, values: Sequence[Any]) -> list[Any]:
        """See `nnvk.importers.mixed.LibraryPart`. LiteRT's kernels compute if the delegate fails."""
        with self._lock:
            try:
                return self._ready.run(values)
            except (ValueError, RuntimeError) as error:
                _log.warning("LiteRT computes all operators of the model: %s", error)
                with failing(NAME):
                    if self._plain is None:
                        self._plain = _Ready(Interpreter(model_content=self._data))
                    return self._plain.run(values)

    def reset(self) -> None:
        """Begin anew, with the first states."""
        with self._lock:
            self._ready.interpreter.reset_all_variables()


class _Ready:
    """An interpreter whose tensors are allocated. Asking it for its inputs takes as long as a small model."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self._allocate()

    def _allocate(self) -> None:
        self.interpreter.allocate_tensors()
        self._inputs = {one["index"]: tuple(map(int, one["shape"])) for one in self.interpreter.get_input_details()}
        self._outputs = [one["index"] for one in self.interpreter.get_output_details()]

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs for the inputs, whose shapes may be others than before."""
        interpreter, arrays = self.interpreter, [np.asarray(value) for value in values]
        given = list(zip(self._inputs, arrays, strict=True))
        resized = [(index, array) for index, array in given if array.shape != self._inputs[index]]
        for index, array in resized:
            self._inputs[index] = _UNKNOWN  # if LiteRT refuses a shape
            interpreter.resize_tensor_input(index, array.shape)
        if resized:
            self._allocate()
        for index, array in given:
            interpreter.set_tensor(index, _encoded(array) if array.dtype == object else array)
        interpreter.invoke()
        return [_decoded(interpreter.get_tensor(index)) for index in self._outputs]


def _encoded(texts: np.ndarray) -> np.ndarray:
    """Texts as bytes, which LiteRT takes."""
    flat = [one.encode() if isinstance(one, str) else bytes(one) for one in texts.reshape(-1)]
    return np.array(flat, np.bytes_).reshape(texts.shape)


def _decoded(array: np.ndarray) -> np.ndarray:
    return array.astype(object) if array.dtype.kind in "SU" else array


def _port(details: Mapping[str, Any]) -> Port:
    """An input or output. Its operand type is FLOAT32, which nothing uses, if NNAPI has no such tensors."""
    dtype = np.dtype(details["dtype"])
    shape = tuple(map(int, details["shape"]))
    signature = tuple(map(int, details.get("shape_signature", shape)))
    signature = signature if len(signature) == len(shape) else shape
    if dtype.kind in "SUO":
        return Port(details["name"], F32, _TEXTS, signature, signature, array_type=np.dtype(object))
    file_type = COMPLEX if dtype == np.complex64 else dtype.name.upper()
    scale, zero_point = details["quantization"]
    code = _QUANTISED.get(file_type)
    type_ = F32 if code is None or not scale else OperandType(code, scale=scale, zero_point=zero_point)
    array_type = None if file_type in DTYPES else dtype
    return _with_shape(Port(details["name"], type_, file_type, shape, signature, array_type=array_type), signature)


def _with_shape(port: Port, shape: Shape) -> Port:
    type_ = port.type.with_dimensions(at_least_1d(tuple(max(size, 0) for size in shape)))
    return replace(port, type=type_, shape=shape)
