"""IDevice of the Vulkan driver: one for every physical device."""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.base.log import logger
from nnvk.driver.vulkan.buffer import VulkanBuffer
from nnvk.driver.vulkan.cache import PlanCache, key_of
from nnvk.driver.vulkan.kernel import Kernel, kernels
from nnvk.driver.vulkan.lowering import Lowering
from nnvk.driver.vulkan.memory_plan import padded
from nnvk.driver.vulkan.plan import Plan
from nnvk.driver.vulkan.prepared_model import VulkanPreparedModel
from nnvk.driver.vulkan.profile import DeviceProfile
from nnvk.driver.vulkan.scheduler import Scheduler
from nnvk.driver.vulkan.shader_library import ShaderLibrary
from nnvk.hal import IBuffer, IDevice, IPreparedModel, Support
from nnvk.ops import registry
from nnvk.ops.call import Call, Tensor, Unknown, UnknownShape, UnknownValue
from nnvk.ops.check import validate_model
from nnvk.types.codes import DeviceTypeCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import Capabilities, PrepareOptions

if TYPE_CHECKING:
    from nnvk import _native

_log = logger("driver")

_RELATIVE_TIME = {"discrete_gpu": 0.05, "integrated_gpu": 0.2, "virtual_gpu": 0.2, "cpu": 0.5, "other": 0.5}


@dataclass(slots=True)
class Counters:
    """What executions have moved between host and device, in bytes."""

    bytes_from_host: int = 0
    bytes_to_host: int = 0


