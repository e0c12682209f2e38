"""Every benchmark runs, with the least that it can be asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import every_type
import history
import numpy as np
import operations
import pytest
import tuned
from harness import Effort, Times
from tflite_net import Net, T, write

import nnvk
from nnvk.demo.assets import DATA

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
needs_vulkan = pytest.mark.skipif(
    all(device.type is not nnvk.DeviceTypeCode.GPU for device in nnvk.get_devices()), reason="no Vulkan device"
)

Benchmark = Callable[..., dict[str, Any]]


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    """Runs a script with --quick and these arguments; the figures that it writes."""

    def run(script: str, *arguments: object) -> dict[str, Any]:
        figures = tmp_path / "figures.json"
        command = [sys.executable, BENCHMARKS / script, "--quick", "--json", figures, *arguments]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(figures.read_text())

    return run


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A model of one operation, for benchmarks that compile it anew several times."""
    net = Net([T("FLOAT32", (1, 8))], [T("FLOAT32", (1, 4))])
    net.op("FULLY_CONNECTED", [net.inputs[0], T(data=np.ones((4, 8)))], net.outputs[0], "FullyConnectedOptions")
    (tmp_path / "small.tflite").write_bytes(write(net))
    return tmp_path / "small.tflite"


@needs_vulkan
def test_hot_path(benchmark: Benchmark) -> None:
    figures = benchmark("hot_path.py", "--runs", 5)
    ways = {"submit and wait", "compute()", "compute(), C library", "compute(), driver process"}
    assert ways <= figures["calls"].keys()
    for times in figures["calls"].values():
        assert 0 < times["min_ms"] <= times["median_ms"] <= times["p90_ms"]
    assert all(rate > 0 for rates in figures["counts_per_second"].values() for rate in rates)


@needs_vulkan
def test_layers(benchmark: Benchmark) -> None:
    figures = benchmark("layers.py", "--filter", "DEPTHWISE")
    del figures["environment"]
    (layer,) = figures.values()
    assert layer["nnvk"]["runs"] >= 2
    assert layer["nnvk"]["difference"] < 1e-5
    assert layer["nnvk int8"]["difference"] <= 1


def test_models(benchmark: Benchmark, tmp_path: Path) -> None:
    figures = benchmark("models.py", DATA / "digits_float.tflite", DATA / "digits_int8.tflite", "--save", tmp_path)
    for name in ("digits_float", "digits_int8"):
        assert {device.name for device in nnvk.get_devices()} <= figures[name].keys()
    (report,) = tmp_path.glob("*.md")
    assert "| digits_int8 |" in report.read_text()
    assert json.loads(report.with_suffix(".json").read_text())["models"]["name"] == "models"
    kept = history.read(report.with_suffix(history.SUFFIX))
    assert {record.case for record in kept} == {"digits_float", "digits_int8"}
    assert {record.nnvk for record in kept} == {history.version()}


@needs_vulkan
def test_tokens(benchmark: Benchmark) -> None:
    pytest.importorskip("onnx")
    figures = benchmark("tokens.py")
    assert figures["tokens"].keys() == {"language_model.py", "speech_to_text.py"}
    assert figures["products"].keys() == {"1", "8", "64", "512"}
    for times in (*figures["tokens"].values(), *figures["products"].values()):
        assert all(0 < one["min_ms"] <= one["median_ms"] for one in times.values())


@needs_vulkan
def test_first_result(benchmark: Benchmark, small: Path) -> None:
    cases = benchmark("first_result.py", small)["small"]
    assert cases.keys() == {"nothing kept", "second process", "driver's cache off", "fast, nothing kept"}
    for times in cases.values():
        parts = sum(times[f"{part}_s"] for part in ("package", "model", "compilation", "first"))
        assert times["median_ms"] == pytest.approx(1e3 * parts, rel=0.01)
        assert times["second_s"] > 0
        assert times["processor_s"] > 0


def _medians(nnvk_version: str, measured: str, **medians: float) -> list[history.Record]:
    """Records of two contenders for one case."""
    figures = {"conv": {name: {"median_ms": value, "runs": 3} for name, value in medians.items()}, "counts": [1, 2]}
    environment = {"measured": measured, "device": "a GPU, driver 1", "load_average": 0.5}
    return history.records_of("layers", figures, environment, nnvk_version)


def test_history_keeps_one_run_of_a_version(tmp_path: Path) -> None:
    path = tmp_path / "a-gpu.history.csv"
    history.add(path, _medians("0.2", "2026-02-01", nnvk=2.0, ncnn=8.0, ncnn_slow=9.0))
    history.add(path, _medians("0.1", "2026-01-01", nnvk=3.0, ncnn=6.0))
    history.add(path, _medians("0.2", "2026-03-01", nnvk=1.0, ncnn_fast=4.0, ncnn_slow=8.0))
    records = history.read(path)
    assert [(record.nnvk, record.contender) for record in records] == [
        ("0.1", "nnvk"), ("0.1", "ncnn"), ("0.2", "nnvk"), ("0.2", "ncnn_fast"), ("0.2", "ncnn_slow"),
    ]  # fmt: skip
    assert [row[-1] for row in history.summary(records, {"layers": "Layers"})] == ["0.50", "0.25"]


