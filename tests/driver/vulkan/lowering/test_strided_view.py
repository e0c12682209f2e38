"""Tensors that are columns of others: CONCATENATION along channels is written in place, and SPLIT read so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from against_reference import check_like_the_reference
from fused import F32, TYPES, Net, Op, byte_conv, families, joined, maximum, net_of, plans, run_both, split, typed

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.elementwise.fused import access_to_vec4s
from nnvk.driver.vulkan.lowering.strided_view import Rows, access_to_pixels
from nnvk.driver.vulkan.planning.cache import PlanCache
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.validation import check
from nnvk.driver.vulkan.shaders.commands import StridedView
from nnvk.types.model import Model
from nnvk.types.operand import OperandType

# --- rows --------------------------------------------------------------------------------------------------------

ROWS = [
    pytest.param(Rows(4, 8), StridedView(16, 32, 96), StridedView(4, 8, 24), id="of 32 bits"),
    pytest.param(Rows(2, 8), StridedView(16, 16, 48), StridedView(8, 8, 24), id="of 16 bits"),
    pytest.param(Rows(4), StridedView(16, 64, 96), StridedView(4, 16, 24), id="of any width"),
    pytest.param(Rows(4, 3, multiple=1), StridedView(4, 12, 20), StridedView(1, 3, 5), id="one by one"),
    pytest.param(Rows(4, 8), StridedView(16, 16, 96), None, id="of another width"),
    pytest.param(Rows(4, 8), StridedView(4, 32, 96), None, id="that begin amid a vec4"),
    pytest.param(Rows(4, 8), StridedView(16, 32, 100), None, id="whose next begins amid a vec4"),
    pytest.param(Rows(1, 3, multiple=1), StridedView(2, 3, 8), None, id="that begin amid a word"),
]


@pytest.mark.parametrize(("rows", "view", "taken"), ROWS)
def test_rows_in_larger_ones(rows: Rows, view: StridedView, taken: StridedView | None) -> None:
    assert rows.taken(view) == taken


def test_constants_of_views_and_of_dense_tensors() -> None:
    access = access_to_vec4s(4, 2)
    dense = {"row": 1, "magic_row": magic(1), "src_pitch": 1, "dst_pitch": 1}
    assert access.constants({}) == ({}, dense)
    columns = {"row": 2, "magic_row": magic(2), "src_pitch": 6, "dst_pitch": 2}
    assert access.constants({"src": StridedView(4, 8, 24)}) == ({"STRIDED": True}, columns)
    assert access.constants({"src": StridedView(4, 8, 24), "dst": StridedView(0, 4, 12)}) is None


def test_pixels_that_are_not_whole_vec4s_are_no_views() -> None:
    assert access_to_pixels(8, 4).rows.keys() == {"src", "dst"}
    assert not access_to_pixels(6, 4).rows
    assert access_to_pixels(6, 4).constants({}) == ({}, {"src_pitch": 6, "dst_pitch": 6})


# --- columns of pixels -------------------------------------------------------------------------------------------


def columns(net: Net, kind: str, x: int, depth: int, *channels: int) -> list[int]:
    """Products of one input, each with its number of channels."""
    type_ = TYPES[kind]
    if type_.scale:
        return [byte_conv(net, type_.code, x, count, depth, type_) for count in channels]
    return [net.conv(x, count, depth) for count in channels]


@pytest.mark.parametrize("kind", TYPES)
def test_products_write_their_channels_in_place(vulkan: VulkanDevice, kind: str) -> None:
    net = net_of(kind)
    parts = columns(net, kind, typed(net, kind, 2, 5, 7, 8), 8, 12, 4, 20)
    plan = run_both(vulkan, net.finish(maximum(net, joined(net, 3, *parts, kind=kind), kind)), net.arrays)
    assert families(plan) == "gemm gemm gemm pool2d"


@pytest.mark.parametrize("kind", TYPES)
def test_channels_amid_vec4s(vulkan: VulkanDevice, kind: str) -> None:
    """Floats of 32 bits are stored alone where they are no vec4s; others, and vec4s that aren't aligned, are copied."""
    net = net_of(kind)
    parts = columns(net, kind, typed(net, kind, 1, 5, 3, 8), 8, 8, 3, 4, 5)
    plan = run_both(vulkan, net.finish(maximum(net, joined(net, 3, *parts, kind=kind), kind)), net.arrays)
    assert families(plan).split().count("move") >= (1 if kind == "float32" else 3)


