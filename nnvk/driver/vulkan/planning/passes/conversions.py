"""Conversions between float16 and float32 become parts of the operations around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.graph.program import ElementwiseProgram, formula_of, narrows, widens
from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.elementwise.fused import variant_of
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.driver.vulkan.planning.passes.elements import Elements
from nnvk.driver.vulkan.planning.passes.elementwise import replaced
from nnvk.driver.vulkan.planning.passes.epilogue import channels_of, is_only_reader, with_behind
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.strided import Box
from nnvk.types.codes import OperandCode


def fuse_conversions(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let row norms, elementwise operations and GEMMs convert floats themselves."""
    if not any(map(_widens, graph.nodes)):  # what is computed on 16 bits becomes 32 bits in the end
        return graph, 0
    rewrites: tuple[Callable[[Graph], tuple[Graph, int]], ...] = (
        lambda graph: _convert_in_norms(graph, context),
        lambda graph: _convert_around_elementwise(graph, context),
        _read_floats,
    )
    count = 0
    for rewrite in rewrites:
        graph, rewritten = rewrite(graph)
        count += rewritten
    return graph, count


def store_floats(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let GEMMs on float16 store results as float32 if nobody reads them but a conversion to float32.

    Shaders that pack float16 in words have no such form, nor does the one that verifies a GEMM of float16.
    """
    conversions = [node for node in graph.nodes if _widens(node)]
    if not conversions or context.verifies or not context.profile.has_native_16:
        return graph, 0
    elements = Elements(graph)
    instead: dict[Node, Node | None] = {}
    for node in conversions:
        gemm = elements.producer(node.call.input)
        if gemm is None or gemm.traits.gemm is None:
            continue
        if channels_of(gemm, context.profile) is not None and is_only_reader(elements, node.call.input, node):
            instead |= {gemm: None, node: with_behind(elements, gemm, node)}
    return replaced(graph, instead), len(instead) // 2


def _widens(node: Node) -> bool:
    """Whether a node only converts float16 to float32."""
    return not node.epilogue and widens(node.call)


def _narrows(node: Node) -> bool:
    """Whether a node only converts float32 to float16, with numbers beyond the range at its ends."""
    return not node.epilogue and narrows(node.call)


def _convert_in_norms(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let row norms read and store float16 where conversions stand around them; rows of whole vec4s alone."""
    elements = Elements(graph)
    instead: dict[Node, Node | None] = {}
    count = 0
    for node in graph.nodes:
        if node.code is not InternalCode.ROW_NORM or node.call.length % 4:
            continue
        norm, before = node, elements.producer(node.call.input)
        if before is not None and _widens(before):
            source, absorbed = elements.source(before.call.input), (before, *elements.reshapes(node))
            norm = norm.with_call(norm.call.replaced(input=source), absorbed)
            if is_only_reader(elements, before.call.output, node):
                instead[before] = None
        output, readers = node.call.output, elements.readers(node.call.output)
        if readers and not elements.is_given(output) and all(_narrows(reader) for reader in readers):
            type_ = replace(output.type, code=OperandCode.TENSOR_FLOAT16, dimensions=output.shape)
            narrow = context.tensor(output.name, type_)
            for reader in readers:
                view = call_of(InternalCode.VIEW, reader.call.output, input=narrow)
                instead[reader] = reader.with_call(view, elements.reshapes(reader))
            norm = norm.with_call(call_of(InternalCode.ROW_NORM, narrow, **_inputs(norm.call)))
        if norm is not node:
            instead[node] = norm
            count += 1
    return replaced(graph, instead), count


def _inputs(call: Call) -> dict[str, Any]:
    """Everything in a call but its output."""
    return {name: value for name, value in call.items() if value is not call.output}


def _convert_around_elementwise(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let elementwise operations on float32 between conversions from and to float16 keep float32 in registers."""
    elements = Elements(graph)
    instead: dict[Node, Node | None] = {}
    count = 0
    for node in graph.nodes:
        inside = _between_conversions(elements, node) if _narrows(node) else None
        if inside is None:
            continue
        calls = [elements.call(each) for each in inside]
        program = ElementwiseProgram.of(calls)
        if not program.fits or context.profile.avoids(variant_of(program, dtype(node.call.output))):
            continue
        absorbed = {each: None for one in inside for each in (one, *elements.reshapes(one))}
        fused = frozenset[int]().union(*(each.operations for each in absorbed)) - {node.operation}
        result = frozenset({node.call.output.index})
        instead.update(dict.fromkeys(inside))
        instead[node] = Node(calls[0], node.operation, fused, (), tuple(calls[1:]), result, program)
        count += 1
    return replaced(graph, instead), count


def _between_conversions(elements: Elements, narrow: Node) -> list[Node] | None:
    """The operations from conversions to float32 to one back to float16, in order; None if others come in between."""
    inside, left = {narrow}, [narrow]
    while left:
        for tensor in left.pop().inputs:
            before = elements.producer(tensor)
            if before is None or before in inside:
                if before is None and not (tensor.is_constant and tensor.size == 1):
                    return None
                continue
            is_same = before.outputs[0].size == narrow.call.output.size and not before.epilogue
            if not is_same or elements.is_given(before.outputs[0]) or formula_of(elements.call(before)) is None:
                return None
            inside.add(before)
            if not _widens(before):
                left.append(before)
    between = inside - {narrow}
    if len(between) < 2 or not all(inside.issuperset(elements.readers(node.outputs[0])) for node in between):
        return None
    return sorted(inside, key=elements.places.__getitem__)


def _read_floats(graph: Graph) -> tuple[Graph, int]:
    """Let GEMMs on float16 convert what images of few channels are converted from.

    Such images are loaded element by element, each a few times.
    """
    elements = Elements(graph)
    instead: dict[Node, Node | None] = {}
    for node in graph.nodes:
        takes_wide_input = kernels()[node.code].takes_wide_input
        if takes_wide_input is None or not takes_wide_input(node.call):
            continue
        assert node.traits.gemm is not None
        image: Tensor = getattr(node.call, node.traits.gemm.input)
        conversion = elements.producer(image)
        if conversion is None or not _narrows(conversion):
            continue
        read = [elements.source(tensor).index for tensor in node.inputs]
        if read.count(conversion.call.output.index) == 1 and is_only_reader(elements, image, node):
            source = elements.source(conversion.call.input).viewed(image.shape, Box(((image.size, 1),)))
            call = call_of(InternalCode.CONVERT_FLOAT, image, input=source, saturate=True)
            absorbed = (conversion, *elements.reshapes(node), *elements.reshapes(conversion))
            instead |= {conversion: None, node: replace(node.with_call(node.call, absorbed), prologue=(call,))}
    return replaced(graph, instead), len(instead) // 2
