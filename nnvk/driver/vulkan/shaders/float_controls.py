"""Execution modes that keep a compiler from changing the semantics of floating-point numbers.

By default an implementation may assume that no number is infinite or NaN, ignore the sign of zero, round in either
direction and flush subnormal numbers to zero. This module adds the execution modes that forbid this, as far as the
device has them, just before the device gets a shader module. The modes are optional properties of a device. Vulkan
specification, VkPhysicalDeviceFloatControlsProperties.

A module with cooperative matrices does not say how it rounds: the compiler of NVIDIA's driver 580 crashes on some of
them if they do. Its GPUs round to nearest anyway.

The modes are part of SPIR-V 1.4, which Vulkan 1.2 accepts. The extension SPV_KHR_float_controls would declare them in
older modules too. But SwiftShader's optimiser skips a module with extensions that it does not know, and the module
then runs up to 17 times as long.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from dataclasses import dataclass
from itertools import takewhile

from nnvk.driver.vulkan.shaders.spirv import CAPABILITY, ENTRY_POINT, EXECUTION_MODE, FUNCTION, VARIABLE, instructions

_VERSION_1_4 = 0x10400
_FLOAT16 = 9
"""The capability of modules that compute with 16-bit floats."""
_COOPERATIVE_MATRICES = 6022
"""The capability of modules with cooperative matrices."""
_ROUNDING = 4467
"""The capability to say that results are rounded to nearest."""


@dataclass(frozen=True, slots=True)
class _Control:
    """An execution mode for numbers of some width, and the capability that a module declares for it."""

    capability: int
    mode: int
    width: int


_CONTROLS = {
    "shaderSignedZeroInfNanPreserveFloat32": _Control(4466, 4461, 32),
    "shaderSignedZeroInfNanPreserveFloat16": _Control(4466, 4461, 16),
    "shaderRoundingModeRTEFloat32": _Control(_ROUNDING, 4462, 32),
    "shaderDenormPreserveFloat16": _Control(4464, 4459, 16),
}
FLOAT_CONTROLS = frozenset(_CONTROLS)
"""Features of devices, by the names of their properties, that `declare_float_controls` uses."""


def declare_float_controls(spirv: bytes, features: Collection[str]) -> bytes:
    """The module with an execution mode for each of `FLOAT_CONTROLS` among ``features`` that it can have.

    A module that gets modes becomes one of SPIR-V 1.4, whose entry point names all variables of the module.
    SPIR-V specification, 2.4: capabilities come first, and execution modes follow the entry point.
    """
    module = array("I", spirv)
    capabilities: set[int] = set()
    modes: set[tuple[int, int]] = set()
    variables: list[int] = []
    capabilities_end = entry = entry_end = 0
    for at, opcode, end in takewhile(lambda each: each[1] != FUNCTION, instructions(module)):
        if opcode == CAPABILITY:
            capabilities.add(module[at + 1])
            capabilities_end = end
        elif opcode == ENTRY_POINT:
            entry, entry_end = at, end
        elif opcode == EXECUTION_MODE:
            modes.add((module[at + 2], module[at + 3]))
        elif opcode == VARIABLE:
            variables.append(module[at + 2])
    controls = [
        control
        for name, control in _CONTROLS.items()
        if name in features
        and (control.width == 32 or _FLOAT16 in capabilities)
        and not (control.capability == _ROUNDING and _COOPERATIVE_MATRICES in capabilities)
        and (control.mode, control.width) not in modes
    ]
    if not controls:
        return spirv
    declared = array("I")
    for capability in dict.fromkeys(control.capability for control in controls):
        if capability not in capabilities:
            declared.extend((2 << 16 | CAPABILITY, capability))
    entry_point = module[entry:entry_end]
    # An interface that glslang wrote has no storage: what it names are built-in variables.
    entry_point.extend(variable for variable in variables if variable not in entry_point[2:])
    entry_point[0] = len(entry_point) << 16 | ENTRY_POINT
    for control in controls:
        entry_point.extend((4 << 16 | EXECUTION_MODE, module[entry + 2], control.mode, control.width))
    module[1] = max(module[1], _VERSION_1_4)
    return (
        module[:capabilities_end] + declared + module[capabilities_end:entry] + entry_point + module[entry_end:]
    ).tobytes()
