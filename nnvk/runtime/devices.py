"""Devices as an application sees them, and the list of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from nnvk.base import forks
from nnvk.base.checks import instance, shown, text
from nnvk.base.errors import NnapiError, ResultCode, bad_data, bad_state, driving, op_failed
from nnvk.base.limits import can_open
from nnvk.base.log import logger
from nnvk.base.pinned import Pinned
from nnvk.base.text import did_you_mean
from nnvk.hal import IDevice, Support
from nnvk.types.codes import DeviceTypeCode, FeatureLevelCode
from nnvk.types.model import Model
from nnvk.types.request import DEFAULT_LOOP_TIMEOUT_NS, MAXIMUM_LOOP_TIMEOUT_NS, Capabilities

_log = logger("manager")
_DESCRIPTORS = 8
"""The descriptors that drivers may need to find their devices, for libraries, manifests and device files."""


class Device(Pinned):
    """A device (``ANeuralNetworksDevice``). Get one from `get_devices` or `get_device`."""

    _alternative = "nnvk.get_device finds it by its name"

    def __init__(self, driver: IDevice) -> None:
        self.driver = instance("the driver", driver, IDevice)  # type: ignore[type-abstract]
        """The driver's side of the device."""

    @property
    def name(self) -> str:
        """Unique name (``ANeuralNetworksDevice_getName``)."""
        return self.driver.name

    @property
    def type(self) -> DeviceTypeCode:
        """Kind of device (``ANeuralNetworksDevice_getType``)."""
        return self.driver.type

    @property
    def version(self) -> str:
        """Version of driver and hardware (``ANeuralNetworksDevice_getVersion``)."""
        return self.driver.version

    @property
    def feature_level(self) -> FeatureLevelCode:
        """Highest feature level that the device knows (``ANeuralNetworksDevice_getFeatureLevel``)."""
        return self.driver.feature_level

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the vendor extensions that it knows."""
        return self.driver.extensions

    def get_extension_support(self, extension: str) -> bool:
        """Whether it knows a vendor extension (``ANeuralNetworksDevice_getExtensionSupport``)."""
        return text("the extension", extension) in self.driver.extensions

    @property
    def capabilities(self) -> Capabilities:
        """The performance that the device promises."""
        return self.driver.capabilities

    def wait(self) -> None:
        """Wait until the device is alive after an internal error (``ANeuralNetworksDevice_wait``)."""
        with driving(f"{self.name} does not come back"):
            self.driver.wait()

    def __repr__(self) -> str:
        return f"<nnvk.Device {self.name} ({self.type.name}, {self.version})>"


def supported_operations(device: Device, model: Model) -> list[Support]:
    """Return a device's support of each operation of a model. OP_FAILED: its driver fails, or gives too many or few."""
    what = f"{device.name} does not say what it supports"
    with driving(what):
        answers = device.driver.get_supported_operations(model)
    if len(answers) != len(model.operations):
        raise op_failed(f"{what}: it gives {len(answers)} answers for {len(model.operations)} operations")
    return answers


def check_distinct(devices: Collection[Device]) -> None:
    """Raise BAD_DATA unless there is at least one device, and none twice; TypeError for what is no devices."""
    expected = "expected Device objects, as get_devices() and get_device() give them,"
    given: Any = devices
    if isinstance(given, str) or not isinstance(given, Collection):
        raise TypeError(f"{expected} in a list, got {shown(given)}")
    for device in given:
        if not isinstance(device, Device):
            raise TypeError(f"{expected} got {shown(device)}")
    if not devices:
        raise bad_data("devices must not be empty")
    if len(set(map(id, devices))) != len(devices):
        raise bad_data(f"a device is named twice: {', '.join(device.name for device in devices)}")


Driver = Callable[[], tuple[Sequence[IDevice], str]]
"""A function that finds a driver's devices. The text says why devices are missing; it is empty if none are."""


class DeviceManager:
    """The devices of all drivers, found once, in the order of preference."""

    def __init__(self) -> None:
        self._drivers: list[Driver] = []
        self._devices: list[Device] | None = None
        self._unavailable: list[str] = []
        self._lock = forks.rlock()
        self._is_finding = False
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Nobody looks for devices in a forked child, even if its parent did."""
        self._is_finding = False

    def install(self, drivers: Iterable[Driver]) -> None:
        """Add drivers; their devices are looked for on the first need."""
        self._drivers.extend(drivers)
        self._devices = None

    def devices(self) -> list[Device]:
        """All devices, the preferred first.

        BAD_STATE: a driver asks that is itself being asked for its devices. RESOURCE_EXHAUSTED_TRANSIENT: the process
        has hardly a descriptor left, so that a device may be missing for that; the next call looks again.
        """
        with self._lock:
            if self._is_finding:
                raise bad_state("the devices are not known before all drivers have said what they have")
            if self._devices is None:
                self._is_finding = True
                try:
                    self._devices, self._unavailable = self._find()
                finally:
                    self._is_finding = False
                _log.debug("devices: %s; unavailable: %s", self._devices, self._unavailable)
            return list(self._devices)

    def _find(self) -> tuple[list[Device], list[str]]:
        """The devices of all drivers; of those with the same name, the first."""
        devices: dict[str, Device] = {}
        unavailable: list[str] = []
        for driver in self._drivers:
            found, reason = driver()
            if reason:
                unavailable.append(reason)
            for device in map(Device, found):
                if device.name in devices:
                    unavailable.append(f"there is a device {device.name} already, {device!r} is left out")
                devices.setdefault(device.name, device)
        if unavailable and not can_open(_DESCRIPTORS):
            reasons = "; ".join(unavailable)
            raise NnapiError(
                ResultCode.RESOURCE_EXHAUSTED_TRANSIENT,
                f"devices can't be looked for with fewer than {_DESCRIPTORS} free descriptors: {reasons}",
            )
        return list(devices.values()), unavailable

    def unavailable(self) -> list[str]:
        """Why devices are missing that one may expect, one text for each driver that misses some."""
        self.devices()
        return list(self._unavailable)


manager = DeviceManager()


def get_devices() -> list[Device]:
    """All devices (``ANeuralNetworks_getDeviceCount`` and ``_getDevice``), the preferred first."""
    return manager.devices()


def get_device(name: str) -> Device:
    """The device of this name. Raises BAD_DATA that names the devices there are."""
    text("the name", name)
    for device in manager.devices():
        if device.name == name:
            return device
    names = [device.name for device in manager.devices()]
    raise bad_data(f"there is no device {shown(name)}; the devices are {', '.join(names)}{did_you_mean(name, names)}")


def unavailable() -> list[str]:
    """Why devices are missing that one may expect, such as a GPU: one text for each driver that misses some."""
    return manager.unavailable()


def get_default_loop_timeout() -> int:
    """Nanoseconds that a WHILE may run if nothing is set (``ANeuralNetworks_getDefaultLoopTimeout``)."""
    return DEFAULT_LOOP_TIMEOUT_NS


def get_maximum_loop_timeout() -> int:
    """Nanoseconds that a WHILE may run at most (``ANeuralNetworks_getMaximumLoopTimeout``)."""
    return MAXIMUM_LOOP_TIMEOUT_NS


def get_runtime_feature_level() -> FeatureLevelCode:
    """The feature level of this runtime (``ANeuralNetworks_getRuntimeFeatureLevel``)."""
    return FeatureLevelCode.LEVEL_8