def test_columns_beside_copies(vulkan: VulkanDevice) -> None:
    """An input of the model, and what is there twice, the second time, are copied."""
    net = Net()
    x = net.input(1, 5, 7, 8)
    one, two, three = columns(net, "float32", x, 8, 4, 8, 16)
    y = joined(net, 3, one, x, two, three, three)
    plan = run_both(vulkan, net.finish(maximum(net, y), maximum(net, two)), net.arrays)
    assert families(plan).split().count("move") == 2


def test_columns_of_columns(vulkan: VulkanDevice) -> None:
    """As in a dense block, where each concatenation has the one before."""
    net = Net()
    x, channels = net.conv(net.input(1, 4, 5, 8), 8, 8), 8
    for _ in range(3):
        (new,) = columns(net, "float32", x, channels, 4)
        x, channels = joined(net, 3, x, new), channels + 4
    run_both(vulkan, net.finish(maximum(net, x)), net.arrays)


def test_columns_of_every_product(vulkan: VulkanDevice) -> None:
    net = Net()
    x, nhwc = net.input(1, 6, 5, 8), net.build.value(False)
    grouped = [0, 0, 0, 0, 1, 1, 4, 0]
    transposed = [0, 1, 0, 1, 1, 1, 0]
    parts = [
        net.depthwise(x, 8),
        net.op(Op.GROUPED_CONV_2D, x, net.weights(24, 1, 1, 2), net.weights(24), *map(net.code, grouped), nhwc),
        net.op(Op.TRANSPOSE_CONV_2D, x, net.weights(12, 2, 2, 8), net.weights(12), *map(net.code, transposed), nhwc),
        net.conv(x, 4, 8),
    ]
    plan = run_both(vulkan, net.finish(maximum(net, joined(net, 3, *parts))), net.arrays)
    assert "move" not in families(plan)


def test_columns_of_matrices(vulkan: VulkanDevice) -> None:
    net = Net()
    x, false = net.input(3, 7, 16), net.build.value(False)
    gemm = net.op(Op.BATCH_MATMUL, x, net.weights(3, 16, 12), false, false)
    dense = net.op(Op.RESHAPE, net.dense(x, 8, 16), np.array([3, 7, 8], np.int32))
    y = net.op(Op.TILE, joined(net, 2, gemm, dense), np.array([1, 2, 1], np.int32))
    plan = run_both(vulkan, net.finish(y), net.arrays)
    assert "move" not in families(plan)


def test_columns_with_ends(vulkan: VulkanDevice) -> None:
    net = Net()
    x = net.input(1, 5, 7, 8)
    one, two, three = columns(net, "float32", x, 8, 8, 8, 8)
    parts = [
        net.op(Op.TANH, one),
        net.op(Op.MUL, two, net.weights(8), net.code(0)),
        net.op(Op.ADD, three, x, net.code(0)),
    ]
    plan = run_both(vulkan, net.finish(maximum(net, joined(net, 3, *parts))), net.arrays)
    assert families(plan) == "gemm end gemm end gemm end pool2d"


# --- whatever writes and reads -----------------------------------------------------------------------------------

Layer = Callable[[Net, str, int], int]


def pool(code: Op) -> Layer:
    return lambda net, kind, x: net.build.operation(code, [x, *map(net.code, [1, 1, 1, 3, 3, 1])], TYPES[kind])


