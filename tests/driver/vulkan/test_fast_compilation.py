"""NNVK_COMPILE=fast: a plan that compiles quickly comes first, and the best one replaces it."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.base.settings import override
from nnvk.check.model_rows import empty_like, parse, reference, request
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.running.prepared_model import VulkanPreparedModel
from nnvk.driver.vulkan.running.tiered_compilation import wait_for_best_plans
from nnvk.hal import IPreparedModel
from nnvk.types.request import ExecuteOptions, PrepareOptions

ROW = parse("CONV_2D u8[1,27,29,13]*0.05+120 #u8[67,3,3,13]*0.02+131 #i32[67] SAME 1 1 RELU nhwc -> u8*0.08+100")
BEGAN = threading.Event()
"""The best plan is about to be made, while `held` holds it."""
PROCESS = """
import os
import numpy as np
from nnvk.check.model_rows import empty_like, execute, parse, reference
from nnvk.driver.vulkan import find_devices
row = parse("CONV_2D u8[1,27,29,13]*0.05+120 #u8[67,3,3,13]*0.02+131 #i32[67] SAME 1 1 RELU nhwc -> u8*0.08+100")
device = find_devices()[0][0]
outputs = empty_like(reference(row))
execute(device, row, outputs)
if {forks}:
    child = os.fork()
    outputs = empty_like(outputs)
    execute(device, row, outputs)
    if child:
        assert os.waitpid(child, 0)[1] == 0
np.testing.assert_array_equal(outputs[0], reference(row)[0])
print("right")
"""


@pytest.fixture(autouse=True)
def fast() -> Iterator[None]:
    with override(compile="fast"):
        yield
        wait_for_best_plans()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The best plan is made after this event."""
    event = threading.Event()
    plan = Planner.plan

    def later(*arguments: Any) -> Any:
        BEGAN.set()
        event.wait(60)
        return plan(*arguments)

    BEGAN.clear()

    monkeypatch.setattr(Planner, "plan", later)
    return event


def chosen(prepared: IPreparedModel) -> str:
    """The candidate of the plan in force."""
    assert isinstance(prepared, VulkanPreparedModel)
    assert prepared._program.single is not None
    (plan,) = prepared._program.single.plans()
    (choice,) = plan.plan.choices
    return choice.chosen


def best(device: VulkanDevice) -> str:
    shapes = [type_.dimensions for type_ in ROW.model.input_types()]
    return device.planner.lower(ROW.model, shapes).choices[0].chosen


def test_the_best_plan_replaces_the_quick_one(own: VulkanDevice, held: threading.Event) -> None:
    (expected,) = reference(ROW)
    prepared = own.prepare_model(ROW.model, PrepareOptions())
    (output,) = empty_like([expected])
    execution = prepared.create_reusable_execution(request(ROW.inputs, [output]))
    execution.execute(ExecuteOptions())
    np.testing.assert_array_equal(output, expected)
    quick = chosen(prepared)
    assert quick != best(own)
    held.set()
    wait_for_best_plans()
    assert chosen(prepared) == best(own)
    output[:] = 0
    execution.execute(ExecuteOptions())  # of a plan that has a successor now
    np.testing.assert_array_equal(output, expected)
    assert execution._bound[0].plan.choices[0].chosen == best(own)  # type: ignore[attr-defined]
    output[:] = 0
    prepared.execute(request(ROW.inputs, [output]), ExecuteOptions())
    np.testing.assert_array_equal(output, expected)


def test_fenced_executions_use_the_plan_in_force(own: VulkanDevice, held: threading.Event) -> None:
    (expected,) = reference(ROW)
    (output,) = empty_like([expected])
    execution = own.prepare_model(ROW.model, PrepareOptions()).create_reusable_execution(request(ROW.inputs, [output]))
    for _ in range(2):
        output[:] = 0
        execution.execute_fenced([], ExecuteOptions()).result()
        np.testing.assert_array_equal(output, expected)
        held.set()
        wait_for_best_plans()


def test_nothing_is_replaced_if_the_best_plan_is_quick(own: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "nnvk.driver.vulkan.running.segment.compile_best", lambda *_: pytest.fail("there is nothing to do")
    )
    row = parse("MAX_POOL_2D f32[1,7,9,13] VALID 2 2 3 3 NONE -> f32")
    own.prepare_model(row.model, PrepareOptions())


def test_by_default_the_best_plan_is_compiled_at_once(own: VulkanDevice) -> None:
    with override(compile=""):
        assert chosen(own.prepare_model(ROW.model, PrepareOptions())) == best(own)


def test_the_quick_plan_stays_if_the_best_one_fails(
    own: VulkanDevice, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise NnapiError(ResultCode.OUT_OF_MEMORY, "no memory for a plan")

    monkeypatch.setattr(Planner, "plan", fail)
    with caplog.at_level(logging.INFO, "nnvk.driver"):
        prepared = own.prepare_model(ROW.model, PrepareOptions())
        wait_for_best_plans()
    assert "the plan that was compiled quickly stays" in caplog.text
    assert chosen(prepared) != best(own)


def test_nothing_is_compiled_for_a_model_that_is_gone(
    own: VulkanDevice, held: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    prepared = own.prepare_model(ROW.model, PrepareOptions())
    compiled = own.gpu.native().pipelines_compiled
    with caplog.at_level(logging.INFO, "nnvk.driver"):
        assert BEGAN.wait(60)
        del prepared
        gc.collect()
        held.set()
        wait_for_best_plans()
    assert "nobody needs the pipelines" in caplog.text
    assert own.gpu.native().pipelines_compiled == compiled


@pytest.mark.parametrize("forks", [False, True])
def test_processes_end_while_a_plan_is_compiled(forks: bool) -> None:
    environment = {**os.environ, "NNVK_COMPILE": "fast", "MESA_SHADER_CACHE_DISABLE": "true", "NNVK_CACHE_DIR": "0"}
    ran = subprocess.run(
        [sys.executable, "-c", PROCESS.format(forks=forks)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd="/",
    )
    if forks and "the driver does not work in a forked child" in ran.stderr:
        pytest.skip("the driver does not work in a forked child")  # SwiftShader
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "right\n" * (1 + forks)
