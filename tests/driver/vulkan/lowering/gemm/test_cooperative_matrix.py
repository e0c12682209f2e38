"""GEMMs by cooperative matrices: who gets them, and their results where the device and the build have them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from against_reference import check_like_the_reference
from profiles import DEVICES, GPU

from nnvk.base.errors import NnapiError
from nnvk.base.settings import override
from nnvk.check.device import shaders_of
from nnvk.check.model_rows import empty_like, parse, reference, request
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategies import ranked
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.lowering.gemm.tiles import GEMM, cooperative_matrix
from nnvk.driver.vulkan.lowering.gemm.tiles.cooperative_matrix import FEATURES, Matrix, MatrixTile, pack, tiles
from nnvk.driver.vulkan.lowering.gemm.weights import Weights, weights_of
from nnvk.driver.vulkan.planning.passes import fp16
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import (
    ACCELERATED_DOTS,
    NATIVE_16,
    DeviceProfile,
    constrain,
    described,
    parse_profile,
    profile_of,
)
from nnvk.ops.call import Tensor
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType
from nnvk.types.request import ExecuteOptions, PrepareOptions

LIBRARY = ShaderLibrary()
ARITHMETICS = {"q8": "dot", "f16": "none"}
VARIANTS = [variant.native for variant in GEMM.variants if Matrix.tile in variant.name]
MATRICES = ("q8 16x16x16", "f16 16x16x16")
WITH_MATRICES = replace(
    GPU,
    features=GPU.features | FEATURES | NATIVE_16 | {"shaderInt8"},
    cooperative_matrices=frozenset(MATRICES),
    max_shared_memory=65536,
)
LARGE = Work("q8", 3136, 256, 1, 1, 576, constant=True, in_order=False, matrix=False)

# --- who gets them ------------------------------------------------------------------------------------------------


def tiles_of(found: list[Strategy]) -> set[str]:
    return {strategy.tile for strategy in found}


@pytest.mark.parametrize("kind", ["q8", "f16"])
@pytest.mark.parametrize("taps", [1, 9])
def test_large_gemms_get_matrices(kind: str, taps: int) -> None:
    best = ranked(replace(LARGE, kind=kind, taps=taps), WITH_MATRICES)[0]
    assert best.matrices is not None
    assert best.variant(kind).name.startswith(f"gemm.{kind}.{Matrix.tile}.{ARITHMETICS[kind]}.")


@pytest.mark.parametrize("kind", ["f32", "i32", "q16"])
def test_other_types_have_none(kind: str) -> None:
    assert Matrix.tile not in tiles_of(ranked(replace(LARGE, kind=kind), WITH_MATRICES))


def test_few_tiles_share_k() -> None:
    best = ranked(replace(LARGE, kind="f16", rows=196, taps=9, depth=256), WITH_MATRICES)[0]
    assert best.matrices is not None
    assert best.split_k > 1
    assert best.sums <= cooperative_matrix.MOST_SUMS
    assert best.variant("f16").name == f"gemm.f16.{Matrix.tile}.none.split.plain"


def test_few_channels_are_not_worth_whole_chunks() -> None:
    work = replace(LARGE, rows=112 * 112, columns=8, taps=9, depth=1)
    assert ranked(work, WITH_MATRICES)[0].tile != Matrix.tile
    assert Matrix.tile in tiles_of(ranked(work, WITH_MATRICES))


@pytest.mark.parametrize("kind", ["q8", "f16"])
@pytest.mark.parametrize("missing", sorted(FEATURES | {"shaderInt8", "shaderIntegerDotProduct", "shaderFloat16"}))
def test_every_feature_is_needed(kind: str, missing: str) -> None:
    device = replace(WITH_MATRICES, features=WITH_MATRICES.features - {missing})
    needed = missing in FEATURES or (missing == "shaderFloat16") == (kind == "f16")
    assert (not list(tiles(kind, 1, device))) == needed
    for variant in VARIANTS:
        if kind in variant.name and variant.name not in LIBRARY.left_out:
            assert (missing in LIBRARY[variant].features) == needed


@pytest.mark.parametrize("kind", ["q8", "f16"])
@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_devices_that_list_none_have_none(kind: str, device: DeviceProfile) -> None:
    assert Matrix.tile not in tiles_of(ranked(replace(LARGE, kind=kind), device))


@pytest.mark.parametrize("kind", ["q8", "f16"])
def test_software_devices_have_them_only_by_force(kind: str) -> None:
    work, software = replace(LARGE, kind=kind), replace(WITH_MATRICES, is_cpu=True, subgroup_size=8, matrix_subgroup=8)
    assert Matrix.tile not in tiles_of(ranked(work, software))
    assert tiles_of(ranked(work, replace(software, prefers_matrices=True))) == {Matrix.tile}


def test_force_leaves_what_has_no_matrices() -> None:
    device = replace(WITH_MATRICES, prefers_matrices=True)
    assert ranked(replace(LARGE, kind="f32"), device) == ranked(replace(LARGE, kind="f32"), WITH_MATRICES)
    assert tiles_of(ranked(replace(LARGE, rows=1, columns=1), device)) == {Matrix.tile}


@pytest.mark.parametrize("field", ["avoided", "left_out"])
def test_variants_that_are_avoided_or_left_out(field: str) -> None:
    names = frozenset(f"gemm.q8.{Matrix.tile}.dot.{sums}.plain" for sums in ("whole", "split"))
    device = replace(WITH_MATRICES, **{field: names}, prefers_matrices=True)
    assert Matrix.tile not in tiles_of(ranked(LARGE, device))
    assert Matrix.tile in tiles_of(ranked(replace(LARGE, kind="f16"), device))


# As AMD, Intel, NVIDIA and lavapipe list them, and some that nobody lists.
SIZES = (
    "16x16x16",
    "8x16x32",
    "8x8x32",
    "8x8x16",
    "16x8x16",
    "16x8x8",
    "16x16x32",
    "16x16x8",
    "8x8x8",
    "32x32x16",
    "1x4x64",
)


@pytest.mark.parametrize("is_cpu", [False, True], ids=["gpu", "cpu"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["q8", "f16"])
@pytest.mark.parametrize("subgroup", [4, 8, 16, 32, 64, 128])
def test_every_tile_shares_its_work_evenly(kind: str, size: str, subgroup: int, is_cpu: bool) -> None:
    """The shader relies on it, whatever the size of subgroups."""
    device = replace(
        WITH_MATRICES,
        is_cpu=is_cpu,
        prefers_matrices=True,
        cooperative_matrices=frozenset({f"{kind} {size}"}),
        matrix_subgroup=subgroup,
        max_shared_memory=32768,
    )
    for tile in tiles(kind, 1, device):
        m, n, k = tile.matrix
        assert f"{m}x{n}x{k}" == size
        assert tile.invocations == subgroup * tile.subgroups[0] * tile.subgroups[1] <= device.max_invocations
        # Every invocation loads as many chunks of 16 bytes, in rows that are all of the workgroup's.
        at_once = tile.invocations // tile.stage
        assert at_once * tile.stage == tile.invocations
        assert tile.rows % at_once == tile.columns % at_once == 0
        assert tile.loads == (tile.rows + tile.columns) // at_once
        assert 16 * tile.stage % (k * (1 if kind == "q8" else 2)) == 0
        # At the end the invocations of a subgroup have whole rows of four output channels each.
        assert subgroup % (n * tile.matrices[1] // 4) == 0
        # Two rows of 16 bytes more are the sums of zero points, and padding.
        assert 16 * (tile.stage + 1) * (tile.rows + tile.columns) <= tile.shared_memory <= device.max_shared_memory
        constants = cooperative_matrix.constants(tile, kind, 9, 64)
        assert constants["local_x"] == constants["SUBGROUP_SIZE"] * tile.subgroups[0] * tile.subgroups[1]


@pytest.mark.parametrize(
    ("subgroup", "sizes"), [(8, ("q8 8x8x32", "f16 8x8x16")), (16, ("q8 8x16x32", "f16 8x16x16")), (32, MATRICES)]
)
def test_common_sizes_have_a_tile(subgroup: int, sizes: tuple[str, ...]) -> None:
    """Those of Intel's GPUs have narrow subgroups, whose tiles hold less in registers."""
    for kind, taps in itertools.product(ARITHMETICS, (1, 9)):
        device = replace(WITH_MATRICES, matrix_subgroup=subgroup, cooperative_matrices=frozenset(sizes))
        found = list(tiles(kind, taps, device))
        assert len(found) > 1
        assert all(tile.held(kind) <= (56 if subgroup == 32 else 11) for tile in found)