def resize(code: Op) -> Layer:
    return lambda net, kind, x: net.build.operation(code, [x, net.code(5), net.code(6)], TYPES[kind])


def unary(net: Net, kind: str, x: int) -> int:
    return net.build.operation(Op.RELU6, [x], TYPES[kind])


def binary(net: Net, kind: str, x: int) -> int:
    return net.build.operation(Op.ADD, [x, x, net.code(1)], TYPES[kind])


def by_channel(net: Net, kind: str, x: int) -> int:
    factors = typed(net, kind, 8)
    return net.build.operation(Op.MUL, [factors, x, net.code(0)], TYPES[kind])


def fused_elementwise(net: Net, kind: str, x: int) -> int:
    y = net.build.operation(Op.TANH, [x], TYPES[kind])
    return net.build.operation(Op.SUB, [x, net.build.operation(Op.NEG, [y], TYPES[kind]), net.code(0)], TYPES[kind])


def depthwise(net: Net, kind: str, x: int) -> int:
    return net.depthwise(x, 8)


def gemm(net: Net, kind: str, x: int) -> int:
    (y,) = columns(net, kind, x, 8, 8)
    return y


def converted(net: Net, kind: str, x: int) -> int:
    real = net.build.operation(Op.DEQUANTIZE, [x], OperandType(F32))
    return net.build.operation(Op.QUANTIZE, [real], TYPES[kind])


FLOATS = ("float32", "float16")
STEPS = ("unsigned", "signed")
LAYERS: dict[str, tuple[Layer, tuple[str, ...]]] = {
    "AVERAGE_POOL_2D": (pool(Op.AVERAGE_POOL_2D), (*FLOATS, *STEPS)),
    "MAX_POOL_2D": (pool(Op.MAX_POOL_2D), (*FLOATS, *STEPS)),
    "L2_POOL_2D": (pool(Op.L2_POOL_2D), FLOATS),
    "RESIZE_BILINEAR": (resize(Op.RESIZE_BILINEAR), (*FLOATS, *STEPS)),
    "RESIZE_NEAREST_NEIGHBOR": (resize(Op.RESIZE_NEAREST_NEIGHBOR), (*FLOATS, *STEPS)),
    "unary": (unary, (*FLOATS, *STEPS)),
    "binary": (binary, (*FLOATS, *STEPS)),
    "by channel": (by_channel, FLOATS),
    "fused_elementwise": (fused_elementwise, FLOATS),
    "depthwise": (depthwise, FLOATS),
    "gemm": (gemm, (*FLOATS, *STEPS)),
    "converted": (converted, STEPS),
}
CASES = [pytest.param(layer, kind, id=f"{name}-{kind}") for name, (layer, kinds) in LAYERS.items() for kind in kinds]


@pytest.mark.parametrize(("layer", "kind"), CASES)
@pytest.mark.crossed
def test_written_in_place(vulkan: VulkanDevice, layer: Layer, kind: str) -> None:
    net = net_of(kind)
    x, y = typed(net, kind, 2, 6, 5, 8), typed(net, kind, 2, 6, 5, 8)
    together = joined(net, 3, layer(net, kind, x), layer(net, kind, y), kind=kind)
    plan = run_both(vulkan, net.finish(maximum(net, together, kind)), net.arrays)
    if vulkan.profile.unified_memory:  # else outputs take memory too, which may not be there
        assert "move" not in families(plan)


@pytest.mark.parametrize(("layer", "kind"), CASES)
@pytest.mark.crossed
def test_read_in_place(vulkan: VulkanDevice, layer: Layer, kind: str) -> None:
    net = net_of(kind)
    parts = split(net, maximum(net, typed(net, kind, 2, 7, 6, 24), kind), 3, 3, kind)
    plan = run_both(vulkan, net.finish(*(layer(net, kind, part) for part in parts)), net.arrays)
    if vulkan.profile.unified_memory:
        assert "arrange" not in families(plan)


