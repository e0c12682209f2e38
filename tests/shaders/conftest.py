"""Runs functions of ``shaders/include`` on the first device."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from spirv_contraction import forbid_contraction

from nnvk.driver.vulkan import find_devices

SHADERS = Path(__file__).parents[2] / "shaders"
TEMPLATE = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "{include}"
#include "texels.glsl"
layout(local_size_x = 64) in;
READ_VIEW(0, Src, src, {source})
layout(set = 0, binding = 1) writeonly buffer Dst {{ {target} dst[]; }};
layout(push_constant) uniform Push {{ uint count; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i < count) dst[i] = {expression};
}}
"""
_TEXELS = 19
"""Number of the specialisation constant."""
_DTYPES = {"int": np.int32, "uint": np.uint32, "float": np.float32}

Evaluate = Callable[..., np.ndarray]


def _vector(type_: str) -> tuple[type, int]:
    """Elements of a type of GLSL, and how many there are."""
    scalar, _, length = type_.partition("vec")
    return _DTYPES[type_] if not length else _DTYPES[{"i": "int", "u": "uint", "": "float"}[scalar]], int(length or 1)


@pytest.fixture(scope="session")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> Evaluate:
    """``evaluate(include, expression, src, source="int", target="int")``: the expression of ``src[i]`` for every i.

    ``texels``: what ``src_at`` gives comes through a texel buffer. ``constants``: specialisation constants by number.
    """
    found, reason = find_devices()
    glslang = shutil.which("glslangValidator")
    if not found or glslang is None:
        pytest.skip(reason or "there is no shader compiler")
    device = found[0].gpu.native()
    folder = tmp_path_factory.mktemp("shaders")

    def run(
        include: str,
        expression: str,
        src: np.ndarray,
        source: str = "int",
        target: str = "int",
        *,
        texels: bool = False,
        constants: Mapping[int, int] | None = None,
    ) -> np.ndarray:
        text = TEMPLATE.format(include=include, source=source, target=target, expression=expression)
        (folder / "test.comp").write_text(text)
        options = ["-V", "--target-env", "vulkan1.1", f"-I{SHADERS / 'include'}", "-o", "test.spv"]
        done = subprocess.run([glslang, *options, "test.comp"], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        (dtype, width), (result_dtype, wide) = _vector(source), _vector(target)
        src = np.ascontiguousarray(src, dtype)
        count = src.size // width
        result = np.zeros((count, wide) if wide > 1 else count, result_dtype)
        buffers = [device.create_buffer(array.nbytes, host_visible=True) for array in (src, result)]
        specialization = [0] * (max(constants or [0], default=0) + _TEXELS + 1)
        for number, value in {_TEXELS: int(texels), **(constants or {})}.items():
            specialization[number] = value
        spirv = forbid_contraction((folder / "test.spv").read_bytes())
        program = device.create_program()
        algorithm = device.create_algorithm(spirv, buffers, specialization, 4)
        program.dispatch(algorithm, (-(-count // 64), 1, 1), struct.pack("<I", count))
        program.finish([(buffers[0], 0, src.nbytes)], [(buffers[1], 0, result.nbytes)])
        program.run([src], [result])
        return result

    return run
