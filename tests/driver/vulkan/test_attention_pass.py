"""The pass attention: the patterns that it takes, and the fused operation against separate ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attention_step import TOLERANCES, Step, refusals
from fused import F16, F32, Net, Op, families, run_both
from rewritten import codes, rewritten

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.graph.rewriter import Rewriter
from nnvk.driver.vulkan.kernels.attention import refuse
from nnvk.driver.vulkan.lowering.attention import layout
from nnvk.driver.vulkan.lowering.attention.layout import Layout, layout_of
from nnvk.driver.vulkan.planning.passes import attention, fp16
from nnvk.driver.vulkan.planning.passes.attention import fuse_attention
from nnvk.driver.vulkan.planning.passes.softmax import fuse_softmax
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode
from nnvk.ops.strided import Box
from nnvk.types.codes import FuseCode, OperandCode

TAKEN = {
    "a step": Step(),
    "three dimensions": Step(batches=(5,)),
    "rows of queries": Step(rows=3),
    "keys by columns": Step(by_rows=False),
    "odd sizes": Step(keys=7, depth=5, columns=3),
    "one key": Step(keys=1, depth=1, columns=1),
    "many columns": Step(batches=(2,), columns=128, depth=64),
    "columns of no vec4s": Step(batches=(2,), columns=67, depth=20),
    "more keys than a chunk": Step(batches=(2,), keys=2051, depth=4, columns=4),
    "a factor": Step(scale=0.3, beta=0.7),
    "a mask": Step(mask=(1, 1, 1, 13)),
    "a mask of one row": Step(mask=(16,), keys=16),
    "a mask of heads": Step(mask=(3, 1, 13), rows=2),
    "a mask of rows": Step(mask=(2, 1, 3, 1), rows=3),
    "a mask of all": Step(mask=(2, 3, 3, 13), rows=3, scale=0.5),
    "a new key": Step(own=1, mask=(13,)),
    "new keys": Step(own=5, rows=2, keys=12, mask=(12,)),
    "a new key by columns": Step(own=1, by_rows=False, scale=0.25, columns=20),
    "zeros for NaN": Step(zeros=True),
    "a new key, and zeros for NaN": Step(own=1, zeros=True, mask=(13,)),
    "new keys behind a chunk": Step(batches=(1,), keys=1024, own=3, depth=4, columns=4),
}
HALVES = ("a step", "odd sizes", "a mask of rows", "a new key")
"""The steps that also run on 16-bit floats."""
LEFT = {
    "too many elements": Step(batches=(1,), keys=1 << 13, depth=8, columns=9),
    "an activation": Step(own=2, activation=FuseCode.RELU),
}


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.usefixtures("every_inner_size")
def test_it_is_one_operation(name: str) -> None:
    net = Net()
    model = net.finish(TAKEN[name].build(net)[0])
    graph, count = rewritten(model, fuse_softmax, fuse_attention)
    others = {"ARRANGE"} if not TAKEN[name].by_rows else set()
    assert count == 1
    assert set(codes(graph)) == {"ATTENTION", *others}


@pytest.mark.parametrize("name", LEFT)
def test_others_stay(name: str) -> None:
    net = Net()
    graph, count = rewritten(net.finish(LEFT[name].build(net)[0]), fuse_softmax, fuse_attention)
    assert (count, "ATTENTION" in codes(graph)) == (0, False)


@pytest.mark.parametrize("which", [1, 2], ids=["scores", "shares"])
@pytest.mark.parametrize("own", [0, 2])
def test_what_others_read_stays(which: int, own: int) -> None:
    net = Net()
    outputs = Step(own=own).build(net)
    _, count = rewritten(net.finish(outputs[0], outputs[which]), fuse_softmax, fuse_attention)
    assert count == 0


def test_a_kernel_may_refuse() -> None:
    net = Net()
    model = net.finish(Step().build(net)[0])

    def refuse(call: Call) -> str | None:
        return "no shader" if call.code is InternalCode.ATTENTION else None

    assert rewritten(model, fuse_softmax, fuse_attention, refuse=refuse)[1] == 0


def shaders(plan: Plan) -> list[str]:
    """The names of the variants that a plan dispatches."""
    return [command.shader.name for command in plan.commands if isinstance(command, Dispatch)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(pytest.param(name, F32, id=f"{name}, f32") for name in TAKEN),
        *(pytest.param(name, F16, id=f"{name}, f16") for name in HALVES),
    ],
)
def test_results(vulkan: VulkanDevice, name: str, kind: OperandCode) -> None:
    net = Net(real=kind)
    model = net.finish(TAKEN[name].build(net)[0])
    left = families(run_both(vulkan, model, net.arrays, tolerance=TOLERANCES[kind])).split()
    assert left.count("attention") == 1


@pytest.mark.parametrize("mask", [(2, 3, 2, 13), (3, 1, 13), (2, 1, 1, 1), (1, 1, 2, 13), (13,)], ids=str)
def test_masks_of_another_shape_of_scores(vulkan: VulkanDevice, mask: tuple[int, ...]) -> None:
    """A mask broadcasts to scores as they are reshaped before it is added."""
    net = Net()
    flags = [[net.build.value(adj) for adj in (False, adj_y)] for adj_y in (True, False)]
    scores = net.op(Op.BATCH_MATMUL, net.input(6, 2, 8), net.input(6, 13, 8), *flags[0])
    seen = net.op(Op.RESHAPE, scores, np.array([2, 3, 2, 13], np.int32))
    shares = net.op(Op.SOFTMAX, net.op(Op.ADD, seen, net.input(*mask), net.code(0)), 1.0)
    shares = net.op(Op.RESHAPE, shares, np.array([6, 2, 13], np.int32))
    model = net.finish(net.op(Op.BATCH_MATMUL, shares, net.input(6, 13, 4), *flags[1]))
    run_both(vulkan, model, net.arrays, tolerance=TOLERANCES[F32])


WIDE = ("a step", "odd sizes", "a new key", "a mask of rows", "keys by columns")
"""The steps that also run on keys of 32 bits."""


@pytest.mark.parametrize("name", WIDE)
def test_keys_of_32_bits(vulkan: VulkanDevice, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def before_cast(rewriter: Rewriter, tensor: Tensor) -> Tensor:
        node = rewriter.producer(tensor)
        return node.call.input if node is not None and node.code is Op.CAST else tensor

    monkeypatch.setattr(attention, "_before_conversion", before_cast)
    net = Net(real=F16)
    model = net.finish(replace(TAKEN[name], is_wide=True).build(net)[0])
    plan = run_both(vulkan, model, net.arrays, tolerance=TOLERANCES[F16])
    assert [name for name in shaders(plan) if name.startswith("attention.f16.f32")]


@pytest.mark.parametrize("name", WIDE)
def test_a_relaxed_model_reads_keys_of_32_bits(
    as_gpu: VulkanDevice, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not as_gpu.profile.has_native_16:
        pytest.skip("the device has no 16-bit floats of its own")
    monkeypatch.setattr(fp16, "_WORTH_A_CONVERSION", 0)  # by itself it is too small
    net = Net()
    model = net.finish(TAKEN[name].build(net)[0]).with_relaxed(True)
    plan = run_both(as_gpu, model, net.arrays, tolerance=TOLERANCES[F16], disabled=frozenset({Pass.ATTENTION.value}))
    assert "attention.f16.f32.native" in shaders(plan)


@pytest.fixture
def every_inner_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other size of the inner dimension of batches does better than those where a dimension of an operand ends."""

    def compared(call: Call) -> Layout | None:
        with monkeypatch.context() as patch:
            patch.setattr(layout, "_inner_sizes", lambda _, count: [n for n in range(count, 0, -1) if count % n == 0])
            expected = layout_of(call)
        assert layout_of(call) == expected
        return expected

    monkeypatch.setattr("nnvk.driver.vulkan.kernels.attention.layout_of", compared)


