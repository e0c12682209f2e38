"""``nnvk info`` and ``nnvk run`` on models whose inputs and outputs are texts, which onnxruntime computes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx_net import model, op

pytestmark = pytest.mark.usefixtures("libraries")

ML = "ai.onnx.ml"
KEYS = {"keys_strings": ["a", "b", "c"], "values_int64s": [1, 2, 3]}
LABELS = {"keys_int64s": [4, 5, 6], "values_strings": ["four", "five", "six"]}


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Numbers of words, a sum, and the name of the sum."""
    nodes = [
        op("LabelEncoder", "w", "i", domain=ML, **KEYS),
        op("ReduceSum", "i", "s", keepdims=0),
        op("LabelEncoder", "s", "y", domain=ML, **LABELS),
    ]
    net = model(nodes, {"w": (np.dtype(object), [3])}, ["y", "s"])
    net.opset_import.add(domain=ML, version=3)
    path = tmp_path / "words.onnx"
    path.write_bytes(net.SerializeToString())
    return path


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_texts_go_in_and_come_out(nnvk_command: Any, words: Path, suffix: str, tmp_path: Path) -> None:
    given, out = tmp_path / f"given{suffix}", tmp_path / "out.npz"
    texts = np.array(["c", "a", "b"])
    if suffix == ".npy":
        np.save(given, texts)
    else:
        np.savez(given, w=texts)
    result = nnvk_command("run", words, "--input", given, "--device", "cpu", "--out", out)
    assert result.exit_code == 0, result.output
    assert re.search(r"^0 +y +string scalar *$", result.stdout, re.MULTILINE), result.stdout
    assert "--mean" not in result.output
    with np.load(out) as arrays:
        assert arrays["0"].tolist() == "six"
        assert arrays["1"] == 6


def test_info_says_what_is_text(nnvk_command: Any, words: Path) -> None:
    result = nnvk_command("info", words)
    assert result.exit_code == 0, result.output
    assert re.search(r"^0 +w +string 3$", result.stdout, re.MULTILINE), result.stdout
    assert "2 on onnxruntime" in result.stdout


def test_numbers_are_no_texts(nnvk_command: Any, words: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "numbers.npy", np.zeros(3, np.float32))
    result = nnvk_command("run", words, "--input", tmp_path / "numbers.npy", "--device", "cpu")
    assert result.exit_code != 0
    assert "expected string 3 for 'w', got float32" in result.output