# --- what the device lists ----------------------------------------------------------------------------------------

LIMITS = {
    "subgroupSize": 64,
    "minSubgroupSize": 32,
    "maxSubgroupSize": 64,
    "maxStorageBufferRange": 2**32 - 1,
    "maxTexelBufferElements": 2**27,
    **{f"maxComputeWorkGroupCount{axis}": 65535 for axis in range(3)},
    "maxComputeWorkGroupInvocations": 1024,
    "maxComputeSharedMemorySize": 65536,
    "timestampValidBits": 64,
    "shaderUnits": 60,
}
LISTED = [
    (16, 16, 16, "sint8", "sint8", "sint32", "sint32"),
    (16, 16, 16, "uint8", "sint8", "sint32", "sint32"),
    (16, 16, 16, "float16", "float16", "float32", "float32"),
    (16, 16, 16, "float16", "float16", "float16", "float16"),
    (8, 16, 32, "sint8", "sint8", "sint32", "sint32"),
    (8, 8, 4, "float32", "float32", "float32", "float32"),
]


def test_the_profile_has_what_shaders_can_use() -> None:
    profile = profile_of("", "discrete_gpu", LIMITS, frozenset({ACCELERATED_DOTS}), LISTED)
    assert profile.cooperative_matrices == {"q8 16x16x16", "q8 8x16x32", "f16 16x16x16"}
    assert profile.matrix_sizes("q8") == [(16, 16, 16), (8, 16, 32)]
    assert profile.matrix_sizes("f32") == []
    assert parse_profile(described(profile)) == profile


