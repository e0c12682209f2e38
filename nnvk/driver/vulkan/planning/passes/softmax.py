"""SOFTMAX of rows becomes one operation with the scale and the mask that attention has before it (SOFTMAX_ROWS).

The epilogue of a GEMM applies the scale, and a mask that is the same for all rows, where a GEMM computes the scores; a
mask of its own for each row, or for each matrix of a batch, is too much for it. Sums are added up in another order than
two dispatches do it, so that results may differ by a few units in the last place.

Exporters put a SELECT behind it that makes zeros of NaN, for rows that are masked out completely. It is part of the
operation, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.driver.vulkan.planning.passes.patterns import behind_views, has_no_activation
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.signature import FLOATS
from nnvk.ops.traits import View
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.constant import fill_of

_LONGEST = 1 << 14
"""Elements of a row that one workgroup takes."""


def fuse_softmax(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Compute SOFTMAX of rows, with what comes before it, by one operation."""
    nodes: list[Node] = []
    fused: set[Node] = set()
    count = 0
    for node in graph.nodes:
        if node in fused:
            continue  # it is behind a SOFTMAX
        length = _length(node.call) if node.code is OperationCode.SOFTMAX else None
        call, taken = (None, []) if length is None else _with_scores(graph, context, node, length)
        if call is None or context.refuse(call):
            nodes.append(node)
        else:
            count += 1
            fused.update(taken)
            nodes.append(node.with_call(call, taken))
    return (graph.with_nodes(nodes).without_unused(fused), count) if count else (graph, 0)


def _length(call: Call) -> int | None:
    """The length of the rows along which a SOFTMAX adds up; None if elements of a row are apart, or too many."""
    shape = call.input.shape
    axis = call.axis % len(shape)
    if call.input.code not in FLOATS or math.prod(shape[axis + 1 :]) != 1:
        return None
    return shape[axis] if 0 < shape[axis] <= _LONGEST else None


def _zeros_for_nan(graph: Graph, shares: Tensor) -> Sequence[Node]:
    """The operations that make zeros of those shares that are NaN: ``SELECT(NOT_EQUAL(x, x), 0, x)``."""
    views = []
    while (view := graph.only_user(shares)) is not None and view.traits.view is View.RESHAPED:
        views.append(view)
        (shares,) = view.outputs
    users = graph.users.get(shares.index, ())
    if [user.code for user in users] != [OperationCode.NOT_EQUAL, OperationCode.SELECT] or graph.is_output(shares):
        return ()
    compared, selected = users
    call, zeros = selected.call, selected.call.input1.stored
    is_zero = zeros is not None and fill_of(zeros) == 0
    is_nan = graph.only_user(compared.outputs[0]) is selected and call.condition.index == compared.outputs[0].index
    is_nan &= compared.call.input0.index == compared.call.input1.index
    return [*views, *users] if is_nan and is_zero and call.input2.index == shares.index else ()


# --- what comes before -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Term:
    """An ADD or MUL of scores and something else."""

    nodes: list[Node]
    """The operation, and views of its result behind it."""
    scores: Tensor
    other: Tensor


def _with_scores(graph: Graph, context: Context, node: Node, length: int) -> tuple[Call, list[Node]]:
    """The call that computes a SOFTMAX with what is around it, and the operations that do so now."""
    source: Tensor = node.call.input
    masking = _term(graph, source, OperationCode.ADD)
    if masking is not None and masking.scores.shape[-1] != length:
        masking = None
    scaling = _term(graph, source if masking is None else masking.scores, OperationCode.MUL)
    if scaling is not None and not (scaling.other.is_constant and scaling.other.size == 1):
        scaling = None
    if scaling is not None and masking is not None and scaling.scores.shape != masking.scores.shape:
        scaling = None  # the mask broadcasts to the shape behind
    innermost = scaling or masking
    scores = source if innermost is None else innermost.scores
    if _has_epilogue(graph, context, scores):
        scaling = None
        if masking is not None and _may_be_epilogue(masking, length):
            masking = None
        innermost = masking
    terms = [each for each in (scaling, masking) if each is not None]
    zeros = _zeros_for_nan(graph, node.call.output)
    call = call_of(
        InternalCode.SOFTMAX_ROWS,
        zeros[-1].outputs[0] if zeros else node.call.output,
        input=source if innermost is None else innermost.scores,
        mask=None if masking is None else masking.other,
        scale=None if scaling is None else float(scaling.other.data.item()),
        beta=float(node.call.beta),
        length=length,
        zeros=bool(zeros),
    )
    return call, [*(each for term in terms for each in term.nodes), *zeros]


def _term(graph: Graph, tensor: Tensor, code: OperationCode) -> _Term | None:
    """The operation of a code that gives a tensor for one reader alone, if no activation follows it."""
    nodes = []
    while graph.only_user(tensor) is not None and (node := graph.producer(tensor)) is not None:
        nodes.append(node)
        if node.code is code:
            return _operands(graph, nodes) if has_no_activation(node.call) else None
        if node.traits.view is not View.RESHAPED:
            return None
        tensor = node.inputs[0]
    return None


def _operands(graph: Graph, nodes: list[Node]) -> _Term | None:
    """The operands of the last of these nodes. If both are as large, the scores are the one that a GEMM computes."""
    call = nodes[-1].call
    pairs = [(call.input0, call.input1), (call.input1, call.input0)]
    fitting = [pair for pair in pairs if pair[0].shape == call.output.shape]
    fitting.sort(key=lambda pair: _rank(graph, pair[0]), reverse=True)
    return _Term(nodes, *fitting[0]) if fitting else None


def _rank(graph: Graph, tensor: Tensor) -> int:
    """0 for an input or a constant, 1 for a result, 2 for that of a GEMM."""
    _, node = behind_views(graph, tensor)
    return 0 if node is None else 1 if node.traits.gemm is None else 2


def _has_epilogue(graph: Graph, context: Context, tensor: Tensor) -> bool:
    """Whether a GEMM computes a tensor, and stores it as it is: packed elements are padded to vec4s of columns."""
    _, node = behind_views(graph, tensor)
    if node is None or node.traits.gemm is None:
        return False
    packed = tensor.code is OperandCode.TENSOR_FLOAT16 and not context.profile.has_native_16
    return not packed or node.call.output.shape[-1] % 4 == 0


def _may_be_epilogue(masking: _Term, length: int) -> bool:
    """Whether an epilogue can add the mask."""
    mask = masking.other
    is_row = mask.size == length and mask.shape[-1:] == (length,) and length % 4 == 0
    return mask.size in (1, masking.scores.size) or is_row