class VulkanDevice(IDevice):
    """A Vulkan physical device as an NNAPI device of type GPU."""

    def __init__(
        self, name: str, physical: _native.PhysicalDevice, profile: DeviceProfile, library: ShaderLibrary
    ) -> None:
        self._name = name
        self._physical = physical
        self._profile = profile
        self._library = library
        self._device: _native.Device | None = None
        self._lock = threading.Lock()
        self._tokens = itertools.count(1)
        self._buffers: weakref.WeakValueDictionary[int, VulkanBuffer] = weakref.WeakValueDictionary()
        self.scheduler = Scheduler()
        """Through which every execution reaches the queue."""
        self.counters = Counters()

    @property
    def name(self) -> str:
        """``vulkan-0`` and so on, the most capable first."""
        return self._name

    @property
    def type(self) -> DeviceTypeCode:
        """GPU, for a software device too: that is what an application asks for."""
        return DeviceTypeCode.GPU

    @property
    def version(self) -> str:
        """The physical device and its driver."""
        physical = self._physical
        return f"{physical.name}, {physical.driver_name} {physical.driver_info}, Vulkan {physical.api_version}"

    @property
    def capabilities(self) -> Capabilities:
        """A rough promise by kind of device."""
        return Capabilities(_RELATIVE_TIME.get(self._physical.type, 1.0))

    @property
    def profile(self) -> DeviceProfile:
        """What plans know of the device."""
        return self._profile

    def native(self) -> _native.Device:
        """The Vulkan device, made on the first need. Raises UNAVAILABLE_DEVICE where that fails."""
        with self._lock:
            if self._device is None:
                try:
                    # Only what shaders use: some features slow every access down, some ask for others.
                    features = self._profile.features & self._library.features
                    self._device = self._physical.create_device(sorted(features))
                except RuntimeError as error:
                    raise NnapiError(ResultCode.UNAVAILABLE_DEVICE, f"{self._name}: {error}") from error
            return self._device

    def failure(self, error: Exception) -> NnapiError:
        """What NNAPI calls an error of the native module."""
        if isinstance(error, MemoryError):
            return NnapiError(ResultCode.OUT_OF_MEMORY, f"{self._name}: {error}")
        lost = self._device is not None and self._device.lost
        return NnapiError(ResultCode.DEAD_OBJECT if lost else ResultCode.OP_FAILED, f"{self._name}: {error}")

    def buffer(self, token: int) -> VulkanBuffer | None:
        """The memory that a token names, if it is still there."""
        return self._buffers.get(token)

    # --- IDevice ---------------------------------------------------------------------------------------------

    def get_supported_operations(self, model: Model) -> list[Support]:
        """Supported is what has a kernel for its types, with shapes and parameters that are known in time."""
        shapes = [type_.dimensions for type_ in model.input_types()]
        calls = registry.calls(model, shapes)
        return [Support(self._refuse(call) or self._refuse_sizes(call)) for _, call in calls]

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        """Lower, upload constants, record. Dimensions that are open are planned for when they are known."""
        validate_model(model)
        for number, (operation, support) in enumerate(
            zip(model.operations, self.get_supported_operations(model), strict=True)
        ):
            if not support.supported:
                raise bad_data(f"operation {number} ({operation}) is not supported: {support.reason}")
        try:
            return VulkanPreparedModel(self, model, options)
        except (MemoryError, RuntimeError) as error:
            raise self.failure(error) from error

    def plan(self, model: Model, shapes: Sequence[Shape], options: PrepareOptions) -> Plan:
        """The plan for these input shapes, from the options' cache where they follow from the model."""
        kept = None
        if options.cache is not None and all(type_.is_fully_specified for type_ in model.input_types()):
            kept = PlanCache(options.cache, key_of(self.version, self._profile, self._library, model))
            plan = kept.load(self._library)
            if plan is not None:
                return plan
        plan = Lowering(self._profile, self._library).lower(model, shapes, self._refuse)
        if kept is not None:
            kept.store(plan)
        return plan

    def allocate(self, type: OperandType, dimensions: Shape) -> IBuffer:
        """Device-local memory for one tensor."""
        nbytes = math.prod(dimensions) * type.dtype.itemsize
        if padded(nbytes) > self._profile.max_buffer:
            raise NnapiError(
                ResultCode.OUT_OF_MEMORY, f"{self._name} binds at most {self._profile.max_buffer} bytes, not {nbytes}"
            )
        try:
            memory = VulkanBuffer(self, next(self._tokens), nbytes)
        except (MemoryError, RuntimeError) as error:
            raise self.failure(error) from error
        self._buffers[memory.token] = memory
        return memory

    def wait(self) -> None:
        """Replace a Vulkan device that was lost; what was prepared on it stays dead."""
        with self._lock:
            if self._device is not None and self._device.lost:
                self._device = None
        self.native()

    def _refuse(self, call: Call) -> str:
        """Why no shader can run a call; empty where one can, and where that follows from shapes yet to come."""
        kernel = kernels().get(call.code)
        if kernel is None:
            return f"{call.code.name} has no shader"
        late = [value.name for value in call.values() if isinstance(value, Unknown)]
        if late:
            return f"{late[0]} is known only at execution; shaders are chosen before"
        if call.unknown is not None and not isinstance(call.unknown, UnknownShape):
            return f"{call.unknown}; shaders are chosen before"
        try:
            return self._refuse_types(call, kernel) or (kernel.refuse(call) if kernel.refuse else "")
        except UnknownShape:
            return ""  # they come with the execution, and when they have the lowering asks again
        except UnknownValue as unknown:
            return f"{unknown}; shaders are chosen before"

    def _refuse_types(self, call: Call, kernel: Kernel) -> str:
        leading = next(tensor for tensor in _tensors(call))
        for tensor in (leading, call.output):
            if tensor.code not in kernel.types:
                taken = ", ".join(sorted(code.name for code in kernel.types))
                return f"{tensor.name} is {tensor.code.name}, the shaders take {taken}"
        for shader in kernel.shaders:
            reason = self._library.refuse(shader, self._profile.features)
            if reason:
                return reason
        return ""

    def _refuse_sizes(self, call: Call) -> str:
        for tensor in _tensors(call):
            try:
                nbytes = padded(math.prod(tensor.shape) * tensor.dtype.itemsize)
            except UnknownShape:
                continue  # the lowering refuses what turns out too large
            if nbytes > self._profile.max_buffer:
                return f"{tensor.name} takes {nbytes} bytes, the device binds at most {self._profile.max_buffer}"
        return ""


def _tensors(call: Call) -> list[Tensor]:
    """All tensors of a call, inputs first."""
    found: list[Tensor] = []
    for value in call.values():
        found += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, Tensor)]
    return found
