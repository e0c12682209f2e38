"""Queries, keys and values as one GEMM; and products that stay by themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fused import (
    TYPES,
    Net,
    Op,
    families,
    heads,
    merged,
    multiplied,
    net_of,
    plans,
    run_both,
    shaped,
)
from profiles import GPU

from nnvk.check.model_rows import Row, empty_like, execute, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.attention import tiled
from nnvk.driver.vulkan.planning.passes import horizontal
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.planning.validation import check
from nnvk.driver.vulkan.shaders.commands import Dispatch, padded
from nnvk.types.codes import FuseCode
from nnvk.types.operand import OperandType

pytestmark = pytest.mark.usefixtures("in_one_order")

HEADS, ROWS, COLUMNS = 3, 9, 8
WIDTH = HEADS * COLUMNS
kinds = pytest.mark.parametrize("kind", ["float32", "float16"])


class Attention:
    """One with queries, keys and values of a single input, in parts that can be exchanged."""

    def __init__(self, kind: str, rank: int = 2) -> None:
        self.net, self.kind = net_of(kind), kind
        shape = (ROWS, WIDTH) if rank == 2 else (1, ROWS, WIDTH)
        self.source = self.net.input(*shape)

    def dense(self, outputs: int = WIDTH, source: int | None = None, activation: int = FuseCode.NONE) -> int:
        net, source = self.net, self.source if source is None else source
        operands = [source, net.weights(outputs, WIDTH), net.weights(outputs), net.code(activation)]
        return net.build.operation(Op.FULLY_CONNECTED, operands, net.real)

    def heads(self, x: int, columns: int = COLUMNS) -> int:
        return heads(self.net, self.kind, x, 1, HEADS, ROWS, columns)

    def plus(self, x: int, outputs: int = WIDTH) -> int:
        """With a vector added, as ONNX has biases."""
        return self.net.op(Op.ADD, self.net.weights(outputs), x, self.net.code(FuseCode.NONE))

    def times(self, x: int, *factors: float, activation: int = FuseCode.NONE) -> int:
        net = self.net
        constant = net.build.value(np.array(factors, net.real.dtype))
        return net.op(Op.MUL, constant, x, net.code(activation))

    def mixed(self, query: int, key: int, value: int, columns: int = COLUMNS) -> int:
        net, kind = self.net, self.kind
        scores = multiplied(net, kind, query, key, adj_y=True)
        probabilities = net.op(Op.SOFTMAX, scores, 1.0)
        y = multiplied(net, kind, probabilities, value, adj_y=False)
        return merged(net, kind, y, 1, HEADS, ROWS, columns)


@pytest.fixture(autouse=True)
def gemms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attention be GEMMs and a softmax on GPUs, too: the tests count GEMMs."""
    monkeypatch.setattr(tiled, "pays", lambda problem, device: False)


def run(device: VulkanDevice, net: Net, *outputs: int) -> int:
    """With fusions and without, to the same bits; how many products there are, of which BATCH_MATMUL have two."""
    model, shapes = net.finish(*outputs), [array.shape for array in net.arrays]
    tolerance = 2e-6 if net.real == TYPES["float32"] else 2e-2  # of SOFTMAX
    plan = run_both(device, model, net.arrays, tolerance=tolerance)
    check(plan, model, shapes, replace(device.profile, barriers_by_buffer=False))
    return families(plan).count("gemm")


@kinds
@pytest.mark.parametrize("scaled", ["nothing", "query", "query and key"])
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.crossed
def test_attention(as_gpu: VulkanDevice, rank: int, scaled: str, kind: str) -> None:
    a = Attention(kind, rank)
    query, key, value = (a.heads(a.dense()) for _ in range(3))
    query = query if scaled == "nothing" else a.times(query, 0.3)
    key = a.times(key, 1.7) if scaled == "query and key" else key
    assert run(as_gpu, a.net, a.mixed(query, key, value)) == 3


