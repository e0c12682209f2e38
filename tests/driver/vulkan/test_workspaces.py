"""Plans of one model for several sizes use the same memory for activations and staging, one after the other."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

import nnvk
from nnvk.check.model_rows import Row, empty_like, parse, reference, request
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.running.prepared_model import VulkanPreparedModel
from nnvk.driver.vulkan.running.resident_plan import _HOST_ONLY, ResidentPlan
from nnvk.driver.vulkan.running.workspaces import Workspace
from nnvk.driver.vulkan.shaders.commands import Storage
from nnvk.types.request import ExecuteOptions, PrepareOptions


def row(rows: int) -> Row:
    return parse(f"FULLY_CONNECTED f32[{rows},131] #f32[259,131] #f32[259] NONE")


def plans(device: VulkanDevice, sizes: Sequence[int]) -> list[tuple[VulkanPreparedModel, ResidentPlan]]:
    """Prepared models of these numbers of rows that share families, and the plan of each."""
    options = PrepareOptions(families={})
    made = [cast(VulkanPreparedModel, device.prepare_model(row(rows).model, options)) for rows in sizes]
    return [(each, next(each.plans())) for each in made]


def taken(plan: ResidentPlan) -> Workspace:
    return plan.take(_HOST_ONLY, "none").workspace


def test_plans_of_all_sizes_use_one_workspace(own: VulkanDevice) -> None:
    made = plans(own, (7, 2, 5))
    for rows, (model, plan) in [*zip((7, 2, 5), made, strict=True)] * 2:
        of = row(rows)
        expected = reference(of)
        outputs = empty_like(expected)
        model.execute(request(of.inputs, outputs), ExecuteOptions())
        np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-4, atol=1e-4)
        assert len(plan._workspaces._all) == 1


def test_models_say_which_memory_they_share(own: VulkanDevice) -> None:
    made = plans(own, (7, 2, 5))
    name = made[0][1]._workspaces.name
    for model, plan in made:
        scratch = sum(sum(pages) for storage, pages in plan.plan.pages.items() if storage is not Storage.CONSTANTS)
        assert model.shared_memory() == {**model.shared_constants(), name: scratch}
        assert sum(model.memory_bytes().values()) >= sum(model.shared_memory().values())


def test_executions_under_way_together_have_their_own(own: VulkanDevice) -> None:
    (_, small), (_, large) = plans(own, (2, 9))
    first, second = taken(small), taken(large)
    assert first is not second
    again = small.take(_HOST_ONLY, "none")
    assert again.workspace not in (first, second)
    small.put(again, _HOST_ONLY, "none")
    assert taken(large) is again.workspace, "which no execution uses now"


def test_a_workspace_that_nobody_gives_back_is_freed(own: VulkanDevice) -> None:
    (_, plan), (_, other) = plans(own, (2, 9))
    for _ in range(40):
        assert taken(plan) is not None
    del other
    gc.collect()
    assert len(plan._workspaces._all) <= 2
    assert taken(plan) is not None


def test_buffers_grow_ahead(own: VulkanDevice) -> None:
    """So that a size that grows step by step allocates now and then."""
    workspace, native = Workspace(own.gpu.native()), own.gpu.native()
    pages: dict[Storage, tuple[int, ...]] = {storage: () for storage in Storage}
    seen = set[int]()
    for size in range(1 << 12, 1 << 16, 1 << 8):
        found = workspace.buffers({**pages, Storage.ARENA: (size, 64)})
        assert all(buffer.size >= least for buffer, least in zip(found[Storage.ARENA], (size, 64), strict=True))
        seen.add(id(found[Storage.ARENA][0]))
        assert found[Storage.STAGING] == []
    assert len(seen) <= 5
    exact = workspace.buffers({**pages, Storage.ARENA: (1 << 12,)})[Storage.ARENA]
    assert [buffer.size for buffer in exact] == [max(buffer.size for buffer in exact)]
    assert workspace.device is native


def test_what_does_not_fit_ahead_is_as_large_as_it_must_be(own: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(own.gpu.native())
    pages: dict[Storage, tuple[int, ...]] = {storage: () for storage in Storage}
    workspace.buffers({**pages, Storage.STAGING: (1 << 10,)})
    create = Workspace._create

    def short(self: Workspace, storage: Storage, size: int) -> Any:
        if size > 1200:
            raise MemoryError("no room")
        return create(self, storage, size)

    monkeypatch.setattr(Workspace, "_create", short)
    (grown,) = workspace.buffers({**pages, Storage.STAGING: (1100,)})[Storage.STAGING]
    assert grown.size == 1100
    with pytest.raises(MemoryError):
        workspace.buffers({**pages, Storage.STAGING: (1300,)})


def test_a_new_size_allocates_nothing() -> None:
    """Where it is no larger than one before it."""
    device = next((each for each in nnvk.get_devices() if each.type is nnvk.DeviceTypeCode.GPU), None)
    if device is None:
        pytest.skip("there is no Vulkan device")
    onnx_net = pytest.importorskip("onnx_net")
    net = onnx_net.model(
        [onnx_net.op("Softmax", "x", "s"), onnx_net.op("MatMul", "s x", "y")], {"x": (np.float32, ["n", "n"])}, ["y"]
    )
    loaded = nnvk.load(net.SerializeToString(), device=device)
    for size in (64, 63, 62, 61):
        loaded(np.ones((size, size), np.float32))
    native = cast(VulkanDevice, device.driver).gpu.native()
    before = native.allocated_bytes
    for size in (40, 17, 23, 51, 60):
        loaded(np.ones((size, size), np.float32))
    assert native.allocated_bytes - before < 1 << 12, "but for small constants"
