"""Check whether a device meets the assumptions of the shaders."""

from __future__ import annotations

import struct

import numpy as np

from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.shaders.assumptions import ASSUMPTIONS, assumption
from nnvk.driver.vulkan.shaders.declaration import Variant
from nnvk.driver.vulkan.shaders.library import ShaderLibrary

_LOCAL = 64


def assumptions(gpu: Gpu, library: ShaderLibrary) -> list[Variant]:
    """The variants of `ASSUMPTIONS` that the device runs."""
    return [variant for variant in ASSUMPTIONS.variants if library[variant].features <= gpu.profile.features]


def difference(gpu: Gpu, library: ShaderLibrary, variant: Variant) -> str:
    """The difference of the device's results from those of `assumption(variant)`; empty if there is none."""
    expected = assumption(variant)
    shader = library[variant]
    results = np.zeros(len(expected.operands), np.uint32)
    device = gpu.native()
    buffers = [device.create_buffer(array.nbytes, host_visible=True) for array in (expected.operands, results)]
    specialization = shader.specialization({"local_x": _LOCAL, "TEXELS": gpu.profile.texel_loads})
    module = shader.frozen(specialization, device.features, unroll_loops=gpu.unrolls(shader.name))
    algorithm = device.create_algorithm(module, buffers, (), shader.push_constant_size)
    program = device.create_program()
    push_constants = struct.pack("<3I", 0, 0, results.size)
    program.dispatch(algorithm, (-(-results.size // _LOCAL), 1, 1), push_constants)
    program.finish([(buffers[0], 0, expected.operands.nbytes)], [(buffers[1], 0, results.nbytes)])
    program.run([expected.operands], [results])
    wrong = expected.wrong(results)
    if not wrong.size:
        return ""
    return f"{wrong.size} of {results.size} results, first {expected.describe(int(wrong[0]), results)}"
