"""The stress tests run these workloads: ``workloads.py NAME DEVICE...``. A workload that returns has succeeded."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nnvk
from nnvk import NnapiError, OperandCode, OperandType, OperationCode, ResultCode

F32 = OperandCode.TENSOR_FLOAT32
INT = OperandType(OperandCode.INT32)


def chain(size: int, length: int, step: float = 1.0) -> nnvk.Model:
    """Output = input + length x step, by as many additions."""
    model = nnvk.Model()
    type_ = OperandType(F32, (size,))
    source = current = model.add_operand(type_)
    amount, activation = model.add_operand(OperandType(F32, (1,))), model.add_operand(INT)
    model.set_operand_value(amount, [step])
    model.set_operand_value(activation, 0)
    for _ in range(length):
        following = model.add_operand(type_)
        model.add_operation(OperationCode.ADD, [current, amount, activation], [following])
        current = following
    model.identify_inputs_and_outputs([source], [current])
    model.finish()
    return model


def compiled(model: nnvk.Model, device: nnvk.Device) -> nnvk.Compilation:
    compilation = nnvk.Compilation(model, [device])
    compilation.finish()
    return compilation


def ready(compilation: nnvk.Compilation, source: np.ndarray, target: np.ndarray) -> nnvk.Execution:
    execution = nnvk.Execution(compilation)
    execution.set_input(0, source)
    execution.set_output(0, target)
    return execution


def at_once(count: int, work: Callable[[int], None]) -> None:
    """Call ``work`` with 0 to ``count`` - 1 in threads; the first error is raised."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# --- how the harness is tested -----------------------------------------------------------------------------------


def succeeds(device: nnvk.Device) -> None:
    print("done")


def fails(device: nnvk.Device) -> None:
    raise ValueError("it fails")


def hangs(device: nnvk.Device) -> None:
    time.sleep(60)


def crashes(device: nnvk.Device) -> None:
    ctypes.string_at(0)


# --- workloads ---------------------------------------------------------------------------------------------------


def many_models(device: nnvk.Device) -> None:
    """Models prepared by several threads at once; all stay, and all run."""
    held: dict[tuple[int, int], nnvk.Compilation] = {}

    def prepare(thread: int) -> None:
        for number in range(6):
            held[thread, number] = compiled(chain(16 + number, 1 + thread, number), device)

    at_once(8, prepare)

    def execute(thread: int) -> None:
        for number in range(6):
            source, target = np.zeros(16 + number, np.float32), np.zeros(16 + number, np.float32)
            ready(held[thread, number], source, target).compute()
            assert (target == (1 + thread) * number).all(), (thread, number, target)

    at_once(8, execute)


def many_threads(device: nnvk.Device) -> None:
    """Threads that compute, start, and burst on one compilation, each on data of its own."""
    compilation = compiled(chain(256, 4), device)

    def work(number: int) -> None:
        source, target = np.full(256, number, np.float32), np.zeros(256, np.float32)
        execution = ready(compilation, source, target)
        execution.set_reusable(True)
        burst = nnvk.Burst(compilation)
        for turn in range(40):
            target[:] = -1
            match (turn + number) % 4:
                case 0:
                    execution.compute()
                case 1:
                    execution.start_compute().wait()
                case 2:
                    execution.burst_compute(burst)
                case 3:
                    execution.start_compute_with_dependencies([]).wait()
            assert (target == number + 4).all(), (number, turn, target)

    at_once(16, work)


def frees_in_every_order(device: nnvk.Device) -> None:
    """Everything that belongs together is dropped in random orders, some of it while it is at work."""
    generator = random.Random(7)
    for turn in range(12):
        made: dict[str, object] = {}
        model = made["model"] = chain(64, 3)
        compilation = made["compilation"] = compiled(model, device)
        source, target, other = (np.zeros(64, np.float32) for _ in range(3))
        desc = nnvk.MemoryDesc()
        desc.add_input_role(compilation, 0)
        desc.add_output_role(compilation, 0)
        desc.finish()
        memory = made["memory"] = nnvk.Memory.create_from_desc(desc)
        made["desc"] = desc
        made["burst"] = nnvk.Burst(compilation)
        first = made["first"] = nnvk.Execution(compilation)
        first.set_input(0, source)
        first.set_output_from_memory(0, memory)
        second = made["second"] = nnvk.Execution(compilation)
        second.set_input_from_memory(0, memory)
        second.set_output(0, target)
        third = made["third"] = ready(compilation, source, other)
        event = made["event"] = first.start_compute_with_dependencies([])
        last = made["last"] = second.start_compute_with_dependencies([event])
        made["descriptor"] = _Descriptor(last.get_sync_fence_fd())
        made["loose"] = third.start_compute()
        kept = [last] if turn % 2 else []
        del model, compilation, desc, memory, first, second, third, event, last
        names = list(made)
        generator.shuffle(names)
        for name in names:
            del made[name]
            if generator.random() < 0.3:
                gc.collect()
        for waited in kept:
            waited.wait()
            assert (target == 6).all(), target
        kept.clear()
        give_up = time.monotonic() + 60
        while not (other == 3).all() and time.monotonic() < give_up:
            time.sleep(0.001)  # what was dropped ends in the background
        assert (other == 3).all(), other