def test_nothing_is_copied_on_a_gpu(own: VulkanDevice) -> None:
    """The plan is for a GPU that has units to fill and enough memory."""
    a = Attention("float32")
    query, key, value = (a.heads(x) for x in (a.dense(), a.dense(), a.dense()))
    model = a.net.finish(a.mixed(a.times(query, 0.3), key, value))
    assert families(lower(model, [(ROWS, WIDTH)], GPU, own.planner.library)).replace(" end", "") == (
        "gemm gemm softmax_rows gemm"
    )


@kinds
@pytest.mark.parametrize("activation", [FuseCode.NONE, FuseCode.RELU6])
def test_results_are_the_same_bits(as_gpu: VulkanDevice, activation: int, kind: str) -> None:
    """Also where fused operations are as wide as they like, and are multiplied before their order is changed or
    after."""
    a = Attention(kind)
    narrow, wide = HEADS * 4, HEADS * 12
    one = a.heads(a.times(a.dense(narrow, activation=activation), 0.3), 4)
    two = a.heads(a.dense(narrow, activation=activation), 4)
    three = a.times(a.heads(a.dense(wide, activation=activation), 12), -2.0)
    scores = multiplied(a.net, kind, one, two, adj_y=True)
    values = multiplied(a.net, kind, scores, three, adj_y=False)
    plan = run_both(as_gpu, a.net.finish(scores, values), a.net.arrays)
    assert families(plan).count("gemm") == 3


@kinds
@pytest.mark.parametrize("scaled", [False, True])
def test_vectors_are_added_at_once(as_gpu: VulkanDevice, scaled: bool, kind: str) -> None:
    """Before or after rows get another shape."""
    a = Attention(kind)
    shape = 1, ROWS, WIDTH
    type_ = OperandType(a.net.real.code, shape)
    one = a.plus(a.net.op(Op.RESHAPE, a.dense(), np.array(shape, np.int32), type_=type_))
    two = a.plus(a.dense())
    one, two = a.heads(a.times(one, 0.3) if scaled else one), a.heads(two)
    plan = run_both(as_gpu, a.net.finish(multiplied(a.net, kind, one, two, adj_y=True)), a.net.arrays)
    assert families(plan).count("gemm") == 2


def test_vectors_of_rows_are_not_added_to_columns(as_gpu: VulkanDevice) -> None:
    """Where there are as many of both, and their order was changed before."""
    a = Attention("float32")
    source, type_ = a.net.input(WIDTH, WIDTH), OperandType(TYPES["float32"].code, (WIDTH, WIDTH))
    turned = (a.net.op(Op.TRANSPOSE, a.dense(source=source), np.array([1, 0], np.int32), type_=type_) for _ in range(2))
    one, two = (shaped(a.net, "float32", a.plus(x), 1, WIDTH, WIDTH) for x in turned)
    model = a.net.finish(multiplied(a.net, "float32", one, two, adj_y=False))
    plan = run_both(as_gpu, model, a.net.arrays)
    assert families(plan).count("gemm") == 3


def test_vectors_are_added_to_all_or_none(as_gpu: VulkanDevice) -> None:
    """Nothing added is not 0: that makes 0 of -0."""
    a = Attention("float32")
    query, key, value = a.dense(), a.plus(a.dense()), a.plus(a.dense())
    assert run(as_gpu, a.net, a.mixed(*map(a.heads, (query, key, value)))) == 4


def _one_by_one(a: Attention, what: str) -> tuple[int, ...]:
    """Queries, keys and values that are products of their own, for one reason or another."""
    net, activations = a.net, (FuseCode.RELU, FuseCode.RELU1, FuseCode.RELU6)
    if what == "activations":
        return tuple(a.heads(a.dense(activation=each)) for each in activations)
    if what == "weights at run time":
        weights = [net.input(WIDTH, WIDTH) for _ in range(3)]
        rest = net.weights(WIDTH), net.code(FuseCode.NONE)
        return tuple(a.heads(net.op(Op.FULLY_CONNECTED, a.source, each, *rest)) for each in weights)
    if what == "vectors":
        return tuple(a.heads(a.times(a.dense(), *np.linspace(0.1, 2, WIDTH))) for _ in range(3))
    if what == "activations of numbers":
        return tuple(a.heads(a.times(a.dense(), 0.5, activation=each)) for each in activations)
    assert what == "two numbers each"
    return tuple(a.heads(a.times(a.times(a.dense(), 0.5), 0.7)) for _ in range(3))


