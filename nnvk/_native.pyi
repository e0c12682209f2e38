"""Vulkan compute for the driver: device, memory, pipelines and recorded programs, over Kompute's C++ classes.

Every object keeps alive what it uses. All of it is thread safe, and a call that can wait or takes long releases the
interpreter lock; during a wait the main thread handles signals. A failed Vulkan call raises `VulkanError`, an allocation
that can't be had `MemoryError`, misuse `ValueError`, `TypeError` or `RuntimeError`. Sizes and offsets are in bytes.

An object belongs to the process that made it. In a forked child, which has no share in its parent's devices, its methods
raise `DeviceLostError`, and it is not destroyed; the child makes an `Instance` of its own. A fork waits until no thread is
in the driver, 10 ms at most where one waits for the device.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

BufferProtocol = npt.NDArray[Any] | bytes | bytearray | memoryview

class VulkanError(RuntimeError):
    """A Vulkan call failed; the message has the call and the result's name, e.g. `VK_ERROR_DEVICE_LOST`."""

class LoaderError(VulkanError):
    """The Vulkan loader, `libvulkan.so.1`, is missing, is broken, or has no Vulkan 1.1."""

class DeviceLostError(VulkanError):
    """The device is gone, with all that was made on it: VK_ERROR_DEVICE_LOST, or made in another process."""

def load_vulkan() -> None:
    """Opens the Vulkan loader, for good. Raises `LoaderError` where that can't be done."""

def longest_call_s() -> float:
    """For how many seconds a thread of this process has been in the driver, of several the first; 0: none is."""

class Instance:
    """A VkInstance. The first one opens the Vulkan loader.

    Args:
        validation: enables the Khronos validation layer with synchronisation validation; its messages are collected.

    Raises:
        LoaderError: there is no Vulkan loader that can be used.
        VulkanError: there is no driver, or the validation layer is asked for and not installed.
    """

    def __init__(self, *, validation: bool = False) -> None: ...
    def physical_devices(self) -> list[PhysicalDevice]:
        """Every device of every driver, in the loader's order.

        `PhysicalDevice.create_device` needs Vulkan 1.1 (`api_version`) and a compute queue (`has_compute_queue`).
        """
    def take_validation_messages(self) -> list[str]:
        """Warnings and errors since the last call, each beginning `warning: ` or `error: `; at most 1,000 are kept."""

class PhysicalDevice:
    """A device that a driver offers, and what it can do.

    Of a device with Vulkan 1.0, `driver_name` and `driver_info`, `uuid`, `limits` and `features` are empty or zero.
    """

    @property
    def index(self) -> int:
        """Place in the loader's order."""
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str:
        """`cpu`, `integrated_gpu`, `discrete_gpu`, `virtual_gpu` or `other`."""
    @property
    def vendor_id(self) -> int: ...
    @property
    def device_id(self) -> int: ...
    @property
    def api_version(self) -> str:
        """Vulkan version of the device, e.g. `1.3.230`."""
    @property
    def driver_version(self) -> int:
        """VkPhysicalDeviceProperties.driverVersion; vendors have encodings of their own."""
    @property
    def pipeline_cache_uuid(self) -> bytes:
        """VkPhysicalDeviceProperties.pipelineCacheUUID, 16 bytes."""
    @property
    def has_compute_queue(self) -> bool: ...
    @property
    def driver_name(self) -> str: ...
    @property
    def driver_info(self) -> str: ...
    @property
    def uuid(self) -> bytes:
        """VkPhysicalDeviceIDProperties.deviceUUID, 16 bytes."""
    @property
    def limits(self) -> dict[str, int | float]:
        """Limits by their names in VkPhysicalDeviceLimits; arrays have one entry a dimension (`...Size0` to 2).

        Beside those: `timestampValidBits` of the compute queue, `maxMemoryAllocationSize`, `subgroupSize`,
        `minSubgroupSize` and `maxSubgroupSize`; `shaderUnits`: compute units, 0 where the driver doesn't say;
        `hostVisibleDeviceMemory`: bytes of the largest device-local heap that the host can write to, 0 without one.
        """
    @property
    def features(self) -> list[str]:
        """Names of the supported features that shaders may use: `shaderInt8`, `subgroupArithmetic`, ..."""
    @property
    def extensions(self) -> list[str]: ...
    @property
    def cooperative_matrices(self) -> list[tuple[int, int, int, str, str, str, str]]:
        """The products of cooperative matrices that subgroups compute, without saturation.

        M, N, K, and the types of the components of A, B, C and the result: "float16", "sint8" and so on.
        """
    @property
    def heaps(self) -> list[tuple[int, bool]]:
        """Memory heaps: size and whether it is device-local."""
    def create_device(self, features: Sequence[str] | None = None, *, pipeline_cache: bytes = b"") -> Device:
        """A logical device with one compute queue.

        Args:
            features: which features to enable; all of `self.features` by default.
            pipeline_cache: what `Device.pipeline_cache_data` gave earlier; ignored where another driver made it.

        Raises:
            ValueError: the device has no Vulkan 1.1 or no compute queue, or not one of the features.
        """