@pytest.mark.parametrize(
    ("least", "most", "own", "expected"), [(32, 64, 64, 32), (8, 8, 8, 8), (8, 32, 16, 8), (64, 64, 64, 64)]
)
def test_the_smallest_subgroups_have_them(least: int, most: int, own: int, expected: int) -> None:
    limits = LIMITS | {"minSubgroupSize": least, "maxSubgroupSize": most, "subgroupSize": own}
    assert profile_of("", "discrete_gpu", limits, frozenset(), LISTED).matrix_subgroup == expected


def test_gpus_without_dot_products_have_none() -> None:
    """Intel's driver lists them for GPUs that have no unit for them."""
    assert not profile_of("", "discrete_gpu", LIMITS, frozenset(), LISTED).cooperative_matrices
    assert profile_of("", "cpu", LIMITS, frozenset(), LISTED).cooperative_matrices


@pytest.mark.parametrize("text", ["16x16x16", "q8 16x16", "q8 16x16x16 ", "q8  16x16x16", "q8 0x16x16"])
def test_a_malformed_description_is_refused(text: str) -> None:
    with pytest.raises(NnapiError, match="cooperative_matrices of a device profile"):
        parse_profile({**described(WITH_MATRICES), "cooperative_matrices": [text]})


def test_constraints_keep_them_only_where_they_are_wanted() -> None:
    software = replace(WITH_MATRICES, is_cpu=True)
    assert not constrain(WITH_MATRICES, "mobile-min").cooperative_matrices
    assert not constrain(software, "gpu").cooperative_matrices
    assert constrain(replace(software, prefers_matrices=True), "gpu").cooperative_matrices
    assert constrain(WITH_MATRICES, "gpu").cooperative_matrices


# --- weights ------------------------------------------------------------------------------------------------------


def constant(data: np.ndarray, code: OperandCode, scale: float = 0.0, zero_point: int = 0) -> Weights:
    return weights_of(Tensor("weights", 1, OperandType(code, data.shape, scale, zero_point), data=data))


def test_bytes_are_packed_as_signed_ones_with_their_sums() -> None:
    data = np.random.default_rng(1).integers(0, 256, (7, 2, 3, 21), np.uint8)
    packed = pack(constant(data, OperandCode.TENSOR_QUANT8_ASYMM, 0.5, 131), WITH_MATRICES)
    weights, sums = packed[: 7 * 6 * 32].view(np.int8).reshape(7, 6, 32), packed[7 * 6 * 32 :].view(np.int32)
    signed = data.astype(np.int32).reshape(7, 6, 21) - 128
    np.testing.assert_array_equal(weights[:, :, :21], signed)
    assert not weights[:, :, 21:].any()
    np.testing.assert_array_equal(sums, signed.sum((1, 2)))


