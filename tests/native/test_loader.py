"""The Vulkan loader is opened when it is needed; a machine without it still imports everything, and says so."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from processes import python

# An auditor of the dynamic linker that finds no libvulkan.
HIDE = """
#include <link.h>
#include <string.h>
unsigned la_version(unsigned version) { return version; }
char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag) {
    return strstr(name, "libvulkan.so") ? 0 : (char *)name;
}
"""
SCRIPT = """
from nnvk import _native
for open_loader in (_native.load_vulkan, _native.Instance):
    try:
        open_loader()
    except _native.LoaderError as error:
        text = str(error)
    else:
        raise AssertionError("expected LoaderError")
print(text)
print(*nnvk.unavailable(), sep="; ")
assert [device.name for device in nnvk.get_devices()] == ["nnapi-reference"]
add("nnapi-reference", 5)
"""


@pytest.fixture(scope="module")
def auditor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared library that hides libvulkan."""
    compiler = shutil.which("cc") or shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("auditor")
    (folder / "hide.c").write_text(HIDE)
    command = [compiler, "-x", "c", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", "hide.so", "hide.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "hide.so"


def test_a_machine_without_the_loader(auditor: Path) -> None:
    first, second = python(SCRIPT, LD_AUDIT=str(auditor)).splitlines()
    cannot_load = "the Vulkan loader can't be loaded: "  # what follows is the linker's, which differs from call to call
    assert first.startswith(cannot_load)
    assert second.startswith(f"Vulkan does not start: {cannot_load}")
    assert "; install the Vulkan loader" in second


def test_a_loader_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "libvulkan.so.1").touch()
    first, second = python(SCRIPT, LD_LIBRARY_PATH=str(tmp_path)).splitlines()
    assert "the Vulkan loader can't be loaded" in first
    assert str(tmp_path) in second


def test_the_module_links_neither_vulkan_nor_fmt() -> None:
    printed = python("""
        import subprocess
        from nnvk import _native
        print(subprocess.run(["ldd", _native.__file__], capture_output=True, text=True, check=True).stdout)
    """)
    assert "libc.so" in printed
    assert "vulkan" not in printed.replace("nnvk", "")
    assert "fmt" not in printed
