"""Faults of a device: plans whose commands go wrong in a way that a seed chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnvk.driver.vulkan.planning.barriers import barriers
from nnvk.driver.vulkan.planning.plan import Address, Plan
from nnvk.driver.vulkan.shaders.commands import ALIGNMENT, Command, Copy, Dispatch, Storage, TensorRef

KINDS = ("word", "block", "late", "workgroup", "skipped", "early")
"""A word or a block of a result is overwritten, or a word of what a command reads, right before it reads that; the last
workgroup or the whole command is left out; or it runs before the command in front of it, so that it may read old data.
"""
_BLOCK = 1024


def computing(plan: Plan) -> list[int]:
    """The positions of the commands that compute, and don't compare."""
    return [
        position
        for position, command in enumerate(plan.commands)
        if isinstance(command, Copy) or (isinstance(command, Dispatch) and command.shader.family != "verification")
    ]


def with_fault(plan: Plan, kind: str, seed: int, *, by_buffer: bool) -> Plan:
    """The plan with one fault of a kind, in a command that computes and at a place that the seed chooses."""
    rng = np.random.default_rng(seed)
    position = int(rng.choice(computing(plan)))
    command, commands = plan.commands[position], list(plan.commands)
    if kind in ("word", "block"):
        return overwritten(plan, position + 1, command.writes, _BLOCK if kind == "block" else 4, rng, by_buffer)
    computed = [tensor for tensor in command.reads if tensor.storage is Storage.ARENA]
    if kind == "late" and computed:
        return overwritten(plan, position, computed, 4, rng, by_buffer)
    if kind == "workgroup" and isinstance(command, Dispatch) and max(command.groups) > 1:
        x, y, z = command.groups
        commands[position] = replace(command, groups=(x - 1, y, z) if x > 1 else (x, y - 1, z) if y > 1 else (x, y, 1))
    elif kind == "early" and position:
        commands[position - 1 : position + 1] = commands[position], commands[position - 1]
    else:
        return without_command(plan, position, by_buffer=by_buffer)
    return _with_commands(plan, commands, by_buffer)


def without_command(plan: Plan, position: int, *, by_buffer: bool) -> Plan:
    """The plan without the command at a position."""
    commands = list(plan.commands)
    del commands[position]
    return _with_commands(plan, commands, by_buffer)


def overwritten(
    plan: Plan, position: int, tensors: Sequence[TensorRef], nbytes: int, rng: np.random.Generator, by_buffer: bool
) -> Plan:
    """The plan with a copy of random bytes onto a part of one of some tensors, before the command at a position."""
    target = plan.addresses[tensors[int(rng.integers(len(tensors)))].number]
    nbytes = max(4, min(nbytes, target.nbytes // 4 * 4))
    first = 4 * int(rng.integers((max(target.nbytes - nbytes, 0)) // 4 + 1))
    size = -(-nbytes // ALIGNMENT) * ALIGNMENT
    return _with_copy(plan, position, target, first, nbytes, rng.integers(0, 256, size, np.uint8), by_buffer)


def replaced(plan: Plan, position: int, tensor: TensorRef, place: int, values: np.ndarray, by_buffer: bool) -> Plan:
    """The plan with a copy of values onto a tensor from an element on, before the command at a position."""
    data = np.zeros(-(-values.nbytes // ALIGNMENT) * ALIGNMENT, np.uint8)
    data[: values.nbytes] = values.view(np.uint8)
    return _with_copy(
        plan, position, plan.addresses[tensor.number], values.itemsize * place, values.nbytes, data, by_buffer
    )


def _with_copy(
    plan: Plan, position: int, target: Address, first: int, nbytes: int, data: np.ndarray, by_buffer: bool
) -> Plan:
    """The plan with a copy of the first bytes of data, of a multiple of ALIGNMENT, into an address."""
    number, page = 1 + max(plan.addresses), len(plan.pages[Storage.CONSTANTS])
    size = data.nbytes
    there = Address(target.storage, target.page, target.offset + first, nbytes)
    noise = Address(Storage.CONSTANTS, page, 0, size)
    refs = [TensorRef(number + place, nbytes, spot.storage) for place, spot in enumerate((noise, there))]
    commands: list[Command] = list(plan.commands)
    commands.insert(position, Copy(*refs, nbytes))
    plan = replace(
        plan,
        addresses={**plan.addresses, number: noise, number + 1: there},
        pages={**plan.pages, Storage.CONSTANTS: (*plan.pages[Storage.CONSTANTS], size)},
        constants=(*plan.constants, (noise, data)),
    )
    return _with_commands(plan, commands, by_buffer)


def _with_commands(plan: Plan, commands: list[Command], by_buffer: bool) -> Plan:
    needed = barriers(commands, plan.addresses, by_buffer=by_buffer)
    return replace(plan, commands=tuple(commands), barriers=needed)
