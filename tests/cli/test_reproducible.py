"""``--reproducible``, of the commands that run and check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnvk
from nnvk.check import device as check_device
from nnvk.check.cases import cases
from nnvk.demo.assets import DATA

MODEL = DATA / "digits_float.tflite"
DEVICES = [device.name for device in nnvk.get_devices()]


def test_run_gives_the_same_bits_on_all_devices(nnvk_command: Any, tmp_path: Path) -> None:
    outputs = []
    for device in DEVICES:
        out = tmp_path / f"{device}.npz"
        result = nnvk_command("run", MODEL, "--seed", "3", "--device", device, "--reproducible", "--out", out)
        assert result.exit_code == 0, result.output
        with np.load(out) as arrays:
            outputs.append(arrays[arrays.files[0]])
    for output in outputs[1:]:
        np.testing.assert_array_equal(output.view(np.uint32), outputs[0].view(np.uint32))


def test_check_compares_bits(nnvk_command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [case for case in cases() if case.operations in ("EXP", "TANH", "RANDOM_MULTINOMIAL")]
    monkeypatch.setattr(check_device, "cases", lambda: tuple(few))
    result = nnvk_command("check", "--reproducible", "--in-process", "--json")
    assert result.exit_code == 0, result.output
    checks = [check for check in json.loads(result.stdout)["checks"] if check["kind"] == "case"]
    assert {(check["name"], check["status"]) for check in checks} == {
        *(("EXP", "passed"), ("TANH", "passed"), ("RANDOM_MULTINOMIAL", "unsupported"))
    }
    assert {check["reason"] for check in checks} == {"", "its arithmetic is not defined for reproducible models"}


def test_check_finds_one_wrong_bit(nnvk_command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [case for case in cases() if case.text.startswith("EXP f32")]
    monkeypatch.setattr(check_device, "cases", lambda: tuple(few))
    monkeypatch.setattr(check_device, "MODELS", ())
    reference = check_device.reference
    monkeypatch.setattr(
        check_device, "reference", lambda row: [np.nextafter(array, array.dtype.type(9)) for array in reference(row)]
    )
    assert nnvk_command("check", "--in-process").exit_code == 0
    result = nnvk_command("check", "--reproducible", "--in-process")
    assert result.exit_code == 1
    assert "expected" in result.output
