"""Horizontal fusion: compute several FULLY_CONNECTED operations that read the same input as one GEMM.

One GEMM fills a GPU where several small ones do not, and it reads its input once. Each of the fused operations gives
some of its columns. That pays if nobody has to copy them: if they are reshaped and transposed on their way to a
BATCH_MATMUL, which reads its matrices in place in larger rows (the pass `heads`). On that way a vector may be added
to the rows, as ONNX has biases, and they may be multiplied by a number, as queries are. Both are done for all columns
at once; the columns of others are multiplied by 1. A CPU is busy with each of the operations, so there they stay. The
fused GEMM may take a little more memory: all of its rows are kept until the last of its columns are read.

Each sum has the same terms as before. Their order is that of the strategy, which is chosen for all columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK
from nnvk.driver.vulkan.planning.passes.context import Context, MakeTensor
from nnvk.driver.vulkan.planning.passes.patterns import has_no_activation
from nnvk.driver.vulkan.shaders.commands import padded
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.signature import FLOATS
from nnvk.ops.strided import Box
from nnvk.ops.traits import View
from nnvk.types.codes import FuseCode, OperationCode
from nnvk.types.constant import elements

_LARGEST = 16 << 20
"""Bytes of weights of a family: larger ones keep a device busy each by itself, and need not be in memory twice."""


@dataclass(frozen=True, slots=True)
class _Member:
    """One FULLY_CONNECTED of several."""

    node: Node
    bias: np.ndarray
    term: np.ndarray | None = None
    """The vector that is added to each row of its result."""
    scale: float | None = None
    """The factor of the sum."""
    absorbed: tuple[Node, ...] = ()
    """The ADD and the MUL that do so."""

    @property
    def columns(self) -> int:
        """The width of its result."""
        return len(self.bias)


def fuse_horizontally(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Compute each family of FULLY_CONNECTED as one."""
    if context.profile.is_cpu:
        return graph, 0
    families = [family for family in _families(graph) if _can_bind(family, context.profile)]
    if not families:
        return graph, 0
    instead: dict[Node, list[Node]] = {}
    for family in families:
        joined = _joined(family, context.tensor)
        first = 0
        for member in family:
            source = joined[-1].outputs[0]
            rows, pitch = source.shape
            box = Box(((rows, pitch), (member.columns, 1)), first)
            instead[member.node] = [_internal(member.node, InternalCode.ARRANGE, source, box=box)]
            first += member.columns
            for node in member.absorbed:
                (source,) = (tensor for tensor in node.inputs if not tensor.is_constant)
                instead[node] = [_internal(node, InternalCode.VIEW, source)]
        instead[family[0].node][:0] = joined
    nodes = (each for node in graph.nodes for each in instead.get(node, [node]))
    return graph.with_nodes(nodes), len(families)


def _internal(node: Node, code: InternalCode, source: Tensor, **values: Box) -> Node:
    """An internal operation that gives the output of a node."""
    return node.with_call(call_of(code, node.call.output, input=source, **values))


def _can_bind(family: Sequence[_Member], profile: DeviceProfile) -> bool:
    """Whether the device can bind the weights of a family, in blocks, and its results."""
    call = family[0].node.call
    columns = round_up(sum(member.columns for member in family), BLOCK)
    values = columns * max(call.output.shape[0], round_up(call.weights.shape[1], 4))
    return padded(values * call.weights.dtype.itemsize) <= profile.max_buffer


