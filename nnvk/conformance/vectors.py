"""Files of conformance vectors: finding the tests, and building a test's model through the public API.

A file is JSON, gzipped or plain: ``{"spec": name, "tests": [...]}``. A test is called
``<set>/<spec>/<test>``, where the set is the name of the folder that the file lies in.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nnvk.api import NnapiError
from nnvk.base.files import open_regular
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import ChannelQuant, OperandType

T = TypeVar("T")
SUFFIXES = (".json.gz", ".json")
MOST_BYTES = 32 << 20
"""The longest JSON that is read, and the largest output: a small file can be compressed from gigabytes."""
LIFETIMES = frozenset(
    {
        "CONSTANT_COPY",
        "CONSTANT_REFERENCE",
        "NO_VALUE",
        "SUBGRAPH",
        "SUBGRAPH_INPUT",
        "SUBGRAPH_OUTPUT",
        "TEMPORARY_VARIABLE",
    }
)


@dataclass(frozen=True, slots=True)
class Case:
    """Where a test is, so that it can be read when its turn comes."""

    name: str
    """``<set>/<spec>/<test>``."""
    path: Path
    index: int
    """Position among the tests of the file."""
    operation: str
    """The operation under test, for reports."""


@dataclass(frozen=True, slots=True)
class VectorOperand:
    """An operand of a vector's model. The data stays encoded until `array` is asked for."""

    type: OperandType
    lifetime: str
    data: str | None
    """Base64 of the little-endian row-major values; None where there are none, "" for an omitted input."""
    ignored: bool
    """For an output: the value is not compared."""

    def array(self) -> np.ndarray:
        """The data, of the type's dtype and dimensions."""
        raw = np.frombuffer(base64.b64decode(self.data or ""), np.uint8)
        return raw.view(self.type.dtype).reshape(self.type.dimensions)