# --- networks ----------------------------------------------------------------------------------------------------


def test_what_is_split_and_put_together_as_it_was(vulkan: VulkanDevice) -> None:
    """Nobody but the copies reads what is split, which lies in the result then."""
    net = Net()
    source = net.input(1, 6, 5, 8)
    (x,), (other,) = columns(net, "float32", source, 8, 16), columns(net, "float32", source, 8, 8)
    y = joined(net, 3, *split(net, x, 3, 2), other)
    run_both(vulkan, net.finish(maximum(net, y)), net.arrays, disabled=frozenset({"transposes"}))


def test_what_is_split_and_put_together_again(vulkan: VulkanDevice) -> None:
    """As YOLO's blocks do: two halves, and what is computed of the last one, all in one tensor."""
    net = Net()
    (x,) = columns(net, "float32", net.input(1, 6, 5, 8), 8, 16)
    one, two = split(net, x, 3, 2)
    (three,) = columns(net, "float32", two, 8, 8)
    three = net.op(Op.ADD, three, two, net.code(0))
    (four,) = columns(net, "float32", three, 8, 8)
    model = net.finish(maximum(net, joined(net, 3, one, two, three, four)))
    assert families(run_both(vulkan, model, net.arrays)) == "gemm gemm end gemm pool2d"


def test_pieces_in_another_order_are_copied(vulkan: VulkanDevice) -> None:
    net = Net()
    (x,) = columns(net, "float32", net.input(1, 6, 5, 8), 8, 16)
    one, two = split(net, x, 3, 2)
    model = net.finish(maximum(net, joined(net, 3, two, maximum(net, one), one)))
    run_both(vulkan, model, net.arrays)


@pytest.mark.parametrize("kind", TYPES)
def test_pieces_of_pieces(vulkan: VulkanDevice, kind: str) -> None:
    """SPLIT of SPLIT, of what is itself a part of a concatenation."""
    net = net_of(kind)
    one, two = columns(net, kind, typed(net, kind, 1, 6, 5, 8), 8, 16, 8)
    left, right = split(net, one, 3, 2, kind)
    parts = [maximum(net, part, kind) for part in (*split(net, left, 3, 2, kind), *split(net, right, 3, 2, kind))]
    plan = run_both(vulkan, net.finish(maximum(net, joined(net, 3, one, two, kind=kind), kind), *parts), net.arrays)
    assert families(plan).split().count("move") == 0
    if vulkan.profile.unified_memory:
        assert "arrange" not in families(plan)


def test_gates_of_several_rows(vulkan: VulkanDevice) -> None:
    """A cell of a recurrent network for a batch: no gate is copied, and the next step's input is written in place."""
    net = Net()
    x, state, cell = net.input(3, 12), net.input(3, 16), net.input(3, 16)
    for _ in range(2):
        gates = net.dense(joined(net, 1, x, state), 64, 28)
        i, j, f, o = split(net, gates, 1, 4)
        old = net.op(Op.MUL, net.op(Op.LOGISTIC, f), cell)
        cell = net.op(Op.ADD, old, net.op(Op.MUL, net.op(Op.LOGISTIC, i), net.op(Op.TANH, j)))
        state = net.op(Op.MUL, net.op(Op.LOGISTIC, o), net.op(Op.TANH, cell))
    plan = run_both(vulkan, net.finish(state, cell), net.arrays)
    assert "arrange" not in families(plan)


def test_rows_of_different_lengths(vulkan: VulkanDevice) -> None:
    """An elementwise operation goes along rows of one length: others are copied."""
    net = Net()
    parts = [split(net, maximum(net, net.input(1, 1, *size)), 3, 2)[1] for size in ((16, 16), (8, 32))]
    flat = [net.op(Op.RESHAPE, part, np.array([128], np.int32)) for part in parts]
    plan = run_both(vulkan, net.finish(net.op(Op.ADD, *flat, net.code(0))), net.arrays)
    assert families(plan).split().count("arrange") >= 1


