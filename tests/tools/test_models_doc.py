"""The table of TFLite operators in docs/models.md."""

from __future__ import annotations

from pathlib import Path

import models_doc
import pytest
from tflite_net import Net, T, write

from nnvk import OperationCode
from nnvk.demo.assets import MODELS
from nnvk.importers import tflite

Op = OperationCode


def test_page_is_up_to_date() -> None:
    assert models_doc.main(["--check"]) == 0, "run tools/models_doc.py"


def test_check_tells_whether_the_table_is_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models_doc, "PAGE", tmp_path / "models.md")
    models_doc.PAGE.write_text(f"before\n{models_doc.BEGIN}\nold\n{models_doc.END}\nafter\n")
    assert models_doc.main(["--check"]) == 1
    assert models_doc.main([]) == 0
    assert models_doc.main(["--check"]) == 0
    text = models_doc.PAGE.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "| RELU6 | RELU6 | yes |" in text


@pytest.mark.parametrize(
    ("operator", "codes"),
    [
        ("CONV_2D", [Op.CONV_2D, Op.GROUPED_CONV_2D]),
        ("CEIL", [Op.FLOOR, Op.NEG]),
        ("RELU_N1_TO_1", [Op.RELU1]),
        ("RESHAPE", [Op.RESHAPE]),
        ("SHAPE", []),
        ("SPLIT_V", [Op.SLICE]),
        ("TFLite_Detection_PostProcess", [Op.CAST, Op.DETECTION_POSTPROCESSING, Op.MAXIMUM, Op.PAD]),
    ],
)
def test_operations(operator: str, codes: list[OperationCode]) -> None:
    assert models_doc.operations(operator) == codes


GLUE = {code.name for code in models_doc._GLUE}


@pytest.mark.parametrize("operator", ["ABS", "CEIL", "COS", "EXP", "NEG", "RELU", "ROUND", "SIGN", "SQUARE", "TANH"])
def test_what_the_importer_emits_is_in_the_table(operator: str) -> None:
    net = Net([source := T("FLOAT32", (2, 3))], [T("FLOAT32", (2, 3))])
    net.op(operator, [source], net.outputs)
    emitted = {operation.code.name for operation in tflite.load(write(net)).model.frozen.operations}
    assert emitted - GLUE <= {code.name for code in models_doc.operations(operator)}


def test_the_demo_s_models_are_covered() -> None:
    known = {code.name for operator in tflite.supported_operators() for code in models_doc.operations(operator)}
    for model in MODELS:
        assert {operation.code.name for operation in tflite.load(model.path).model.frozen.operations} <= known | GLUE
