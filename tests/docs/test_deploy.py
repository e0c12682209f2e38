"""The image of docs/deploy.md: it has the packages that nnvk needs at run time, and takes nnvk from its folder."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_image_has_the_packages_of_the_scripts() -> None:
    image = (ROOT / "Containerfile").read_text(encoding="utf-8")
    table = (ROOT / "scripts" / "packages.sh").read_text(encoding="utf-8")
    (installed,) = re.findall(r"--no-install-recommends (.*?) *\\$", image, re.MULTILINE)
    debian = dict(re.findall(r"^(\S+) +(\S+) +\S+ +\S+ +\S+$", table, re.MULTILINE))
    needed = [debian[name] for name in ("python", "venv", "libvulkan.so.1", "vulkan-driver")]
    assert installed.split() == needed


def test_the_image_takes_nnvk_from_the_folder_alone() -> None:
    """The index may have a stranger's package of the same name."""
    image = (ROOT / "Containerfile").read_text(encoding="utf-8")
    (first, *_) = re.findall(r"pip install (.*?) *\\?$", image, re.MULTILINE)
    assert {"--no-index", "--no-deps"} < set(first.split())