def test_columns_of_ends(vulkan: VulkanDevice) -> None:
    """A GEMM may add columns of one tensor and write columns of another one."""
    for kind in TYPES:
        net = net_of(kind)
        residuals = split(net, maximum(net, typed(net, kind, 2, 6, 5, 16), kind), 3, 2, kind)
        products = columns(net, kind, typed(net, kind, 2, 6, 5, 8), 8, 8, 8)
        sums = [
            net.build.operation(Op.ADD, [a, b, net.code(1)], TYPES[kind])
            for a, b in zip(products, residuals, strict=True)
        ]
        plan = run_both(vulkan, net.finish(maximum(net, joined(net, 3, *sums, kind=kind), kind)), net.arrays)
        assert families(plan) == "pool2d gemm end gemm end pool2d"


def test_outputs_and_inputs(vulkan: VulkanDevice) -> None:
    """A part that is an output of the model is copied; the whole may be one, and what is split may be an input."""
    net = Net()
    one, two = split(net, net.input(2, 5, 3, 16), 3, 2)
    x, y = columns(net, "float32", one, 8, 8, 4)
    (z,) = columns(net, "float32", two, 8, 12)
    plan = run_both(vulkan, net.finish(joined(net, 3, x, y, z), y), net.arrays)
    assert families(plan).split().count("move") == 1
    assert "arrange" not in families(plan)


# --- plans -------------------------------------------------------------------------------------------------------


def _split_and_joined(device: VulkanDevice) -> tuple[Net, Model, Plan]:
    net = Net()
    one, two = split(net, net.input(1, 5, 4, 16), 3, 2)
    parts = [maximum(net, one), maximum(net, two), pool(Op.AVERAGE_POOL_2D)(net, "float32", one)]
    model = net.finish(maximum(net, joined(net, 3, *parts)))
    fused, _ = plans(device, model, [array.shape for array in net.arrays])
    return net, model, fused


def test_writers_of_columns_wait_for_nobody(own: VulkanDevice) -> None:
    _, _, plan = _split_and_joined(own)
    assert families(plan) == "pool2d pool2d pool2d pool2d"
    assert plan.barriers == {3}


def test_plans_with_columns_are_kept(own: VulkanDevice, tmp_path: Path) -> None:
    net, model, plan = _split_and_joined(own)
    cache = PlanCache(tmp_path / "plan", {})
    cache.store(plan)
    profile = replace(own.profile, barriers_by_buffer=False)
    kept = cache.load(model, [array.shape for array in net.arrays], profile, own.planner.library)
    assert kept is not None
    assert kept.addresses == plan.addresses


@pytest.mark.parametrize(
    "change",
    [
        {"first": -4},
        {"first": 4096},
        {"width": 0},
        {"width": 20},
        {"pitch": 16},
        {"width": 1 << 30},
    ],
    ids=str,
)
def test_columns_outside_of_rows_are_no_plan(own: VulkanDevice, change: dict[str, int]) -> None:
    net, model, plan = _split_and_joined(own)
    shapes, profile = [array.shape for array in net.arrays], replace(own.profile, barriers_by_buffer=False)
    check(plan, model, shapes, profile)
    addresses = dict(plan.addresses)
    number, address = next((number, each) for number, each in addresses.items() if each.view is not None)
    assert address.view is not None
    addresses[number] = replace(address, view=replace(address.view, **change))
    with pytest.raises(ValueError, match=r"is no part|is outside"):
        check(replace(plan, addresses=addresses), model, shapes, profile)


# --- everything --------------------------------------------------------------------------------------------------