def test_floats_are_packed_with_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative_matrix, "_AT_ONCE", 100)  # some filters at a time
    data = np.random.default_rng(1).standard_normal((7, 1, 3, 21)).astype(np.float16)
    packed = pack(constant(data, OperandCode.TENSOR_FLOAT16), WITH_MATRICES).view(np.float16).reshape(7, 3, 24)
    np.testing.assert_array_equal(packed[:, :, :21], data[:, 0])
    assert not packed[:, :, 21:].any()


def test_lines_of_taps_are_packed_as_one_tap() -> None:
    data = np.random.default_rng(1).integers(-128, 128, (7, 2, 3, 5), np.int8)
    packed = pack(constant(data, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 0.5, 3).in_lines(3), WITH_MATRICES)
    weights = packed[: 7 * 2 * 16].view(np.int8).reshape(7, 2, 16)
    np.testing.assert_array_equal(weights[:, :, :15], data.reshape(7, 2, 15))
    assert not weights[:, :, 15:].any()


@pytest.mark.parametrize(
    ("text", "taps"),
    [
        ("CONV_2D u8[1,9,11,3]*0.05+120 #u8[10,5,7,3]*0.02+131 #i32[10] SAME 2 2 NONE nhwc -> u8*2+100", 7),
        ("CONV_2D u8[1,9,11,3]*0.05+120 #u8[10,5,7,3]*0.02+131 #i32[10] SAME 1 1 NONE nhwc 2 1 -> u8*2+100", 1),
        ("CONV_2D u8[1,9,11,4]*0.05+120 #u8[10,5,7,4]*0.02+131 #i32[10] SAME 1 1 NONE nhwc -> u8*2+100", 1),
        ("GROUPED_CONV_2D u8[1,5,6,10]*0.1+9 #u8[74,3,2,5]*0.1+9 #i32[74] SAME 1 1 2 NONE nhwc -> u8*2+100", 1),
        ("TRANSPOSE_CONV_2D u8[1,4,5,3]*0.1+9 #u8[7,3,4,3]*0.1+9 #i32[7] 1 0 2 1 2 3 NONE nhwc -> u8*2+100", 1),
    ],
)
def test_lines_of_few_channels_are_one_tap(monkeypatch: pytest.MonkeyPatch, text: str, taps: int) -> None:
    """If taps and channels lie one after the other, in the input and in the filter."""
    found: list[int] = []

    def spy(work: Work, device: DeviceProfile) -> list[Strategy]:
        found.append(work.line_taps)
        return ranked(work, device)

    monkeypatch.setattr(gemm, "ranked", spy)
    devices, absence = find_devices()
    if not devices:
        pytest.skip(absence)
    assert shaders_of(devices[0].planner, parse(text))
    assert set(found) == {taps}


# --- results --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def matrices() -> VulkanDevice:
    """The first device, which takes cooperative matrices wherever it can."""
    with override(cooperative_matrices="1"):
        found, absence = find_devices()
    if not found:
        pytest.skip(absence)
    if not found[0].profile.cooperative_matrices:
        pytest.skip("the device lists no cooperative matrices")
    left_out = [name for name in LIBRARY.left_out if Matrix.tile in name]
    if left_out:
        pytest.skip(f"the build has no {left_out[0]}")
    return found[0]


