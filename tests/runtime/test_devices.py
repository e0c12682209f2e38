"""Devices, and drivers of other packages."""

from __future__ import annotations

import importlib
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decorators import Decorated
from samples import add_model, compiled, raises

import nnvk
from nnvk import DeviceTypeCode, FeatureLevelCode, ResultCode
from nnvk.hal import IDevice
from nnvk.runtime.devices import DeviceManager, manager


def test_the_devices() -> None:
    devices = nnvk.get_devices()
    assert devices[-1].name == "nnapi-reference"
    assert devices[-1].type is DeviceTypeCode.CPU
    assert [device.name for device in devices[:-1]] == [f"vulkan-{number}" for number in range(len(devices) - 1)]
    assert all(device.type is DeviceTypeCode.GPU for device in devices[:-1])
    assert nnvk.get_devices() is not devices  # a list of the caller's own ...
    assert all(
        again is device for again, device in zip(nnvk.get_devices(), devices, strict=True)
    )  # of the same devices


def test_what_a_device_says(device: nnvk.Device) -> None:
    assert "-" in device.name
    assert device.version
    assert device.feature_level is FeatureLevelCode.LEVEL_8 <= nnvk.get_runtime_feature_level()
    assert device.extensions == (nnvk.EXTENSION,)
    assert not device.get_extension_support("com.example.filters")
    assert device.capabilities.relative_time > 0
    assert nnvk.get_device(device.name) is device
    assert device.name in repr(device)


def test_a_device_that_is_alive_is_not_waited_for(device: nnvk.Device) -> None:
    device.wait()
    device.wait()


def test_a_device_that_does_not_exist() -> None:
    with raises(ResultCode.BAD_DATA, "nnapi-reference"):
        nnvk.get_device("vulkan-99")


@pytest.mark.parametrize("given", ["vulkan-0", ["vulkan-0"], [None], 0], ids=repr)
def test_what_is_no_device(given: Any) -> None:
    for call in (
        lambda: nnvk.Compilation(add_model(), given),
        lambda: nnvk.Compilation.create_for_devices(add_model(), given),
        lambda: add_model().get_supported_operations_for_devices(given),
        lambda: add_model().get_support(given),
    ):
        with pytest.raises(TypeError, match=r"expected Device objects, as get_devices\(\) .* got "):
            call()


def test_a_device_is_no_list_of_devices(cpu: nnvk.Device) -> None:
    with pytest.raises(TypeError, match=r"in a list, got <nnvk.Device nnapi-reference"):
        nnvk.Compilation(add_model(), cpu)


def test_the_devices_are_found_once(cpu: nnvk.Device) -> None:
    looked = []

    def driver() -> tuple[Sequence[IDevice], str]:
        looked.append(threading.current_thread())
        return [Decorated(cpu.driver, "only")], "a reason"

    devices = DeviceManager()
    devices.install([driver])
    seen: list[list[nnvk.Device]] = []
    threads = [threading.Thread(target=lambda: seen.append(devices.devices())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(looked) == 1
    assert len({id(found[0]) for found in seen}) == 1
    assert devices.unavailable() == ["a reason"]


def test_of_two_devices_of_a_name_the_first_stays(cpu: nnvk.Device) -> None:
    devices = DeviceManager()
    first = Decorated(cpu.driver, "same")
    devices.install(
        [lambda: ([first, Decorated(cpu.driver, "other")], ""), lambda: ([Decorated(cpu.driver, "same")], "")]
    )
    assert [device.name for device in devices.devices()] == ["same", "other"]
    assert devices.devices()[0].driver is first
    (reason,) = devices.unavailable()
    assert "there is a device same already" in reason


# --- drivers of other packages -----------------------------------------------------------------------------------

Install = Callable[[str, str], None]

PLUGIN = """
    from nnvk.driver.cpu import CpuDevice

    class Example(CpuDevice):
        name = "example-one"

    def drivers():
        return [Example()]

    def broken():
        raise ZeroDivisionError("no device today")

    def wrong():
        return ["a device"]

    class Nameless(CpuDevice):
        name = ""

    def nameless():
        return [Nameless()]

    def curious():
        import nnvk
        return [Example() for _ in nnvk.get_devices()]

    def again():
        return (Example() for _ in range(1))
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package with an entry point, as pip would, for the test."""
    (tmp_path / "example_driver.py").write_text(textwrap.dedent(PLUGIN))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "example_driver", raising=False)
    monkeypatch.setattr(manager, "_devices", None)

    def add(name: str, target: str) -> None:
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[nnvk.drivers]\n{name} = {target}\n")
        importlib.invalidate_caches()

    return add


def data_errors() -> list[str]:
    """Return the messages about drivers, other than that this machine has no GPU."""
    return [text for text in nnvk.unavailable() if "no GPU is found" not in text]


def test_a_driver_of_another_package(install: Install) -> None:
    install("example", "example_driver:drivers")
    names = [device.name for device in nnvk.get_devices()]
    assert names[-2:] == ["example-one", "nnapi-reference"]
    assert not data_errors()
    (output,) = nnvk.run(compiled(add_model(), nnvk.get_device("example-one")), [np.ones((2, 2), np.float32)] * 2)
    assert (output == 2).all()


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("example_driver:broken", "ZeroDivisionError: no device today"),
        ("example_driver:wrong", "TypeError: it gives 'a device'"),
        ("example_driver:nameless", "has the name ''"),
        ("example_driver:curious", "BAD_STATE"),
        ("example_driver:absent", "AttributeError"),
        ("absent_module:drivers", "ModuleNotFoundError"),
        ("example_driver:PLUGIN.x.y", "AttributeError"),
    ],
)
def test_a_driver_that_fails_is_reported(install: Install, target: str, reason: str) -> None:
    install("bad", target)
    install("good", "example_driver:drivers")
    assert "example-one" in [device.name for device in nnvk.get_devices()]
    (text,) = data_errors()
    assert "driver bad" in text
    assert reason in text


def test_two_drivers_that_fail(install: Install) -> None:
    install("first", "example_driver:broken")
    install("second", "example_driver:wrong")
    text = "; ".join(data_errors())
    assert "driver first" in text
    assert "driver second" in text


def test_two_drivers_with_the_same_device(install: Install) -> None:
    install("first", "example_driver:drivers")
    install("second", "example_driver:again")
    assert [device.name for device in nnvk.get_devices()].count("example-one") == 1
    assert "example-one" in data_errors()[0]