class _Drawn:
    """A model of layers on images of 6 x 5 whose channels are split and put together at random."""

    def __init__(self, seed: int, kind: str) -> None:
        self.net, self.kind, self.rng = net_of(kind), kind, np.random.default_rng(seed)
        self.batches = int(self.rng.integers(1, 3))
        self.values = [self._input(int(channels)) for channels in self.rng.choice([4, 8, 16, 6], 2)]
        for _ in range(int(self.rng.integers(8, 16))):
            self._step()

    def _input(self, channels: int) -> tuple[int, int]:
        return typed(self.net, self.kind, self.batches, 6, 5, channels), channels

    def _any(self) -> tuple[int, int]:
        return self.values[-1 - int(self.rng.integers(min(5, len(self.values))))]

    def _step(self) -> None:
        net, kind, (x, channels) = self.net, self.kind, self._any()
        choice = self.rng.integers(9)
        if choice <= 1 and channels % 2 == 0:
            count = 4 if channels % 16 == 0 and self.rng.integers(2) else 2
            self.values += [(part, channels // count) for part in split(net, x, 3, count, kind)]
        elif choice <= 3:
            some = [self._any() for _ in range(int(self.rng.integers(1, 4)))] + [(x, channels)]
            together = joined(net, 3, *(each for each, _ in some), kind=kind)
            self.values.append((together, sum(count for _, count in some)))
        elif choice == 4 and channels <= 48:
            outputs = int(self.rng.choice([4, 8, 12, 16, 5]))
            self.values.append((columns(net, kind, x, channels, outputs)[0], outputs))
        elif choice == 5:
            code = (Op.MAX_POOL_2D, Op.AVERAGE_POOL_2D)[int(self.rng.integers(2))]
            self.values.append((pool(code)(net, kind, x), channels))
        elif choice == 6:
            code = (Op.RESIZE_BILINEAR, Op.RESIZE_NEAREST_NEIGHBOR)[int(self.rng.integers(2))]
            self.values.append((resize(code)(net, kind, x), channels))
        else:
            same = [other for other, count in self.values if count == channels]
            code = (Op.ADD, Op.MUL)[int(self.rng.integers(2))] if kind in FLOATS else Op.ADD
            other = same[int(self.rng.integers(len(same)))]
            y = net.build.operation(code, [x, other, net.code(0)], TYPES[kind])
            self.values.append((y if self.rng.integers(2) else unary(net, kind, y), channels))

    def finish(self) -> Model:
        """The last values are outputs, and some others."""
        given = {each for each, _ in self.values[:2]}
        some = [each for each, _ in self.values[2:-2] if self.rng.random() < 0.15]
        last = [each for each, _ in self.values[-2:] if each not in given]
        return self.net.finish(*dict.fromkeys([*some, *last]))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.crossed
def test_random_networks(vulkan: VulkanDevice, kind: str, seed: int) -> None:
    drawn = _Drawn(seed, kind)
    run_both(vulkan, drawn.finish(), drawn.net.arrays)


NESTED = [
    "SLICE f32[10,4,16] (0,0,0) (10,2,16) | SLICE $ (0,0,0) (10,2,8) | SLICE $0 (0,0,8) (10,2,8) | SUB $1 $2 NONE",
    "SLICE f32[10,4,16] (0,2,0) (10,2,16) | SLICE $ (0,0,8) (10,2,8) | ABS $ | NEG $0",
    "ABS f32[10,2,8] | CONCATENATION $ f32[10,2,8] 2 -> f32 | CONCATENATION $ f32[10,3,16] 1 -> f32",
    "ABS f32[10,2,8] | NEG f32[10,2,8] | CONCATENATION $0 $1 2 -> f32 | CONCATENATION f32[10,3,16] $ 1 -> f32",
]
"""Columns of rows that are columns of larger rows, several to each of them."""


@pytest.mark.parametrize("text", NESTED)
def test_rows_of_rows(vulkan: VulkanDevice, text: str) -> None:
    check_like_the_reference(vulkan, text)
