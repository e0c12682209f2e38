"""Device memory in the place of the arena: copies that go, and results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fused import Net, Op, families

from nnvk.check.model_rows import parse
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.plan import Address, Plan
from nnvk.driver.vulkan.planning.planner import PlanOptions, lower
from nnvk.driver.vulkan.running.constants import ConstantStore, Upload
from nnvk.driver.vulkan.running.recording import Recording
from nnvk.driver.vulkan.running.relocation import copies_in_place, relocations
from nnvk.driver.vulkan.shaders.commands import Copy
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.model import Model
from nnvk.types.request import Redundancy


def plan_of(
    device: VulkanDevice, model: Model, *, direct: bool = False, redundancy: Redundancy = Redundancy.NONE
) -> Plan:
    """A plan for a device whose memory is apart from the host's."""
    profile = replace(device.profile, unified_memory=False, host_writes_device_memory=direct)
    shapes = [type_.dimensions for type_ in model.input_types()]
    return lower(model, shapes, profile, device.planner.library, PlanOptions(redundancy=redundancy))


def exchanged(plan: Plan) -> list[Address]:
    return [address for address in (*plan.inputs, *plan.outputs) if address is not None]


def copies(plan: Plan) -> int:
    return sum(isinstance(command, Copy) for command in plan.commands)


