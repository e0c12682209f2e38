"""The tables of operators in docs/models.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import models_doc
import onnx_net
import pytest
from tflite_net import Net, T, write

from nnvk import OperationCode
from nnvk.demo.assets import MODELS
from nnvk.importers import onnx, tflite
from nnvk.types.extension import ExtendedOperationCode, KnownCode

Op = OperationCode


@pytest.fixture(scope="module", autouse=True)
def texts_are_kept() -> Iterator[None]:
    """Make each table once for all tests, as it takes seconds."""
    texts = {table.format: table.text() for table in models_doc.TABLES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models_doc.Table, "text", lambda table: texts[table.format])
        yield


def test_page_is_up_to_date() -> None:
    assert models_doc.main(["--check"]) == 0, "run tools/models_doc.py"


def test_check_tells_whether_the_table_is_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models_doc, "PAGE", tmp_path / "models.md")
    parts = (f"{table.begin}\nold\n{models_doc.END}\n" for table in models_doc.TABLES)
    models_doc.PAGE.write_text(f"before\n{'between'.join(parts)}after\n")
    assert models_doc.main(["--check"]) == 1
    assert models_doc.main([]) == 0
    assert models_doc.main(["--check"]) == 0
    text = models_doc.PAGE.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "\nbetween" in text
    assert "| RELU6 | RELU6, TABLE_LOOKUP | yes |" in text
    assert "| Sigmoid | LOGISTIC | yes |" in text
    models_doc.PAGE.write_text(f"{models_doc.TFLITE.begin}\n{models_doc.END}\n")
    with pytest.raises(ValueError, match=r"lacks .*, of ONNX"):
        models_doc.main([])


@pytest.mark.parametrize(
    ("operator", "codes"),
    [
        ("CONV_2D", [Op.CONV_2D, Op.GROUPED_CONV_2D]),
        ("CEIL", [Op.FLOOR, Op.NEG]),
        ("RELU_N1_TO_1", [Op.RELU1, ExtendedOperationCode.TABLE_LOOKUP]),
        ("RESHAPE", [Op.RESHAPE]),
        ("SHAPE", []),
        ("SPLIT_V", [Op.SLICE]),
        ("TFLite_Detection_PostProcess", [Op.CAST, Op.DETECTION_POSTPROCESSING, Op.MAXIMUM, Op.PAD]),
    ],
)
def test_operations(operator: str, codes: list[KnownCode]) -> None:
    assert models_doc.TFLITE.operations(operator) == codes


@pytest.mark.parametrize(
    ("operator", "codes"),
    [
        ("PRelu", [Op.PRELU, Op.LESS, Op.LOGICAL_AND, Op.LOGICAL_NOT, Op.LOGICAL_OR, Op.MUL, Op.SELECT]),
        ("Ceil", [Op.FLOOR, Op.NEG]),
        ("Sigmoid", [Op.LOGISTIC]),
        ("Unsqueeze", [Op.RESHAPE]),
        ("ConstantOfShape", []),
    ],
)
def test_operations_of_onnx(operator: str, codes: list[OperationCode]) -> None:
    assert models_doc.ONNX.operations(operator) == codes


GLUE = {code.name for code in models_doc._GLUE}


@pytest.mark.parametrize("operator", ["ABS", "CEIL", "COS", "EXP", "NEG", "RELU", "ROUND", "SIGN", "SQUARE", "TANH"])
def test_what_the_importer_emits_is_in_the_table(operator: str) -> None:
    net = Net([source := T("FLOAT32", (2, 3))], [T("FLOAT32", (2, 3))])
    net.op(operator, [source], net.outputs)
    emitted = {operation.code.name for operation in tflite.load(write(net)).model.frozen.operations}
    assert emitted - GLUE <= {code.name for code in models_doc.TFLITE.operations(operator)}


ATTRIBUTES = {"Cast": {"to": 6}, "DepthToSpace": {"blocksize": 2}}


@pytest.mark.parametrize("operator", sorted({"Abs", "Clip", "Erf", "Gelu", "GlobalMaxPool", "Softmax", *ATTRIBUTES}))
def test_what_the_importer_of_onnx_emits_is_in_the_table(operator: str) -> None:
    node = onnx_net.op(operator, "x", "y", **ATTRIBUTES.get(operator, {}))
    net = onnx_net.model([node], {"x": ("f4", (1, 4, 2, 3))}, ["y"], opset=20)
    emitted = {operation.code.name for operation in onnx.load(net.SerializeToString()).model.frozen.operations}
    assert emitted - GLUE <= {code.name for code in models_doc.ONNX.operations(operator)}


def test_the_demo_s_models_are_covered() -> None:
    known = {code.name for operator in tflite.supported_operators() for code in models_doc.TFLITE.operations(operator)}
    for model in MODELS:
        assert {operation.code.name for operation in tflite.load(model.path).model.frozen.operations} <= known | GLUE


def test_number_of_onnx_s_operators() -> None:
    text = models_doc.PAGE.read_text(encoding="utf-8")
    assert f"nnvk maps {len(onnx.supported_operators())} operators directly" in text
