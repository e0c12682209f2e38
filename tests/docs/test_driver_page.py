"""The sample driver of docs/write-a-driver.md, installed as pip would do it, and used."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tflite_net import Net, T, write

import nnvk
from nnvk.runtime.devices import manager

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "write-a-driver.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([\w.]+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[nnvk.Device]:
    (tmp_path / "example_driver.py").write_text(FILES["example_driver.py"])
    ((name, target),) = re.findall(r'^(\w+) = "(example_driver:\w+)"$', FILES["pyproject.toml"], re.MULTILINE)
    info = tmp_path / "example_driver-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example-driver\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[nnvk.drivers]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "example_driver", raising=False)
    monkeypatch.setattr(manager, "_devices", None)
    importlib.invalidate_caches()
    yield nnvk.get_device("example")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """ABS, NEG and an operation that the device does not run."""
    net = Net([T("FLOAT32", (2, 3), name="x")], [T("FLOAT32", (2, 3), name="y")])
    first, second = (T("FLOAT32", (2, 3), name=name) for name in ("first", "second"))
    net.op("ABS", net.inputs, [first])
    net.op("NEG", [first], [second])
    net.op("EXP", [second], net.outputs)
    path = tmp_path / "model.tflite"
    path.write_bytes(write(net))
    return path


def test_it_runs_its_operations(device: nnvk.Device, model: Path) -> None:
    loaded = nnvk.load(str(model), device="example")
    assert [one.device for one in loaded.where()][:2] == ["example", "example"]
    assert loaded.where()[2].device != "example"
    x = np.array([[1, -2, 3], [-4, 5, 0]], np.float32)
    np.testing.assert_allclose(loaded(x), np.exp(-np.abs(x)), rtol=1e-6)
    event = loaded.start(x)
    np.testing.assert_allclose(event.result(), np.exp(-np.abs(x)), rtol=1e-6)


def test_it_says_why_not(device: nnvk.Device, model: Path) -> None:
    with pytest.raises(nnvk.NnapiError, match="neither NEG nor ABS"):
        nnvk.load(str(model), device="example", fallback=False)


def test_its_outputs_pass_on_and_it_can_be_fenced(device: nnvk.Device) -> None:
    tensor = nnvk.OperandType(nnvk.OperandCode.TENSOR_FLOAT32, (4,))
    model = nnvk.Model()
    x, y = model.add_operand(tensor), model.add_operand(tensor)
    model.add_operation(nnvk.OperationCode.NEG, [x], [y])
    model.identify_inputs_and_outputs([x], [y])
    model.finish()
    compilation = nnvk.Compilation(model, [device])
    compilation.finish()
    execution = nnvk.Execution(compilation)
    source, result = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    execution.set_input(0, source)
    execution.set_output(0, result)
    event = execution.start_compute_with_dependencies([])
    event.wait()
    assert (result == -source).all()
