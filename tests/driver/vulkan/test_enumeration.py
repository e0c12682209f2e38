"""Devices and drivers that can't be used: the others are there, and `find_devices` and the enumeration say is wrong.

The proxy of a real driver plays the one that is wrong (`proxy_driver.c`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import python
from proxy_driver import build_proxy, proxy_environment, working_driver

from nnvk import NnapiError, ResultCode, _native
from nnvk.driver import vulkan
from nnvk.driver.vulkan import VulkanDevice, enumerate_all, find_devices
from nnvk.driver.vulkan.running.enumeration import FoundDevice, FoundDriver

GRAPHICS = 1
"""VK_QUEUE_GRAPHICS_BIT."""
DISCRETE_GPU = 2
"""VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU."""
FAILURES = {"VK_ERROR_OUT_OF_HOST_MEMORY": -1, "VK_ERROR_INITIALIZATION_FAILED": -3, "VK_ERROR_INCOMPATIBLE_DRIVER": -9}

Answer = Callable[..., None]


@pytest.fixture(scope="module")
def driver() -> Path:
    """The manifest of a driver that works."""
    return working_driver()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest of the proxy."""
    return build_proxy(tmp_path_factory.mktemp("proxy"))


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch, driver: Path, proxy: Path) -> Answer:
    """Makes a machine that has the working driver, and the proxy with these answers."""
    monkeypatch.delenv("VK_ADD_DRIVER_FILES", raising=False)

    def make(**answers: object) -> None:
        for name in [name for name in os.environ if name.startswith("PROXY_")]:
            monkeypatch.delenv(name)
        for name, value in proxy_environment(proxy, driver, **answers).items():
            monkeypatch.setenv(name, value)

    return make


@pytest.fixture
def own(answer: Answer) -> list[str]:
    """The versions of the working driver's devices."""
    answer(devices=0)
    return [device.version for device in find_devices()[0]]


def versions(devices: list[VulkanDevice]) -> list[str]:
    """Return the versions of devices, to compare them with `own`. The devices must have the first names."""
    assert [device.name for device in devices] == [f"vulkan-{place}" for place in range(len(devices))]
    return [device.version for device in devices]


def found(name: str) -> list[FoundDevice]:
    """The physical devices of this name of the enumeration."""
    return [device for device in enumerate_all().devices if device.name == name]


def of_proxy(proxy: Path) -> FoundDriver:
    """The proxy, as the enumeration has it."""
    (driver,) = [driver for driver in enumerate_all().drivers if driver.manifest == str(proxy)]
    return driver


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({"version": "1.0.66"}, "it has Vulkan 1.0.66, nnvk needs 1.1"),
        ({"queue_flags": GRAPHICS}, "it has no queue for compute"),
        ({"version": "1.0.66", "queue_flags": GRAPHICS}, "it has Vulkan 1.0.66, nnvk needs 1.1"),
    ],
    ids=["Vulkan 1.0", "no compute", "neither"],
)
def test_devices_that_can_not_be_used(
    answer: Answer, own: list[str], proxy: Path, answers: dict[str, object], problem: str
) -> None:
    answer(name="Mali-T", type=DISCRETE_GPU, **answers)
    devices, reason = find_devices()
    assert versions(devices) == own
    assert reason.startswith(f"Mali-T can't be used: {problem}")
    each = found("Mali-T")
    assert each
    for device in each:
        assert (device.type, device.device, device.problem) == ("discrete_gpu", None, problem)
        assert device.vulkan.startswith("1.0.66" if "version" in answers else "1.")
    assert [device.device for device in enumerate_all().devices if not device.problem] == [
        device.name for device in devices
    ]
    assert of_proxy(proxy) == FoundDriver(str(proxy), tuple(device.name for device in each), "")


@pytest.mark.parametrize("answers", [{"version": "1.0.66"}, {"queue_flags": GRAPHICS}], ids=["1.0", "no compute"])
def test_they_have_no_logical_device(answer: Answer, answers: dict[str, object]) -> None:
    answer(name="Mali-T", **answers)
    each = [one for one in _native.Instance().physical_devices() if one.name == "Mali-T"]
    assert each
    for physical in each:
        with pytest.raises(ValueError, match=r"^device Mali-T has no (Vulkan 1\.1|compute queue)$"):
            physical.create_device()


def test_devices_that_can_be_used_have_no_problem(answer: Answer, own: list[str]) -> None:
    answer(name="Radeon", type=DISCRETE_GPU)
    devices, reason = find_devices()
    assert devices[0].version.startswith("Radeon, ")
    assert versions(devices)[-len(own) :] == own
    assert reason == "", "a GPU is there"
    every = enumerate_all()
    assert (every.failure, every.listed_by) == ("", "VK_DRIVER_FILES")
    assert not any(device.problem for device in every.devices)
    assert {device.device for device in every.devices} == {device.name for device in devices}
    assert next(device.name for device in every.devices if device.device == "vulkan-0") == "Radeon"


