"""The images of docs/deploy.md: they have the packages that nnvk needs at run time, and take nnvk from its folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PHOTOS = "examples/photo_server/Containerfile"


@pytest.mark.parametrize("file", ["Containerfile", PHOTOS])
def test_an_image_has_the_packages_of_the_scripts(file: str) -> None:
    """The photo server's last stage takes the environment of the first one, and needs no package to make it."""
    image = (ROOT / file).read_text(encoding="utf-8")
    table = (ROOT / "scripts" / "packages.sh").read_text(encoding="utf-8")
    installed = re.findall(r"--no-install-recommends (.*?)(?: *\\)?$", image, re.MULTILINE)
    debian = dict(re.findall(r"^(\S+) +(\S+) +\S+ +\S+ +\S+$", table, re.MULTILINE))
    needed = [debian[name] for name in ("python", "venv", "libvulkan.so.1", "vulkan-driver")]
    if file == PHOTOS:
        needed.remove(debian["venv"])
        assert installed.pop(0).split() == [debian["venv"]]
    assert [each.split() for each in installed] == [needed]


@pytest.mark.parametrize("file", ["Containerfile", PHOTOS])
def test_an_image_takes_nnvk_from_the_folder_alone(file: str) -> None:
    """The index may have a stranger's package of the same name."""
    image = (ROOT / file).read_text(encoding="utf-8")
    (first, *_) = re.findall(r"(?:pip |\$)install (.*?) *\\?$", image, re.MULTILINE)
    assert {"--no-index", "--no-deps"} < set(first.split())
