"""Tensors of the arena that lie in the device memory of an input or output, so that it is not copied.

Where the host's memory is apart from the device's, a plan copies inputs from staging memory to the arena, and outputs
back. If device memory is bound to them, commands can use that in the place of the arena. If an input and an output are
the same device memory, a plan updates it in place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

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


def copies_in_place(
    plan: Plan, moved: Mapping[int, Address], dropped: Collection[int], source: Address, target: Address
) -> frozenset[int] | None:
    """The copies that do nothing if an input and an output are the same device memory; None if they can't be.

    ``source`` is the address of the input, ``target`` that of the output, ``moved`` and ``dropped`` are `relocations`.
    Apart from these copies, all commands that read the input must come before all that write the output, with a
    barrier between them.
    """

    def at(tensor: TensorRef) -> Address:
        """The address of the input or output in which a tensor lies, or of another tensor."""
        number = plan.parts.get(tensor.number, tensor.number)
        return moved.get(number, plan.addresses[number])

    void: set[int] = set()
    last_read, first_write = -1, len(plan.commands)
    for position, command in enumerate(plan.commands):
        if position in dropped:
            continue
        reads = any(at(tensor) == source for tensor in command.reads)
        writes = any(at(tensor) == target for tensor in command.writes)
        if isinstance(command, Copy) and reads and writes:
            before = [plan.place_in_whole(tensor.number)[1] for tensor in (command.source, command.target)]
            if before[0] == before[1]:
                void.add(position)
                continue
        if reads:
            last_read = position
        if writes:
            first_write = min(first_write, position)
    if not any(last_read < barrier <= first_write for barrier in (*plan.barriers, len(plan.commands))):
        return None
    return frozenset(void)
