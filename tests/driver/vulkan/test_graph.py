"""The graph of operations: what the verifier finds, and that passes keep what a graph computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from fused import Net, Op, families, run_both
from pattern_graph import PatternGraph
from profiles import GPU
from random_graph import random_graph

from nnvk.api import FuseCode, OperandCode, OperandType
from nnvk.base.errors import NnapiError
from nnvk.base.settings import override
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.graph import dump, verifier
from nnvk.driver.vulkan.graph.builder import NeedsValue, build
from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.graph.rewriter import Rewriter
from nnvk.driver.vulkan.graph.verifier import InvalidGraph
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import ACCELERATED_DOTS, NATIVE_16
from nnvk.ops import internal, registry
from nnvk.ops.call import Tensor
from nnvk.ops.flow import CONTROL_FLOW
from nnvk.ops.internal import InternalCode, PoolPadding, call_of
from nnvk.ops.strided import Box
from nnvk.types.model import Model

F32 = OperandCode.TENSOR_FLOAT32
NATIVE = replace(GPU, features=GPU.features | NATIVE_16)


def graph_of(model: Model) -> Graph:
    graph, _ = build(model, [type_.dimensions for type_ in model.input_types()], {}, lambda _: None)
    return graph


def two_operations() -> Graph:
    """ABS, then TANH of it."""
    net = Net()
    return graph_of(net.finish(net.op(Op.TANH, net.op(Op.ABS, net.input(3, 5)))))


def backwards(graph: Graph) -> Graph:
    return graph.with_nodes(reversed(graph.nodes))


def doubled(graph: Graph) -> Graph:
    return graph.with_nodes((*graph.nodes, graph.nodes[0]))


def without_the_last(graph: Graph) -> Graph:
    return graph.with_nodes(graph.nodes[:-1])


def reading_nothing(graph: Graph) -> Graph:
    (read,) = graph.nodes[1].inputs
    missing = Tensor("missing", -7, read.type, read.shape)
    return graph.with_nodes((graph.nodes[0], graph.nodes[1].reading({read.index: missing})))


def of_another_shape(graph: Graph) -> Graph:
    (read,) = graph.nodes[1].inputs
    other = Tensor("other", read.index, read.type, (5, 3))
    return graph.with_nodes((graph.nodes[0], graph.nodes[1].reading({read.index: other})))


def giving_another_shape(graph: Graph) -> Graph:
    last = graph.nodes[1]
    other = Tensor("other", last.call.output.index, last.call.output.type, (5, 3))
    call = last.call.with_tensors(lambda tensor: other if tensor is last.call.output else tensor)
    return graph.with_nodes((graph.nodes[0], last.with_call(call)))


FAULTS: dict[Callable[[Graph], Graph], str] = {
    backwards: "is read before it is given",
    doubled: "is given twice",
    without_the_last: "no node gives operand 2, an output of the model",
    reading_nothing: "missing (operand -7, TENSOR_FLOAT32[3, 5]) is given by no node",
    of_another_shape: "other (operand 1, TENSOR_FLOAT32[5, 3]) was",
    giving_another_shape: "has to have shape [3, 5]",
}


def test_a_graph_as_it_is_built_is_well_formed() -> None:
    verifier.check(two_operations(), "build")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faults_of_structure_are_found(fault: Callable[[Graph], Graph]) -> None:
    with pytest.raises(InvalidGraph) as raised:
        verifier.check(fault(two_operations()), "a pass")
    assert str(raised.value).startswith("a pass: ")
    assert FAULTS[fault] in str(raised.value)


def test_another_result_is_found() -> None:
    graph = two_operations()
    (read,) = graph.nodes[1].inputs
    shortened = graph.with_nodes([graph.nodes[1].reading({read.index: graph.nodes[0].inputs[0]})])
    verifier.check(shortened, "a pass")
    verifier.compare(graph, graph, "a pass", 0.0)
    with pytest.raises(InvalidGraph, match="operand 2, an output of the model, is no longer the same"):
        verifier.compare(graph, shortened, "a pass", 0.0)
    verifier.compare(graph, shortened, "a pass", 2.0)


def test_a_lost_effect_is_found() -> None:
    net = Net()
    gathered = net.op(Op.GATHER, net.input(3, 5), net.code(0), net.input(2, code=OperandCode.TENSOR_INT32))
    graph = graph_of(net.finish(net.op(Op.ABS, gathered)))
    gather, absolute = graph.nodes
    with pytest.raises(InvalidGraph, match=r"no node names operations \[0\] any more"):
        verifier.check_kept(graph, graph.with_nodes([absolute]), "a pass")
    with pytest.raises(InvalidGraph, match=r"operations \[0\], which have effects, are not computed once each"):
        verifier.check_kept(graph, graph.with_nodes([absolute.with_call(absolute.call, [gather])]), "a pass")


def test_users_and_producers() -> None:
    net = Net()
    x = net.input(3, 5)
    y = net.op(Op.ABS, x)
    graph = graph_of(net.finish(net.op(Op.POW, y, y), net.op(Op.TANH, x)))
    first, second, third = graph.nodes
    assert graph.producer(second.inputs[0]) is first
    assert graph.producer(first.inputs[0]) is None
    assert graph.users[x] == [first, third]
    assert graph.only_user(first.call.output) is second
    assert graph.only_user(second.call.output) is None
    assert graph.without_unused(graph.nodes) is graph


def test_operations_that_nobody_reads_can_be_left_out() -> None:
    net = Net()
    x = net.input(3, 5)
    net.op(Op.ABS, x)
    graph = graph_of(net.finish(net.op(Op.TANH, x)))
    assert [node.code for node in graph.without_unused(graph.nodes).nodes] == [Op.TANH]


def test_a_graph_as_text() -> None:
    net = Net()
    padded = net.op(Op.PAD, net.input(3, 5), np.array([[0, 1], [2, 0]], np.int32))
    graph = graph_of(net.finish(net.op(Op.SOFTMAX, padded, 1.0)))
    assert list(dump.lines(graph)) == [
        "   0  %2:float32[4,7] = PAD(input=%0:float32[3,5], paddings=#1:int32[2,2])",
        "   1  %4:float32[4,7] = SOFTMAX(input=%2:float32[4,7], beta=1.0, axis=-1)",
    ]


# --- rewriting -------------------------------------------------------------------------------------------------------


def test_a_replaced_node_takes_producers_along_that_nobody_else_reads() -> None:
    net = Net()
    x = net.input(3, 5)
    y = net.op(Op.NEG, net.op(Op.EXP, x))
    model = net.finish(net.op(Op.TANH, y), net.op(Op.SQRT, x))
    rewriter = Rewriter(graph_of(model))
    tanh = next(node for node in rewriter.nodes() if node.code is Op.TANH)
    (source,) = (tensor for node in rewriter.nodes() for tensor in node.inputs if node.code is Op.EXP)
    new = rewriter.replace(tanh, tanh.with_call(tanh.call.replaced(input=source)))
    assert [node.code for node in rewriter.graph.nodes] == [Op.TANH, Op.SQRT]
    assert new.operations == {0, 1, 2}
    assert rewriter.only_user(new.call.output) is None  # an output of the model
    assert set(rewriter.users(source)) == {new, rewriter.graph.nodes[1]}
    assert rewriter.producer(source) is None


def test_a_rewriter_that_replaces_nothing_gives_the_same_graph() -> None:
    net = Net()
    graph = graph_of(net.finish(net.op(Op.ABS, net.input(3, 5))))
    assert Rewriter(graph).graph is graph


@pytest.mark.parametrize("name", ["input0", "output"])
def test_a_view_that_is_not_the_operand_is_found(name: str) -> None:
    net = Net()
    left, right = net.input(2, 3, 5), net.input(2, 5, 7)
    flags = [net.build.value(False)] * 2
    graph = graph_of(net.finish(net.op(Op.BATCH_MATMUL, left, right, *flags)))
    (node,) = graph.nodes
    tensor = getattr(node.call, name)
    turned = Box.transposed((tensor.shape[1], tensor.shape[0], tensor.shape[2]), (1, 0, 2))
    view = tensor.viewed(tensor.shape, turned)
    call = node.call.with_tensors(lambda each: view if each is tensor else each)
    changed = graph.with_nodes([node.with_call(call)])
    verifier.check(changed, "changed")
    with pytest.raises(InvalidGraph, match="is no longer the same"):
        verifier.compare(graph, changed, "changed", 1e-5)


@pytest.mark.parametrize(
    ("name", "box", "reason"),
    [
        ("input", Box(((3, 5), (4, 1))), "is no view of"),
        ("input", Box(((3, 5), (5, 1)), 1), "is no view of"),
        ("input", Box(((3, -5), (5, 1))), "is no view of"),
        ("output", Box(((3, 0), (5, 1))), "is not written whole"),
    ],
    ids=["few", "beyond", "before", "in part"],
)
def test_views_lie_within_their_sources(name: str, box: Box, reason: str) -> None:
    net = Net()
    graph = graph_of(net.finish(net.op(Op.ABS, net.input(3, 5))))
    (node,) = graph.nodes
    tensor = getattr(node.call, name)
    call = node.call.with_tensors(lambda each: tensor.viewed((3, 5), box) if each is tensor else each)
    with pytest.raises(InvalidGraph, match=f"changed: ABS of operation 0: {name}.*{reason}"):
        verifier.check(graph.with_nodes([node.with_call(call)]), "changed")


# --- internal operations ---------------------------------------------------------------------------------------------


def tensor(index: int, code: OperandCode, shape: tuple[int, ...], data: np.ndarray | None = None) -> Tensor:
    return Tensor("tensor", index, OperandType(code, shape), shape, data)


def test_references_of_internal_operations() -> None:
    numbers = np.array([[1.5, -1e6, np.inf], [np.nan, 2.5, 3.5]], np.float32)
    source = tensor(0, F32, (2, 3), numbers)
    narrow = tensor(1, OperandCode.TENSOR_FLOAT16, (2, 3))
    (ends,) = internal.compute(call_of(InternalCode.CONVERT_FLOAT, narrow, input=source, saturate=True))
    np.testing.assert_array_equal(ends, np.array([[1.5, -65504, np.inf], [np.nan, 2.5, 3.5]], np.float16))
    (plain,) = internal.compute(call_of(InternalCode.CONVERT_FLOAT, narrow, input=source, saturate=False))
    assert plain[0, 1] == -np.inf
    columns = call_of(InternalCode.ARRANGE, tensor(1, F32, (2, 2)), input=source, box=Box(((2, 3), (2, 1)), 1))
    np.testing.assert_array_equal(internal.compute(columns)[0], numbers[:, 1:])
    view = call_of(InternalCode.VIEW, tensor(1, F32, (3, 1, 2)), input=source)
    np.testing.assert_array_equal(internal.compute(view)[0].ravel(), numbers.ravel())


def test_a_pool_with_a_surround_is_a_pool_of_a_padded_image() -> None:
    net = Net()
    pads = np.array([[0, 0], [1, 2], [3, 0], [0, 0]], np.int32)
    x = net.op(Op.PAD, net.input(2, 6, 5, 3), pads)
    y = net.build.operation(Op.AVERAGE_POOL_2D, [x, *map(net.code, [1, 2, 1, 3, 4, FuseCode.NONE])], OperandType(F32))
    pad, pool = graph_of(net.finish(y)).nodes
    fused = pool.call.replaced(input=pad.call.input, pool_padding=PoolPadding(1, 2, 3, 0, 0.0))
    assert internal.infer(fused) == [pool.call.output.shape]
    image = np.random.default_rng(1).standard_normal((2, 6, 5, 3), np.float32)
    whole = {pad.call.input.index: image, pool.call.input.index: np.pad(image, pads)}

    def known(each: Tensor) -> Tensor:
        return Tensor(each.name, each.index, each.type, data=whole[each.index]) if each.index in whole else each

    results = [internal.compute(call.with_tensors(known))[0] for call in (fused, pool.call)]
    np.testing.assert_array_equal(*results)


# --- passes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(24))
def test_passes_keep_what_random_graphs_compute(seed: int) -> None:
    """On the reference device; relaxed ones on a GPU with 16-bit floats, where most passes have something to do."""
    codes = [code for code in registry.definitions() if code not in CONTROL_FLOW]
    model = random_graph(seed, codes=codes).frozen.with_relaxed(seed % 2 == 1)
    library = ShaderLibrary()
    profile = replace(NATIVE, features=library.features | {ACCELERATED_DOTS})
    with override(verify_graph=2):
        try:
            lower(model, [type_.dimensions for type_ in model.input_types()], profile, library)
        except NeedsValue:
            pytest.skip("a parameter comes with the execution: there is no one plan")
        except NnapiError as error:
            pytest.skip(error.reason)


def pattern_model(seed: int) -> tuple[Model, list[np.ndarray]]:
    """A random model of the patterns that passes look for, and its inputs."""
    graph = PatternGraph(seed)
    graph.grow(8)
    return graph.net.finish(*graph.outputs()), graph.net.arrays


@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_passes_keep_what_patterns_compute(seed: int, relaxed: bool) -> None:
    """On the reference device."""
    model, _ = pattern_model(seed)
    library = ShaderLibrary()
    with override(verify_graph=2):
        shapes = [type_.dimensions for type_ in model.input_types()]
        lower(
            model.with_relaxed(relaxed),
            shapes,
            replace(NATIVE, features=library.features | {ACCELERATED_DOTS}),
            library,
        )


@pytest.mark.parametrize("seed", range(12))
def test_patterns_on_the_device(vulkan: VulkanDevice, seed: int) -> None:
    """With and without passes. Sums in another order differ by a few units in the last place of their terms."""
    model, inputs = pattern_model(seed)
    run_both(vulkan, model, inputs, tolerance=1e-3)


def padded_rows(net: Net, nchw: bool) -> Sequence[int]:
    """A convolution along one axis: rows are padded, and then images of height 1."""
    x = net.op(Op.PAD, net.input(2, 11, 8), np.array([[0, 0], [2, 1], [0, 0]], np.int32))
    if nchw:
        x = net.op(Op.TRANSPOSE, x, np.array([0, 2, 1], np.int32))
    shape = [2, 8, 1, 14] if nchw else [2, 1, 14, 8]
    x = net.op(Op.RESHAPE, x, np.array(shape, np.int32))
    weights, bias = net.weights(4, 1, 3, 8), net.weights(4)
    rest = [net.code(each) for each in (2, 1, 1, FuseCode.NONE)]
    return [net.op(Op.CONV_2D, x, weights, bias, *rest, net.build.value(nchw))]


def test_pads_of_rows_go_into_convolutions(vulkan: VulkanDevice) -> None:
    net = Net()
    plan = run_both(vulkan, net.finish(*padded_rows(net, False)), net.arrays)
    assert "pad" not in families(plan).split()


def test_pads_stay_where_rows_are_transposed(vulkan: VulkanDevice) -> None:
    net = Net()
    plan = run_both(vulkan, net.finish(*padded_rows(net, True)), net.arrays)
    assert "pad" in families(plan).split()


@pytest.mark.parametrize("kind", ["conv", "max", "average"])
def test_pads_of_channels_first_images(vulkan: VulkanDevice, kind: str) -> None:
    net = Net()
    pads = np.array([[0, 0], [0, 0], [1, 2], [0, 3]], np.int32)
    x = net.op(Op.PAD, net.input(2, 8, 6, 5), pads)
    if kind == "conv":
        weights, bias = net.weights(4, 3, 2, 8), net.weights(4)
        y = net.op(Op.CONV_2D, x, weights, bias, *map(net.code, (2, 1, 2, FuseCode.NONE)), net.build.value(True))
    else:
        code = Op.MAX_POOL_2D if kind == "max" else Op.AVERAGE_POOL_2D
        y = net.op(code, x, *map(net.code, (1, 1, 2, 2, 3, FuseCode.NONE)), net.build.value(True))
    plan = run_both(vulkan, net.finish(y), net.arrays)
    assert "pad" not in families(plan).split()


def test_a_node_names_its_operation() -> None:
    node: Node = two_operations().nodes[1]
    assert node.operation == 1
    assert node.traits.elementwise is not None