def test_history_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history.add(tmp_path / "a-gpu.history.csv", _medians("0.1", "2026-01-01", nnvk=3.0, ncnn=6.0))
    for arguments, expected in (
        ((), "nnvk / ncnn"),
        (("--section", "layers"), "conv: ncnn"),
        (("--section", "layers", "--contender", "nnvk", "--over", "ncnn"), "0.50"),
    ):
        assert history.main([*arguments, "--folder", str(tmp_path)]) == 0
        assert expected in capsys.readouterr().out
    assert history.main(["another", "--folder", str(tmp_path)]) == 2


def test_delegate(benchmark: Benchmark) -> None:
    pytest.importorskip("ai_edge_litert")
    figures = benchmark("delegate.py", DATA / "digits_int8.tflite")["digits_int8"]
    assert {"nnvk", "delegate", "LiteRT CPU"} <= figures.keys()
    assert figures["nnvk"]["difference"] == figures["delegate"]["difference"] == "0 steps"


@needs_vulkan
def test_operations(benchmark: Benchmark) -> None:
    pattern = "^(ADD|SOFTMAX 1x|QUANTIZE,|RNN 8|QUANTIZED_LSTM 8)"
    figures = benchmark("operations.py", "--filter", pattern, "--tables", "float32", "int8")
    for dtype in ("float32", "int8"):
        assert len(figures[dtype]) == 5
        assert all("nnapi-reference" in times for times in figures[dtype].values())


@needs_vulkan
def test_operations_on_every_type(benchmark: Benchmark) -> None:
    figures = benchmark("operations.py", "--filter", "^(RANK|IF|LOGICAL_NOT|LSTM)", "--tables", "types")
    assert {"on b8", "on f16", "on u16"} <= figures.keys()
    assert len(figures["on b8"]) == 3
    assert all("nnapi-reference" in times for times in figures["on f16"].values())


def test_every_row_is_a_model_that_the_reference_runs() -> None:
    reference = nnvk.get_device("nnapi-reference")
    for row in every_type.rows():
        made = row.make()
        assert isinstance(made.graph, nnvk.Model)
        assert all(support.supported for support in made.graph.get_support(reference)), (row.name, row.leading)


def test_limits_that_are_not_kept() -> None:
    """An operation slower than on the reference device is a failure unless there is a reason."""
    times = {"gpu": Times(np.array([30, 20])), "nnapi-reference": Times(np.array([10, 40]))}
    slow = operations.Measured(times, None, 0, "0")
    fast = operations.Measured(dict(reversed(times.items())), None, 0, "0")
    results = {"on f32": {"NO_SUCH_OPERATION": slow, "FLOOR": slow, "ABS": fast, "NEG": "not supported"}}
    assert list(operations.failures(results, "gpu")) == [
        "gpu takes 2.00 times as long as nnapi-reference for NO_SUCH_OPERATION on f32"
    ]


@needs_vulkan
def test_kernels(benchmark: Benchmark) -> None:
    figures = benchmark("kernels.py", DATA / "digits_int8.tflite")
    commands = figures["digits_int8"]
    assert any(command["shader"].startswith("gemm.q8") for command in commands)
    assert all(command["ms"] >= 0 for command in commands)


@needs_vulkan
def test_tuned(benchmark: Benchmark, small: Path) -> None:
    figures = benchmark("tuned.py", small)["small"]
    assert 0 <= figures["changed"] <= 1
    assert all(figures[name]["median_ms"] > 0 for name in ("untuned", "tuned"))


def test_turns_are_timed_as_a_whole() -> None:
    """A clock of ticks, which stands still for many runs."""
    now = 0

    def run(nanoseconds: int) -> None:
        nonlocal now
        now += nanoseconds

    effort = Effort(seconds=0.0, least=3, turn_seconds=1e-5)
    contenders = {"a": lambda: run(100), "b": lambda: run(250), "long": lambda: run(30000)}
    times = tuned.in_turns(contenders, effort, lambda: now // 500 * 500)
    assert {name: len(each.runs) for name, each in times.items()} == {"a": 3, "b": 3, "long": 3}
    assert [times[name].minimum for name in contenders] == pytest.approx([100, 250, 30000], rel=0.1)


def test_what_tuning_must_not_find() -> None:
    def measured(untuned: float, tuned_: float, changed: int = 1) -> tuned.Measured:
        times = {"untuned": [untuned, 2 * untuned, 3 * untuned], "tuned": [tuned_, 2 * tuned_, tuned_]}
        return tuned.Measured({name: Times(np.array(of)) for name, of in times.items()}, 0, changed, 9)

    results = {
        "good": measured(110, 100),
        "bad choices": measured(120, 100),
        "bad luck": measured(100, 110),
        "noise": measured(100, 110, changed=0),
    }
    assert [failure.split(":")[0] for failure in tuned.failures(results)] == ["bad choices", "bad luck"]


def test_a_device_that_is_none(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "operations.py"), "--device", "nnapi-reference"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "no Vulkan device" in done.stderr
