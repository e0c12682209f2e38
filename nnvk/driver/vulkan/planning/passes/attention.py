"""Attention becomes one operation (ATTENTION).

The pattern is a softmax of the products of queries and keys, whose results are the factors of values. The products may
be scaled and masked. In a step with a cache, they are often two tensors that are concatenated: those of the cache and
those of the new token, and the results of both are added.

With few rows, as in the steps of a language model, GEMMs wait for memory and for each other's launches, and the fused
operation reads each key and value once. With many rows, GPUs compute tiles of them where the cost model says that this
takes less time than GEMMs (`lowering/attention/tiled.py`). Verified plans keep these GEMMs, because no other shader
verifies the fused operation. Sums are added up in another order, so that results may differ by a few units in the last
place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.graph.rewriter import Rewriter
from nnvk.driver.vulkan.kernels.attention import MOST_ROWS
from nnvk.driver.vulkan.lowering.attention import tiled
from nnvk.driver.vulkan.lowering.attention.tiled import Problem
from nnvk.driver.vulkan.planning.passes.arrangements import box_of
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.driver.vulkan.planning.passes.patterns import has_no_activation
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.strided import Box, dense_dimensions
from nnvk.ops.traits import View
from nnvk.types.codes import OperandCode, OperationCode

_MOST_ELEMENTS = {True: 1 << 20, False: 1 << 17}
"""The most elements of keys and values of a matrix for few rows, on CPUs and on GPUs: one workgroup reads all of them.

A unit of a GPU reads so many in about 20 us, by an estimate: as long as four launches take. Units share larger GEMMs.
"""


@dataclass(frozen=True, slots=True)
class _Products:
    """Scores: the products of queries and keys, as they are or masked."""

    query: Tensor
    keys: Tensor
    by_rows: bool
    """Whether the keys are rows, not columns."""
    mask: Tensor | None
    scale: float | None


@dataclass(frozen=True, slots=True)
class _Part:
    """Shares that are factors of values."""

    box: Box
    """The shares, as a box of the result of the softmax."""
    node: Node
    """The GEMM, or the MUL by the one row of values."""
    values: Tensor


def fuse_attention(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Compute attention by one operation where that takes less time."""
    rewriter = Rewriter(graph)
    for node in rewriter.nodes():
        if node.code is InternalCode.SOFTMAX_ROWS:
            _fuse(rewriter, context, node)
    return rewriter.graph, rewriter.rewrites


def _fuse(rewriter: Rewriter, context: Context, softmax: Node) -> None:
    call = softmax.call
    scores, parts = _scores(rewriter, softmax), list(_parts(rewriter, call.output))
    if not scores or len(parts) != len(scores):
        return
    parts.sort(key=lambda part: part.box.first)
    last = parts[0].node if len(parts) == 1 else _sum_of(rewriter, parts)
    if last is None or not _fits(call.length, scores, parts):
        return
    has_few_rows = scores[0].query.shape[-2] <= MOST_ROWS
    nodes: list[Node] = []

    def keys_of(products: _Products) -> Tensor:
        """The keys as rows."""
        if products.by_rows:
            return products.keys
        *batches, depth, count = products.keys.shape
        axes = [*range(len(batches)), len(batches) + 1, len(batches)]
        type_ = products.keys.type.with_dimensions((*batches, count, depth))
        rows = context.tensor(products.keys.name, type_)
        box = Box.transposed(products.keys.shape, axes)
        nodes.append(last.with_call(call_of(InternalCode.ARRANGE, rows, input=products.keys, box=box)))
        return rows

    before, own = scores[0], scores[1] if len(scores) > 1 else None
    mask, value = before.mask if call.mask is None else call.mask, parts[0].values
    cached = [each for each in (before.keys, value, mask) if each is not None]
    wide = {each.index: _before_conversion(rewriter, each) for each in cached}
    if has_few_rows and len({each.code for each in wide.values()}) == 1:
        before = replace(before, keys=wide[before.keys.index])
        value, mask = wide[value.index], None if mask is None else wide[mask.index]
    new = call_of(
        InternalCode.ATTENTION,
        last.outputs[0],
        query=before.query,
        key=keys_of(before),
        value=value,
        own_key=None if own is None else keys_of(own),
        own_value=None if own is None else parts[1].values,
        mask=mask,
        masks_own=call.mask is not None,
        scale=before.scale if call.scale is None else call.scale,
        beta=call.beta,
        zeros=call.zeros,
    )
    given, cached = [new.query, new.own_key, new.own_value], [new.value, mask]
    is_uniform = all(each is None or each.code is new.output.code for each in given)
    is_uniform &= all(each is None or each.code is new.key.code for each in cached)
    if is_uniform and not context.refuse(new) and _pays(new, context):
        rewriter.replace(last, *nodes, last.with_call(new))


