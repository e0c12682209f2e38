"""The ways to execute a model that the vectors can be run through."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.api import Burst, Compilation, Execution, Memory, MemoryDesc


class NotApplicable(Exception):
    """Raised by an execution path that a model can't be run through; the test is then UNSUPPORTED."""


Arrays = Sequence["np.ndarray | None"]
"""The inputs or outputs of an execution; None stands for an input that is omitted."""
Run = Callable[[Compilation, Execution], None]
"""Runs an execution whose inputs and outputs are set, to its end."""
Fetch = Callable[[], None]
"""Brings outputs to their arrays, after the execution."""
Feed = Callable[[Compilation, Execution, Arrays, Arrays], Fetch]
"""Sets inputs and outputs."""


@dataclass(frozen=True, slots=True)
class ExecutionPath:
    """One way to execute."""

    run: Run
    feed: Feed
    unspecified: bool = False
    """The model leaves the dimensions of its outputs open."""
    is_c: bool = False
    """All goes through the C library and its server; the rest does not count."""


def _compute(compilation: Compilation, execution: Execution) -> None:
    execution.compute()


def _start_compute(compilation: Compilation, execution: Execution) -> None:
    execution.start_compute().wait()


def _burst(compilation: Compilation, execution: Execution) -> None:
    execution.burst_compute(Burst(compilation))


def _fenced(compilation: Compilation, execution: Execution) -> None:
    if not all(type_.is_fully_specified for type_ in compilation.model.output_types()):
        raise NotApplicable("a fenced execution needs all dimensions of its outputs")
    execution.start_compute_with_dependencies(()).wait()


def _three_times(compilation: Compilation, execution: Execution) -> None:
    execution.set_reusable(True)
    for _ in range(3):
        execution.compute()


def _buffers(compilation: Compilation, execution: Execution, inputs: Arrays, outputs: Arrays) -> Fetch:
    for index, source in enumerate(inputs):
        execution.set_input(index, source)
    for index, target in enumerate(outputs):
        execution.set_output(index, target)
    return lambda: None


def _memories(compilation: Compilation, execution: Execution, inputs: Arrays, outputs: Arrays) -> Fetch:
    """Everything in one file that is mapped, at odd offsets."""
    gap = 64
    sizes = [0 if array is None else array.nbytes for array in (*inputs, *outputs)]
    offsets = np.cumsum([gap, *(-(-size // gap) * gap + gap for size in sizes)]).tolist()
    total = offsets[-1] + gap
    descriptor = os.memfd_create("nnvk-conformance", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, total)
        memory = Memory.create_from_fd(total, mmap.PROT_READ | mmap.PROT_WRITE, descriptor)
    finally:
        os.close(descriptor)
    for index, source in enumerate(inputs):
        if source is None:
            execution.set_input(index, None)
            continue
        memory.slice(offsets[index], source.nbytes)[:] = _bytes(source)
        execution.set_input_from_memory(index, memory, offsets[index], source.nbytes)
    places = list(zip(outputs, offsets[len(inputs) :], strict=False))
    for index, (target, offset) in enumerate(places):
        assert target is not None
        memory.slice(offset, target.nbytes)[:] = _bytes(target)  # what must be overwritten
        execution.set_output_from_memory(index, memory, offset, target.nbytes)

    def fetch() -> None:
        for target, offset in places:
            assert target is not None
            _bytes(target)[:] = memory.slice(offset, target.nbytes)

    return fetch


def _device_memories(compilation: Compilation, execution: Execution, inputs: Arrays, outputs: Arrays) -> Fetch:
    """Everything in device memory, but for what is empty or of unknown size."""
    for index, (source, type_) in enumerate(zip(inputs, compilation.model.input_types(), strict=True)):
        if source is None or not source.size or not type_.is_fully_specified:
            execution.set_input(index, source)
            continue
        desc = MemoryDesc()
        desc.add_input_role(compilation, index)
        desc.finish()
        memory = Memory.create_from_desc(desc)
        Memory.copy(Memory(_bytes(source)), memory)
        execution.set_input_from_memory(index, memory)
    held: list[tuple[Memory, np.ndarray]] = []
    for index, (target, type_) in enumerate(zip(outputs, compilation.model.output_types(), strict=True)):
        if target is None or not target.size or not type_.is_fully_specified:
            execution.set_output(index, target)
            continue
        desc = MemoryDesc()
        desc.add_output_role(compilation, index)
        desc.finish()
        memory = Memory.create_from_desc(desc)
        execution.set_output_from_memory(index, memory)
        held.append((memory, target))

    def fetch() -> None:
        for memory, target in held:
            Memory.copy(memory, Memory(_bytes(target)))

    return fetch


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


EXECUTION_PATHS: Mapping[str, ExecutionPath] = {
    "sync": ExecutionPath(_compute, _buffers),
    "async": ExecutionPath(_start_compute, _buffers),
    "burst": ExecutionPath(_burst, _buffers),
    "fenced": ExecutionPath(_fenced, _buffers),
    "reusable": ExecutionPath(_three_times, _buffers),
    "memory": ExecutionPath(_compute, _memories),
    "device-memory": ExecutionPath(_compute, _device_memories),
    "unspecified": ExecutionPath(_compute, _buffers, unspecified=True),
    "c": ExecutionPath(_compute, _buffers, is_c=True),
}
"""The execution paths, by their names for ``nnvk conformance --path``."""
