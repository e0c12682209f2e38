"""Missing packages: scripts/packages.sh and scripts/install.sh, without root, a network, or changes to the system."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nnvk.driver.vulkan.running import requirements

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

FEDORA = 'NAME="Fedora Linux"\nID=fedora\nPRETTY_NAME="Fedora Linux 43 (Workstation Edition)"\n'
ROCKY = 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\n'
MANJARO = "NAME=Manjaro\nID=manjaro\nID_LIKE=arch\n"
TUMBLEWEED = 'NAME="openSUSE Tumbleweed"\nID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n'
UBUNTU = "NAME=Ubuntu\nID=ubuntu\nID_LIKE=debian\n"
VOID = 'NAME="Void"\nID="void"\nPRETTY_NAME="Void Linux"\n'

# A vulkan-driver and a validation-layer are looked for in the real system: whether they are named depends on it.
DEBIANS_NAMES = "python3 python3-venv python3-dev g++ cmake ninja-build libvulkan-dev libvulkan1"


class Machine:
    """A PATH with few commands, and a description of the system."""

    def __init__(self, root: Path) -> None:
        self.bin, self.os_release = root / "bin", root / "os-release"
        self.bin.mkdir()
        for name in ("bash", "dirname", "env"):
            found = shutil.which(name)
            assert found
            (self.bin / name).symlink_to(found)

    def add(self, name: str, text: str) -> None:
        """Adds a command, a script."""
        (self.bin / name).write_text(f"#!{self.bin}/bash\n{text}\n")
        (self.bin / name).chmod(0o755)

    def run(self, script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.bin), "OS_RELEASE": str(self.os_release)}
        command = [self.bin / "bash", script, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("system", "command"),
    [
        (FEDORA, "dnf install python3 python3-devel gcc-c++ cmake ninja-build vulkan-headers vulkan-loader"),
        (ROCKY, "dnf install python3 python3-devel gcc-c++ cmake ninja-build vulkan-headers vulkan-loader"),
        (MANJARO, "pacman -S python gcc cmake ninja vulkan-headers vulkan-icd-loader"),
        (TUMBLEWEED, "zypper install python3 python3-devel gcc-c++ cmake ninja vulkan-headers libvulkan1"),
        (UBUNTU, f"apt install {DEBIANS_NAMES}"),
    ],
    ids=["fedora", "rocky", "manjaro", "tumbleweed", "ubuntu"],
)
def test_missing_packages_have_the_systems_names(machine: Machine, system: str, command: str) -> None:
    machine.os_release.write_text(system)
    done = machine.run(SCRIPTS / "packages.sh")
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first == "These packages are missing, and installing them needs root:"
    assert second.startswith(f"    {command}")


def test_unknown_system_gets_debians_names_and_hears_so(machine: Machine) -> None:
    machine.os_release.write_text(VOID)
    done = machine.run(SCRIPTS / "packages.sh")
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"These packages are missing (Debian's names; those of Void Linux are not known here): {DEBIANS_NAMES}"
    )


def test_system_without_a_description_gets_debians_names(machine: Machine) -> None:
    done = machine.run(SCRIPTS / "packages.sh")
    assert done.returncode == 1
    assert "those of an unknown system are not known here" in done.stderr


def test_what_is_there_is_not_named(machine: Machine) -> None:
    machine.os_release.write_text(FEDORA)
    machine.add("cmake", "exit 1")
    machine.add("chromium", "exit 1")
    done = machine.run(SCRIPTS / "packages.sh", "glslangValidator", "chromium")
    assert "gcc-c++ ninja-build vulkan-headers vulkan-loader" in done.stderr
    assert "glslang" in done.stderr
    assert "chromium" not in done.stderr


def test_packages_on_request(machine: Machine) -> None:
    machine.os_release.write_text(FEDORA)
    cross = "aarch64-linux-gnu-g++"
    assert "aarch64" not in machine.run(SCRIPTS / "packages.sh").stderr
    assert "g++-aarch64-linux-gnu (Debian's name)" in machine.run(SCRIPTS / "packages.sh", cross).stderr
    done = machine.run(SCRIPTS / "packages.sh", "nonsense")
    assert (done.returncode, done.stderr) == (2, f"{SCRIPTS / 'packages.sh'}: nothing is called nonsense\n")


def test_apt_installs_what_is_missing(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    machine.add("id", "echo 0")
    machine.add("apt-get", f'echo "$@" >>{log}')
    done = machine.run(SCRIPTS / "packages.sh")
    update, install = log.read_text().splitlines()
    assert update == "update -qq"
    assert install.startswith(f"install -y -qq --no-install-recommends {DEBIANS_NAMES}")
    assert done.returncode == 1  # this apt has installed nothing
    still = "Still missing after the installation (is python3 the system's Python?): "
    assert done.stderr.startswith(still + DEBIANS_NAMES)


def test_apt_without_root_only_names(machine: Machine, tmp_path: Path) -> None:
    machine.os_release.write_text(UBUNTU)
    machine.add("id", "echo 1000")
    machine.add("sudo", "exit 1")
    machine.add("apt-get", f"touch {tmp_path / 'log'}")
    done = machine.run(SCRIPTS / "packages.sh")
    assert done.returncode == 1
    assert f"    apt install {DEBIANS_NAMES}" in done.stderr
    assert not (tmp_path / "log").exists()


def test_install_ends_where_packages_are_missing(machine: Machine, tmp_path: Path) -> None:
    shutil.copytree(SCRIPTS, tmp_path / "project" / "scripts")
    machine.os_release.write_text(MANJARO)
    done = machine.run(tmp_path / "project" / "scripts" / "install.sh", "--test")
    assert done.returncode == 1
    assert "    pacman -S python gcc" in done.stderr
    assert not (tmp_path / "project" / ".venv").exists()


def test_the_driver_names_the_same_packages() -> None:
    """`nnvk devices` names the packages of the loader and of a driver where the scripts are not there."""
    table = (SCRIPTS / "packages.sh").read_text()
    for family, column in (("debian", 0), ("fedora", 1), ("arch", 2), ("suse", 3)):
        known = requirements.DISTRIBUTIONS[family]
        for what, name in (("libvulkan.so.1", known.loader), ("vulkan-driver", known.software)):
            (row,) = re.findall(rf"^{re.escape(what)} +(.*)$", table, re.MULTILINE)
            assert row.split()[column] == name