BYTES = {
    "u8": "u8{}*0.05+120 #u8{}*0.02+131 #i32[{}] {} -> u8*{}+100",
    "i8": "i8{}*0.05-7 #i8{}*0.02+5 #i32[{}] {} -> i8*{}-20",
    "i8, symmetric": "i8{}*0.05-7 #i8{}*0.02+0 #i32[{}] {} -> i8*{}-20",
    "u8, per channel": "u8{}*0.05+120 #pc0{} #i32[{}] {} -> u8*{}+100",
    "i8, per channel": "i8{}*0.05-7 #pc0{} #i32[{}] {} -> i8*{}-20",
    "u8, at run time": "u8{}*0.05+120 u8{}*0.02+131 i32[{}] {} -> u8*{}+100",
    "i8, per channel, at run time": "i8{}*0.05-7 pc0{} i32[{}] {} -> i8*{}-20",
}
FLOATS = {
    "f16": "f16{}~3 #f16{}~2 #f16[{}]~9 {}",
    "f16, at run time": "f16{}~3 f16{}~2 f16[{}]~9 {}",
}
# Input, filters, their number, options. Sizes are smaller than matrices, odd, prime, and a little over tiles.
CONVOLUTIONS = (
    ("CONV_2D", "[1,7,5,13]", "[19,3,3,13]", "SAME 1 1 RELU nhwc"),
    ("CONV_2D", "[2,5,7,16]", "[33,2,3,16]", "SAME 2 1 NONE nhwc"),
    ("CONV_2D", "[1,9,11,20]", "[5,1,1,20]", "VALID 1 1 RELU6 nhwc"),
    ("CONV_2D", "[1,4,9,3]", "[8,3,3,3]", "VALID 2 2 NONE nhwc"),
    # Lines of taps are one tap: several chunks, windows wider than the image, lines in the padding alone, no padding.
    ("CONV_2D", "[2,9,11,3]", "[10,7,7,3]", "SAME 2 2 RELU nhwc"),
    ("CONV_2D", "[1,5,2,5]", "[6,2,7,5]", "SAME 1 1 NONE nhwc"),
    ("CONV_2D", "[2,3,2,1]", "[5,2,3,1]", "7 2 3 1 2 1 NONE nhwc"),
    ("CONV_2D", "[2,4,13,1]", "[3,2,10,1]", "VALID 1 1 NONE nhwc"),
    ("CONV_2D", "[1,6,6,64]", "[40,3,3,64]", "SAME 1 1 NONE nhwc"),
    ("CONV_2D", "[1,16,9,11]", "[5,3,3,16]", "SAME 1 1 NONE nchw"),
    ("GROUPED_CONV_2D", "[1,5,6,10]", "[74,3,2,5]", "SAME 1 1 2 NONE nhwc"),
    ("GROUPED_CONV_2D", "[1,5,7,32]", "[10,3,2,16]", "SAME 1 1 2 RELU nhwc"),
    ("TRANSPOSE_CONV_2D", "[2,4,5,4]", "[37,3,4,4]", "1 0 2 1 2 3 NONE nhwc"),
    ("TRANSPOSE_CONV_2D", "[1,1,1,4]", "[6,2,2,4]", "0 0 0 0 9 7 NONE nhwc"),
    ("FULLY_CONNECTED", "[1,1]", "[1,1]", "NONE"),
    ("FULLY_CONNECTED", "[3,7]", "[2,7]", "NONE"),
    ("FULLY_CONNECTED", "[67,131]", "[29,131]", "RELU"),
    ("FULLY_CONNECTED", "[17,64]", "[132,64]", "NONE"),
    ("FULLY_CONNECTED", "[2,1000]", "[7,1000]", "NONE"),
)
PRODUCTS = (
    "BATCH_MATMUL f16[3,41,24]~3 f16[3,24,68]~3",
    "BATCH_MATMUL f16[2,35,8]~3 f16[2,8,3]~3",
    "BATCH_MATMUL f16[2,5,20]~3 f16[2,23,20]~3 false true",
    "BATCH_MATMUL f16[3,41,24]~3 #f16[3,24,68]~3",
    "BATCH_MATMUL i8[3,9,22]*0.5+3 i8[3,22,5]*0.25-7 -> i8*9.5-20",
    "BATCH_MATMUL i8[2,17,32]*0.5+3 #i8[2,32,12]*0.25-7 -> i8*9.5-20",
    "FULLY_CONNECTED f16[33,40] #f16[24,40] #f16[24] NONE | ADD $ f16[33,24] NONE | TANH $",
    "CONV_2D i8[1,6,5,16]*0.05-7 #i8[8,1,1,16]*0.02+0 #i32[8] SAME 1 1 NONE nhwc -> i8*0.08-20"
    " | ADD $ i8[1,6,5,8]*0.07+3 NONE -> i8*0.1+1",
)


def rows() -> Iterator[Any]:
    templates = (*BYTES.values(), *FLOATS.values())
    for number, (code, source, filters, options) in enumerate(CONVOLUTIONS):
        taps = np.prod([int(size) for size in filters.strip("[]").split(",")[1:]])
        count = filters.strip("[").split(",")[0]
        # Each begins with the next type, so that every third row has each type and each convolution.
        for template in (*templates[number % len(templates) :], *templates[: number % len(templates)]):
            if code == "FULLY_CONNECTED" and "pc0" in template:
                continue  # NNAPI has no such weights
            row = template.format(source, filters, count, options, round(0.08 * float(taps) ** 0.5, 3))
            yield pytest.param(f"{code} {row}", marks=pytest.mark.crossed)
    yield from PRODUCTS


