"""The steps of a compilation that are shown if they take long; calls that compile nothing show none."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
import pytest
from samples import add_model, chain_model, compiled, f32, matrix_model

import nnvk
from nnvk import OperationCode, PreferenceCode
from nnvk.base.progress import compiling
from nnvk.base.settings import override
from nnvk.driver.vulkan.running import resident_plan, segment
from nnvk.driver.vulkan.running.tiered_compilation import wait_for_best_plans
from nnvk.runtime import compilation

CODES = [OperationCode.RELU, OperationCode.TANH]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps of this process, in order."""
    seen: list[str] = []

    def noted(what: str) -> AbstractContextManager[None]:
        seen.append(what)
        return compiling(what)

    for module in (compilation, segment, resident_plan):
        monkeypatch.setattr(module, "compiling", noted)
    return seen


def test_the_reference_device_has_one_step(steps: list[str], cpu: nnvk.Device) -> None:
    made = nnvk.Compilation(add_model(), [cpu])
    made.finish()
    assert steps == ["a model of 1 operation"]


def test_a_call_that_compiles_nothing_has_none(steps: list[str], gpu: nnvk.Device) -> None:
    made = nnvk.Compilation(chain_model(CODES), [gpu])
    made.finish()
    assert steps == ["a model of 2 operations", f"{gpu.name} plan", f"{gpu.name} shaders"]
    steps.clear()
    x = np.zeros(made.model.input_types()[0].dimensions, np.float32)
    runs = [nnvk.Execution(made) for _ in range(3)]
    for measures, run in zip((False, True, False), runs, strict=True):  # with timestamps it is another recording
        run.set_measure_timing(measures)
        run.set_input(0, x)
        run.set_output(0, np.empty_like(x))
    for event in [run.start_compute() for run in runs]:
        event.wait()
    assert not steps


def test_each_new_size_has_some(steps: list[str], gpu: nnvk.Device) -> None:
    made = nnvk.Compilation(chain_model(CODES, f32(0, 3)), [gpu])
    made.finish()
    assert steps == ["a model of 2 operations"]
    for rows, expected in ((2, [f"{gpu.name} plan", f"{gpu.name} shaders"]), (5, [f"{gpu.name} plan"]), (2, [])):
        steps.clear()
        x = np.zeros((rows, 3), np.float32)
        run = nnvk.Execution(made)
        run.set_input(0, x, nnvk.OperandType(nnvk.OperandCode.TENSOR_FLOAT32, x.shape))
        run.set_output(0, np.empty_like(x))
        run.compute()
        assert steps[: len(expected)] == expected
        assert expected or not steps


def test_measurements_are_a_step(steps: list[str], gpu: nnvk.Device) -> None:
    made = nnvk.Compilation(chain_model(CODES), [gpu])
    made.set_preference(PreferenceCode.SUSTAINED_SPEED)
    made.finish()
    assert steps[1:3] == [f"{gpu.name} measurements", f"{gpu.name} plan"]


def test_the_background_has_none(steps: list[str], gpu: nnvk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced: list[object] = []
    replace = segment.Segment._replace
    monkeypatch.setattr(segment.Segment, "_replace", lambda *plans: replaced.append(replace(*plans)))
    with override(compile="fast"):
        made = compiled(matrix_model(256, 2), gpu)
        wait_for_best_plans()
    assert replaced and made.is_finished
    assert [step.removeprefix(f"{gpu.name} ") for step in steps] == ["a model of 2 operations", "plan", "shaders"]
