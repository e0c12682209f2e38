"""Tensors of the arena that lie in the device memory of an input or output, so that it is not copied.

Where the host's memory is apart from the device's, a plan copies inputs from staging memory to the arena, and outputs
back. If device memory is bound to them, commands can use that in the place of the arena.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from nnvk.driver.vulkan.planning.plan import Address, Plan
from nnvk.driver.vulkan.shaders.commands import Copy, Storage, TensorRef


def relocations(plan: Plan, bound: Collection[Address]) -> tuple[dict[int, Address], frozenset[int]]:
    """The tensors that lie at the addresses of inputs and outputs, and the positions of the copies that go.

    ``bound`` are the addresses of inputs and outputs that are device memory. The tensors are given by
    `TensorRef.number`, each with the address of its input or output. A plan's barriers suffice: all commands but for
    these copies touch the same tensors as before. A verified plan stays as it is, because it computes copies twice.
    """
    if not bound or plan.verification is not None:
        return {}, frozenset()
    writers: defaultdict[int, list[int]] = defaultdict(list)
    readers: defaultdict[int, list[int]] = defaultdict(list)
    for position, command in enumerate(plan.commands):
        for touched, tensors in ((writers, command.writes), (readers, command.reads)):
            for tensor in tensors:
                touched[plan.parts.get(tensor.number, tensor.number)].append(position)

    def at(tensor: TensorRef) -> Address | None:
        """The address of the input or output that a tensor is, if device memory is bound to it."""
        address = plan.addresses[tensor.number]
        return address if address in bound and tensor.number not in plan.parts else None

    def is_movable(tensor: TensorRef, other: TensorRef) -> bool:
        """Whether a tensor lies by itself in the arena, and is as large as another one."""
        is_own = tensor.storage is Storage.ARENA and tensor.number not in plan.parts
        return is_own and tensor.nbytes == other.nbytes and tensor.number not in moved

    moved: dict[int, Address] = {}
    dropped: set[int] = set()
    for position, command in enumerate(plan.commands):
        if not isinstance(command, Copy):
            continue
        source, target = command.source, command.target
        given, wanted = at(source), at(target)
        if given is not None and is_movable(target, source) and writers[target.number] == [position]:
            moved[target.number] = given
            dropped.add(position)
        elif (
            wanted is not None
            and is_movable(source, target)
            and writers[target.number] == [position]
            and not readers[target.number]
            and all(writer < position for writer in writers[source.number])
        ):
            moved[source.number] = wanted
            dropped.add(position)
    return moved, frozenset(dropped)
