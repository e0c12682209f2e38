"""A file of small artificial vectors, and a device that doesn't support everything."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnvk.driver.cpu import CpuDevice
from nnvk.hal import Support
from nnvk.runtime.devices import manager
from nnvk.types.codes import OperationCode
from nnvk.types.model import Model

Vector = dict[str, Any]


def operand(lifetime: str, values: Any = None, dims: Sequence[int] = (4,), **changes: Any) -> Vector:
    """A float32 operand with its data."""
    data = None if values is None else base64.b64encode(np.asarray(values, np.float32).tobytes()).decode()
    return {
        "type": "TENSOR_FLOAT32",
        "dims": list(dims),
        "scale": 0.0,
        "zero_point": 0,
        "lifetime": lifetime,
        "data": data,
        **changes,
    }


def vector(name: str, operation: str, values: Sequence[float], expected: Sequence[float], **changes: Any) -> Vector:
    """A test of an operation with one input and one output of four elements."""
    return {
        "name": name,
        "version": "V1_0",
        "relaxed": False,
        "expect_failure": False,
        "multinomial_tolerance": 0,
        "main": {
            "operands": [operand("SUBGRAPH_INPUT", values), operand("SUBGRAPH_OUTPUT", expected)],
            "operations": [{"type": operation, "inputs": [0], "outputs": [1]}],
            "inputs": [0],
            "outputs": [1],
        },
        "referenced": [],
        **changes,
    }


def invalid(name: str) -> Vector:
    """A test whose model breaks a rule: RELU of an input with another shape than the output's."""
    test = vector(name, "RELU", [-1, 0, 1, 2], [0, 0, 1, 2], expect_failure=True)
    test["main"]["operands"][1] = operand("SUBGRAPH_OUTPUT", [0, 0], (2,))
    return test


def suite() -> list[Vector]:
    """One test of each kind."""
    return [
        vector("passes", "RELU", [-1, 0, 1, 2], [0, 0, 1, 2]),
        vector("fails", "RELU", [-1, 0, 1, 2], [0, 0, 1, 2.5]),
        invalid("fails_as_expected"),
        vector("succeeds_unexpectedly", "RELU", [-1, 0, 1, 2], [0, 0, 1, 2], expect_failure=True),
        vector("unsupported", "FLOOR", [-1.5, 0, 1, 2], [-2, 0, 1, 2]),
    ]


@pytest.fixture
def write_vectors(tmp_path: Path) -> Callable[..., Path]:
    """Writes tests into ``<tmp_path>/<set>/<spec>.json.gz`` and returns that path."""

    def write(tests: Sequence[Vector] | None = None, spec: str = "spec", folder: str = "V1_0") -> Path:
        path = tmp_path / folder / f"{spec}.json.gz"
        path.parent.mkdir(exist_ok=True)
        document = {"spec": spec, "tests": suite() if tests is None else list(tests)}
        path.write_bytes(gzip.compress(json.dumps(document).encode()))
        return path

    return write


@pytest.fixture
def make_vector() -> Callable[..., Vector]:
    return vector


@pytest.fixture
def make_operand() -> Callable[..., Vector]:
    return operand


class PickyDevice(CpuDevice):
    """Runs everything but FLOOR."""

    name = "picky"

    def get_supported_operations(self, model: Model) -> list[Support]:
        return [
            Support("it has no floor" if operation.code is OperationCode.FLOOR else None)
            for operation in model.operations
        ]


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a device that exists for the test, in this process only."""
    monkeypatch.setattr(manager, "_drivers", [lambda: ((PickyDevice(),), ""), *manager._drivers])
    monkeypatch.setattr(manager, "_devices", None)
    yield PickyDevice.name
    monkeypatch.undo()
    manager._devices = None


@pytest.fixture(autouse=True)
def relaxed_vectors_have_float16(any_gemm_pays: None) -> None:
    """Relaxed vectors are so small that GPUs would compute them in 32 bits."""
