"""Changes of order that follow each other become one, or none, and elementwise operations go before them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from fused import F32, TYPES, Net, Op, families, joined, run_both, run_random_graph, transposed, typed
from hypothesis import given
from hypothesis import strategies as st

from nnvk.driver.vulkan import VulkanDevice
from nnvk.ops.strided import Box
from nnvk.types.codes import FuseCode
from nnvk.types.operand import OperandType


def conv(net: Net, x: int, outputs: int, depth: int, size: int = 3) -> int:
    """In NCHW."""
    weights, bias = net.weights(outputs, size, size, depth), net.weights(outputs)
    rest = [net.code(each) for each in (1, 1, 1, FuseCode.NONE)]
    return net.build.operation(Op.CONV_2D, [x, weights, bias, *rest, net.build.value(True)], OperandType(F32))


# --- boxes -------------------------------------------------------------------------------------------------------


def taken(data: np.ndarray, box: Box) -> np.ndarray:
    """The elements of a box, one by one."""
    indexes = np.array(box.first)
    for size, stride in box.dimensions:
        indexes = indexes[..., None] + np.arange(size) * stride
    return data.reshape(-1)[indexes.reshape(-1)]


@st.composite
def boxes(draw: st.DrawFn, elements: int) -> Box:
    """A box inside of so many elements: views of a shape, in any order, cut, strided, repeated."""
    sizes: list[int] = []
    left = elements
    while left > 1 and len(sizes) < 4:
        size = draw(st.sampled_from([each for each in range(2, left + 1) if left % each == 0]))
        sizes.append(size)
        left //= size
    sizes.append(left)
    steps = [int(np.prod(sizes[axis + 1 :])) for axis in range(len(sizes))]
    first, dimensions = 0, []
    for axis in draw(st.permutations(range(len(sizes)))):
        begin, by = draw(st.integers(0, sizes[axis] - 1)), draw(st.integers(1, 2))
        whole = draw(st.booleans())
        begin, by = (0, 1) if whole else (begin, by)
        first += begin * steps[axis]
        dimensions.append((len(range(begin, sizes[axis], by)), by * steps[axis]))
        if draw(st.integers(0, 9)) == 0:
            dimensions.insert(0, (2, 0))
    return Box(tuple(dimensions), first)


@given(st.data(), st.sampled_from([12, 24, 36, 60, 64, 7]))
def test_boxes_of_boxes(data: st.DataObject, elements: int) -> None:
    inner = data.draw(boxes(elements))
    outer = data.draw(boxes(inner.elements))
    within = outer.within(inner)
    if within is None:
        return
    for (size, _), pieces in zip(outer.dimensions, within, strict=True):
        assert size == np.prod([each for each, _ in pieces], dtype=int)
    together = Box(tuple(itertools.chain(*within)), outer.first_within(inner))
    numbers = np.arange(elements)
    assert (taken(numbers, together) == taken(taken(numbers, inner), outer)).all()


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))), ids=str)
def test_permutations_of_permutations(axes: Sequence[int]) -> None:
    """The composition of two permutations is always a box."""
    for others in itertools.permutations(range(3)):
        shape, steps = (3, 4, 5), (20, 5, 1)
        inner = Box(tuple((shape[axis], steps[axis]) for axis in axes))
        moved = [shape[axis] for axis in axes]
        after = (moved[1] * moved[2], moved[2], 1)
        outer = Box(tuple((moved[axis], after[axis]) for axis in others))
        assert outer.within(inner) is not None
        assert inner.reorders(60)


# --- changes of changes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
def test_a_transpose_and_its_inverse_vanish(vulkan: VulkanDevice, kind: str) -> None:
    net = Net()
    y = transposed(net, transposed(net, typed(net, kind, 3, 4, 5), 2, 0, 1, kind=kind), 1, 2, 0, kind=kind)
    pool = [1, 1, 1, 2, 2, 0]
    y = net.op(Op.RESHAPE, y, np.array([1, 3, 4, 5], np.int32), type_=TYPES[kind])
    model = net.finish(net.build.operation(Op.MAX_POOL_2D, [y, *map(net.code, pool)], TYPES[kind]))
    assert families(run_both(vulkan, model, net.arrays)) == "pool2d"


@pytest.mark.parametrize("kind", TYPES)
def test_two_transposes_are_one(vulkan: VulkanDevice, kind: str) -> None:
    net = Net()
    y = transposed(net, transposed(net, typed(net, kind, 3, 4, 5, 2), 1, 0, 3, 2, kind=kind), 0, 2, 1, 3, kind=kind)
    assert families(run_both(vulkan, net.finish(y), net.arrays)) == "arrange"


@pytest.mark.parametrize("kind", TYPES)
def test_axes_of_one_element_are_nothing(vulkan: VulkanDevice, kind: str) -> None:
    net = Net()
    y = transposed(net, typed(net, kind, 4, 1, 5, 1), 1, 0, 3, 2, kind=kind)
    model = net.finish(net.build.operation(Op.MAX_POOL_2D, [y, *map(net.code, [1, 1, 1, 2, 2, 0])], TYPES[kind]))
    assert families(run_both(vulkan, model, net.arrays)) == "pool2d"


def test_reshapes_between_transposes(vulkan: VulkanDevice) -> None:
    """Heads of attention, apart and together again."""
    net = Net()
    x = net.op(Op.RESHAPE, net.input(1, 6, 8), np.array([1, 6, 2, 4], np.int32))
    y = transposed(net, transposed(net, x, 0, 2, 1, 3), 0, 2, 1, 3)
    y = net.op(Op.RESHAPE, y, np.array([6, 8], np.int32))
    plan = run_both(vulkan, net.finish(net.dense(y, 8, 8)), net.arrays)
    assert families(plan).replace("fully_connected", "gemm") == "gemm"


def test_a_transpose_that_others_read_stays(vulkan: VulkanDevice) -> None:
    net = Net()
    x = net.input(3, 4, 5)
    y = transposed(net, x, 2, 0, 1)
    model = net.finish(y, transposed(net, y, 0, 2, 1), net.op(Op.ABS, y))
    assert families(run_both(vulkan, model, net.arrays)) == "arrange arrange unary"


@pytest.mark.parametrize("adjoint", [(False, False), (True, False), (False, True), (True, True)], ids=str)
def test_transposes_before_products_of_matrices(vulkan: VulkanDevice, adjoint: tuple[bool, bool]) -> None:
    net = Net()
    shapes = [(2, 6, 5), (2, 7, 6)]
    sides = [net.input(*shape) for shape in shapes]
    for number, (side, flag) in enumerate(zip(sides, adjoint, strict=True)):
        sides[number] = transposed(net, side, 0, 2, 1) if not flag else side
    flags = [net.build.value(flag) for flag in adjoint]
    y = net.build.operation(Op.BATCH_MATMUL, [*sides, *flags], OperandType(F32))
    run_both(vulkan, net.finish(y), net.arrays)


def test_a_transpose_and_the_transposing_flag_vanish(vulkan: VulkanDevice) -> None:
    net = Net()
    x, y = net.input(2, 5, 8), net.input(2, 8, 12)
    flags = [net.build.value(flag) for flag in (False, True)]
    z = net.build.operation(Op.BATCH_MATMUL, [x, transposed(net, y, 0, 2, 1), *flags], OperandType(F32))
    assert "arrange" not in families(run_both(vulkan, net.finish(z), net.arrays)).split()


# --- element by element ------------------------------------------------------------------------------------------


def test_layouts_between_convolutions_vanish(vulkan: VulkanDevice) -> None:
    net = Net()
    y = net.op(Op.HARD_SWISH, conv(net, net.input(2, 3, 7, 5), 8, 3))
    y = net.op(Op.TANH, conv(net, y, 6, 8))
    # SwiftShader's compiler divides before it multiplies where HARD_SWISH follows a GEMM.
    plan = run_both(vulkan, net.finish(conv(net, y, 4, 6)), net.arrays, tolerance=1e-5)
    names = families(plan).replace(" end", "").split()
    assert names == ["arrange", "gemm", "gemm", "gemm", "arrange"]


def test_residuals_between_convolutions(vulkan: VulkanDevice) -> None:
    net = Net()
    x = net.op(Op.RELU, conv(net, net.input(1, 4, 6, 6), 8, 4))
    y = net.op(Op.RELU, conv(net, x, 8, 8))
    y = net.op(Op.RELU, net.op(Op.ADD, conv(net, y, 8, 8), x))
    plan = run_both(vulkan, net.finish(conv(net, y, 8, 8)), net.arrays)
    assert families(plan) == "arrange gemm end gemm end gemm end gemm arrange"


def test_numbers_and_channels(vulkan: VulkanDevice) -> None:
    """A number, or one for each channel, goes along."""
    for operand in ((1,), (1, 8, 1, 1), (8, 1, 1)):
        for code in (Op.MUL, Op.SUB):
            net = Net()
            y = conv(net, net.input(1, 4, 6, 6), 8, 4)
            y = net.op(code, *((net.weights(*operand), y) if code is Op.SUB else (y, net.weights(*operand))))
            plan = run_both(vulkan, net.finish(conv(net, y, 8, 8)), net.arrays)
            assert families(plan) == "arrange gemm end gemm arrange"


@pytest.mark.parametrize(
    "shape", [(1, 8, 1, 1), (2, 1, 1, 1), (2, 8, 1, 1), (1, 1, 6, 5), (6, 5), (1, 1, 6, 1), (5,)], ids=str
)
@pytest.mark.parametrize("swapped", [False, True])
def test_operands_that_are_repeated(vulkan: VulkanDevice, shape: tuple[int, ...], swapped: bool) -> None:
    """In any way."""
    net = Net()
    y, other = conv(net, net.input(2, 4, 6, 5), 8, 4), net.input(*shape)
    y = net.op(Op.MAXIMUM, *((other, y) if swapped else (y, other)))
    plan = run_both(vulkan, net.finish(conv(net, y, 8, 8)), net.arrays)
    assert families(plan).split().count("arrange") == 2


@pytest.mark.parametrize("shape", [(1, 8, 6, 1), (2, 8, 6, 1), (1, 8, 6, 5), (2, 8, 1, 5)], ids=str)
def test_operands_in_another_order_keep_theirs(vulkan: VulkanDevice, shape: tuple[int, ...]) -> None:
    """A fused elementwise operation would not know the layout of such an operand."""
    net = Net()
    y = net.op(Op.ADD, conv(net, net.input(2, 4, 6, 5), 8, 4), net.input(*shape))
    run_both(vulkan, net.finish(conv(net, net.op(Op.RELU, y), 8, 8)), net.arrays)


@pytest.mark.parametrize("kind", ["unsigned", "signed"])
def test_bytes_that_are_repeated(vulkan: VulkanDevice, kind: str) -> None:
    for shape in ((1, 8, 1, 1), (1, 1, 6, 5), (2, 8, 1, 1)):
        net = Net()
        x = transposed(net, typed(net, kind, 2, 6, 5, 8), 0, 3, 1, 2, kind=kind)
        y = net.op(Op.ADD, x, typed(net, kind, *shape), type_=TYPES[kind])
        model = net.finish(transposed(net, y, 0, 2, 3, 1, kind=kind))
        assert "arrange" not in families(run_both(vulkan, model, net.arrays)).split()


def test_excitation(vulkan: VulkanDevice) -> None:
    """The image is multiplied by numbers that are computed from its mean."""
    net = Net()
    x = conv(net, net.input(1, 4, 6, 6), 8, 4)
    y = net.op(Op.MEAN, x, np.array([2, 3], np.int32), net.code(1))
    y = net.op(Op.LOGISTIC, conv(net, y, 8, 8, 1))
    plan = run_both(vulkan, net.finish(conv(net, net.op(Op.MUL, x, y), 8, 8)), net.arrays)
    names = families(plan).split()
    assert names.count("arrange") == 2
    assert names[0] == names[-1] == "arrange"


@pytest.mark.parametrize("axes", [(2, 3), (1,), (0, 2, 3), (3,), (1, 2, 3)], ids=str)
def test_means(vulkan: VulkanDevice, axes: tuple[int, ...]) -> None:
    net = Net()
    y = net.op(Op.MEAN, conv(net, net.input(2, 4, 6, 5), 8, 4), np.array(axes, np.int32), net.code(0))
    assert families(run_both(vulkan, net.finish(y), net.arrays)) == "arrange gemm mean"


def test_two_that_are_repeated_alike(vulkan: VulkanDevice) -> None:
    """Equal boxes, of which each element counts for several."""
    net = Net()
    x = transposed(net, net.input(3, 2), 1, 0)
    y = transposed(net, net.input(3, 2), 1, 0)
    x, y = net.op(Op.RESHAPE, x, np.array([2, 3, 1], np.int32)), net.op(Op.RESHAPE, y, np.array([2, 1, 3], np.int32))
    run_both(vulkan, net.finish(net.op(Op.ADD, x, y)), net.arrays)


def test_conversions(vulkan: VulkanDevice) -> None:
    net = Net()
    x = transposed(net, net.input(3, 8, 5), 2, 0, 1)
    y = net.op(Op.QUANTIZE, x, type_=TYPES["signed"])
    y = transposed(net, y, 1, 2, 0, kind="signed")
    z = net.op(Op.DEQUANTIZE, transposed(net, y, 2, 1, 0, kind="signed"))
    plan = run_both(vulkan, net.finish(transposed(net, z, 2, 1, 0), y), net.arrays)
    assert families(plan).split().count("arrange") <= 3


def test_what_is_added_up_later(vulkan: VulkanDevice) -> None:
    """The number that goes along is there only after the change of order."""
    net = Net()
    y = transposed(net, net.input(3, 4), 1, 0)
    number = net.op(Op.REDUCE_MAX, net.input(5, 7), np.array([0, 1], np.int32), net.build.value(False))
    run_both(vulkan, net.finish(transposed(net, net.op(Op.SUB, y, number), 1, 0)), net.arrays)


# --- channels that are put together ------------------------------------------------------------------------------


def pool(net: Net, x: int) -> int:
    """In NCHW."""
    return net.op(Op.MAX_POOL_2D, x, *map(net.code, [1, 1, 1, 3, 3, 0]), net.build.value(True))


@pytest.mark.parametrize("images", [1, 3])
def test_channels_are_put_together_before_they_are_planes(vulkan: VulkanDevice, images: int) -> None:
    """As in Inception's blocks: nothing changes its order between convolutions and pools, and nothing is copied."""
    net = Net()
    x = conv(net, net.input(images, 4, 6, 5), 8, 4)
    y = joined(
        net, 1, net.op(Op.RELU, conv(net, x, 12, 8)), conv(net, conv(net, x, 4, 8), 8, 4), conv(net, pool(net, x), 4, 8)
    )
    model = net.finish(conv(net, net.op(Op.RELU, conv(net, y, 4, 24)), 8, 4), pool(net, y))
    names = families(run_both(vulkan, model, net.arrays)).split()
    # Only the model's input and outputs change their layout.
    assert names.count("arrange") == 3
    if vulkan.profile.unified_memory:
        assert "move" not in names


