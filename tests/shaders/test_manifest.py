"""Every compiled shader keeps these rules, so that it runs on the smallest device."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nnvk.driver.vulkan.shaders import assumptions
from nnvk.driver.vulkan.shaders.declaration import declared_shaders
from nnvk.driver.vulkan.shaders.library import FOLDER

SHADERS = Path(__file__).parents[2] / "shaders"
DOCUMENT, *ENTRIES = map(json.loads, (FOLDER / "manifest.jsonl").read_text().splitlines())
VARIANTS: dict[str, dict[str, Any]] = dict(zip(DOCUMENT["variants"], ENTRIES, strict=True))


@pytest.mark.parametrize("name", VARIANTS)
def test_limits_of_the_smallest_device(name: str) -> None:
    entry = VARIANTS[name]
    assert entry["push_constant_size"] <= 128
    assert (entry["shared_memory_bytes"] or 0) <= 16 << 10
    assert len(entry["bindings"]) <= 8
    assert entry["local_size_ids"][0] == 0, "the size of workgroups is for the lowering to choose"


@pytest.mark.parametrize("name", VARIANTS)
def test_every_tensor_has_its_offset(name: str) -> None:
    entry = VARIANTS[name]
    members = {member["name"]: member["type"] for member in entry["push_constants"]}
    for binding in entry["bindings"]:
        assert members[f"{binding['name']}_offset"] == "uint"


WAYS = ("TILE", "ARITHMETIC", "LOADS", "SUMS")
"""Axes that are ways to the same result."""


@pytest.mark.parametrize("shader", [shader.name for shader in declared_shaders()])
def test_some_variant_needs_nothing_special(shader: str) -> None:
    """Each data type has a variant that needs no optional feature: more features only make a device faster."""
    needs: dict[str, list[int]] = {}
    for entry in VARIANTS.values():
        if entry["shader"] == shader:
            key = ".".join(value for axis, value in entry["axes"].items() if axis not in WAYS)
            needs.setdefault(key, []).append(len(entry["features"]))
    assert needs
    assert all(min(counts) == 0 for counts in needs.values()), needs


def test_only_native_variants_use_small_storage() -> None:
    for name, entry in VARIANTS.items():
        small = [feature for feature in entry["features"] if "8Bit" in feature or "16Bit" in feature]
        assert not small or (name.endswith(".native") and small == ["storageBuffer16BitAccess"]), name


@pytest.mark.parametrize("path", sorted(SHADERS.glob("include/*.glsl")), ids=lambda path: path.name)
def test_includes_leave_the_size_of_workgroups_alone(path: Path) -> None:
    """Ahead of local_size_x_id gl_WorkGroupSize is 1 for good; only a macro sees what the shader declares."""
    code = re.sub(r"#define(.*\\\n)*.*|//.*", "", path.read_text())
    assert "gl_WorkGroupSize" not in code


def test_every_shader_is_declared() -> None:
    assert assumptions.ASSUMPTIONS  # the kernels don't import the module that declares its shader
    assert {path.stem for path in SHADERS.glob("*.comp")} == {shader.name for shader in declared_shaders()}


@pytest.mark.parametrize("path", sorted(SHADERS.glob("**/*.[cg]*")), ids=lambda path: path.name)
def test_shaders_leave_alone_what_compilers_may_change(path: Path) -> None:
    """docs/shaders.md says what is used instead."""
    code = re.sub(r"//.*", "", path.read_text())
    assert not re.findall(r"\b(isnan|isinf|precise|packHalf2x16)\b", code)
