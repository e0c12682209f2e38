"""nnvk says in its own words what a system lacks for Vulkan."""

from __future__ import annotations

import grp
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from unprivileged import locked, unprivileged

from nnvk.driver.vulkan.running import requirements

DEBIAN = {"ID": "debian"}
UBUNTU = {"ID": "ubuntu", "ID_LIKE": "debian"}
MINT = {"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}
FEDORA = {"ID": "fedora"}
ROCKY = {"ID": "rocky", "ID_LIKE": "rhel centos fedora"}
ARCH = {"ID": "arch"}
TUMBLEWEED = {"ID": "opensuse-tumbleweed", "ID_LIKE": "opensuse suse"}
ALPINE = {"ID": "alpine"}
BOTH = "install the Vulkan loader and a Vulkan driver with: "
MANIFESTS = [Path(f"/usr/share/vulkan/icd.d/{name}") for name in ("radeon_icd.json", "intel_icd.x86_64.json")]
SOFTWARE = [Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"), Path("/opt/vk_swiftshader_icd.json")]


@pytest.mark.parametrize(
    ("release", "command"),
    [
        (DEBIAN, "apt install libvulkan1 mesa-vulkan-drivers"),
        (UBUNTU, "apt install libvulkan1 mesa-vulkan-drivers"),
        (MINT, "apt install libvulkan1 mesa-vulkan-drivers"),
        (FEDORA, "dnf install vulkan-loader mesa-vulkan-drivers"),
        (ROCKY, "dnf install vulkan-loader mesa-vulkan-drivers"),
        (ARCH, "pacman -S vulkan-icd-loader vulkan-swrast (for a GPU: vulkan-radeon, vulkan-intel, "),
        (TUMBLEWEED, "zypper install libvulkan1 libvulkan_lvp (for a GPU: libvulkan_radeon, libvulkan_intel, "),
        (ALPINE, "apk add vulkan-loader mesa-vulkan-swrast (for a GPU: mesa-vulkan-ati, mesa-vulkan-intel, "),
    ],
    ids=lambda value: value["ID"] if isinstance(value, dict) else "",
)
def test_packages(monkeypatch: pytest.MonkeyPatch, release: dict[str, str], command: str) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    text = requirements.how_to_install(loader=True, driver=True)
    assert text.startswith(BOTH + command)
    assert "\n" not in text


@pytest.mark.parametrize("release", [DEBIAN, ARCH], ids=lambda value: value["ID"])
def test_one_of_both(monkeypatch: pytest.MonkeyPatch, release: dict[str, str]) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    loader, driver = requirements.how_to_install(loader=True), requirements.how_to_install(driver=True)
    assert loader.startswith("install the Vulkan loader with: ")
    assert loader.endswith("libvulkan1" if release is DEBIAN else "vulkan-icd-loader")
    assert driver.startswith("install a Vulkan driver with: ")
    assert "loader" not in driver


def test_systems_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> dict[str, str]:
        raise OSError("Unable to read files /etc/os-release, /usr/lib/os-release")

    unknown = "install the Vulkan loader with the packages of this system"
    for release in (absent, lambda: {"ID": "linux"}, lambda: {"ID": "nixos", "ID_LIKE": ""}):
        monkeypatch.setattr(platform, "freedesktop_os_release", release)
        assert requirements.how_to_install(loader=True) == unknown


# --- device files --------------------------------------------------------------------------------------------------


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """This path stands for /dev/dri, and does not exist yet."""
    monkeypatch.setattr(requirements, "_DEVICES", tmp_path / "dri")
    return tmp_path / "dri"


def test_no_device_files(devices: Path) -> None:
    for manifests in (MANIFESTS, MANIFESTS[:1], [*SOFTWARE, MANIFESTS[1]]):
        assert requirements.why_no_gpu(manifests) == f"there is no {devices}"


def test_drivers_that_need_none(devices: Path) -> None:
    assert requirements.why_no_gpu(SOFTWARE) == ""
    assert requirements.why_no_gpu([]) == ""
    assert [requirements.has_software_device(each) for each in ([], MANIFESTS, SOFTWARE)] == [False, False, True]


def test_devices_that_draw_and_do_not_render(devices: Path) -> None:
    devices.mkdir()
    (devices / "card0").touch()
    assert requirements.why_no_gpu(MANIFESTS) == f"{devices} has no render node"


def test_devices_that_may_be_used(devices: Path) -> None:
    devices.mkdir()
    (devices / "renderD128").touch()
    assert requirements.why_no_gpu(MANIFESTS) == ""


CLOSED = """
import sys
from pathlib import Path
from nnvk.driver.vulkan.running import requirements
requirements._DEVICES = Path(sys.argv[1])
print(requirements.why_no_gpu([Path("radeon_icd.json")]))
"""


def closed(devices: Path) -> str:
    """Return what a process without privileges says of device files."""
    command = unprivileged([sys.executable, "-c", CLOSED, devices])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd="/").stdout.strip()


def test_devices_that_this_user_may_not_open(devices: Path) -> None:
    devices.mkdir()
    for name in ("renderD128", "renderD129"):
        (devices / name).touch(0o000 if name == "renderD129" else 0o600)
    number = (devices / "renderD129").stat().st_gid
    group = {group.gr_gid: group.gr_name for group in grp.getgrall()}.get(number, str(number))
    expected = f"this user may not open {devices / 'renderD129'} (group {group})"
    assert closed(devices) == expected
    if os.geteuid() == 0:
        os.chown(devices / "renderD129", -1, 54321)
        assert closed(devices) == expected.replace(f"group {group}", "group 54321")


def test_devices_that_this_user_may_not_list(devices: Path) -> None:
    with locked(devices):
        assert closed(devices) == f"{devices} can't be read (Permission denied)"