@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.usefixtures("every_inner_size")
def test_heads_are_read_and_written_where_they_lie(vulkan: VulkanDevice, own: int) -> None:
    net, length, heads, size = Net(), 11, 3, 8
    cache = net.input(2, length, heads * size)

    def part(at: int) -> int:
        begin, extent = np.array([at, 0, 0], np.int32), np.array([1, length, heads * size], np.int32)
        rows = net.op(Op.RESHAPE, net.op(Op.SLICE, cache, begin, extent), np.array([length, heads, size], np.int32))
        return net.op(Op.TRANSPOSE, rows, np.array([1, 0, 2], np.int32))

    def of_one(x: int) -> int:
        return net.op(Op.RESHAPE, x, np.array([heads, 1, size], np.int32))

    flags = [[net.build.value(adj) for adj in (False, adj_y)] for adj_y in (True, False)]
    query = of_one(net.input(1, heads * size))
    scores = net.op(Op.BATCH_MATMUL, query, part(0), *flags[0])
    if own:
        now = net.op(Op.BATCH_MATMUL, query, of_one(net.input(1, heads * size)), *flags[0])
        scores = net.op(Op.CONCATENATION, scores, now, net.code(2))
    shares = net.op(Op.SOFTMAX, scores, 1.0)
    if own:
        sizes = [np.array([heads, 1, count], np.int32) for count in (length, 1)]
        past, last = (
            net.op(Op.SLICE, shares, np.array([0, 0, at], np.int32), each)
            for at, each in zip((0, length), sizes, strict=True)
        )
        mixed = net.op(Op.BATCH_MATMUL, past, part(1), *flags[1])
        result = net.op(
            Op.ADD, mixed, net.op(Op.MUL, last, of_one(net.input(1, heads * size)), net.code(0)), net.code(0)
        )
    else:
        result = net.op(Op.BATCH_MATMUL, shares, part(1), *flags[1])
    back = net.op(Op.TRANSPOSE, result, np.array([1, 0, 2], np.int32))
    model = net.finish(net.op(Op.RESHAPE, back, np.array([1, heads * size], np.int32)))
    assert families(run_both(vulkan, model, net.arrays, tolerance=TOLERANCES[F32])) == "attention"


