"""Verdicts on single tests."""

from __future__ import annotations

import base64
import copy
import json
import random
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nnvk import Compilation, Execution, NnapiError, ResultCode, get_device
from nnvk.conformance.paths import EXECUTION_PATHS, ExecutionPath
from nnvk.conformance.runner import Status, Verdict, connect, run_test
from nnvk.conformance.vectors import find_cases, read_test

CPU = "nnapi-reference"


@pytest.fixture(params=sorted(EXECUTION_PATHS))
def run(request: pytest.FixtureRequest) -> Callable[[Path, int], Verdict]:
    return connect(CPU, request.param)


def test_each_kind_of_verdict(picky: str, write_vectors: Any) -> None:
    run = connect(picky, "sync")
    verdicts = [run(write_vectors(), index) for index in range(5)]
    assert [verdict.status.value for verdict in verdicts] == ["passed", "failed", "passed", "failed", "unsupported"]
    assert verdicts[1].reason.startswith("output 0: element [3]: expected 2.5, got 2.0, off by 0.5")
    assert verdicts[3].reason == "expected an error, but compilation and execution succeeded"
    assert verdicts[4].reason == "FLOOR: it has no floor"


def test_unsupported_is_never_passed(picky: str, write_vectors: Any, make_vector: Any) -> None:
    test = make_vector("floor", "FLOOR", [1] * 4, [1] * 4, expect_failure=True)
    assert connect(picky, "sync")(write_vectors([test]), 0).status is Status.UNSUPPORTED


def test_ignored_outputs_are_not_compared(run: Any, write_vectors: Any, make_vector: Any) -> None:
    test = make_vector("ignored", "RELU", [1] * 4, [7] * 4)
    test["main"]["operands"][1]["ignored"] = True
    assert run(write_vectors([test]), 0).status is Status.PASSED


