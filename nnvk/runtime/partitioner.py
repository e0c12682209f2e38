"""Assign operations to devices: pure functions from a model and the devices' answers to partitions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nnvk.base.errors import bad_data
from nnvk.ops.flow import CONTROL_FLOW
from nnvk.types.model import Model


@dataclass(frozen=True, slots=True)
class Cut:
    """Operations, by position in the model, that one device, by position in the list of devices, runs at a stretch."""

    device: int
    operations: tuple[int, ...]


RUNTIME = -1
"""The value instead of a device for control flow that no device runs: the runtime takes its decisions."""


def assign(model: Model, supported: Sequence[Sequence[bool]]) -> list[int]:
    """The device of each operation: the first, in the order of preference, that runs it.

    ``supported[d][o]`` says whether device d runs operation o. BAD_DATA: an operation that no device runs.
    """
    device_of: list[int] = []
    for number, operation in enumerate(model.operations):
        able = [device for device, answers in enumerate(supported) if answers[number]]
        if not able and operation.code in CONTROL_FLOW:
            able = [RUNTIME]
        if not able:
            raise bad_data(f"operation {number} ({operation}): none of the devices supports it")
        device_of.append(able[0])
    return device_of


def partition_model(model: Model, device_of: Sequence[int], alone: Collection[int] = ()) -> list[Cut]:
    """Cut a model into as few partitions as its graph allows, each operation on its device.

    A partition takes everything that is ready on its device before another device comes to turn; operations in
    ``alone`` get partitions of their own.
    """
    starts = sorted(set(device_of))
    plans = [_schedule(model, device_of, alone, start) for start in starts]
    return min(plans, key=len) if plans else []


def _schedule(model: Model, device_of: Sequence[int], alone: Collection[int], current: int) -> list[Cut]:
    """The partitions if device ``current`` begins."""
    writer = {index: number for number, operation in enumerate(model.operations) for index in operation.outputs}
    missing = [{writer[index] for index in operation.inputs if index in writer} for operation in model.operations]
    readers: list[list[int]] = [[] for _ in model.operations]
    for number, needs in enumerate(missing):
        for need in needs:
            readers[need].append(number)
    ready: dict[int, list[int]] = {device: [] for device in device_of}
    singles: list[int] = []

    def release(number: int) -> None:
        (singles if number in alone else ready[device_of[number]]).append(number)

    for number, needs in enumerate(missing):
        if not needs:
            release(number)
    cuts: list[Cut] = []
    while singles or any(ready.values()):
        taken: list[int] = []
        if not any(ready.values()):
            current_queue, most = singles, 1
        else:
            if not ready[current]:
                current = max((device for device in ready if ready[device]), key=lambda device: len(ready[device]))
            current_queue, most = ready[current], len(model.operations)
        while current_queue and len(taken) < most:
            number = current_queue.pop(0)
            taken.append(number)
            for reader in readers[number]:
                missing[reader].discard(number)
                if not missing[reader]:
                    release(reader)
        cuts.append(Cut(device_of[taken[0]], tuple(sorted(taken))))
    return cuts