Shape = tuple[tuple[int, int], tuple[int, int]]
"""Matrices of a subgroup, and subgroups of a workgroup, along pixels and along output channels."""


def force(monkeypatch: pytest.MonkeyPatch, shape: Shape, split_k: int = 1, stage: int = 4) -> None:
    """All GEMMs are multiplied by one tile of the first size of matrices that the device lists."""

    def only(work: Work, device: DeviceProfile) -> list[Strategy]:
        (matrix, *_) = device.matrix_sizes(work.kind)
        tile = MatrixTile(matrix, *shape, device.matrix_subgroup, stage)
        assert tile.fits(work.kind, device)
        size, arithmetic = (tile.invocations, 1), ARITHMETICS[work.kind]
        return [Matrix(tile.rows, size, arithmetic=arithmetic, split_k=split_k, matrices=tile)]

    monkeypatch.setattr(gemm, "ranked", only)


def check(device: VulkanDevice, text: str) -> None:
    """The device multiplies by matrices: bytes exactly, floats within the tolerance of their type."""
    if "f16" in text and not device.profile.has_native_16:
        pytest.skip("the device has no 16-bit floats of its own")
    assert any(f".{Matrix.tile}." in name for name in shaders_of(device.planner, parse(text)))
    check_like_the_reference(device, text)