class Device:
    """A VkDevice with one compute queue. Programs run in the order of their submission, one after the other."""

    @property
    def physical(self) -> PhysicalDevice: ...
    @property
    def features(self) -> list[str]:
        """Names of the enabled features."""
    @property
    def exports_sync_fd(self) -> bool:
        """Whether `Fence.export_sync_fd` works (VK_KHR_external_fence_fd with sync files)."""
    @property
    def allocated_bytes(self) -> int:
        """Device memory that this device's buffers hold."""
    @property
    def lost(self) -> bool:
        """Whether a call has reported the loss of the device, or another process made it; everything on it fails."""
    def create_buffer(self, size: int, *, host_visible: bool, device_local: bool = False) -> Buffer:
        """Allocates memory of its own.

        Host-visible memory is coherent, mapped for good, zero at first, and cached by the host where there is such
        memory; the other is device-local and undefined at first. Both can be bound to shaders and copied. With both
        flags, it is device memory that the host writes to directly and should not read, or host memory if there is
        none, or none left.

        Raises:
            MemoryError: larger than 4 GiB, than what is left of the memory heap, or refused by the driver.
        """
    def create_algorithm(
        self,
        spirv: bytes,
        buffers: Sequence[Buffer],
        specialization: Sequence[int],
        push_constant_size: int,
        *,
        subgroup_size: int = 0,
        full_subgroups: bool = False,
    ) -> Algorithm:
        """A compute pipeline with its descriptor set.

        Args:
            spirv: the shader, with the entry point `main`.
            buffers: what descriptor set 0 binds: the whole of `buffers[k]` at binding k, and at binding 16 + k as a
                uniform texel buffer of R32G32B32A32_UINT. Buffers may repeat.
            specialization: 32 bits each, `specialization[i]` for the constant with id i.
            push_constant_size: size of the push-constant block, a multiple of 4.
            subgroup_size: the size of all subgroups; 0 lets the driver choose. Other sizes need the features
                subgroupSizeControl and computeFullSubgroups.
            full_subgroups: all of these have so many invocations; those of a workgroup along x are a multiple.

        Raises:
            ValueError: no buffer, more than 16, one of another device or larger than maxStorageBufferRange; push
                constants larger than maxPushConstantsSize; not SPIR-V; a subgroup size that the device does not have.
        """
    def create_program(self) -> Program:
        """An empty program, ready to record."""
    def pipeline_cache_data(self, others: bytes = b"") -> bytes:
        """The compiled pipelines in the driver's own form, for `PhysicalDevice.create_device` in a later process.

        Args:
            others: what this gave in another process, to be joined with; ignored where another driver made it.
        """
    @property
    def pipelines_compiled(self) -> int:
        """How many pipelines were made so far, be it out of the cache."""
    def wait_idle(self) -> None:
        """Waits until nothing is in flight."""

class Buffer:
    """Device memory, a kp::Tensor of bytes."""

    @property
    def size(self) -> int: ...
    @property
    def host_visible(self) -> bool: ...
    def view(self) -> npt.NDArray[np.uint8]:
        """The mapped memory as a writable array of `size` bytes, which keeps the buffer alive.

        Raises:
            ValueError: the buffer is not host visible.
        """

