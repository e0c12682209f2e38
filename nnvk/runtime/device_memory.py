"""Memory domains: memory with roles, which stays on a device between executions."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set

import numpy as np

from nnvk.base import forks
from nnvk.base.checks import instance, real, whole, wholes
from nnvk.base.errors import NnapiError, ResultCode, bad_data, bad_state, driving, op_failed
from nnvk.base.log import logger
from nnvk.hal import IBuffer
from nnvk.ops.registry import compatible
from nnvk.runtime.compilation import Compilation
from nnvk.runtime.memory import Memory
from nnvk.types.operand import OperandType, Shape

_log = logger("manager")


class MemoryDesc:
    """The intended use of a device memory (``ANeuralNetworksMemoryDesc``)."""

    def __init__(self) -> None:
        self._roles: dict[tuple[int, str, int], tuple[Compilation, OperandType]] = {}
        self._updates: set[tuple[int, int, int]] = set()
        self._dimensions: Shape = ()
        self._finished = False

    def add_input_role(self, compilation: Compilation, index: int, frequency: float = 1.0) -> None:
        """The memory may be input ``index`` of executions of a finished compilation.

        (``ANeuralNetworksMemoryDesc_addInputRole``.) ``frequency``, in (0, 1], says how likely. BAD_DATA: the role is
        there already, or contradicts another in type or dimensions. BAD_STATE: finished.
        """
        self._add_role(compilation, "input", index, frequency)

    def add_output_role(self, compilation: Compilation, index: int, frequency: float = 1.0) -> None:
        """The memory may be output ``index`` of executions of a finished compilation.

        (``ANeuralNetworksMemoryDesc_addOutputRole``.) As `add_input_role`.
        """
        self._add_role(compilation, "output", index, frequency)

    def add_update_role(self, compilation: Compilation, input: int, output: int, frequency: float = 1.0) -> None:
        """The memory may be input ``input`` and output ``output`` of the same execution, which updates it.

        NNAPI has no such role: there an execution with one memory as both fails. Commands read the input as it was
        before. A cache of which an execution writes a few rows is not copied. Errors as `add_input_role`; BAD_DATA: the
        compilation repairs wrong results, for which it needs its inputs a second time.
        """
        if instance("the compilation", compilation, Compilation).repairs:
            raise bad_data('a memory that executions update can\'t have roles of a compilation with verified="repair"')
        roles, dimensions = dict(self._roles), self._dimensions
        try:
            self._add_role(compilation, "input", input, frequency)
            self._add_role(compilation, "output", output, frequency)
        except BaseException:
            self._roles, self._dimensions = roles, dimensions  # both roles, or none
            raise
        self._updates.add((id(compilation), whole("the input's index", input), whole("the output's index", output)))

    def set_dimensions(self, dimensions: Sequence[int]) -> None:
        """Dimensions that the roles leave open; 0 where unknown (``ANeuralNetworksMemoryDesc_setDimensions``).

        BAD_DATA: they are no numbers of 32 bits, or contradict the roles. BAD_STATE: finished.
        """
        self._check_unfinished("set_dimensions")
        shape = wholes("the dimensions", dimensions, 0, 2**32 - 1)
        self._check_scalar([type_ for _, type_ in self._roles.values()], shape)
        self._dimensions = self._merged(shape, "the dimensions")

    def finish(self) -> None:
        """End the description (``ANeuralNetworksMemoryDesc_finish``). BAD_DATA: it has no role."""
        self._check_unfinished("finish")
        if not self._roles:
            raise bad_data("a memory descriptor needs at least one role")
        self._finished = True

    def create_memory(self) -> DeviceMemory:
        """The memory that ``Memory.create_from_desc`` returns."""
        return DeviceMemory(self)

    def _add_role(self, compilation: Compilation, what: str, index: int, frequency: float) -> None:
        self._check_unfinished(f"add_{what}_role")
        if not instance("the compilation", compilation, Compilation).is_finished:
            raise bad_data("roles are those of a compilation that is finished, and has not failed to")
        index, frequency = whole(f"the {what}'s index", index), real("frequency", frequency)
        types = compilation.model.input_types() if what == "input" else compilation.model.output_types()
        if not 0 <= index < len(types):
            raise bad_data(f"{what} {index} does not exist, the model has {len(types)}")
        if not 0.0 < frequency <= 1.0:
            raise bad_data(f"frequency must be in (0, 1], got {frequency}")
        key = id(compilation), what, index
        if key in self._roles:
            raise bad_data(f"{what} {index} of this compilation has a role already")
        type_ = types[index]
        for _, other in self._roles.values():
            if _meaning(other) != _meaning(type_):
                raise bad_data(f"{what} {index} is {type_}, another role {other}")
        self._check_scalar([type_], self._dimensions)
        self._dimensions = self._merged(type_.dimensions, f"{what} {index}")
        self._roles[key] = compilation, type_

    def _check_scalar(self, types: Sequence[OperandType], dimensions: Shape) -> None:
        if dimensions and any(not type_.is_tensor for type_ in types):
            raise bad_data(f"a scalar has no dimensions, got {list(dimensions)}")

    def _merged(self, dimensions: Shape, what: str) -> Shape:
        """The known dimensions together with more. BAD_DATA where they contradict each other."""
        known = self._dimensions
        if not known or not dimensions:
            return known or dimensions
        if len(known) != len(dimensions) or any(a and b and a != b for a, b in zip(known, dimensions, strict=True)):
            raise bad_data(f"{what} has dimensions {list(dimensions)}, which contradict {list(known)}")
        return tuple(a or b for a, b in zip(known, dimensions, strict=True))

    def _check_unfinished(self, call: str) -> None:
        if self._finished:
            raise bad_state(f"{call} can't be called after finish")

    @property
    def roles(self) -> dict[tuple[int, str, int], tuple[Compilation, OperandType]]:
        """The roles, by compilation (its id), "input" or "output", and index."""
        return self._roles

    @property
    def updates(self) -> Set[tuple[int, int, int]]:
        """The update roles, by compilation (its id), input and output."""
        return self._updates

    @property
    def dimensions(self) -> Shape:
        """Dimensions as far as roles and `set_dimensions` tell."""
        return self._dimensions

    @property
    def is_finished(self) -> bool:
        """Whether `finish` was called."""
        return self._finished


class DeviceMemory(Memory):
    """Opaque memory for certain inputs and outputs, on the device where all of them run on one.

    It is not initialised at first: an execution that succeeds with it as output, or a copy to it, initialises it; one
    that fails makes it uninitialised again. Where several devices have to do with it, it is memory of the host.
    """

    def __init__(self, desc: MemoryDesc) -> None:
        if not instance("the descriptor", desc, MemoryDesc).is_finished:
            raise bad_state("the memory descriptor is not finished")
        self._roles = dict(desc.roles)
        self._updates = frozenset(desc.updates)
        self.type = next(type_ for _, type_ in self._roles.values())
        self._dimensions = desc.dimensions
        if self.type.is_tensor and (not self._dimensions or 0 in self._dimensions):
            raise op_failed(f"memory of {self.type} needs all its dimensions, got {list(self._dimensions)}")
        self.type.with_dimensions(self._dimensions).check("device memory")
        self._size = math.prod(self._dimensions) * self.type.dtype.itemsize
        self._initialized = False
        self._writers = 0
        self._lock = forks.lock()
        self.buffer: IBuffer | None = self._allocate()
        """The device's buffer, or None for host memory."""
        if self._updates and self.buffer is None:
            raise op_failed("memory that executions update must be on the one device of all its roles")
        with driving(f"{self._size} bytes can't be had"):
            super().__init__(np.zeros(self._size if self.buffer is None else 0, np.uint8))

    def _allocate(self) -> IBuffer | None:
        """Memory of the one device that all roles are on, or None."""
        singles = [compilation.plan.single for compilation, _ in self._roles.values()]
        devices = {id(partition.device): partition.device for partition in singles if partition is not None}
        if len(devices) != 1 or None in singles:
            _log.debug("device memory on the host: its roles are on %d devices", len(devices))
            return None
        (device,) = devices.values()
        try:
            with driving(f"{device.name} can't allocate"):
                return device.driver.allocate(self.type, self.dimensions)
        except NnapiError as error:
            if error.code is ResultCode.OUT_OF_MEMORY:
                raise
            _log.debug("device memory on the host: %s", error)
            return None

    @property
    def dimensions(self) -> Shape:
        """The shape of the tensor that it holds."""
        return self._dimensions

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        return self._size

    @property
    def is_initialized(self) -> bool:
        """Whether the memory is initialised."""
        return self._initialized

    @property
    def is_expected(self) -> bool:
        """Whether the memory is initialised, or will be when the executions under way have ended."""
        return self._initialized or self._writers > 0

    def set_initialized(self, initialized: bool) -> None:
        """Set whether the memory is initialised. Copies call this."""
        with self._lock:
            self._initialized = initialized

    def begin_write(self) -> None:
        """Note that an execution with this memory as output has begun."""
        with self._lock:
            self._writers += 1

    def end_write(self, begun: bool, succeeded: bool) -> None:
        """Note that an execution with this memory as output has ended. ``begun``: `begin_write` was called for it."""
        with self._lock:
            self._writers -= begun
            self._initialized = succeeded

    def check_role(self, compilation: Compilation, what: str, index: int, dimensions: Shape) -> None:
        """Raise BAD_DATA unless it may be this input or output, with these dimensions where they are known."""
        if (id(compilation), what, index) not in self._roles:
            raise bad_data(f"{what} {index}: the memory's descriptor does not give it this role")
        if dimensions and not compatible(dimensions, self.dimensions):
            raise bad_data(f"{what} {index} has dimensions {list(dimensions)}, the memory {list(self.dimensions)}")

    @property
    def has_updates(self) -> bool:
        """Whether executions may update it."""
        return bool(self._updates)

    def is_updated(self, compilation: Compilation, input: int, output: int) -> bool:
        """Whether it may be this input and this output of the same execution."""
        return (id(compilation), input, output) in self._updates

    def host_bytes(self) -> np.ndarray:
        """The bytes of host memory."""
        return self._region

    def slice(self, offset: int, length: int) -> np.ndarray:
        """Device memory has no parts, and no model takes constants from it."""
        raise bad_data("device memory is opaque: it can only be an input or output of executions, whole")

    def read(self) -> np.ndarray:
        """A copy of the content from the device."""
        if self.buffer is None:
            return self._region
        content = np.empty(self._size, np.uint8)
        self.buffer.copy_to(content)
        return content

    def write(self, content: np.ndarray) -> None:
        """Replace the content, copied to the device."""
        if self.buffer is None:
            self._region[:] = content
        else:
            self.buffer.copy_from(np.ascontiguousarray(content))


def _meaning(type_: OperandType) -> tuple[object, ...]:
    return type_.code, type_.scale, type_.zero_point, type_.channel_quant
