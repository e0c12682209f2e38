"""GEMMs whose factors are multiplied, and in short runs added up, as 16-bit floats: close, and never Inf."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from against_reference import check_like_the_reference

from nnvk.check.model_rows import Row, empty_like, execute, parse, reference
from nnvk.conformance.compare import first_difference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.kernels import depthwise_conv2d
from nnvk.driver.vulkan.kernels.depthwise_conv2d import DepthwiseTile
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.lowering.gemm.weights import LONGEST, ROUNDS, longest_of
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.types.codes import OperandCode
from nnvk.types.model import Lifetime


def offered(work: Work, device: DeviceProfile) -> list[Strategy]:
    """Return the strategies with float16 arithmetic that a GPU would be offered."""
    return [
        candidate for candidate in candidates(work, replace(device, is_cpu=False)) if candidate.arithmetic == "half"
    ]


@dataclass(frozen=True)
class Forced:
    """How a device shall multiply: a tile of a product with vec4s of K of a stage, and pixels of depthwise tiles."""

    tile: str
    stage: int
    pixels: str
    split_k: bool = False
    """K shall be in as many pieces as may be, not in one."""

    def __str__(self) -> str:
        return f"{self.tile} by {4 * self.stage}{' in pieces' * self.split_k}"


FORCED = (
    Forced("register 8x8", 4, "4x4"),
    Forced("register 1x4", 4, "2x4"),
    Forced("shared 16x64", 4, "2x2"),
    Forced("shared 128x64", 4, "4x1"),
    Forced("shared 40x64", 8, "1x1"),
    Forced("shared 16x64", 8, "2x1", split_k=True),
    Forced("register 8x8", 4, "4x1", split_k=True),
)


@pytest.fixture(params=FORCED, ids=str)
def in_float16(own: VulkanDevice, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> VulkanDevice:
    """The device, which multiplies 16-bit floats by one strategy with packed weights, or the first there is."""
    if not own.profile.has_native_16:
        pytest.skip("the device has no 16-bit floats of its own")

    def ranked(work: Work, device: DeviceProfile) -> list[Strategy]:
        forced = request.param
        candidates = sorted(offered(work, device), key=lambda candidate: candidate.split_k, reverse=forced.split_k)
        return [
            candidate
            for candidate in candidates
            if str(candidate).startswith(f"{forced.tile} ") and candidate.stage == forced.stage
        ] or candidates

    def tiles(gemm: Gemm, kind: str, device: DeviceProfile, float16: bool) -> list[DepthwiseTile]:
        candidates = depthwise_tiles(gemm, kind, replace(device, is_cpu=False), float16)
        candidates = [candidate for candidate in candidates if candidate.arithmetic == "half"]
        return [
            candidate for candidate in candidates if f"{candidate.height}x{candidate.width}" == request.param.pixels
        ] or candidates

    depthwise_tiles = depthwise_conv2d.tiles
    monkeypatch.setattr(gemm, "ranked", ranked)
    monkeypatch.setattr(depthwise_conv2d, "tiles", tiles)
    return own


def spoilt(text: str, weights: np.ndarray, *inputs: np.ndarray) -> Row:
    """The row with other inputs and, as its first constant tensor, other weights."""
    model = parse(text).model
    operands = list(model.operands)
    number = next(i for i, operand in enumerate(operands) if operand.lifetime is Lifetime.CONSTANT)
    operands[number] = replace(operands[number], constant=weights.astype(np.float16))
    return Row(replace(model, operands=tuple(operands)), [array.astype(np.float16) for array in inputs])


def outputs_of(device: VulkanDevice, row: Row) -> tuple[np.ndarray, np.ndarray]:
    (want,) = reference(row)
    (got,) = outputs = empty_like([want])
    execute(device, row, outputs)
    return got, want


SHAPES = """
CONV_2D f16[1,7,5,13]~3 #f16[19,3,3,13]~3 #f16[19] SAME 1 1 RELU nhwc
CONV_2D f16[2,5,7,8]~3 #f16[33,2,3,8]~3 #f16[33] SAME 2 1 NONE nhwc
CONV_2D f16[1,16,9,11]~3 #f16[5,3,3,16]~3 #f16[5] SAME 1 1 NONE nchw
CONV_2D f16[1,3,3,20]~3 #f16[68,1,1,20]~3 #f16[68] VALID 1 1 RELU6 nhwc
GROUPED_CONV_2D f16[1,5,6,10]~3 #f16[74,3,2,5]~3 #f16[74] SAME 1 1 2 NONE nhwc
GROUPED_CONV_2D f16[1,5,6,16]~3 #f16[6,3,2,8]~3 #f16[6] SAME 1 1 2 NONE nhwc
TRANSPOSE_CONV_2D f16[2,4,5,4]~3 #f16[37,3,4,4]~3 #f16[37] 1 0 2 1 2 3 NONE nhwc
TRANSPOSE_CONV_2D f16[1,4,5,8]~3 #f16[3,3,4,8]~3 #f16[3] 1 0 2 1 2 3 NONE nhwc
FULLY_CONNECTED f16[17,29]~3 #f16[23,29]~3 #f16[23] NONE
FULLY_CONNECTED f16[19,1031]~3 #f16[7,1031]~3 #f16[7] NONE
DEPTHWISE_CONV_2D f16[2,11,9,36]~3 #f16[1,3,3,36]~3 #f16[36] SAME 1 1 1 RELU6 nhwc
DEPTHWISE_CONV_2D f16[1,12,13,6]~3 #f16[1,3,3,6]~3 #f16[6] SAME 2 2 1 NONE nhwc
DEPTHWISE_CONV_2D f16[1,9,11,8]~3 #f16[1,5,5,8]~2 #f16[8] SAME 1 1 1 NONE nhwc
DEPTHWISE_CONV_2D f16[1,5,7,3]~3 #f16[1,1,2,9]~2 #f16[9] VALID 1 1 3 NONE nhwc
DEPTHWISE_CONV_2D f16[1,12,9,11]~3 #f16[1,3,3,12]~3 #f16[12] SAME 1 1 1 RELU nchw
BATCH_MATMUL f16[3,41,24]~3 #f16[3,24,68]~3
BATCH_MATMUL f16[2,35,7]~3 #f16[2,7,3]~3
"""


def shortened(weights: np.ndarray) -> np.ndarray:
    """Weights times a power of two, so that filters are as long as is allowed, or up to twice shorter."""
    return weights * 2.0 ** -np.ceil(np.log2(lengths_of(weights).max() / most_of(weights)))


def is_depthwise(filters: np.ndarray) -> bool:
    return filters.ndim == 4 and len(filters) == 1


def most_of(filters: np.ndarray) -> float:
    """How long filters may be: depthwise ones are added up whole."""
    return longest_of(max(8, filters[0, ..., 0].size)) if is_depthwise(filters) else LONGEST


def lengths_of(filters: np.ndarray) -> np.ndarray:
    filters = np.moveaxis(filters, 3, 0) if is_depthwise(filters) else filters
    return np.sqrt(np.square(filters.astype(np.float64)).reshape(filters.shape[0], -1).sum(1))


def constant_of(text: str) -> np.ndarray:
    return next(o.value for o in parse(text).model.operands if o.lifetime is Lifetime.CONSTANT and o.value is not None)


@pytest.mark.parametrize("text", SHAPES.strip().splitlines())
@pytest.mark.crossed
def test_integers_are_exact(in_float16: VulkanDevice, text: str) -> None:
    """Results are right for weights that are integers times a power of two, and nothing else in memory is written."""
    check_like_the_reference(in_float16, spoilt(text, shortened(constant_of(text)), *parse(text).inputs))


@pytest.mark.parametrize("vec4s", ROUNDS)
@pytest.mark.parametrize("text", SHAPES.strip().splitlines())
@pytest.mark.crossed
def test_numbers_are_as_close_as_the_vectors_ask(in_float16: VulkanDevice, text: str, vec4s: int) -> None:
    rng = np.random.default_rng(1)
    weights = rng.standard_normal(constant_of(text).shape)
    weights *= min(longest_of(4 * vec4s), most_of(weights)) / lengths_of(weights).max() / 1.001
    inputs = [rng.standard_normal(source.shape) for source in parse(text).inputs]
    got, want = outputs_of(in_float16, spoilt(text, weights, *inputs))
    assert first_difference(want, got, OperandCode.TENSOR_FLOAT16) is None


@pytest.mark.parametrize("size", [65504.0, 1000.0, 1.0, 2.0**-14, 2.0**-24])
@pytest.mark.parametrize("weight", [0.4, 2.0**-6, 2.0**-14, 2.0**-24])
@pytest.mark.crossed
def test_sums_never_leave_the_range(in_float16: VulkanDevice, size: float, weight: float) -> None:
    """Large products that cancel, next to each other or far apart, or that add up to what is just within the range.

    A device may round a product before it adds it or not, so roundings need not cancel.
    """
    depth, rows = 2 * 4 * max(ROUNDS), 19
    signs = np.where(np.arange(depth) % 2, 1.0, -1.0)
    apart = np.where(np.arange(depth) < depth // 2, 1.0, -1.0)
    weights = weight * np.stack([signs, apart, np.eye(1, depth)[0], np.full(depth, 1 / depth)])
    text = f"FULLY_CONNECTED f16[{rows},{depth}] #f16[4,{depth}] #f16[4]=0 NONE"
    got, want = outputs_of(in_float16, spoilt(text, weights, np.full((rows, depth), size)))
    assert np.isfinite(want).all()
    rounding = np.finfo(np.float16).eps / 2
    within = (np.abs(weights).sum(axis=1) * size + np.finfo(np.float16).smallest_subnormal) * rounding
    far = np.abs(got.astype(np.float64) - want) > within
    assert first_difference(want[far], got[far], OperandCode.TENSOR_FLOAT16) is None


def test_what_is_no_number_stays_so(in_float16: VulkanDevice) -> None:
    text = "CONV_2D f16[1,9,7,12] #f16[9,3,3,12] #f16[9] SAME 1 1 NONE nhwc"
    row = spoilt(text, shortened(constant_of(text)), *(source / 2 for source in parse(text).inputs))
    source = row.inputs[0].copy()
    source[0, 1, 2, 3], source[0, 7, 5, 0], source[0, 4, 3, 11] = np.inf, -np.inf, np.nan
    got, want = outputs_of(in_float16, Row(row.model, [source]))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got) * np.sign(got), np.isinf(want) * np.sign(want))
    finite = np.isfinite(want)
    assert first_difference(want[finite], got[finite], OperandCode.TENSOR_FLOAT16) is None


@pytest.mark.parametrize("weight", [np.inf, np.nan, 4.1])
def test_weights_that_are_not_for_this(own: VulkanDevice, weight: float) -> None:
    """Those that are no numbers, and large ones."""
    weights = np.full((4, 8), 0.1)
    weights[1, 3] = weight
    row = spoilt("FULLY_CONNECTED f16[19,8] #f16[4,8] #f16[4] NONE", weights, np.ones((19, 8)))
    plan = own.planner.lower(row.model, [(19, 8)])
    assert not [candidate for candidate in plan.choices[0].candidates if "16 bits" in candidate]


def test_weights_of_zeros(in_float16: VulkanDevice) -> None:
    row = spoilt("FULLY_CONNECTED f16[19,8] #f16[4,8] #f16[4] NONE", np.zeros((4, 8)), np.full((19, 8), 65504))
    got, want = outputs_of(in_float16, row)
    np.testing.assert_array_equal(got, want)