def test_an_output_larger_than_any_file(run: Any, write_vectors: Any, make_vector: Any, make_operand: Any) -> None:
    test = make_vector("huge", "RELU", [1] * 4, [], expect_failure=True)
    test["main"]["operands"] = [
        make_operand("SUBGRAPH_INPUT", [1] * 4),
        make_operand("SUBGRAPH_OUTPUT", None, (1 << 14, 1 << 14), ignored=True),
        make_operand("CONSTANT_COPY", None, (2,), type="TENSOR_INT32", data=encoded(np.int32([1 << 12, 1 << 14]))),
    ]
    test["main"]["operations"] = [{"type": "TILE", "inputs": [0, 2], "outputs": [1]}]
    test["main"]["operands"][0]["dims"] = [4, 1]
    tracemalloc.start()
    verdict = run(write_vectors([test]), 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert verdict.status is Status.FAILED
    assert "takes 1073741824 bytes, no vector has more than" in verdict.reason
    assert peak < 1 << 26


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document: what it is in, and its key there."""
    keys = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
    return [place for key in keys for place in ((value, key), *nodes(value[key]))]


ODD = [
    None,
    True,
    -1,
    0,
    3,
    10**400,
    1e308,
    float("nan"),
    "",
    "RELU",
    "AAAA",
    "é",
    [],
    [[]],
    [0, 1],
    {},
    {"type": "ADD"},
]


@given(seed=st.integers(0, 2**32), count=st.integers(1, 4))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_tests_fail_or_are_errors_of_their_file(
    write_vectors: Any, make_vector: Any, seed: int, count: int
) -> None:
    choice = random.Random(seed)
    document = {"tests": [make_vector("one", "RELU", [1] * 4, [1] * 4)], "spec": "spec"}
    for _ in range(count):
        inside, key = choice.choice(nodes(document)[1:])
        inside[key] = copy.deepcopy(choice.choice(ODD))
    path = write_vectors(spec=f"damaged-{seed}-{count}")  # files that were read are remembered
    path.write_bytes(json.dumps(document).encode())
    run = connect(CPU, "sync")
    with suppress(ValueError):  # which names the file
        for case in find_cases([path]):
            assert isinstance(run(case.path, case.index), Verdict)


def encoded(array: Any) -> str:
    return base64.b64encode(array.tobytes()).decode()


def test_sizes_known_only_at_run_time(run: Any, write_vectors: Any, make_vector: Any, make_operand: Any) -> None:
    """The intermediate result has dimensions of 0; the output's are compared."""
    test = make_vector("dynamic", "RELU", [-1, 0, 1, 2], [0, 0, 1, 1])
    test["main"]["operands"].append(make_operand("TEMPORARY_VARIABLE", dims=(0,)))
    test["main"]["operations"] = [
        {"type": "RELU", "inputs": [0], "outputs": [2]},
        {"type": "RELU1", "inputs": [2], "outputs": [1]},
    ]
    assert run(write_vectors([test]), 0) == Verdict(Status.PASSED)


def test_random_draws_are_compared_by_frequency(run: Any, write_vectors: Any, make_vector: Any) -> None:
    def operand(type_: str, dims: list[int], lifetime: str, data: Any) -> dict[str, Any]:
        return {"type": type_, "dims": dims, "scale": 0.0, "zero_point": 0, "lifetime": lifetime, "data": encoded(data)}

    test = make_vector("draws", "RANDOM_MULTINOMIAL", [], [], multinomial_tolerance=0.2)
    test["main"]["operands"] = [
        operand("TENSOR_FLOAT32", [1, 4], "SUBGRAPH_INPUT", np.float32([1, 1, 1, 1])),
        operand("TENSOR_INT32", [1, 1000], "SUBGRAPH_OUTPUT", np.zeros(1000, np.int32)),
        operand("INT32", [], "CONSTANT_COPY", np.int32(1000)),
        operand("TENSOR_INT32", [2], "CONSTANT_COPY", np.int32([37, 42])),
    ]
    test["main"]["operations"][0]["inputs"] = [0, 2, 3]
    assert run(write_vectors([test]), 0) == Verdict(Status.PASSED)
    test["multinomial_tolerance"] = 1e-9
    assert "frequency" in run(write_vectors([test], spec="strict"), 0).reason


def _run_with(path: Path, index: int, execute: Callable[[Compilation, Execution], None]) -> Verdict:
    through = ExecutionPath(execute, EXECUTION_PATHS["sync"].feed)
    return run_test(read_test(path, index), get_device(CPU), through)


def test_a_write_outside_the_buffer_is_a_failure(write_vectors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    buffers: list[np.ndarray] = []
    original = Execution.set_output
    monkeypatch.setattr(
        Execution, "set_output", lambda self, index, value: (buffers.append(value), original(self, index, value))
    )

    def overrun(compilation: Compilation, execution: Execution) -> None:
        execution.compute()
        raw = buffers[0]
        while isinstance(raw.base, np.ndarray):
            raw = raw.base
        raw[-1] = 0

    assert _run_with(write_vectors(), 0, overrun).reason == "output 0: the device wrote after the buffer"


def test_an_output_that_is_not_written_is_a_failure(write_vectors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Execution, "get_output_operand_dimensions", lambda self, index: (4,))
    assert (
        "element [0]: expected 0.0, got nan (4 of 4 differ)"
        in _run_with(write_vectors(), 0, lambda compilation, execution: None).reason
    )


def test_only_nnapi_errors_are_expected_failures(write_vectors: Any, make_vector: Any) -> None:
    test = make_vector("relu", "RELU", [1] * 4, [1] * 4, expect_failure=True)
    path = write_vectors([test])

    def fail(error: BaseException) -> Verdict:
        def execute(compilation: Compilation, execution: Execution) -> None:
            raise error

        return _run_with(path, 0, execute)

    assert fail(NnapiError(ResultCode.OP_FAILED, "no")) == Verdict(Status.PASSED)
    assert fail(TypeError("a bug")) == Verdict(Status.FAILED, "TypeError: a bug")
    lost = fail(NnapiError(ResultCode.DEAD_OBJECT, "device lost"))
    assert (lost.status, lost.device_lost) == (Status.FAILED, True)


def test_a_path_that_is_not_applicable_is_unsupported(write_vectors: Any, make_vector: Any, make_operand: Any) -> None:
    test = make_vector("empty", "RELU", [1] * 4, [])
    test["main"]["operands"][1] = make_operand("SUBGRAPH_OUTPUT", [], (0,))
    verdict = connect(CPU, "fenced")(write_vectors([test]), 0)
    assert verdict == Verdict(Status.UNSUPPORTED, "a fenced execution needs all dimensions of its outputs")


def test_a_malformed_test_is_a_failure(run: Any, write_vectors: Any, make_vector: Any) -> None:
    test = make_vector("bad", "RELU", [1] * 4, [1] * 4)
    del test["main"]["operands"][0]["dims"]
    assert "malformed test 0" in run(write_vectors([test]), 0).reason
