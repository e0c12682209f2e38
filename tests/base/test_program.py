"""Programs that run inside this process, and the report on their models."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnvk.base.program import Report


def test_models_of_the_same_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = Report()
    for model in ("a/model.onnx", tmp_path / "b" / "model.onnx", "a/other.onnx", b"1234", "a/other.onnx"):
        report.add(model, "placed")
    names = ["a/model.onnx", "b/model.onnx", "other.onnx", "a model of 4 bytes", "other.onnx"]
    assert report.lines() == [f"{name}: placed; 0 runs, 0.000 s" for name in names]
