"""A plan on its device: uploaded constants, the instances that are idle, and requests bound to it."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.base.log import logger
from nnvk.driver.vulkan.plan import Address, Plan
from nnvk.driver.vulkan.recorder import Instance, upload_constants
from nnvk.types.model import Model
from nnvk.types.request import ExecutionResult, OutputShape, Request

if TYPE_CHECKING:
    from nnvk.driver.vulkan.buffer import VulkanBuffer
    from nnvk.driver.vulkan.device import VulkanDevice

_log = logger("driver")
MAX_BOUND = 8
"""Sets of device memory for which recorded instances are kept."""

Key = tuple[tuple[tuple[Address, int], ...], str]
"""Which addresses are device memory, by its token, and what is timed."""


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A request's arguments as a program takes them."""

    inputs: tuple[np.ndarray | None, ...]
    outputs: tuple[np.ndarray | None, ...]
    external: Mapping[Address, VulkanBuffer]
    """Device memory in the place of exchanges with the host."""
    short: ExecutionResult | None
    """The result where a buffer is too small for its output: nothing is executed then."""
    bytes_in: int
    bytes_out: int

    def key(self, timestamps: str) -> Key:
        """What an instance for this binding is kept under."""
        return tuple((address, memory.token) for address, memory in self.external.items()), timestamps


_HOST_ONLY = Binding((), (), {}, None, 0, 0)


class Planned:
    """A plan on the device."""

    def __init__(self, device: VulkanDevice, model: Model, plan: Plan) -> None:
        self._device = device
        self._native = device.native()
        self._constants = upload_constants(self._native, plan)
        self.plan = replace(plan, constants=())  # the device has them now
        self._idle: OrderedDict[Key, list[Instance]] = OrderedDict()
        self._lock = threading.Lock()
        self._gone: deque[int] = deque()
        self._sizes = tuple(
            math.prod(shape) * type_.dtype.itemsize
            for shape, type_ in zip(plan.output_shapes, model.output_types(), strict=True)
        )
        self.shapes = tuple(OutputShape(shape) for shape in plan.output_shapes)
        self.done = ExecutionResult(ResultCode.NO_ERROR, self.shapes)
        """What an execution without timing gives."""
        _log.debug("planned: %d commands, %d barriers, pages %s", len(plan.commands), len(plan.barriers), plan.pages)

    def warm_up(self) -> None:
        """Record an instance for plain executions."""
        self.put(self.take(_HOST_ONLY, "none"), _HOST_ONLY, "none")

    def take(self, binding: Binding, timestamps: str) -> Instance:
        """An instance for the caller alone; `put` it back."""
        with self._lock:
            self._drop_gone()
            idle = self._idle.get(binding.key(timestamps))
            if idle:
                return idle.pop()
        try:
            return Instance(
                self._native,
                self.plan,
                self._constants,
                external={address: memory.buffer for address, memory in binding.external.items()},
                timestamps=timestamps,
            )
        except (RuntimeError, MemoryError) as error:
            raise self._device.failure(error) from error

    def put(self, instance: Instance, binding: Binding, timestamps: str) -> None:
        """Give an instance back whose work is done."""
        key = binding.key(timestamps)
        with self._lock:
            self._drop_gone()
            self._idle.setdefault(key, []).append(instance)
            if key[0]:
                self._idle.move_to_end(key)
                bound = [key for key in self._idle if key[0]]
                for old in bound[: max(0, len(bound) - MAX_BOUND)]:
                    del self._idle[old]

    def forget(self, token: int) -> None:
        """Drop the instances that are recorded on device memory that goes away.

        Called by a destructor, and so perhaps in the middle of another method of the same thread: where that holds
        the lock, the next one drops them.
        """
        self._gone.append(token)
        if self._lock.acquire(blocking=False):
            try:
                self._drop_gone()
            finally:
                self._lock.release()

    def _drop_gone(self) -> None:
        while self._gone:
            token = self._gone.popleft()
            for key in [key for key in self._idle if any(used == token for _, used in key[0])]:
                del self._idle[key]

    def bind(self, request: Request) -> Binding:
        """The arguments of a request whose input shapes are the plan's. Raises BAD_DATA for unfit device memory."""
        external: dict[Address, VulkanBuffer] = {}
        inputs: list[np.ndarray | None] = []
        outputs: list[np.ndarray | None] = []
        shapes: list[OutputShape] = []
        for position, (source, address) in enumerate(zip(request.inputs, self.plan.inputs, strict=True)):
            if address is None:
                continue
            if source.token:
                external[address] = self._memory(f"input {position}", source.token, address.nbytes)
            else:
                inputs.append(source.array)
        for position, (target, address) in enumerate(zip(request.outputs, self.plan.outputs, strict=True)):
            size, buffer, enough = self._sizes[position], target.buffer, True
            if address is not None and target.token:
                memory = self._memory(f"output {position}", target.token, 0)
                if memory in external.values():
                    raise bad_data(f"output {position} is device memory that the same execution uses already")
                enough = memory.buffer.size >= size
                external[address] = memory
            elif address is not None:
                enough = buffer is None or buffer.nbytes >= size
                outputs.append(None if buffer is None else buffer[:size])
            shapes.append(OutputShape(self.plan.output_shapes[position], enough))
        short = None
        if not all(shape.is_sufficient for shape in shapes):
            short = ExecutionResult(ResultCode.OUTPUT_INSUFFICIENT_SIZE, tuple(shapes))
        bytes_in, bytes_out = (sum(a.nbytes for a in arrays if a is not None) for arrays in (inputs, outputs))
        return Binding(tuple(inputs), tuple(outputs), external, short, bytes_in, bytes_out)

    def _memory(self, what: str, token: int, least: int) -> VulkanBuffer:
        memory = self._device.buffer(token)
        if memory is None:
            raise bad_data(f"{what}: {self._device.name} has no buffer {token}")
        if memory.buffer.size < least:
            raise bad_data(f"{what} takes {least} bytes, buffer {token} has {memory.buffer.size}")
        if memory.native is not self._native:
            raise NnapiError(ResultCode.DEAD_OBJECT, f"{what}: buffer {token} was lost with its Vulkan device")
        memory.users.add(self)
        return memory
