"""An error says why: memory can't be had, a request doesn't fit, or the machine has no Vulkan."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builder import Builder
from networks import increment
from samples import f32

from nnvk import _native
from nnvk.base.errors import NnapiError, ResultCode
from nnvk.base.settings import override
from nnvk.check.model_rows import empty_like, execute, parse, reference, request
from nnvk.driver import vulkan as driver
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.lowering import kernel
from nnvk.driver.vulkan.shaders.passes import FUSIONS
from nnvk.hal import Support
from nnvk.types.codes import OperationCode
from nnvk.types.model import Model
from nnvk.types.request import ExecuteOptions, InputArgument, OutputArgument, PrepareOptions, Request

OPTIONS = ExecuteOptions()


def assert_still_works(device: VulkanDevice) -> None:
    row = parse("ADD f32[3,5] f32[5] RELU")
    (output,) = outputs = empty_like(reference(row))
    execute(device, row, outputs)
    np.testing.assert_array_equal(output, reference(row)[0])


def unary_chain(sizes: int, length: int, branches: int = 1) -> Model:
    """A sum of ``branches`` chains of RELUs over one input, all of whose results live to the end."""
    build, type_ = Builder(), f32(sizes)
    source = build.operand(type_)
    ends = []
    for _ in range(branches):
        ends.append(source)
        for _ in range(length):
            ends[-1] = build.operation(OperationCode.RELU, [ends[-1]], type_)
    total = ends[0]
    for end in ends[1:]:
        total = build.operation(OperationCode.ADD, [total, end], type_)
    return build.finish([source], [build.operation(OperationCode.RELU, [total], type_)]).frozen


# --- memory ------------------------------------------------------------------------------------------------------


def test_tensors_that_no_binding_holds_are_refused(own: VulkanDevice) -> None:
    elements = own.profile.max_buffer // 4 + 1
    model = unary_chain(elements, 1)
    reasons = [support.reason for support in own.get_supported_operations(model)]
    assert all(f"the device binds at most {own.profile.max_buffer}" in reason for reason in reasons)
    with pytest.raises(NnapiError) as error:
        own.prepare_model(model, PrepareOptions())
    assert error.value.code is ResultCode.BAD_DATA


def test_tensors_of_unknown_size_that_turn_out_too_large(own: VulkanDevice) -> None:
    row = parse("RELU f32[1?]")
    prepared = own.prepare_model(row.model, PrepareOptions())
    huge = np.broadcast_to(np.zeros(1, np.float32), (own.profile.max_buffer // 4 + 1,))
    with pytest.raises(NnapiError) as error:
        prepared.execute(Request([InputArgument(np.ascontiguousarray(huge))], [OutputArgument(None)]), OPTIONS)
    assert error.value.code is ResultCode.OUT_OF_MEMORY
    assert "larger than the device can bind" in error.value.reason
    (output,) = outputs = empty_like(reference(row))
    prepared.execute(request(row.inputs, outputs), OPTIONS)
    np.testing.assert_array_equal(output, reference(row)[0])


def test_models_that_the_heap_does_not_hold(fresh: VulkanDevice) -> None:
    native = fresh.gpu.native()
    assert_still_works(fresh)
    gc.collect()
    before = native.allocated_bytes
    heap = max(size for size, _ in native.physical.heaps)
    if heap > 64 << 30:
        pytest.skip("the heap is too large to be filled")
    each = 120 << 20
    fresh.planner.profile = replace(fresh.planner.profile, disabled_passes=FUSIONS)  # which would need less
    model = unary_chain(each // 4, 1, branches=heap // each + 1)
    assert all(support.supported for support in fresh.get_supported_operations(model))
    with pytest.raises(NnapiError) as error:
        fresh.prepare_model(model, PrepareOptions())
    assert error.value.code is ResultCode.OUT_OF_MEMORY
    assert "memory heap" in error.value.reason
    del error
    gc.collect()
    assert native.allocated_bytes == before
    assert_still_works(fresh)


def test_device_memory_that_can_not_be_had(own: VulkanDevice) -> None:
    type_, most = increment().frozen.input_types()[0], own.profile.max_buffer
    with pytest.raises(NnapiError, match="binds at most") as error:
        own.allocate(type_, (most // 4 + 1,))
    assert error.value.code is ResultCode.OUT_OF_MEMORY
    native = own.gpu.native()
    gc.collect()  # what other tests have left
    before = native.allocated_bytes
    heap = max(size for size, _ in native.physical.heaps)
    if heap <= 64 << 30:
        taken = [native.create_buffer(most, host_visible=False) for _ in range((heap - before) // most)]
        with pytest.raises(NnapiError, match="memory heap") as error:
            own.allocate(type_, (most // 4,))
        assert error.value.code is ResultCode.OUT_OF_MEMORY
        del taken, error
        gc.collect()
        assert native.allocated_bytes == before
    assert_still_works(own)


# --- lost devices ------------------------------------------------------------------------------------------------


class Lost:
    """A Vulkan device that is no more."""

    lost = True


def test_what_is_lost_is_dead_though_the_device_was_replaced(fresh: VulkanDevice) -> None:
    error = _native.DeviceLostError("vkQueueSubmit: VK_ERROR_DEVICE_LOST")
    assert not fresh.gpu.native().lost
    assert fresh.gpu.failure(error).code is ResultCode.DEAD_OBJECT


def test_what_a_lost_device_is_called(fresh: VulkanDevice) -> None:
    error = RuntimeError("VK_ERROR_DEVICE_LOST")
    assert fresh.gpu.failure(error).code is ResultCode.OP_FAILED
    prepared = fresh.prepare_model(increment(100).frozen, PrepareOptions())
    memory = fresh.allocate(increment(100).frozen.input_types()[0], (100,))
    source = np.zeros(100, np.float32)
    fresh.gpu._device = Lost()  # type: ignore[assignment]
    assert fresh.gpu.failure(error).code is ResultCode.DEAD_OBJECT
    assert fresh.gpu.failure(MemoryError("no memory")).code is ResultCode.OUT_OF_MEMORY
    fresh.wait()
    assert not fresh.gpu.native().lost
    assert_still_works(fresh)
    prepared.execute(request([source], [source.copy()]), OPTIONS)  # on the device that it was made for
    again = fresh.prepare_model(increment(100).frozen, PrepareOptions())
    with pytest.raises(NnapiError, match="was lost with its Vulkan device") as caught:
        again.execute(Request([InputArgument(source)], [OutputArgument(None, memory.token)]), OPTIONS)
    assert caught.value.code is ResultCode.DEAD_OBJECT


def test_errors_of_the_native_module_get_a_code(fresh: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = fresh.prepare_model(increment(100).frozen, PrepareOptions())

    def fail(*_: object) -> None:
        raise RuntimeError("vkQueueSubmit: VK_ERROR_OUT_OF_DATE_KHR")

    monkeypatch.setattr(fresh.gpu.scheduler, "submit", fail)
    source = np.zeros(100, np.float32)
    with pytest.raises(NnapiError, match="vkQueueSubmit") as error:
        prepared.execute(request([source], [source.copy()]), OPTIONS)
    assert error.value.code is ResultCode.OP_FAILED


# --- models and requests -----------------------------------------------------------------------------------------


def test_operations_without_a_shader_are_refused_by_name(own: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(kernel._kernels, OperationCode.LSH_PROJECTION)
    lsh = parse("LSH_PROJECTION f32[1,1] i32[1] f32[1] 2 -> i32").model
    assert own.get_supported_operations(lsh) == [Support("LSH_PROJECTION has no shader")]
    with pytest.raises(NnapiError) as error:
        own.prepare_model(lsh, PrepareOptions())
    assert error.value.code is ResultCode.BAD_DATA
    assert "operation 0 (LSH_PROJECTION) is not supported: LSH_PROJECTION has no shader" in error.value.reason


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([np.zeros(4, np.float32)], r"input 0 has shape \[4\], the model says \[3\]"),
        ([np.zeros((3, 1), np.float32)], r"input 0 has shape \[3, 1\], the model says \[3\]"),
        ([np.zeros(3, np.float64)], "input 0 must be .*C-contiguous"),
        ([np.zeros(6, np.float32)[::2]], "input 0 must be .*C-contiguous"),
        ([], "the model has 1 inputs, the request 0"),
    ],
    ids=["size", "rank", "type", "strided", "count"],
)
def test_requests_that_do_not_fit(own: VulkanDevice, arguments: list[np.ndarray], message: str) -> None:
    prepared = own.prepare_model(parse("RELU f32[3]").model, PrepareOptions())
    with pytest.raises(NnapiError, match=message) as error:
        prepared.execute(Request([InputArgument(array) for array in arguments], [OutputArgument(None)]), OPTIONS)
    assert error.value.code is ResultCode.BAD_DATA


def test_an_input_that_is_omitted(own: VulkanDevice) -> None:
    prepared = own.prepare_model(parse("RELU f32[3]").model, PrepareOptions())
    with pytest.raises(NnapiError, match=r"RELU: input \(input 0\) can't be omitted") as error:
        prepared.execute(Request([InputArgument(None)], [OutputArgument(None)]), OPTIONS)
    assert error.value.code is ResultCode.OP_FAILED


# --- machines ----------------------------------------------------------------------------------------------------


def test_without_the_native_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_native", None)
    monkeypatch.setattr(driver, "_missing", "the native module can't be loaded: libvulkan.so.1 is missing")
    assert find_devices() == ([], "the native module can't be loaded: libvulkan.so.1 is missing")


def test_without_compiled_shaders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    original = driver.ShaderLibrary
    monkeypatch.setattr(driver, "FOLDER", tmp_path)
    monkeypatch.setattr(driver, "ShaderLibrary", lambda: original(tmp_path))
    devices, reason = find_devices()
    assert not devices
    assert reason.startswith(f"the compiled shaders in {tmp_path} can't be used: ")
    (tmp_path / "manifest.jsonl").write_text("{")
    assert "can't be used" in find_devices()[1]


def test_an_unknown_profile_is_named() -> None:
    with override(device_profile="huge"), pytest.raises(NnapiError, match="NNVK_DEVICE_PROFILE must be mobile-min"):
        find_devices()


REPORT = "import nnvk; print([device.name for device in nnvk.get_devices()], nnvk.unavailable())"
BLOCKED = """
import importlib.abc, sys
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "nnvk._native":
            raise ImportError("libvulkan.so.1: cannot open shared object file")
sys.meta_path.insert(0, Blocker())
"""


@pytest.mark.parametrize(
    ("before", "environment", "reason"),
    [
        ("", {"NNVK_VULKAN": "0"}, "Vulkan is switched off by NNVK_VULKAN=0"),
        (BLOCKED, {}, "the native module can't be loaded: libvulkan.so.1: cannot open shared object file"),
        ("", {"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}, "Vulkan "),
    ],
    ids=["NNVK_VULKAN=0", "no native module", "no driver"],
)
def test_import_works_where_there_is_no_vulkan(before: str, environment: dict[str, str], reason: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", before + REPORT],
        env={**os.environ, "NNVK_VALIDATION": "0", **environment},
        cwd="/",  # not in the source tree, whose package would hide the installed one
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("['nnapi-reference'] ")
    assert reason in run.stdout