class Algorithm:
    """A compute pipeline with its bindings, a kp::Algorithm; any number of programs may dispatch it."""

    @property
    def push_constant_size(self) -> int: ...
    @property
    def has_new_pipeline(self) -> bool:
        """Whether the pipeline was compiled for this Algorithm, and not for an earlier one with the same shader."""

class Program:
    """Commands recorded once and submitted any number of times, a kp::Sequence.

    Record with `copy`, `fill`, `dispatch`, `warm_up`, `barrier` and `timestamp`, close with `finish`, then `run`, or `submit`
    and `fetch`. Commands between two barriers may overlap. A submission begins behind everything that was submitted
    to the device before and behind the host's writes, and ends with its own writes visible to the host.
    One submission is in flight at a time; a program that goes away waits for it.
    """

    def copy(self, src: Buffer, src_offset: int, dst: Buffer, dst_offset: int, size: int) -> None:
        """Records a copy; the ranges must not overlap."""
    def fill(self, dst: Buffer, offset: int, size: int, value: int) -> None:
        """Records a fill with a 32-bit word; offset and size are multiples of 4."""
    def dispatch(self, algorithm: Algorithm, groups: tuple[int, int, int], push_constants: bytes) -> None:
        """Records a dispatch of workgroups, each dimension from 1 to maxComputeWorkGroupCount."""
    def warm_up(self, algorithm: Algorithm) -> None:
        """Records a dispatch of no workgroups, at which drivers compile what they leave until the first dispatch."""
    def barrier(self) -> None:
        """Records a barrier: copies, fills and dispatches after it see the writes of all before it."""
    def timestamp(self) -> int:
        """Records a timestamp, taken when all commands before it are complete; returns its index.

        Raises:
            VulkanError: the compute queue has no timestamps (`timestampValidBits` is 0).
        """
    def finish(self, inputs: Sequence[tuple[Buffer, int, int]], outputs: Sequence[tuple[Buffer, int, int]]) -> None:
        """Ends the recording.

        Args:
            inputs: (host-visible buffer, offset, size) where `run` and `submit` put each input.
            outputs: (host-visible buffer, offset, size) where `run` and `fetch` find each output.
        """
    def run(
        self,
        inputs: Sequence[BufferProtocol | None],
        outputs: Sequence[BufferProtocol | None],
        timeout_ns: int = -1,
    ) -> bool:
        """Copies the inputs in, submits, waits, and copies the outputs out, all without the interpreter lock.

        Args:
            inputs: C-contiguous buffers of the ports' sizes; None leaves a port's bytes as they are.
            outputs: C-contiguous writable buffers; None leaves an output where it is.
            timeout_ns: how long to wait for the work; negative: without limit.

        Returns:
            True: done. False: the time is over, no output was copied; the work goes on, `wait` and `fetch` get it.

        Raises:
            RuntimeError: not finished, or still in flight.
            ValueError: a wrong number of inputs or outputs, or a wrong size, not contiguous, or read-only.
            TypeError: not a buffer.
        """
    def submit(self, inputs: Sequence[BufferProtocol | None]) -> Fence:
        """Copies the inputs in and submits; the outputs are to be fetched once the fence is signalled.

        Raises:
            RuntimeError: not finished, or still in flight.
        """
    def wait(self, timeout_ns: int = -1) -> bool:
        """Waits for the last submission; False: the time is over. True at once where there was none."""
    def fetch(self, outputs: Sequence[BufferProtocol | None]) -> None:
        """Copies the outputs of the last submission out.

        Raises:
            RuntimeError: never submitted, or still in flight.
        """
    def timestamps_ns(self) -> list[int]:
        """The timestamps of the last submission in nanoseconds of the device's clock.

        Raises:
            RuntimeError: never submitted, or still in flight.
        """

class Fence:
    """The completion of one submission; it stays valid when its program is submitted again or goes away."""

    def wait(self, timeout_ns: int = -1) -> bool:
        """Waits for the work; False: the time is over. Negative: without limit."""
    @property
    def signaled(self) -> bool:
        """Whether the work is done."""
    def export_sync_fd(self) -> int:
        """A Linux sync file that is readable once this work, and what was submitted since, is done.

        The caller closes it. -1: the work is done already.

        Raises:
            VulkanError: the device doesn't export sync files (`Device.exports_sync_fd`).
        """
