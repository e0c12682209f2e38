"""Finding tests in files and building their models."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnvk import Model, NnapiError, OperandCode
from nnvk.conformance.vectors import MOST_BYTES, build_model, find_cases, read_test


def test_names_are_set_spec_test(write_vectors: Any) -> None:
    write_vectors(spec="relu", folder="V1_2")
    names = [case.name for case in find_cases([write_vectors(spec="relu"), write_vectors().parent.parent])]
    assert len(names) == len(set(names)) == 15, "a file that is named twice is read once"
    assert {"V1_0/relu/passes", "V1_2/relu/passes", "V1_0/spec/fails_as_expected"} <= set(names)


def test_a_name_reproduces_its_test(write_vectors: Any) -> None:
    path = write_vectors()
    for case in find_cases([path]):
        assert [found.name for found in find_cases([path.parent], f"^{case.name}$")] == [case.name]
        assert case.name == f"V1_0/spec/{read_test(case.path, case.index).name}"


@pytest.mark.parametrize(
    ("operations", "under_test"),
    [
        ("ADD", "ADD"),
        ("ADD ADD CONV_2D", "CONV_2D"),
        ("BOX_WITH_NMS_LIMIT ROI_ALIGN ADD", "ADD"),
        ("ADD WHILE ADD", "WHILE"),
        ("", "(none)"),
    ],
)
def test_the_operation_under_test(write_vectors: Any, make_vector: Any, operations: str, under_test: str) -> None:
    test = make_vector("test", "RELU", [], [])
    test["main"]["operations"] = [{"type": name, "inputs": [], "outputs": []} for name in operations.split()]
    assert [case.operation for case in find_cases([write_vectors([test])])] == [under_test]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("", ["conv2d", "Dilated", "pad"]),
        ("conv_2d", ["conv2d", "Dilated"]),
        ("CONV_2D", ["conv2d", "Dilated"]),
        ("^pad$", ["pad"]),
        ("dilated", ["Dilated"]),
        ("CONV2D$", ["conv2d"]),
        ("v1_0/", ["conv2d", "Dilated", "pad"]),
    ],
)
def test_a_pattern_is_of_names_and_operations(
    write_vectors: Any, make_vector: Any, pattern: str, names: list[str]
) -> None:
    kinds = {"conv2d": "CONV_2D", "Dilated": "CONV_2D", "pad": "PAD"}
    path = write_vectors([make_vector(name, kind, [], []) for name, kind in kinds.items()])
    assert [case.name.rpartition("/")[2] for case in find_cases([path], pattern)] == names


def test_plain_json_is_read(tmp_path: Path, make_vector: Any) -> None:
    path = tmp_path / "plain.json"
    path.write_text(json.dumps({"spec": "plain", "tests": [make_vector("one", "RELU", [1] * 4, [1] * 4)]}))
    (case,) = find_cases([tmp_path])
    assert read_test(case.path, case.index).outputs()[0].array().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no json", "[(]"),
        (b'{"tests": []}', "expected"),
        (b"[]", "expected"),
        (b'{"spec": "x", "tests": [{"name": "y"}]}', "main"),
        (gzip.compress(b'{"spec": "x", "tests": []}', mtime=0)[:-12], "[(]"),
        (b"[" * 1_000_000, "[(]"),
        (b" " * (MOST_BYTES + 1), "has more than 33554432 bytes"),
        (gzip.compress(b" " * (MOST_BYTES + 1), 1, mtime=0), "has more than 33554432 bytes"),
    ],
    ids=range(8),
)
def test_a_file_of_something_else_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"not a file of conformance vectors: .*bad\.json.*{reason}"):
        find_cases([path])


def test_a_compressed_file_is_not_unpacked_further_than_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(bytes(10 * MOST_BYTES), 1))
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than"):
        find_cases([path])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * MOST_BYTES


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path, write_vectors: Any) -> None:
    path = tmp_path / "V1_0" / "pipe.json"
    cases = find_cases([write_vectors().parent])
    os.mkfifo(path)
    assert find_cases([path.parent]) == cases
    with pytest.raises(ValueError, match=r"not a regular file: .*pipe\.json"):
        find_cases([path])


def test_what_is_not_there_is_named(tmp_path: Path, write_vectors: Any) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        find_cases([tmp_path / "absent"])
    with pytest.raises(ValueError, match=re.escape(str(tmp_path))):
        find_cases([tmp_path])
    with pytest.raises(ValueError, match="none of the 5 tests matches '/nothing'"):
        find_cases([write_vectors()], "/nothing")
    with pytest.raises(ValueError, match="no regular expression"):
        find_cases([write_vectors()], "(")


@pytest.mark.parametrize(
    "change",
    [{"type": "TENSOR_COMPLEX"}, {"lifetime": "FOREVER"}, {"dims": None}, {"dims": ["4"]}, {"data": 7}],
    ids=str,
)
def test_a_malformed_operand_is_an_error_of_its_test(
    write_vectors: Any, make_vector: Any, change: dict[str, Any]
) -> None:
    test = make_vector("bad", "RELU", [1] * 4, [1] * 4)
    test["main"]["operands"][0].update(change)
    with pytest.raises(ValueError, match=r"malformed test 0: .*spec\.json\.gz"):
        read_test(write_vectors([test]), 0)


def test_a_model_has_what_the_vector_says(write_vectors: Any, make_vector: Any, make_operand: Any) -> None:
    test = make_vector("add", "ADD", [1] * 4, [3] * 4, relaxed=True)
    none = {"type": "INT32", "data": base64.b64encode(np.int32(0).tobytes()).decode()}
    test["main"]["operands"] += [
        make_operand("CONSTANT_COPY", [2] * 4),
        make_operand("CONSTANT_REFERENCE", dims=(), **none),
    ]
    test["main"]["operations"][0]["inputs"] = [0, 2, 3]
    model = build_model(read_test(write_vectors([test]), 0), Model).frozen
    assert model.relaxed
    assert model.operands[2].value is not None
    assert model.operands[2].value.tolist() == [2, 2, 2, 2]
    assert model.operands[3].type.code is OperandCode.INT32
    assert (model.inputs, model.outputs) == ((0,), (1,))


def test_channel_quantisation_and_omitted_operands_arrive(write_vectors: Any, make_vector: Any) -> None:
    """CONV_2D with per-channel filters: the vectors' hardest operands in one model."""
    test = make_vector("conv", "CONV_2D", [], [])

    def quantised(type_: str, dims: list[int], lifetime: str, scale: float = 0.5, **more: Any) -> dict[str, Any]:
        return {
            "type": type_,
            "dims": dims,
            "scale": scale,
            "zero_point": 0,
            "lifetime": lifetime,
            "data": None,
            **more,
        }

    def constant(values: Any) -> str:
        return base64.b64encode(np.asarray(values).tobytes()).decode()

    numbers = [
        quantised("INT32", [], "CONSTANT_COPY", 0.0, data=constant(np.int32(value))) for value in (0, 0, 0, 0, 1, 1, 0)
    ]
    test["main"]["operands"] = [
        quantised("TENSOR_QUANT8_ASYMM", [1, 1, 1, 1], "SUBGRAPH_INPUT", data=constant(np.uint8(1))),
        quantised("TENSOR_QUANT8_ASYMM", [1, 1, 1, 2], "SUBGRAPH_OUTPUT", data=constant(np.uint8([1, 2]))),
        quantised(
            "TENSOR_QUANT8_SYMM_PER_CHANNEL",
            [2, 1, 1, 1],
            "CONSTANT_COPY",
            0.0,
            data=constant(np.int8([1, 1])),
            channel_quant={"scales": [1.0, 2.0], "dim": 0},
        ),
        quantised("TENSOR_INT32", [2], "CONSTANT_COPY", 0.0, data=constant(np.int32([0, 0]))),
        *numbers,
    ]
    test["main"]["operations"][0]["inputs"] = [0, 2, 3, *range(4, 11)]
    channel_quant = build_model(read_test(write_vectors([test]), 0), Model).frozen.operands[2].type.channel_quant
    assert channel_quant is not None
    assert (channel_quant.scales, channel_quant.channel_dim) == ((1.0, 2.0), 0)


def test_models_may_not_refer_to_themselves(write_vectors: Any, make_vector: Any, make_operand: Any) -> None:
    test = make_vector("loop", "RELU", [1] * 4, [1] * 4)
    reference = {"type": "SUBGRAPH", "data": base64.b64encode(np.uint32(0).tobytes()).decode()}
    test["main"]["operands"].append(make_operand("SUBGRAPH", dims=(), **reference))
    test["referenced"] = [test["main"]]
    with pytest.raises(ValueError, match="model 0 refers to itself"):
        build_model(read_test(write_vectors([test]), 0), Model)


def test_a_broken_rule_is_an_nnapi_error(write_vectors: Any) -> None:
    with pytest.raises(NnapiError, match="BAD_DATA"):
        build_model(read_test(write_vectors(), 2), Model)
