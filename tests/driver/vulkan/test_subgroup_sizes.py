"""The size of subgroups that pipelines require on GPUs that have two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from against_reference import check_like_the_reference

from nnvk.driver.vulkan import find_devices
from nnvk.driver.vulkan.lowering.gemm.tiles import GEMM
from nnvk.driver.vulkan.shaders.library import CompiledShader, ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import (
    ACCELERATED_DOTS,
    SUBGROUP_SIZE_FEATURES,
    constrain,
    described,
    parse_profile,
    profile_of,
)

LIMITS = {
    "maxStorageBufferRange": 2**32 - 1,
    "maxTexelBufferElements": 2**27,
    **{f"maxComputeWorkGroupCount{axis}": 65535 for axis in range(3)},
    "maxComputeWorkGroupInvocations": 1024,
    "maxComputeWorkgroupSubgroups": 32,
    "maxComputeSharedMemorySize": 65536,
    "timestampValidBits": 64,
    "shaderUnits": 80,
}
MATRICES = [(16, 16, 16, "sint8", "sint8", "sint32", "sint32")]
ALL = SUBGROUP_SIZE_FEATURES | {ACCELERATED_DOTS}


@pytest.mark.parametrize(
    ("sizes", "required", "features", "matrices", "expected"),
    [
        ((32, 64, 64), 32, ALL, [], 32),  # RDNA 1 and 2
        ((32, 64, 64), 32, ALL, MATRICES, 0),  # RDNA 3
        ((32, 64, 64), 0, ALL, [], 0),  # of shaders of other stages alone
        ((32, 64, 64), 32, frozenset(), [], 0),
        ((64, 64, 64), 64, ALL, [], 0),  # GCN
        ((32, 32, 32), 32, ALL, [], 0),  # NVIDIA
        ((8, 32, 32), 8, ALL, [], 0),  # Intel
        ((64, 64, 128), 64, ALL, [], 0),  # Adreno
    ],
)
def test_which_gpus_prefer_their_smallest_subgroups(
    sizes: tuple[int, int, int],
    required: int,
    features: frozenset[str],
    matrices: Sequence[tuple[int, int, int, str, str, str, str]],
    expected: int,
) -> None:
    names = ("minSubgroupSize", "subgroupSize", "maxSubgroupSize")
    limits = LIMITS | dict(zip(names, sizes, strict=True)) | {"leastRequiredSubgroupSize": required}
    profile = profile_of("", "discrete_gpu", limits, features, matrices)
    assert profile.required_subgroup == expected
    assert parse_profile(described(profile)) == profile
    assert profile_of("", "cpu", limits, features).required_subgroup == 0
    assert constrain(profile, "mobile-min").required_subgroup == 0
    too_large = limits | {"maxComputeWorkgroupSubgroups": 31}  # workgroups of 1,024
    assert profile_of("", "discrete_gpu", too_large, features, matrices).required_subgroup == 0


def test_shaders_with_subgroup_operations_keep_the_size_that_the_driver_chooses() -> None:
    library = ShaderLibrary()

    def size(tile: str, **values: int) -> int:
        arithmetic = "dot" if tile == "cooperative_matrix" else "none"
        kind = "q8" if tile == "cooperative_matrix" else "f32"
        shader = library[GEMM.variant(DTYPE=kind, TILE=tile, ARITHMETIC=arithmetic, SUMS="whole", EPILOGUE="plain")]
        return shader.subgroup_size(shader.specialization(values), 32)

    assert size("shared") == size("register") == size("depthwise") == 32
    assert size("quads") == 0
    assert size("cooperative_matrix", SUBGROUP_SIZE=16) == 16


@pytest.mark.numbers
@pytest.mark.parametrize(
    "text",
    [
        "CONV_2D f32[1,9,8,12]~3 #f32[16,3,3,12]~3 #f32[16]~9 SAME 2 2 RELU6 nhwc",
        "DEPTHWISE_CONV_2D f32[1,9,8,12]~3 #f32[1,3,3,12]~3 #f32[12]~9 SAME 1 1 1 RELU nhwc",
        "SOFTMAX f32[3,5] 1.0f -> f32",
    ],
    ids=lambda text: text.partition(" ")[0],
)
def test_pipelines_of_the_required_size(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The driver compiles them, and results are those of the reference."""
    device = find_devices()[0][0]
    limits = device.gpu.native().physical.limits
    size = int(limits["leastRequiredSubgroupSize"])
    if not size or not device.profile.features >= SUBGROUP_SIZE_FEATURES:
        pytest.skip("the device has no control of subgroup sizes")
    profile = replace(constrain(device.profile, "gpu"), smallest_subgroup=size, prefers_smallest_subgroup=True)
    device.gpu.profile = device.planner.profile = profile
    sizes: list[int] = []
    original = CompiledShader.subgroup_size

    def observed(shader: CompiledShader, words: Sequence[int], preferred: int = 0) -> int:
        sizes.append(original(shader, words, preferred))
        return sizes[-1]

    monkeypatch.setattr(CompiledShader, "subgroup_size", observed)
    check_like_the_reference(device, text)
    assert size in sizes