@pytest.mark.parametrize("text", list(rows()))
def test_like_the_reference(matrices: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The tile that drivers compile in the shortest time gives the results of the reference."""
    force(monkeypatch, ((1, 1), (1, 1)))
    check(matrices, text)


IN_EVERY_TILE = (
    "CONV_2D i8[1,6,6,64]*0.05-7 #i8[40,3,3,64]*0.02+5 #i32[40] SAME 1 1 NONE nhwc -> i8*2-20",
    "FULLY_CONNECTED f16[67,131]~3 #f16[29,131]~2 #f16[29]~9 RELU",
)
SHAPES: tuple[Shape, ...] = (
    ((2, 2), (1, 1)),
    ((1, 1), (2, 2)),
    ((2, 1), (1, 2)),
    ((1, 4), (2, 1)),
    ((2, 2), (2, 2)),
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("text", IN_EVERY_TILE)
def test_every_tile(matrices: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str, shape: Shape) -> None:
    force(monkeypatch, shape)
    check(matrices, text)


@pytest.mark.parametrize("split_k", [1, 2])
@pytest.mark.parametrize(
    "text",
    [
        *IN_EVERY_TILE,
        "CONV_2D i8[1,6,5,128]*0.05-7 #i8[9,3,3,128]*0.02+5 #i32[9] SAME 1 1 NONE nhwc -> i8*2-20",
        "CONV_2D u8[1,5,6,13]*0.05+120 #u8[12,3,3,13]*0.02+131 #i32[12] SAME 1 1 RELU nhwc -> u8*2+100",
        "FULLY_CONNECTED f16[19,200] #f16[24,200] #f16[24] NONE | ADD $ f16[19,24] NONE | TANH $",
    ],
)
def test_long_stages(matrices: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str, split_k: int) -> None:
    """Stages of 128 bytes of K: whole ones, those that end within a stage, and those of several taps."""
    force(monkeypatch, ((1, 1), (1, 1)), split_k, stage=8)
    check(matrices, text)


@pytest.mark.parametrize(
    "text",
    [
        *IN_EVERY_TILE,
        "CONV_2D u8[1,5,6,13]*0.05+120 #u8[12,3,3,13]*0.02+131 #i32[12] SAME 1 1 RELU nhwc -> u8*2+100",
        "TRANSPOSE_CONV_2D i8[1,4,5,40]*0.05-7 #i8[11,1,4,40]*0.02+5 #i32[11] 1 0 2 3 2 3 NONE nhwc -> i8*2-20",
    ],
)
@pytest.mark.parametrize("split_k", [1, 2])
def test_last_stages_behind_the_loop(
    matrices: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str, split_k: int
) -> None:
    """As on GPUs with wide subgroups; a phase without taps has no stage."""
    force(monkeypatch, ((1, 1), (1, 1)), split_k)
    monkeypatch.setattr(cooperative_matrix, "ends_apart", lambda _: True)
    check(matrices, text)


def test_narrow_subgroups_multiply_the_last_stage_in_the_loop() -> None:
    for subgroup, is_apart in ((8, False), (16, False), (32, True), (64, True)):
        tile = MatrixTile((16, 16, 16), (2, 2), (2, 2), subgroup, 4)
        assert cooperative_matrix.constants(tile, "q8", 9, 64)["LAST_APART"] == is_apart


def test_software_devices_have_short_stages_and_gpus_both() -> None:
    for is_cpu, stages in ((True, {4}), (False, {4, 8})):
        device = replace(WITH_MATRICES, is_cpu=is_cpu, prefers_matrices=True)
        assert {tile.stage for tile in tiles("q8", 1, device)} == stages


@pytest.mark.parametrize("kind", ["q8", "f16"])
def test_large_tiles_with_long_stages_have_one_tap(kind: str) -> None:
    """With several taps their invocations would hold more than registers have."""
    for taps, stages in ((1, {4, 8}), (9, {4})):
        found = {tile.stage for tile in tiles(kind, taps, WITH_MATRICES) if tile.matrices == (4, 4)}
        assert found == stages


@pytest.mark.parametrize(
    "text",
    [
        "f32[1,19,23,3] #f32[24,3,3,3] #f32[24] SAME 1 1 RELU",
        "f32[2,31,22,3] #f32[24,5,7,3] #f32[24] SAME 2 2 NONE",
        "f32[1,21,18,1] #f32[24,5,5,1] #f32[24] VALID 1 1 RELU6",
    ],
)
def test_lines_of_32_bit_inputs_of_relaxed_models(
    matrices: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The first layer reads 32-bit floats itself, of which it takes a line of a window as one tap."""
    force(monkeypatch, ((1, 1), (1, 1)))
    monkeypatch.setattr(fp16, "_WORTH_A_CONVERSION", 0)
    with override(cooperative_matrices="1", device_profile="gpu"):
        (device, *_), _ = find_devices()
    if not device.profile.has_native_16:
        pytest.skip("the device has no 16-bit floats of its own")
    row = parse(f"CONV_2D {text} | CONV_2D $ #f32[24,1,1,24] #f32[24] SAME 1 1 NONE")
    model = row.model.with_relaxed(True)
    plan = device.planner.plan(model, [array.shape for array in row.inputs], PrepareOptions())
    first = next(each for each in plan.commands if isinstance(each, Dispatch))
    constants = [first.shader.constant(first.specialization, name) for name in ("LINE_TAPS", "FROM_FLOATS")]
    assert constants == [int(text.split()[1].split(",")[2]), 1]
    outputs = empty_like(reference(row))
    device.prepare_model(model, PrepareOptions()).execute(request(row.inputs, outputs), ExecuteOptions())
    for ours, theirs in zip(outputs, reference(row), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3 * np.abs(theirs).max())


SPLIT = (
    *IN_EVERY_TILE,
    "CONV_2D i8[1,6,6,64]*0.05-7 #i8[9,3,3,64]*0.02+0 #i32[9] SAME 1 1 NONE nhwc -> i8*2-20",
    "CONV_2D u8[1,5,6,32]*0.05+120 u8[12,3,3,32]*0.02+131 i32[12] SAME 1 1 RELU nhwc -> u8*2+100",
    "CONV_2D u8[1,7,5,13]*0.05+120 #u8[19,3,3,13]*0.02+131 #i32[19] SAME 2 1 NONE nhwc -> u8*2+100",
    "TRANSPOSE_CONV_2D i8[1,4,5,40]*0.05-7 #i8[11,3,4,40]*0.02+5 #i32[11] 1 0 2 1 2 3 NONE nhwc -> i8*2-20",
    "BATCH_MATMUL i8[3,9,200]*0.5+3 i8[3,200,5]*0.25-7 -> i8*60-20",
    "FULLY_CONNECTED f16[19,200] #f16[24,200] #f16[24] NONE | ADD $ f16[19,24] NONE | TANH $",
)


@pytest.mark.parametrize(
    ("text", "shape"),
    [*((text, ((1, 1), (1, 1))) for text in SPLIT), *((text, SHAPES[0]) for text in IN_EVERY_TILE)],
    ids=str,
)
def test_split_k(matrices: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str, shape: Shape) -> None:
    """The last of three K slices adds up, and stores as one workgroup would."""
    force(monkeypatch, shape, split_k=3)
    assert any(".split." in name for name in shaders_of(matrices.planner, parse(text)))
    check(matrices, text)
