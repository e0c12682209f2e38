"""IDevice of the Vulkan driver, one for every physical device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nnvk.base.errors import bad_data
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.running.buffer import Buffers
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.running.instance import Instance
from nnvk.driver.vulkan.running.prepared_model import VulkanPreparedModel
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.hal import IBuffer, IDevice, IPreparedModel, MemoryUse, Support
from nnvk.ops.check import validate_structure
from nnvk.types.codes import DeviceTypeCode
from nnvk.types.extension import EXTENSION
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import Capabilities, PrepareOptions

if TYPE_CHECKING:
    import nnvk._native as _native

_RELATIVE_TIME = {"discrete_gpu": 0.05, "integrated_gpu": 0.2, "virtual_gpu": 0.2, "cpu": 0.5, "other": 0.5}


class VulkanDevice(IDevice):
    """A Vulkan physical device as an NNAPI device of type GPU."""

    reproduces = True

    def __init__(
        self,
        name: str,
        instance: Instance,
        physical: _native.PhysicalDevice,
        profile: DeviceProfile,
        library: ShaderLibrary,
    ) -> None:
        self._physical = physical
        self.gpu = Gpu(name, instance, physical, profile, library.features)
        """The GPU that runs plans."""
        self.planner = Planner(profile, library, self.version)
        """The planner that makes plans."""
        self._buffers = Buffers(self.gpu)

    @property
    def name(self) -> str:
        """``vulkan-0`` and so on, the most capable first."""
        return self.gpu.name

    @property
    def type(self) -> DeviceTypeCode:
        """GPU, also for a software device, because applications ask for this type."""
        return DeviceTypeCode.GPU

    @property
    def version(self) -> str:
        """The physical device and its driver."""
        physical = self._physical
        return f"{physical.name}, {physical.driver_name} {physical.driver_info}, Vulkan {physical.api_version}"

    @property
    def capabilities(self) -> Capabilities:
        """Rough relative performance by kind of device."""
        return Capabilities(_RELATIVE_TIME.get(self._physical.type, 1.0))

    @property
    def extensions(self) -> tuple[str, ...]:
        """The vendor extension of nnvk. The device's other operations are NNAPI's."""
        return (EXTENSION,)

    @property
    def profile(self) -> DeviceProfile:
        """The properties of the device that plans depend on."""
        return self.gpu.profile

    def facts(self) -> dict[str, Any]:
        """The device, its driver and its limits as Vulkan reports them, in JSON's types."""
        physical = self._physical
        return {
            "device_name": physical.name,
            "device_type": physical.type,
            "vendor_id": physical.vendor_id,
            "device_id": physical.device_id,
            "api_version": physical.api_version,
            "driver_name": physical.driver_name,
            "driver_info": physical.driver_info,
            "driver_version": physical.driver_version,
            "limits": dict(physical.limits),
            "features": sorted(physical.features),
            "extensions": sorted(physical.extensions),
            "cooperative_matrices": [list(matrix) for matrix in physical.cooperative_matrices],
            "heaps": [{"bytes": size, "is_device_local": is_local} for size, is_local in physical.heaps],
        }

    def get_supported_operations(self, model: Model) -> list[Support]:
        """The operations that have a kernel. IF and WHILE are supported if their models are supported completely."""
        return [Support(reason) for reason in self.planner.support(model)]

    def describe_operations(self, model: Model) -> list[str]:
        """The strategies of GEMMs, and whether they were measured."""
        return self.planner.describe(model)

    def describe_memory(self, model: Model) -> MemoryUse | None:
        """The bytes of the arena. Each concurrent execution has its own arena."""
        return self.planner.describe_memory(model)

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        """Lower the model, upload its constants and record it. Open dimensions delay this until they are known."""
        validate_structure(model)
        # Whoever asks what is supported has every operation checked.
        for number, (operation, support) in enumerate(
            zip(model.operations, self.get_supported_operations(model), strict=True)
        ):
            if not support.supported:
                raise bad_data(f"operation {number} ({operation}) is not supported: {support.reason}")
        try:
            return VulkanPreparedModel(self.gpu, self._buffers, self.planner, model, options)
        except (MemoryError, RuntimeError) as error:
            raise self.gpu.failure(error) from error

    def allocate(self, type: OperandType, dimensions: Shape) -> IBuffer:
        """Device-local memory for one tensor."""
        return self._buffers.allocate(math.prod(dimensions) * type.dtype.itemsize)

    def wait(self) -> None:
        """Replace a Vulkan device that was lost; objects that were prepared on it stay dead."""
        self.gpu.revive()