@dataclass(frozen=True, slots=True)
class VectorOperation:
    """An operation; ``inputs`` and ``outputs`` index the operands of its model."""

    code: OperationCode
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VectorModel:
    """A model as the vectors describe it."""

    operands: tuple[VectorOperand, ...]
    operations: tuple[VectorOperation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VectorTest:
    """One test: a model, what to feed, and what to expect (both in the operands of ``main``)."""

    name: str
    relaxed: bool
    expect_failure: bool
    multinomial_tolerance: float
    main: VectorModel
    referenced: tuple[VectorModel, ...]
    """The models that operands of type MODEL name by index."""

    def inputs(self) -> list[VectorOperand]:
        """The operands to feed, in the model's order."""
        return [self.main.operands[index] for index in self.main.inputs]

    def outputs(self) -> list[VectorOperand]:
        """The operands to expect, in the model's order."""
        return [self.main.operands[index] for index in self.main.outputs]


def find_cases(paths: Iterable[Path], pattern: str = "") -> list[Case]:
    """The tests of files and folders (searched recursively) of which the regular expression matches a part.

    It is looked for in a test's name and in its operation's; upper and lower case are the same.
    Raises FileNotFoundError for a path that isn't there, ValueError for a file that isn't one of vectors, for
    a pattern that doesn't parse, and where nothing is found.
    """
    try:
        wanted = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    files: dict[Path, Path] = {}
    for path in paths:
        files.update((file.resolve(), file) for file in _files(path))
    found = [case for file in files.values() for case in _cases(file)]
    cases = [case for case in found if wanted.search(case.name) or wanted.search(case.operation)]
    if not cases:
        raise ValueError(f"none of the {len(found)} tests matches {pattern!r}")
    return cases


def read_test(path: Path, index: int) -> VectorTest:
    """Read the test at position ``index`` of a file. The last files are kept: reading in order is quick."""
    test = _document(path)["tests"][index]
    try:
        return VectorTest(
            test["name"],
            bool(test["relaxed"]),
            bool(test["expect_failure"]),
            float(test["multinomial_tolerance"]),
            _model(test["main"]),
            tuple(_model(model) for model in test["referenced"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, NnapiError) as error:
        raise ValueError(f"malformed test {index}: {path} ({error!r})") from error


def build_model(test: VectorTest, builder: Callable[[], T], *, unspecified_outputs: bool = False) -> T:
    """The test's model, finished, on demand with the sizes of its outputs left open.

    ``builder`` is `nnvk.Model`, or makes what does as it.
    Raises `nnvk.NnapiError` where it breaks a rule.
    """
    main = test.main
    if unspecified_outputs:
        operands = list(main.operands)
        for index in main.outputs:
            type_ = operands[index].type
            operands[index] = replace(operands[index], type=type_.with_dimensions([0] * len(type_.dimensions)))
        main = replace(main, operands=tuple(operands))
    built: dict[int, T] = {}
    return _build(main, test, builder, built, ())


def _build(
    source: VectorModel, test: VectorTest, builder: Callable[[], T], built: dict[int, T], within: tuple[int, ...]
) -> T:
    model: Any = builder()
    for index, operand in enumerate(source.operands):
        quant = operand.type.channel_quant
        model.add_operand(
            OperandType(operand.type.code, operand.type.dimensions, operand.type.scale, operand.type.zero_point)
        )
        if quant is not None:
            model.set_operand_symm_per_channel_quant_params(index, quant.channel_dim, quant.scales)
        if operand.type.code is OperandCode.MODEL:
            number = int(np.frombuffer(base64.b64decode(operand.data or ""), np.uint32)[0])
            if number in within:
                raise ValueError(f"model {number} refers to itself")
            if number not in built:
                built[number] = _build(test.referenced[number], test, builder, built, (*within, number))
            model.set_operand_value_from_model(index, built[number])
        elif operand.lifetime == "NO_VALUE":
            model.set_operand_value(index, None)
        elif operand.lifetime in ("CONSTANT_COPY", "CONSTANT_REFERENCE"):
            model.set_operand_value(index, operand.array())
    for operation in source.operations:
        model.add_operation(operation.code, operation.inputs, operation.outputs)
    model.identify_inputs_and_outputs(source.inputs, source.outputs)
    model.relax_computation_float32_to_float16(test.relaxed)
    model.finish()
    made: T = model
    return made


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for file in path.rglob("*.json*") if file.name.endswith(SUFFIXES) and file.is_file())
        if not found:
            raise ValueError(f"no {' or '.join('*' + suffix for suffix in SUFFIXES)} in this folder: {path}")
        return found
    if not path.exists():
        raise FileNotFoundError(f"no such file or folder: {path}")
    if not path.is_file():
        raise ValueError(f"not a regular file: {path}")
    return [path]


def _cases(path: Path) -> list[Case]:
    document = _document(path)
    prefix = f"{path.resolve().parent.name}/{document['spec']}"
    try:
        return [
            Case(f"{prefix}/{test['name']}", path, index, _operation_under_test(test["main"]["operations"]))
            for index, test in enumerate(document["tests"])
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a file of conformance vectors: {path} ({error!r})") from error


def _operation_under_test(operations: Sequence[Mapping[str, Any]]) -> str:
    """The last operation, before which others only make its inputs; or control flow, which others may follow."""
    names = [str(operation["type"]) for operation in operations]
    return next((name for name in names if name in ("IF", "WHILE")), names[-1] if names else "(none)")


@lru_cache(maxsize=4)
def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(_content(path))
    except (ValueError, EOFError, RecursionError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"not a file of conformance vectors: {path} ({error})") from error
    if not isinstance(document, dict) or "spec" not in document or not isinstance(document.get("tests"), list):
        raise ValueError(f'not a file of conformance vectors: {path} (expected {{"spec": ..., "tests": [...]}})')
    return document


def _content(path: Path) -> bytes:
    """The JSON of a file. Raises ValueError where it is longer than `MOST_BYTES`."""
    with open_regular(path) as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        with gzip.GzipFile(fileobj=file) if is_compressed else nullcontext(file) as plain:
            content = plain.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    return content


def _model(model: Mapping[str, Any]) -> VectorModel:
    return VectorModel(
        tuple(_operand(operand) for operand in model["operands"]),
        tuple(
            VectorOperation(OperationCode[operation["type"]], tuple(operation["inputs"]), tuple(operation["outputs"]))
            for operation in model["operations"]
        ),
        tuple(model["inputs"]),
        tuple(model["outputs"]),
    )


def _operand(operand: Mapping[str, Any]) -> VectorOperand:
    code = OperandCode.MODEL if operand["type"] == "SUBGRAPH" else OperandCode[operand["type"]]
    quant = operand.get("channel_quant")
    channels = ChannelQuant(tuple(quant["scales"]), quant["dim"]) if quant else None
    if operand["lifetime"] not in LIFETIMES:
        raise ValueError(f"unknown lifetime {operand['lifetime']!r}")
    if not isinstance(operand["data"], str | None):
        raise TypeError(f"data must be text, got {operand['data']!r}")
    type_ = OperandType(code, tuple(operand["dims"]), operand["scale"], operand["zero_point"], channels)
    return VectorOperand(type_, operand["lifetime"], operand["data"], bool(operand.get("ignored")))
