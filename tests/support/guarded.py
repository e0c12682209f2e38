"""Runs plans of the Vulkan driver with every tensor in a buffer of its own, between guards that no shader may touch.

Whatever memory holds before is not zero, so that a shader that reads what nobody wrote gives other results than the
reference. And because no two tensors share a buffer, the validation layer sees the hazards between tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnvk import _native
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.graph.builder import NeedsValue
from nnvk.driver.vulkan.planning.barriers import barriers
from nnvk.driver.vulkan.planning.plan import Address, Plan
from nnvk.driver.vulkan.running.compiler import Unrolls, never
from nnvk.driver.vulkan.running.recording import Recording
from nnvk.driver.vulkan.shaders.commands import Storage, whole_vec4s
from nnvk.types.constant import bytes_of
from nnvk.types.model import Model
from nnvk.types.request import PrepareOptions

GUARD = 256
PATTERN = 0xA5A5A5A5
"""All memory holds this word at first: as float a small negative number, as bytes 165 or -91."""


def spread(plan: Plan) -> Plan:
    """The same plan with every tensor in a page of its own, amid guards."""
    count = dict.fromkeys(Storage, 0)
    addresses: dict[int, Address] = {}
    moved: dict[Address, Address] = {}
    pages: dict[Storage, tuple[int, ...]] = dict.fromkeys(Storage, ())
    for number, address in plan.addresses.items():
        storage = address.storage
        if number in plan.parts:
            continue
        addresses[number] = Address(storage, count[storage], GUARD, address.nbytes)
        if storage is not Storage.ARENA:  # there, tensors that don't live together may have the same address
            moved[address] = addresses[number]
        pages[storage] += (2 * GUARD + whole_vec4s(address.nbytes),)
        count[storage] += 1
    for number, whole in plan.parts.items():
        _, before = plan.place_in_whole(number)
        addresses[number] = replace(addresses[whole], offset=GUARD + before, nbytes=plan.addresses[number].nbytes)
    found = plan.verification
    return replace(
        plan,
        addresses=addresses,
        barriers=barriers(plan.commands, addresses, by_buffer=True),  # tensors share one where they lie in another
        pages=pages,
        constants=tuple((moved[address], data) for address, data in plan.constants),
        inputs=tuple(address and moved[address] for address in plan.inputs),
        outputs=tuple(address and moved[address] for address in plan.outputs),
        flags=tuple(replace(flag, address=moved[flag.address]) for flag in plan.flags),
        counts=tuple(address and moved[address] for address in plan.counts),
        entropy=tuple(moved[address] for address in plan.entropy),
        verification=found and replace(found, address=moved[found.address]),
    )


class GuardedRecording(Recording):
    """An instance of a plan that was `spread`."""

    def __init__(self, device: _native.Device, plan: Plan, *, unrolls: Unrolls = never) -> None:
        self._constant_pages = [_image(size) for size in plan.pages[Storage.CONSTANTS]]
        for address, data in plan.constants:
            page = self._constant_pages[address.page]
            page[address.offset : address.offset + data.nbytes] = bytes_of(data)
        constants = [_upload(device, page) for page in self._constant_pages]
        super().__init__(device, plan, constants, unrolls=unrolls)
        for buffer in (*self._buffers[Storage.STAGING], *self._buffers[Storage.UPLOAD]):
            buffer.view()[:] = _image(buffer.size)
        program = device.create_program()
        for buffer in self._buffers[Storage.ARENA]:
            program.fill(buffer, 0, buffer.size, PATTERN)
        program.finish([], [])
        program.run([], [])

    def violations(self, inputs: Sequence[np.ndarray]) -> list[str]:
        """List the guards, constants and inputs that have changed."""
        wrong = []
        for page, buffer in enumerate(self._buffers[Storage.CONSTANTS]):
            if (_download(self._device, buffer) != self._constant_pages[page]).any():
                wrong.append(f"constant {page} has changed")
        given = [address for address in self.plan.inputs if address is not None]
        for address in self.plan.addresses.values():
            if address.storage is Storage.CONSTANTS:
                continue
            buffer = self._buffers[address.storage][address.page]
            content = buffer.view() if buffer.host_visible else _download(self._device, buffer)
            untouched = np.ones(buffer.size, bool)
            untouched[GUARD : buffer.size - GUARD] = False
            expected = _image(buffer.size)
            if address in given:
                array = inputs[given.index(address)]
                expected[GUARD : GUARD + array.nbytes] = array.reshape(-1).view(np.uint8)
                untouched[:] = True
            places = np.flatnonzero((content != expected) & untouched)
            if places.size:
                wrong.append(
                    f"{address.storage.value} {address.page} of {address.nbytes} bytes: bytes {places[0] - GUARD} to "
                    f"{places[-1] - GUARD} were written"
                )
        return wrong


def run_guarded(
    device: VulkanDevice, model: Model, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> list[str]:
    """Execute twice in the same memory, and say what was written where nothing must be."""
    given = dict(zip(model.inputs, inputs, strict=True))
    looked_at: dict[int, np.ndarray] = {}
    while True:
        try:
            plan = device.planner.plan(model, [array.shape for array in inputs], PrepareOptions(), looked_at)
        except NeedsValue as needed:
            looked_at[needed.operand] = given[needed.operand]
        else:
            return run_plan_guarded(device, plan, inputs, outputs)


def run_plan_guarded(
    device: VulkanDevice, plan: Plan, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> list[str]:
    """`run_guarded` for a plan."""
    plan = spread(plan)
    instance = GuardedRecording(device.gpu.native(), plan, unrolls=device.gpu.unrolls)
    given = [array for array, address in zip(inputs, plan.inputs, strict=True) if address is not None]
    entropy = [np.arange(address.nbytes, dtype=np.uint8) for address in plan.entropy]
    reports = {address: np.zeros(address.nbytes // 4, np.uint32) for address in plan.reports}
    first = _run(instance, [*given, *entropy], outputs, reports)
    if _run(instance, [*given, *entropy], outputs, reports) != first:
        return ["the second run gives something else than the first"]
    counted = zip(plan.counts, outputs, strict=bool(plan.counts))
    wrong = [
        f"an output of {len(array)} rows has {reports[count][0]}"
        for count, array in counted
        if count is not None and reports[count][0] != len(array)
    ]
    return wrong + instance.violations(given)


def _run(
    instance: GuardedRecording,
    given: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    reports: Mapping[Address, np.ndarray],
) -> list[bytes]:
    """Execute, and fill the outputs, which may have fewer rows than there is room for."""
    pairs = [
        (array, np.zeros(address.nbytes, np.uint8))
        for array, address in zip(outputs, instance.plan.outputs, strict=True)
        if address is not None
    ]
    instance.program.run(given, [*(fetched for _, fetched in pairs), *reports.values()])
    for array, fetched in pairs:
        array.reshape(-1).view(np.uint8)[:] = fetched[: array.nbytes]
    return [array.tobytes() for array in outputs]


def _image(size: int) -> np.ndarray:
    return np.full(size, PATTERN & 0xFF, np.uint8)


def _upload(device: _native.Device, content: np.ndarray) -> _native.Buffer:
    target = device.create_buffer(content.size, host_visible=False)
    staging = device.create_buffer(content.size, host_visible=True)
    staging.view()[:] = content
    program = device.create_program()
    program.copy(staging, 0, target, 0, content.size)
    program.finish([], [])
    program.run([], [])
    return target


def _download(device: _native.Device, buffer: _native.Buffer) -> np.ndarray:
    staging = device.create_buffer(buffer.size, host_visible=True)
    program = device.create_program()
    program.copy(buffer, 0, staging, 0, buffer.size)
    program.finish([], [])
    program.run([], [])
    return staging.view().copy()