def test_a_version_that_no_driver_has_yet(answer: Answer) -> None:
    answer(name="Newer", version="1.20.3")
    assert any(device.version.endswith("Vulkan 1.20.3") for device in find_devices()[0])


@pytest.mark.parametrize("result", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("function", ["vkCreateInstance", "vkEnumeratePhysicalDevices"])
def test_drivers_that_do_not_start(answer: Answer, own: list[str], proxy: Path, function: str, result: int) -> None:
    """One is enough for the loader to fail, or to find no device at all."""
    answer(fails=function, result=result)
    assert versions(find_devices()[0]) == own
    assert len(enumerate_all().devices) == len(own)
    problem = of_proxy(proxy).problem
    assert of_proxy(proxy).devices == ()
    assert problem == "it finds no device" or problem.startswith((f"{function}: VK_", "vkCreateInstance: VK_"))


def test_what_is_said_of_drivers_that_do_not_start(answer: Answer, proxy: Path) -> None:
    answer(fails="vkEnumeratePhysicalDevices", result=FAILURES["VK_ERROR_OUT_OF_HOST_MEMORY"])
    problem = "vkEnumeratePhysicalDevices: VK_ERROR_OUT_OF_HOST_MEMORY"
    assert of_proxy(proxy).problem == problem
    assert find_devices()[1].startswith(f"the Vulkan driver of {proxy} can't be used: {problem}")


def test_drivers_without_a_device(answer: Answer, own: list[str], proxy: Path) -> None:
    answer(devices=0)
    assert versions(find_devices()[0]) == own
    assert of_proxy(proxy) == FoundDriver(str(proxy), (), "it finds no device")


def test_no_driver_has_a_device(monkeypatch: pytest.MonkeyPatch, answer: Answer, proxy: Path) -> None:
    answer(devices=0)
    monkeypatch.setenv("VK_DRIVER_FILES", str(proxy))
    assert find_devices() == ([], "Vulkan has no device; the drivers are those of VK_DRIVER_FILES")
    every = enumerate_all()
    assert (every.failure, every.devices) == ("", ())
    assert [driver.problem for driver in every.drivers] == ["it finds no device"]


def test_devices_that_can_not_be_opened(answer: Answer, own: list[str]) -> None:
    """They are listed, since they may be free later; the enumeration tries."""
    answer(name="Busy", type=DISCRETE_GPU, fails="vkCreateDevice", result=FAILURES["VK_ERROR_INITIALIZATION_FAILED"])
    devices, _ = find_devices()
    assert versions(devices)[-len(own) :] == own
    with pytest.raises(NnapiError, match="vkCreateDevice: VK_ERROR_INITIALIZATION_FAILED") as error:
        devices[0].gpu.native()
    assert error.value.code is ResultCode.UNAVAILABLE_DEVICE
    busy = found("Busy")[0]
    assert busy.device == "vulkan-0"
    assert busy.problem == "it can't be opened: vkCreateDevice: VK_ERROR_INITIALIZATION_FAILED"


def test_what_hides_all_devices(monkeypatch: pytest.MonkeyPatch, answer: Answer, tmp_path: Path) -> None:
    answer(name="Mali-T", version="1.0.66")
    problems = {"Mali-T": "it has Vulkan 1.0.66, nnvk needs 1.1"}
    for device in enumerate_all("Vulkan is off").devices:
        assert (device.device, device.problem) == (None, problems.get(device.name, "Vulkan is off"))
    original = vulkan.ShaderLibrary
    monkeypatch.setattr(vulkan, "ShaderLibrary", lambda: original(tmp_path))
    assert all(device.device is None and device.problem for device in enumerate_all().devices)


def test_filters_of_the_loader_are_named(monkeypatch: pytest.MonkeyPatch, answer: Answer, proxy: Path) -> None:
    answer(fails="vkCreateInstance", result=FAILURES["VK_ERROR_INCOMPATIBLE_DRIVER"])
    monkeypatch.setenv("VK_LOADER_DRIVERS_DISABLE", "proxy*")
    assert of_proxy(proxy).problem.endswith(" (VK_LOADER_DRIVERS_DISABLE=proxy*)")


def test_models_run_on_the_other_devices(answer: Answer, proxy: Path, driver: Path) -> None:
    """In a process that finds its devices while one driver is broken."""
    environment = proxy_environment(proxy, driver, fails="vkEnumeratePhysicalDevices", result=-3)
    printed = python('add("vulkan-0", 5); print([device.name for device in nnvk.get_devices()])', **environment)
    assert "'vulkan-0'" in printed