@pytest.mark.parametrize("images", [1, 2])
def test_dense_blocks(vulkan: VulkanDevice, images: int) -> None:
    """Each concatenation has the one before, which is normalised too."""
    net = Net()
    x, channels = conv(net, net.input(images, 4, 6, 5), 8, 4), 8
    for _ in range(3):
        y = net.op(Op.ADD, net.op(Op.MUL, x, net.weights(channels, 1, 1)), net.weights(channels, 1, 1))
        x = joined(net, 1, x, conv(net, net.op(Op.RELU, y), 4, channels))
        channels += 4
    plan = run_both(vulkan, net.finish(conv(net, x, 8, channels)), net.arrays)
    assert families(plan).split().count("arrange") == 2


def test_planes_that_others_read(vulkan: VulkanDevice) -> None:
    """An output, an operation that needs planes, channels that are there twice, and such as never were channels."""
    net = Net()
    x = conv(net, net.input(2, 4, 6, 5), 8, 4)
    one, two, given = conv(net, x, 4, 8), conv(net, x, 8, 8), net.input(2, 3, 6, 5)
    outputs = [
        joined(net, 1, one, two),
        net.op(Op.SOFTMAX, joined(net, 1, two, one), 1.0, net.code(1)),
        net.op(Op.RELU, joined(net, 1, two, two)),
        net.op(Op.ABS, joined(net, 1, one, given)),
        net.op(Op.TANH, joined(net, 2, one, one)),
        conv(net, joined(net, 0, two, two), 4, 8),
        transposed(net, joined(net, 1, one, two, one), 0, 3, 1, 2),
        two,
    ]
    run_both(vulkan, net.finish(*outputs), net.arrays)


