"""An application at its last descriptors, or whose server is: functions of the C library at each count of free ones.

    python last_descriptors.py application | server

In between, when there are descriptors again, all of them must work.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import numpy as np
from c_client import COperandType, address, library, numbers
from c_library import FLOATS, servers
from descriptors import limited, lowered

from nnvk import OperandCode, OperandType, OperationCode, ResultCode
from nnvk.serve.installed import LIBRARY

LARGE = OperandType(OperandCode.TENSOR_FLOAT32, (50_000,))
"""More than a packet holds, and than a place of a segment."""
BLOB = 0x21
READ_WRITE = 3
MOST_FREE = 40
"""With as many, all of it works."""
ROUNDS = 10
"""How often all functions are called at the end; a descriptor that is lost in each round is noticed."""


class Walk:
    """Calls functions one after the other, each with what those before it have made, and frees all at the end.

    A call that needs something that could not be made is left out.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[str, int]] = []
        """Functions and what they returned: 0, a result code, or a negative errno."""
        self.errors: list[str] = []
        self._ends: list[Callable[[], object]] = []

    def call(self, name: str, *arguments: object) -> bool:
        """Whether it was a success; False without a call where an argument is missing."""
        if any(argument is None for argument in arguments):
            return False
        code = getattr(library(), name)(*(None if each == "NULL" else each for each in arguments))
        self.answers.append((name, code))
        return code == ResultCode.NO_ERROR

    def make(self, name: str, *arguments: object) -> ctypes.c_void_p | None:
        """Call a function that makes an object, which is freed at the end; None if it fails."""
        made = ctypes.c_void_p()
        if not self.call(name, *arguments, ctypes.byref(made)):
            return None
        kind = "Event" if "startCompute" in name else name.split("_")[0]
        free = getattr(library(), f"{kind}_free")
        self._ends.append(lambda: free(made))
        return made

    def other(self, name: str, *arguments: object) -> int:
        """Call a function of Android's other headers and return its result, which is negative if it fails."""
        result = int(getattr(library().loaded, name)(*arguments))
        # Those that make a descriptor return -1, and errno says why.
        self.answers.append((name, min(result, 0) if result != -1 else -ctypes.get_errno()))
        return result

    def owns(self, descriptor: int) -> None:
        """A descriptor that is closed at the end."""
        self._ends.append(lambda: os.close(descriptor))

    def end(self) -> None:
        """Free all that was made."""
        while self._ends:
            self._ends.pop()()


def shared_memory(walk: Walk) -> ctypes.c_void_p | None:
    """Memory of a descriptor, which is closed then."""
    descriptor = walk.other("ASharedMemory_create", b"test", ctypes.c_size_t(1 << 19))
    if descriptor < 0:
        return None
    memory = walk.make("Memory_createFromFd", 1 << 19, READ_WRITE, descriptor, 0)
    os.close(descriptor)
    return memory


def hardware_buffer(walk: Walk) -> ctypes.c_void_p | None:
    """Memory of a hardware buffer, which is released then."""
    buffer = ctypes.c_void_p()
    described = (ctypes.c_uint32 * 12)(4096, 1, 1, BLOB)
    if walk.other("AHardwareBuffer_allocate", described, ctypes.byref(buffer)) < 0:
        return None
    memory = walk.make("Memory_createFromAHardwareBuffer", buffer)
    library().loaded.AHardwareBuffer_release(buffer)
    return memory


def model_of(walk: Walk, type_: OperandType, memory: ctypes.c_void_p | None = None) -> ctypes.c_void_p | None:
    """output = input + a constant, which may lie in memory."""
    model = walk.make("Model_create")
    for given in (type_, type_, OperandType(OperandCode.INT32), type_):
        walk.call("Model_addOperand", model, ctypes.byref(COperandType.of(given)))
    ones, zero = np.ones(type_.dimensions, np.float32), np.zeros(1, np.int32)
    is_whole = (
        walk.call("Model_setOperandValue", model, 1, *address(ones))
        if memory is None
        else walk.call("Model_setOperandValueFromMemory", model, 1, memory, 0, ones.nbytes)
    )
    is_whole &= walk.call("Model_setOperandValue", model, 2, *address(zero))
    is_whole &= walk.call("Model_addOperation", model, OperationCode.ADD, 3, numbers([0, 1, 2]), 1, numbers([3]))
    is_whole &= walk.call("Model_identifyInputsAndOutputs", model, 1, numbers([0]), 1, numbers([3]))
    return model if is_whole and walk.call("Model_finish", model) else None