def results(
    device: VulkanDevice,
    plan: Plan,
    arrays: list[np.ndarray],
    bound: list[int],
    update: tuple[int, int] | None = None,
) -> list[bytes]:
    """The outputs, where the inputs and outputs of these numbers are buffers of their own.

    ``update`` is an input and an output of these numbers that have the same buffer.
    """
    native, every = device.gpu.native(), exchanged(plan)
    external = {
        every[number]: native.create_buffer(-(-every[number].nbytes // 64) * 64, host_visible=True) for number in bound
    }
    if update is not None:
        external[every[update[1]]] = external[every[update[0]]]
    given = []
    for address, array in zip(every, arrays, strict=False):
        if address in external:
            external[address].view()[: array.nbytes] = array.reshape(-1).view(np.uint8)
        else:
            given.append(array)
    taken = [np.zeros(address.nbytes, np.uint8) for address in every[len(arrays) :] if address not in external]
    reports = [np.zeros(address.nbytes // 4, np.uint32) for address in plan.reports]
    Recording(native, plan, Upload(native, plan, ConstantStore()).wait(), external=external).program.run(
        given, [*taken, *reports]
    )
    left = iter(taken)
    found = []
    for address in every[len(arrays) :]:
        array = external[address].view()[: address.nbytes] if address in external else next(left)
        found.append(np.array(array).tobytes())
    return found


SCATTER = "SCATTER_ND f32[7,12] i32[2,1]~6 f32[2,12] 0 -> same"


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(("bound", "dropped"), [([], 0), ([0], 1), ([3], 1), ([0, 3], 2), ([0, 1, 2, 3], 4)], ids=str)
def test_a_cache(vulkan: VulkanDevice, bound: list[int], dropped: int, direct: bool) -> None:
    row = parse(SCATTER)
    plan = plan_of(vulkan, row.model, direct=direct)
    every = exchanged(plan)
    _, gone = relocations(plan, {every[number] for number in bound})
    inputs_of_bound = sum(number < 3 for number in bound)
    assert len(gone) == (dropped - inputs_of_bound if direct else dropped)
    arrays = [array for array in row.inputs if array is not None]
    assert results(vulkan, plan, arrays, bound) == results(vulkan, plan, arrays, [])


def chain(net: Net, which: str) -> list[int]:
    x = net.input(4, 8)
    if which == "an input as output":
        return [net.op(Op.RESHAPE, x, np.array([8, 4], np.int32))]
    y = net.op(Op.ABS, x)
    if which == "an output that is read":
        return [y, net.op(Op.SOFTMAX, y, 1.0)]
    if which == "an input that is read again":
        return [net.op(Op.MAXIMUM, net.op(Op.SOFTMAX, y, 1.0), x)]
    if which == "one result twice":
        return [y, net.op(Op.RESHAPE, y, np.array([8, 4], np.int32))]
    begin, sizes = np.zeros(2, np.int32), np.array([2, 8], np.int32)
    parts = [net.op(Op.SLICE, y, np.array([first, 0], np.int32) if first else begin, sizes) for first in (0, 2)]
    return [net.op(Op.CONCATENATION, *reversed(parts), net.code(0))]


@pytest.mark.parametrize(
    "which",
    ["an input as output", "an output that is read", "an input that is read again", "one result twice", "parts"],
)
def test_results(vulkan: VulkanDevice, which: str) -> None:
    net = Net()
    model = net.finish(*chain(net, which))
    plan = plan_of(vulkan, model)
    every = list(range(len(exchanged(plan))))
    expected = results(vulkan, plan, net.arrays, [])
    for bound in ([0], every[1:], every):
        assert results(vulkan, plan, net.arrays, bound) == expected, (families(plan), bound)


def test_a_verified_plan_copies(vulkan: VulkanDevice) -> None:
    plan = plan_of(vulkan, parse(SCATTER).model, redundancy=Redundancy.CHECKSUMS)
    assert copies(plan)
    assert relocations(plan, set(exchanged(plan))) == ({}, frozenset())


# --- updated in place ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("redundancy", Redundancy, ids=lambda each: each.name)
@pytest.mark.parametrize("memory", ["unified", "apart", "direct"])
@pytest.mark.parametrize("row", [SCATTER, "SCATTER_ND f32[7,12] i32[40,1]~6 f32[40,12] 0 -> same"], ids=["few", "many"])
def test_a_cache_in_place(vulkan: VulkanDevice, row: str, memory: str, redundancy: Redundancy) -> None:
    """Rows are written where they are, with no copy of the whole where the updates are few."""
    parsed = parse(row)
    profile = replace(vulkan.profile, unified_memory=memory == "unified", host_writes_device_memory=memory == "direct")
    shapes = [type_.dimensions for type_ in parsed.model.input_types()]
    plan = lower(parsed.model, shapes, profile, vulkan.planner.library, PlanOptions(redundancy=redundancy))
    arrays = [array for array in parsed.inputs if array is not None]
    for bound in ([0, 3], [0, 1, 2, 3]):
        assert results(vulkan, plan, arrays, bound, (0, 3)) == results(vulkan, plan, arrays, [])
    if row == SCATTER and not redundancy:
        every = exchanged(plan)
        moved, dropped = relocations(plan, {every[0], every[3]})
        void = copies_in_place(plan, moved, dropped, every[0], every[3])
        assert void is not None
        left = [command for number, command in enumerate(plan.commands) if number not in dropped | void]
        assert all(copy.nbytes < arrays[0].nbytes for copy in left if isinstance(copy, Copy))


def updating(net: Net, which: str) -> list[int]:
    """Outputs, of which the first has the type of the input."""
    x, rows = net.input(7, 12), net.input(2, 12)

    def scattered(updates: int) -> int:
        indices = np.array([[5], [2]], np.int32)
        return net.op(ExtendedOperationCode.SCATTER_ND, x, indices, updates, net.code(0))

    def part(first: int) -> int:
        return net.op(Op.SLICE, x, np.array([first, 0], np.int32), np.array([5, 12], np.int32))

    if which == "an input that is handed on":
        return [net.op(Op.RESHAPE, x, np.array([7, 12], np.int32)), net.op(Op.ABS, rows)]
    if which == "one operation":
        return [net.op(Op.ABS, x), net.op(Op.ABS, rows)]
    if which == "an input that is read later":
        written = scattered(rows)
        return [written, net.op(Op.MAXIMUM, net.op(Op.SOFTMAX, written, 1.0), x)]
    if which == "an input that is read before":
        sums = net.op(Op.REDUCE_SUM, x, np.array([0], np.int32), net.build.value(False))
        return [scattered(net.op(Op.MUL, rows, sums, net.code(0)))]
    parts = {
        "rows behind those that slide": [part(2), rows],
        "rows before those that slide": [rows, part(0)],
        "rows behind those that stay": [part(0), rows],
    }
    return [net.op(Op.CONCATENATION, *parts[which], net.code(0))]


@pytest.mark.parametrize("memory", ["unified", "apart"])
@pytest.mark.parametrize(
    "which",
    [
        "an input that is handed on",
        "one operation",
        "an input that is read later",
        "an input that is read before",
        "rows behind those that slide",
        "rows before those that slide",
        "rows behind those that stay",
    ],
)
def test_an_input_is_read_as_it_was(vulkan: VulkanDevice, which: str, memory: str) -> None:
    net = Net()
    model = net.finish(*updating(net, which))
    profile = replace(vulkan.profile, unified_memory=memory == "unified")
    shapes = [type_.dimensions for type_ in model.input_types()]
    plan = lower(model, shapes, profile, vulkan.planner.library)
    expected = results(vulkan, plan, net.arrays, [])
    output = len(net.arrays)
    for bound in ([0, output], list(range(len(exchanged(plan))))):
        assert results(vulkan, plan, net.arrays, bound, (0, output)) == expected, families(plan)