def test_single_planes_and_pixels(vulkan: VulkanDevice) -> None:
    net = Net()
    x, small = conv(net, net.input(1, 4, 6, 5), 8, 4), conv(net, net.input(1, 4, 1, 1), 8, 4)
    wide = joined(net, 1, conv(net, x, 1, 8), conv(net, x, 4, 8))
    point = joined(net, 1, conv(net, small, 4, 8), conv(net, small, 8, 8))
    run_both(vulkan, net.finish(conv(net, wide, 4, 5), conv(net, point, 4, 12)), net.arrays)


CODES = [
    Op.TRANSPOSE,
    Op.TRANSPOSE,
    Op.RESHAPE,
    Op.CONV_2D,
    Op.DEPTHWISE_CONV_2D,
    Op.BATCH_MATMUL,
    Op.FULLY_CONNECTED,
    Op.MAX_POOL_2D,
    Op.ADD,
    Op.MUL,
    Op.MAXIMUM,
    Op.RELU,
    Op.TANH,
    Op.HARD_SWISH,
    Op.QUANTIZE,
    Op.DEQUANTIZE,
    Op.CAST,
    Op.SLICE,
    Op.REVERSE,
    Op.TILE,
    Op.CHANNEL_SHUFFLE,
    Op.SPACE_TO_DEPTH,
    Op.CONCATENATION,
]


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(own: VulkanDevice, seed: int) -> None:
    run_random_graph(own, seed, CODES)