def _before_conversion(rewriter: Rewriter, tensor: Tensor) -> Tensor:
    """The 32-bit floats that a tensor was converted from; the tensor itself if it was not."""
    node = rewriter.producer(tensor)
    if node is None or node.code is not InternalCode.CONVERT_FLOAT or node.epilogue:
        return tensor
    source: Tensor = node.call.input
    return source if source.code is OperandCode.TENSOR_FLOAT32 else tensor


def _pays(call: Call, context: Context) -> bool:
    """Whether the device takes less time for the fused operation."""
    *_, rows, columns = call.output.shape
    if rows > MOST_ROWS:
        return not context.verifies and tiled.pays(Problem.of(call), context.profile)
    keys = call.key.shape[-2] + (0 if call.own_key is None else call.own_key.shape[-2])
    return keys * (call.key.shape[-1] + columns) <= _MOST_ELEMENTS[context.profile.is_cpu]


def _fits(length: int, scores: list[_Products], parts: list[_Part]) -> bool:
    """Whether the sizes go together."""
    *batches, rows, _ = scores[0].query.shape
    counts = [products.keys.shape[-2 if products.by_rows else -1] for products in scores]
    if sum(counts) != length:
        return False
    first = 0
    for count, part in zip(counts, parts, strict=True):
        box = Box(((math.prod(batches) * rows, length), (count, 1)), first)
        columns = part.values.shape[-1]
        if part.box.folded != box.folded or part.values.shape != (*batches, count, columns):
            return False
        first += count
    return True


# --- what comes before the softmax -----------------------------------------------------------------------------------


def _scores(rewriter: Rewriter, softmax: Node) -> list[_Products]:
    """The products that a softmax reads, one after the other; none if it reads others."""
    source = softmax.call.input
    node = _producer(rewriter, source)
    has_mask = softmax.call.mask is not None
    joined = [source]
    if node is not None and node.code is OperationCode.CONCATENATION:
        joined = node.call.inputs
        rank = joined[0].rank
        if len(joined) != 2 or node.call.known("axis") not in (rank - 1, -1) or softmax.call.scale is not None:
            return []
    found = [_products(rewriter, each) for each in joined]
    products = [each for each in found if each is not None]
    if len(products) < len(found):
        return []
    first = products[0]
    if has_mask and (any(each.mask is not None for each in products) or not _is_broadcast(softmax, first)):
        return []
    if first.scale is not None and softmax.call.scale is not None:
        return []
    if len(products) == 2:
        own = products[1]
        if own.mask is not None or own.scale != first.scale or own.query.index != first.query.index:
            return []
    return products


def _is_broadcast(softmax: Node, products: _Products) -> bool:
    """Whether the mask of a softmax broadcasts to the products as they are before views of them."""
    source = softmax.call.input.shape
    return source[:-1] == products.query.shape[:-1]