class _Descriptor:
    """Closes a descriptor when it is dropped."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __del__(self) -> None:
        os.close(self._number)


def memory_exhausted(device: nnvk.Device) -> None:
    """All memory that the process may have is taken: a clear error, and once some is free again, all works again."""
    source, target = np.zeros(64, np.float32), np.zeros(64, np.float32)
    execution = ready(compiled(chain(64, 2), device), source, target)
    execution.set_reusable(True)
    execution.compute()
    large = np.ones(1 << 21, np.float32)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (320 << 20), resource.RLIM_INFINITY))
    for take in (_device_memory, _large, _device_memory):
        held: list[object] = []
        code = ResultCode.NO_ERROR
        while code is ResultCode.NO_ERROR:
            try:
                held.append(take(device, large))
            except NnapiError as error:
                code = error.code
                print(error)
        assert code is ResultCode.OUT_OF_MEMORY, code
        assert held
        held.clear()
        gc.collect()
        target[:] = 0
        execution.compute()
        assert (target == 2).all()
        again = np.zeros(32, np.float32)
        ready(compiled(chain(32, 5), device), again, again.copy()).compute()


def _device_memory(device: nnvk.Device, content: np.ndarray) -> object:
    """Device memory that has been written to."""
    compilation = compiled(chain(content.size, 1), device)
    desc = nnvk.MemoryDesc()
    desc.add_input_role(compilation, 0)
    desc.finish()
    memory = nnvk.Memory.create_from_desc(desc)
    nnvk.Memory.copy(nnvk.Memory(content.view(np.uint8)), memory)
    return memory


def _large(device: nnvk.Device, content: np.ndarray) -> object:
    """A model with large tensors that has been executed, with memory for its output."""
    execution = nnvk.Execution(compiled(chain(content.size, 2), device))
    execution.set_input(0, content)
    memory = nnvk.Memory.create_from_hardware_buffer(nnvk.HardwareBuffer(content.nbytes))
    execution.set_output_from_memory(0, memory, 0, content.nbytes)
    execution.compute()
    return execution


def ten_thousand_executions(device: nnvk.Device) -> None:
    """Memory and descriptors are after them what they were after the first thousand."""
    compilation = compiled(chain(64, 2), device)
    source, target = np.zeros(64, np.float32), np.zeros(64, np.float32)
    reusable = ready(compilation, source, target)
    reusable.set_reusable(True)
    burst = nnvk.Burst(compilation)
    after_first: tuple[int, int] | None = None
    for number in range(10_000):
        target[0] = -1
        match number % 8:
            case 0:
                ready(compilation, source, target).compute()
            case 1:
                ready(compilation, source, target).start_compute().wait()
            case 2:
                event = ready(compilation, source, target).start_compute_with_dependencies([])
                os.close(event.get_sync_fence_fd())
                event.wait()
            case 3:
                reusable.burst_compute(burst)
            case _:
                reusable.compute()
        assert target[0] == 2, number
        if number == 2_000:
            after_first = _usage()
    assert after_first is not None
    time.sleep(0.1)
    memory, descriptors = _usage()
    print(f"{after_first} -> {(memory, descriptors)}")
    assert memory - after_first[0] < 8 << 20, f"{memory - after_first[0]} bytes more"
    assert descriptors <= after_first[1] + 2


def _usage() -> tuple[int, int]:
    """Resident bytes and open descriptors."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return resident, len(os.listdir("/proc/self/fd"))


def many_compilations(device: nnvk.Device) -> None:
    """A compilation that is freed gives back its memory and descriptors."""
    source, target = np.zeros(1 << 18, np.float32), np.zeros(1 << 18, np.float32)
    after_first: tuple[int, int] | None = None
    for number in range(40):
        execution = ready(compiled(chain(1 << 18, 3), device), source, target)
        execution.compute()
        del execution
        if number == 15:
            after_first = _usage()
    assert after_first is not None
    memory, descriptors = _usage()
    print(f"{after_first} -> {(memory, descriptors)}")
    assert memory - after_first[0] < 12 << 20, f"{memory - after_first[0]} bytes more"
    assert descriptors <= after_first[1] + 2


def exits_amid_work(device: nnvk.Device) -> None:
    """The process ends while executions are under way, and while others wait for what will never come."""
    compilation = compiled(chain(1 << 20, 8), device)
    readable, _ = os.pipe()
    never = nnvk.Event.create_from_sync_fence_fd(readable)
    source = np.zeros(1 << 20, np.float32)
    targets = [np.zeros(1 << 20, np.float32) for _ in range(4)]
    events = [ready(compilation, source, target).start_compute() for target in targets]
    waiting = [ready(compilation, source, target).start_compute_with_dependencies([never]) for target in targets]
    waiting[0].get_sync_fence_fd()
    _left.append((never, events, waiting))  # alive when the interpreter goes
    threading.Thread(target=ready(compilation, source, targets[0]).compute, daemon=True).start()


_left: list[object] = []


def deadlines_amid_work(device: nnvk.Device) -> None:
    """Executions that are given up, from several threads, and between them ones that are not."""
    compilation = compiled(chain(1 << 18, 12), device)
    source = np.zeros(1 << 18, np.float32)

    def work(number: int) -> None:
        generator = random.Random(number)
        for _ in range(12):
            target = np.zeros(1 << 18, np.float32)
            execution = ready(compilation, source, target)
            if generator.random() < 0.6:
                execution.set_timeout(generator.choice((1, 10**5, 10**6, 3 * 10**6)))
            try:
                execution.compute()
            except NnapiError as error:
                assert error.code is ResultCode.MISSED_DEADLINE_TRANSIENT, error
                continue
            assert (target == 12).all()

    at_once(4, work)


def main() -> None:
    """Run the workload that the arguments name on each device that they name, or on the last one."""
    _, name, *devices = sys.argv
    for device in devices or [nnvk.get_devices()[-1].name]:
        globals()[name](nnvk.get_device(device))


if __name__ == "__main__":
    main()