def execution_of(
    walk: Walk, compilation: ctypes.c_void_p | None, source: np.ndarray, result: np.ndarray
) -> ctypes.c_void_p | None:
    """An execution on arrays that stay."""
    execution = walk.make("Execution_create", compilation)
    walk.call("Execution_setReusable", execution, True)
    is_set = walk.call("Execution_setInput", execution, 0, "NULL", *address(source))
    return execution if walk.call("Execution_setOutput", execution, 0, "NULL", *address(result)) and is_set else None


def compute(walk: Walk, compilation: ctypes.c_void_p | None, type_: OperandType) -> None:
    """Compute in each way."""
    source, result = (np.full(type_.dimensions, value, np.float32) for value in (1.5, 0))

    def check(done: bool) -> None:
        if done and not (result == 2.5).all():
            walk.errors.append(f"{walk.answers[-1][0]} has given wrong results")
        result[:] = 0

    execution = execution_of(walk, compilation, source, result)
    check(walk.call("Execution_compute", execution))
    burst = walk.make("Burst_create", compilation)
    check(walk.call("Execution_burstCompute", execution, burst))
    event = walk.make("Execution_startCompute", execution)
    check(walk.call("Event_wait", event))
    try:
        readable, writable = os.pipe()
    except OSError:
        readable = writable = -1
    begin = walk.make("Event_createFromSyncFenceFd", readable) if readable >= 0 else None
    for before in (None, begin):
        given = (ctypes.c_void_p * 1)(0 if before is None else before.value)
        count = 0 if before is None else 1
        fenced = walk.make("Execution_startComputeWithDependencies", execution, given, count, 0)
        fence = ctypes.c_int(-1)
        if fenced is not None and walk.call("Event_getSyncFenceFd", fenced, ctypes.byref(fence)):
            walk.owns(fence.value)
        if writable >= 0 and before is not None:
            os.write(writable, b"0")
            walk.owns(readable)
            walk.owns(writable)
        check(walk.call("Event_wait", fenced))
    if begin is None and readable >= 0:
        walk.owns(readable)
        walk.owns(writable)


def whole() -> Walk:
    """All functions that make or pass descriptors, on small tensors and large ones, on each device."""
    walk = Walk()
    count, devices = ctypes.c_uint32(), []
    walk.call("getDeviceCount", ctypes.byref(count))
    for index in range(count.value):
        device = ctypes.c_void_p()
        if walk.call("getDevice", index, ctypes.byref(device)):
            devices.append(device)
    memory = shared_memory(walk)
    buffer = hardware_buffer(walk)
    walk.call("Memory_copy", buffer, buffer)
    for type_ in (FLOATS, LARGE):
        if memory is not None:
            model_of(walk, type_, memory)
        model = model_of(walk, type_)
        for device in devices:
            chosen = (ctypes.c_void_p * 1)(device.value)
            walk.call("Model_getSupportedOperationsForDevices", model, chosen, 1, (ctypes.c_bool * 1)())
            compilation = walk.make("Compilation_createForDevices", model, chosen, 1)
            if not walk.call("Compilation_finish", compilation):
                continue
            compute(walk, compilation, type_)
            description = walk.make("MemoryDesc_create")
            if walk.call("MemoryDesc_addInputRole", description, compilation, 0, 1.0):
                walk.call("MemoryDesc_finish", description)
                walk.make("Memory_createFromDesc", description)
    walk.end()
    return walk


def cases(who: str) -> Iterator[tuple[str, AbstractContextManager[None]]]:
    """Yield the name of each case, and a context that limits descriptors."""
    for count in range(MOST_FREE):
        pid = servers()[-1] if who == "server" else 0
        yield f"{count} free", limited(count, pid)
    if who == "application":
        for limit in range(4):
            yield f"a limit of {limit}", lowered(limit)


def main() -> None:
    """Print as JSON what was answered that is no success, in each case, and what does not work afterwards."""
    who = sys.argv[1]
    library().loaded = ctypes.CDLL(str(LIBRARY), use_errno=True)
    if who == "server":
        whole()
    answers: dict[str, list[tuple[str, int]]] = {}
    errors: list[str] = []
    for case, limit in cases(who):
        with limit:
            walk = whole()
        answers[case] = [(name, code) for name, code in walk.answers if code != ResultCode.NO_ERROR]
        again = whole()
        errors += [f"{case}: {error}" for error in (*walk.errors, *again.errors)]
        errors += [f"after {case}: {name} is {code}" for name, code in again.answers if code != ResultCode.NO_ERROR]
        before = len(os.listdir("/proc/self/fd"))
    for _ in range(ROUNDS):
        whole()
    left = len(os.listdir("/proc/self/fd"))
    if left >= before + ROUNDS:  # a few more are lanes that are kept, because more calls were under way at once
        errors.append(f"{left} descriptors are open, {before} were")
    print(json.dumps({"answers": answers, "errors": errors}))


if __name__ == "__main__":
    main()