def _products(rewriter: Rewriter, tensor: Tensor) -> _Products | None:
    """The products of queries and keys that a tensor has, which nobody else reads."""
    node, mask, scale, masked = _producer(rewriter, tensor), None, None, tensor.shape
    if node is not None and node.code is OperationCode.ADD:
        masked = node.call.output.shape
        mask, node = _other_operand(rewriter, node)
    if node is not None and node.code is OperationCode.MUL:
        factor, node = _other_operand(rewriter, node)
        if factor is None or not factor.is_constant or factor.size != 1:
            return None
        scale = float(factor.data.item())
    if node is None or node.code is not OperationCode.BATCH_MATMUL or node.call.known("adj_x") is not False:
        return None
    adj_y = node.call.known("adj_y")
    if adj_y is None or any(each.view is not None for each in node.call.every_tensor()):
        return None
    if mask is not None and masked != node.call.output.shape:
        return None  # it broadcasts to another shape of the products
    return _Products(node.call.input0, node.call.input1, bool(adj_y), mask, scale)


def _other_operand(rewriter: Rewriter, node: Node) -> tuple[Tensor | None, Node | None]:
    """The operand of an ADD or MUL beside the products, or what a MUL makes of them, and the node that computes these.

    The node is None if there is none.
    """
    call = node.call
    if has_no_activation(call):
        for tensor, other in ((call.input0, call.input1), (call.input1, call.input0)):
            before = _producer(rewriter, tensor)
            is_such = before is not None and before.code in (OperationCode.BATCH_MATMUL, OperationCode.MUL)
            if is_such and tensor.shape == call.output.shape:
                return other, before
    return None, None


def _producer(rewriter: Rewriter, tensor: Tensor) -> Node | None:
    """The node that gives the elements of a tensor, which nobody else reads, perhaps in another shape."""
    while rewriter.only_user(tensor) is not None and (node := rewriter.producer(tensor)) is not None:
        if node.traits.view is not View.RESHAPED:
            return node
        tensor = node.inputs[0]
    return None


# --- what comes behind it --------------------------------------------------------------------------------------------


def _parts(rewriter: Rewriter, shares: Tensor) -> Iterator[_Part]:
    """The operations that multiply shares, or parts of them, by values."""
    for box, tensor, reader in _readers(rewriter, shares, Box(tuple(dense_dimensions(shares.shape)))):
        call = reader.call
        if reader.code is OperationCode.BATCH_MATMUL:
            plain = call.known("adj_x") is False and call.known("adj_y") is False and call.input1.view is None
            if plain and call.input0.index == tensor.index:
                yield _Part(box, reader, call.input1)
        elif reader.code is OperationCode.MUL and tensor.shape[-1] == 1 and has_no_activation(call):
            other = call.input1 if call.input0.index == tensor.index else call.input0
            if other.rank == tensor.rank and other.index != tensor.index:
                yield _Part(box, reader, other)


def _readers(rewriter: Rewriter, tensor: Tensor, box: Box) -> Iterator[tuple[Box, Tensor, Node]]:
    """The nodes that read a box of a tensor, each with its own box, behind arrangements.

    There are none if the model's user reads it.
    """
    if rewriter.is_output(tensor):
        return
    for user in rewriter.users(tensor):
        for output in user.outputs if user.boxes is not None else ():
            own = box_of(user, output).through(box)
            if own is not None:
                yield from _readers(rewriter, output, own)
        if user.boxes is None:
            yield box, tensor, user


def _sum_of(rewriter: Rewriter, parts: list[_Part]) -> Node | None:
    """The operation that adds the results of both parts, if it alone reads them."""
    readers = {rewriter.only_user(part.node.outputs[0]) for part in parts}
    if len(readers) != 1 or (node := readers.pop()) is None:
        return None
    is_sum = node.code is OperationCode.ADD and has_no_activation(node.call) and not node.epilogue
    return node if is_sum and all(part.node.outputs[0].shape == node.outputs[0].shape for part in parts) else None
