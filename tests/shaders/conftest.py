"""Runs functions of ``shaders/include`` on the first device."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnvk.driver.vulkan import find_devices

SHADERS = Path(__file__).parents[2] / "shaders"
TEMPLATE = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "{include}"
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Src {{ {source} src[]; }};
layout(set = 0, binding = 1) writeonly buffer Dst {{ {target} dst[]; }};
layout(push_constant) uniform Push {{ uint count; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i < count) dst[i] = {expression};
}}
"""
_DTYPES = {"int": np.int32, "uint": np.uint32, "float": np.float32, "ivec4": np.int32, "vec4": np.float32}

Evaluate = Callable[..., np.ndarray]


@pytest.fixture(scope="session")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> Evaluate:
    """``evaluate(include, expression, src, source="int", target="int")``: the expression of ``src[i]`` for every i."""
    found, reason = find_devices()
    glslang = shutil.which("glslangValidator")
    if not found or glslang is None:
        pytest.skip(reason or "there is no shader compiler")
    device = found[0].gpu.native()
    folder = tmp_path_factory.mktemp("shaders")

    def run(include: str, expression: str, src: np.ndarray, source: str = "int", target: str = "int") -> np.ndarray:
        text = TEMPLATE.format(include=include, source=source, target=target, expression=expression)
        (folder / "test.comp").write_text(text)
        options = ["-V", "--target-env", "vulkan1.1", f"-I{SHADERS / 'include'}", "-o", "test.spv"]
        done = subprocess.run([glslang, *options, "test.comp"], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        width = 4 if source.endswith("vec4") else 1
        wide = 4 if target.endswith("vec4") else 1
        src = np.ascontiguousarray(src, _DTYPES[source])
        count = src.size // width
        result = np.zeros((count, wide) if wide > 1 else count, _DTYPES[target])
        buffers = [device.create_buffer(array.nbytes, host_visible=True) for array in (src, result)]
        spirv = (folder / "test.spv").read_bytes()
        program = device.create_program()
        algorithm = device.create_algorithm(spirv, buffers, [], 4)
        program.dispatch(algorithm, (-(-count // 64), 1, 1), struct.pack("<I", count))
        program.finish([(buffers[0], 0, src.nbytes)], [(buffers[1], 0, result.nbytes)])
        program.run([src], [result])
        return result

    return run