@pytest.mark.parametrize(
    "what", ["activations", "weights at run time", "vectors", "activations of numbers", "two numbers each"]
)
def test_others_stay_by_themselves(as_gpu: VulkanDevice, what: str) -> None:
    a = Attention("float32")
    assert run(as_gpu, a.net, a.mixed(*_one_by_one(a, what))) == 5


def test_what_others_read_stays_by_itself(as_gpu: VulkanDevice) -> None:
    """Or what a model gives, or what nothing is multiplied with."""
    a = Attention("float32")
    query, key, value = (a.dense() for _ in range(3))
    more = a.net.op(Op.ADD, value, value, a.net.code(FuseCode.NONE))
    assert run(as_gpu, a.net, a.mixed(*map(a.heads, (query, key, value))), query, more) == 5
    a = Attention("float32")
    assert run(as_gpu, a.net, *(a.heads(a.dense()) for _ in range(3))) == 3


def test_those_alike_are_together(as_gpu: VulkanDevice) -> None:
    """Keys and values of one input, queries of another."""
    a = Attention("float32")
    memory = a.net.input(ROWS, WIDTH)
    query, key, value = a.dense(), a.dense(source=memory), a.dense(source=memory)
    assert run(as_gpu, a.net, a.mixed(*map(a.heads, (query, key, value)))) == 4


def test_large_ones_stay_by_themselves(as_gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    for most, products in ((3 * WIDTH * WIDTH * 4, 3), (3 * WIDTH * WIDTH * 4 - 1, 5)):
        monkeypatch.setattr(horizontal, "_LARGEST", most)
        a = Attention("float32")
        assert run(as_gpu, a.net, a.mixed(*(a.heads(a.dense()) for _ in range(3)))) == products


def test_what_can_not_be_bound_together_stays_apart(as_gpu: VulkanDevice) -> None:
    a = Attention("float32")
    query, key, value = (a.dense() for _ in range(3))
    model = a.net.finish(a.mixed(a.times(a.heads(query), 0.3), a.heads(key), a.heads(value)))
    together = padded(96 * WIDTH * 4)  # weights, in blocks of 32 columns
    for most, products in ((together, 3), (together - 64, 5)):
        profile = replace(as_gpu.profile, max_buffer=most)
        plan = lower(model, [(ROWS, WIDTH)], profile, as_gpu.planner.library)
        assert families(plan).count("gemm") == products


def test_no_rows(as_gpu: VulkanDevice) -> None:
    a = Attention("float32")
    query, key = (shaped(a.net, "float32", a.dense(), 1, -1, WIDTH) for _ in range(2))
    model = a.net.finish(multiplied(a.net, "float32", query, key, adj_y=True))
    assert [families(plan) for plan in plans(as_gpu, model, [(0, WIDTH)])] == ["", ""]


@pytest.mark.usefixtures("any_gemm_pays")
def test_relaxed(as_gpu: VulkanDevice) -> None:
    """With 16-bit floats between operations, where there are such."""
    a = Attention("float32")
    a.net.build.model.relax_computation_float32_to_float16(True)
    y = a.mixed(*(a.heads(a.dense()) for _ in range(3)))
    row = Row(a.net.finish(y), a.net.arrays)
    plan, _ = plans(as_gpu, row.model, [(ROWS, WIDTH)])
    shaders = [command.shader for command in plan.commands if isinstance(command, Dispatch)]
    products = [shader for shader in shaders if shader.family == "gemm"]
    assert len(products) == 3
    assert {shader.name.split(".")[1] for shader in products} == {"f16" if as_gpu.profile.has_native_16 else "f32"}
    (expected,) = reference(row)
    (found,) = outputs = empty_like([expected])
    execute(as_gpu, row, outputs)
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02 * np.abs(expected).max())