@pytest.mark.parametrize("mask", [-np.inf, -1e9, np.nan, np.inf], ids=str)
@pytest.mark.parametrize("which", ["some", "all"])
@pytest.mark.parametrize("zeros", [False, True])
def test_special_values(vulkan: VulkanDevice, mask: float, which: str, zeros: bool) -> None:
    net, step = Net(), Step(mask=(13,), zeros=zeros)
    model = net.finish(step.build(net)[0])
    (place,) = (at for at, array in enumerate(net.arrays) if array.shape == (13,))
    net.arrays[place] = np.zeros(13, np.float32)
    net.arrays[place][slice(None) if which == "all" else slice(3, 9)] = mask
    assert families(run_both(vulkan, model, net.arrays, tolerance=TOLERANCES[F32])) == "attention"


def test_matrices_without_strides_are_refused() -> None:
    net = Net()
    graph, _ = rewritten(net.finish(Step().build(net)[0]), fuse_softmax, fuse_attention)
    call = graph.nodes[-1].call
    assert layout_of(call) is not None
    backwards = Box(((8, 78), (13, 6), (3, 2), (2, 1)))
    value = call.value.viewed(call.value.shape, backwards)
    assert layout_of(call.with_tensors(lambda each: value if each is call.value else each)) is None


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Step(columns=0), "no elements"),
        (Step(depth=0), "no elements"),
        (Step(batches=(0,)), "no elements"),
        (Step(batches=(65_536,), keys=1, depth=1, columns=1), "65536 matrices"),
        (Step(batches=(1,), columns=132), "132 columns"),
        (Step(batches=(1,), own=65, keys=3), "65 keys follow"),
    ],
    ids=["columns", "depth", "batches", "matrices", "many columns", "own keys"],
)
def test_the_kernel_refuses(step: Step, reason: str) -> None:
    left, answers = refusals(step, refuse)
    assert "ATTENTION" not in left
    assert answers[-1] is not None
    assert reason in answers[-1]
