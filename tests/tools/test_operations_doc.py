from __future__ import annotations

from pathlib import Path

import operations_doc
import pytest
from kernel_cases import KERNELS

from nnvk.ops import registry
from nnvk.ops.flow import CONTROL_FLOW
from nnvk.types.codes import OperandCode, OperationCode


def test_the_page_is_up_to_date() -> None:
    if not operations_doc.PAGE.is_file():
        pytest.skip("the documentation is not here")
    assert operations_doc.main(["--check"]) == 0, "run python tools/operations_doc.py"


def test_every_operation_is_in_the_overview_and_has_a_signature() -> None:
    lines = operations_doc.page().splitlines()
    anchors = {operations_doc._anchor(line.removeprefix("### ")) for line in lines if line.startswith("### ")}
    for code in registry.definitions():
        (row,) = (line for line in lines if line.startswith(f"| [{operations_doc.title(code)}]("))
        assert row.split("(#")[1].split(")")[0] in anchors


def test_check_fails_on_drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations_doc, "PAGE", tmp_path / "docs" / "operations.md")
    assert operations_doc.main(["--check"]) == 1
    assert operations_doc.main([]) == 0
    assert operations_doc.main(["--check"]) == 0
    operations_doc.PAGE.write_text(operations_doc.PAGE.read_text() + "\n")
    assert operations_doc.main(["--check"]) == 1


@pytest.mark.parametrize(
    "code, overload",
    [
        (OperationCode.ADD, "(input0, input1, activation: int32) -> output"),
        (OperationCode.CONCATENATION, "(inputs..., axis: int32) -> output"),
        (OperationCode.SOFTMAX, "(input, beta: real, axis: int32 = -1 [3]) -> output"),
        (OperationCode.SQUEEZE, "(input, axes?: INT32) -> output"),
        (OperationCode.CAST, "(input) -> output: U"),
        (OperationCode.RANK, "(input) -> output: int32"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_signature(code: OperationCode, overload: str) -> None:
    assert operations_doc.section(code).overloads == (overload,)


def test_types_that_depend_on_the_leading_one_are_in_the_table() -> None:
    head, *rows = operations_doc.section(OperationCode.FULLY_CONNECTED).table
    assert head == ("T", "since", "U", "Vulkan")
    assert ("QUANT8_ASYMM_SIGNED", "4", "INT32") in [row[:3] for row in rows]


@pytest.mark.parametrize(
    "code, name",
    [(OperandCode.TENSOR_FLOAT32, "FLOAT32"), (OperandCode.FLOAT32, "float32"), (OperandCode.MODEL, "model")],
)
def test_names_of_types(code: OperandCode, name: str) -> None:
    assert operations_doc.short(code) == name


def test_what_the_page_says_of_vulkan_is_run() -> None:
    """The Vulkan driver's tests draw cases of every operation and type with a V, and run them on the device."""
    said = {(code, leading) for code in registry.definitions() for leading in operations_doc.vulkan_types(code)}
    control_flow = {(code, leading) for code in CONTROL_FLOW for leading in registry.lookup(code).types}
    assert said == {kernel.values for kernel in KERNELS} | control_flow
