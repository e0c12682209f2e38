"""The elements of tensors through reshapes: who gives them, who reads them, and what calls read."""

from __future__ import annotations

import numpy as np
from fused import Net, Op
from rewritten import graph_of

from nnvk.driver.vulkan.planning.passes.elements import Elements, in_order


def test_calls_read_what_was_reshaped_through_views() -> None:
    """Constants, results and tensors that were not reshaped stay as they are."""
    net = Net()
    x, y = net.op(Op.ABS, net.input(3, 10)), net.op(Op.EXP, net.input(5, 6))
    reshaped = net.op(Op.RESHAPE, x, np.array([5, 6], np.int32))
    total = net.op(Op.ADD, reshaped, y)
    result = net.op(Op.RESHAPE, net.weights(5, 6), np.array([6, 5], np.int32))
    graph = graph_of(net.finish(total, net.op(Op.ADD, net.op(Op.RESHAPE, x, np.array([6, 5], np.int32)), result)))
    elements = Elements(graph)
    first, second = (node for node in graph.nodes if node.code is Op.ADD)
    call = elements.call(first)
    assert (call.input0.whole.index, call.input0.shape, call.input0.view is not None) == (x, (5, 6), True)
    assert call.input1 is first.call.input1
    assert call.output is first.call.output
    call = elements.call(second)
    assert call.input0.view is not None
    assert call.input1 is second.call.input1
    (absolute,) = (node for node in graph.nodes if node.code is Op.ABS)
    assert elements.call(absolute) is absolute.call
    assert list(elements.readers(absolute.outputs[0])) == [first, second]
    assert elements.producer(first.inputs[0]) is absolute


def test_a_reshaped_output_gives_the_elements() -> None:
    net = Net()
    x = net.op(Op.ABS, net.input(3, 10))
    other = net.op(Op.EXP, x)
    graph = graph_of(net.finish(net.op(Op.RESHAPE, x, np.array([5, 6], np.int32)), net.op(Op.TANH, other)))
    elements = Elements(graph)
    given = {node.code: elements.is_given(node.outputs[0]) for node in graph.nodes}
    assert given == {Op.ABS: True, Op.EXP: False, Op.RESHAPE: True, Op.TANH: True}


def test_reshapes_move_behind_what_they_read() -> None:
    """Those that read the same come in their order, each with the reshapes that read it; a lost one goes."""
    net = Net()
    x = net.op(Op.ABS, net.input(3, 10))
    first = net.op(Op.RESHAPE, x, np.array([5, 6], np.int32))
    inner = net.op(Op.RESHAPE, first, np.array([6, 5], np.int32))
    second = net.op(Op.RESHAPE, x, np.array([2, 15], np.int32))
    outputs = [net.op(Op.EXP, each) for each in (inner, second)]
    graph = graph_of(net.finish(*outputs))
    absolute, *reshapes = graph.nodes[:4]
    readers = list(graph.nodes[4:])
    assert [node.outputs[0].index for node in reshapes] == [first, inner, second]
    expected = [absolute, *reshapes, *readers]
    for early in ([reshapes[0], absolute, *reshapes[1:]], [*reshapes, absolute]):
        assert list(in_order(graph, [*early, *readers]).nodes) == expected
    swapped = in_order(graph, [reshapes[2], reshapes[0], absolute, reshapes[1], *readers])
    assert list(swapped.nodes) == [absolute, reshapes[2], reshapes[0], reshapes[1], *readers]
    assert list(in_order(graph, [*reshapes, *readers]).nodes) == readers
    assert list(in_order(graph, [absolute, reshapes[1], *readers]).nodes) == [absolute, *readers]