def _joined(family: Sequence[_Member], make: MakeTensor) -> list[Node]:
    """The nodes that compute a whole family."""
    call, operation = family[0].node.call, family[0].node.operation
    weights = np.concatenate([elements(member.node.call.weights.constant) for member in family])
    bias = np.concatenate([member.bias for member in family])

    def like(tensor: Tensor, shape: tuple[int, ...], data: np.ndarray | None = None) -> Tensor:
        return make(tensor.name, replace(tensor.type, dimensions=shape), data)

    def combined(code: OperationCode, source: Tensor, vector: np.ndarray) -> Node:
        """The operation that combines each row with a vector."""
        row, output = like(source, vector.shape, vector), like(source, source.shape)
        values = {"input0": source, "input1": row, "activation": int(FuseCode.NONE), "output": output}
        return Node(Call(code, values, [output]), operation)

    joined = {
        call.weights.index: like(call.weights, weights.shape, weights),
        call.bias.index: like(call.bias, bias.shape, bias),
        call.output.index: like(call.output, (call.output.shape[0], len(bias))),
    }
    nodes = [Node(call.with_tensors(lambda tensor: joined.get(tensor.index, tensor)), operation)]
    terms = [member.term for member in family if member.term is not None]
    if terms:
        nodes.append(combined(OperationCode.ADD, nodes[-1].call.output, np.concatenate(terms)))
    if any(member.scale is not None for member in family):
        output = nodes[-1].call.output
        scales = [1.0 if member.scale is None else member.scale for member in family]
        factors = np.repeat(np.array(scales, output.dtype), [member.columns for member in family])
        nodes.append(combined(OperationCode.MUL, output, factors))
    return nodes


# --- which operations --------------------------------------------------------------------------------------------


def _families(graph: Graph) -> Iterator[list[_Member]]:
    """The families of a graph, the members of each in order."""
    alike: dict[Hashable, list[Node]] = {}
    for node in graph.nodes:
        if node.code is OperationCode.FULLY_CONNECTED:
            shared = _shared(node.call)
            if shared is not None:
                alike.setdefault(shared, []).append(node)
    for nodes in alike.values():
        some = [member for member in (_member(graph, node) for node in nodes) if member]
        for family in ([each for each in some if (each.term is None) == plain] for plain in (True, False)):
            weights = sum(member.node.call.weights.constant.nbytes for member in family)
            if len(family) > 1 and weights <= _LARGEST:
                yield family


def _shared(call: Call) -> Hashable | None:
    """The key that members of a family share; None for an operation without constant weights, say."""
    weights, bias, activation = call.weights, call.bias, call.known("activation")
    if not (weights.is_constant and bias.is_constant and weights.size) or activation is None:
        return None
    if call.input.code not in FLOATS:
        return None
    codes = call.input.code, weights.code, bias.code
    return call.input.index, codes, weights.shape[1], int(activation)


def _member(graph: Graph, node: Node) -> _Member | None:
    """A FULLY_CONNECTED whose result goes to a BATCH_MATMUL, with no more done to it than is said above; else None."""
    member, tensor, in_rows = _Member(node, node.call.bias.data), node.call.output, True
    while (reader := graph.only_user(tensor)) is not None:
        if reader.code is OperationCode.BATCH_MATMUL:
            return member
        view = reader.traits.view
        if view is None:
            combined = _combined_with(member, reader, tensor, in_rows)
            if combined is None:
                return None
            member = combined
        in_rows &= view is not View.TRANSPOSED
        (tensor,) = reader.outputs
    return None


def _combined_with(member: _Member, reader: Node, tensor: Tensor, in_rows: bool) -> _Member | None:
    """The member with an ADD or MUL of its result, a tensor; None if that can't be done for all columns at once.

    ``in_rows``: the elements of the tensor are in the order in which the member gives them.
    """
    if reader.code not in (OperationCode.ADD, OperationCode.MUL) or member.scale is not None:
        return None
    call = reader.call
    vector = call.input1 if call.input0.index == tensor.index else call.input0
    if not vector.is_constant or not has_no_activation(call):
        return None
    absorbed = (*member.absorbed, reader)
    if reader.code is OperationCode.MUL:
        if vector.size != 1:
            return None
        return replace(member, scale=float(vector.data.reshape(())), absorbed=absorbed)
    columns = (member.columns,)
    is_row = in_rows and tensor.shape[-1:] == columns
    if member.term is not None or not is_row or vector.shape[-1:] != columns or (vector.size,) != columns:
        return None
    return replace(member, term=vector.data.reshape(-1), absorbed=absorbed)
