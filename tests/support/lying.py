"""A driver that lies: the Vulkan device with one shader variant that computes something else than its source says."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from nnvk.base.settings import override
from nnvk.driver import vulkan
from nnvk.driver.vulkan.shaders.library import FOLDER, ShaderLibrary
from nnvk.runtime.devices import Device

_HEADER = 5
"""Words of a module before its first instruction."""
_EXT_INST, _F_ADD, _F_SUB = 12, 129, 131
"""Opcodes of SPIR-V."""
_FMA, _F_MIX = 50, 46
"""Instructions of GLSL.std.450, with three operands each."""


def with_differences(spirv: bytes) -> bytes:
    """A module that subtracts floats wherever it should add them, and interpolates where it should multiply and add."""
    words = np.frombuffer(spirv, np.uint32).copy()
    place, changed = _HEADER, 0
    while place < words.size:
        length, opcode = int(words[place]) >> 16, int(words[place]) & 0xFFFF
        if opcode == _F_ADD:
            words[place] = length << 16 | _F_SUB
            changed += 1
        elif opcode == _EXT_INST and words[place + 4] == _FMA:
            words[place + 4] = _F_MIX
            changed += 1
        place += length
    assert changed, "the module adds no floats"
    return words.tobytes()


def lying_device(patch: pytest.MonkeyPatch, folder: Path, variant: str, **settings: object) -> Device:
    """The first Vulkan device with shaders in ``folder``, of which one lies."""
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    module = folder / f"{variant}.spv"
    module.write_bytes(with_differences((FOLDER / module.name).read_bytes()))
    patch.setattr(vulkan, "ShaderLibrary", lambda: ShaderLibrary(folder))
    with override(**settings):
        found, reason = vulkan.find_devices()
    if not found:
        pytest.skip(reason)
    return Device(found[0])
