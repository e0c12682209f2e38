"""Looking inside: traces, profiles, graphs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnvk.api import get_devices
from nnvk.cli.main import app

DEMO = Path(__file__).resolve().parents[2] / "nnvk" / "demo" / "data"
MODEL = DEMO / "digits_float.tflite"


def nnvk(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("device", [device.name for device in get_devices()])
def test_trace_has_a_span_for_every_part(tmp_path: Path, device: str) -> None:
    picture = next(DEMO.glob("**/*.png"))
    nnvk("run", MODEL, "--input", picture, "--device", device, "--no-fallback", "--trace", tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert {"compilation", "execution"} <= {span["cat"] for span in spans}
    work = [span for span in spans if span["cat"] in ("gpu", "cpuexe")]
    assert len(work) >= 8  # convolutions, pools, additions, softmax
    compute = next(span for span in spans if span["name"] == "compute")
    slack = 1000  # the device's clock is fitted to the host's
    for span in work:
        assert span["dur"] >= 0
        assert compute["ts"] - slack <= span["ts"] <= compute["ts"] + compute["dur"] + slack


def test_profile_names_dispatches_and_adds_up() -> None:
    output = nnvk("bench", MODEL, "--profile", "--runs", 2, "--device", get_devices()[0].name)
    summary, header, *rows = output.splitlines()
    assert "ms of work, the mean of 2 runs" in summary
    assert [word for word in header.split() if word != "shader"] == ["#", "operation", "layer", "output", "ms", "share"]
    assert sum(float(row.split()[-1].removesuffix("%")) for row in rows) == pytest.approx(100, abs=2)
    assert any(row.split()[:4] == ["0", "CONV_2D", "stem", "1x16x16x16"] for row in rows)


def test_graph_is_coloured_by_device(tmp_path: Path) -> None:
    nnvk("graph", MODEL, "--dot", tmp_path / "model.dot")
    text = (tmp_path / "model.dot").read_text()
    assert text.startswith("digraph")
    assert "CONV_2D" in text and "input0 -> op0" in text and "legend0" in text
    assert text.count("{") == text.count("}")
