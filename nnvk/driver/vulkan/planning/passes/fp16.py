"""16-bit floats in relaxed models, where the device has them (relaxComputationFloat32toFloat16).

16-bit floats begin at GEMMs: their operands and outputs have 16 bits, and so do the outputs of operations that follow
them, as long as numbers stay about as large. The inputs and outputs of the model have 32 bits, and so have those of all
other operations: conversions stand between the two.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.planning.passes.context import Context, MakeTensor
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.traits import Fp16
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.constant import DeferredConstant
from nnvk.types.extension import ExtendedOperationCode

LARGEST = 65504.0
"""The largest 16-bit float."""
_SMALLEST = 2.0**-14
"""The smallest 16-bit float with all digits."""
FLOAT16, FLOAT32 = "16-bit floats between operations", "32-bit floats between operations"
"""The candidates for a relaxed model."""

_WORTH_A_CONVERSION = 1 << 22
"""Multiplications that gain about as much by 16 bits as a GPU takes to begin another command."""
_ROOTS = frozenset({OperationCode.RSQRT, OperationCode.SQRT})
_APPLIED_BY = frozenset({OperationCode.ADD, OperationCode.DIV, OperationCode.MUL, OperationCode.SUB})
"""The operations by which normalisations compute roots of variances, and apply these and means to rows."""


def use_float16(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Compute a relaxed model on 16-bit floats where they pay, by the device's kind or by measurement."""
    if not (context.relaxed and context.profile.has_native_16):
        return graph, 0
    chosen = nodes_in_float16(graph)
    if not chosen:
        return graph, 0
    content = repr(
        [(node.code.name, [(each.index, each.type, each.shape) for each in node.inputs]) for node in graph.nodes]
    )
    tuning_key = f"relaxed model {hashlib.sha256(content.encode()).hexdigest()[:16]}"
    if context.choose(tuning_key, ranked(context.profile), of_all=True) != FLOAT16:
        return graph, 0
    return _Narrowing(graph, context.tensor, chosen).result(), len(chosen)


def ranked(device: DeviceProfile) -> list[str]:
    """The candidates, the faster one first: CPUs convert 16-bit floats, GPUs compute with them."""
    return [FLOAT32, FLOAT16] if device.is_cpu else [FLOAT16, FLOAT32]


# --- which operations ------------------------------------------------------------------------------------------------


def nodes_in_float16(graph: Graph) -> set[Node]:
    """The operations of a relaxed model that are to be computed on 16-bit floats, if that pays.

    No part of a normalisation is among them, though it begins with 16-bit results of others: its squares leave the
    range, and it becomes one dispatch where all of it has the same type. Neither are GEMMs of hybrid models, whose
    inputs are rounded to 8 bits, as their weights are: they read these weights as bytes, and lose nothing.
    """
    given: set[int] = set()
    quantised = {node.outputs[0].index for node in graph.nodes if node.code is ExtendedOperationCode.ROUND_ROWS}
    statistics = _subtracted_means(graph)
    chosen: list[Node] = []
    for node in graph.nodes:
        read = [tensor.index for tensor in node.inputs if not tensor.is_constant]
        if not quantised.isdisjoint(read):
            continue
        normalises = node.code in _APPLIED_BY and not statistics.isdisjoint(read)
        indices = {tensor.index for tensor in node.outputs}
        if node.code in _ROOTS or (normalises and statistics.issuperset(read)):
            statistics |= indices
        if not normalises and statistics.isdisjoint(indices) and _may_be_float16(node) and _is_fp16(node, given):
            given |= indices
            chosen.append(node)
    readers: dict[int, list[Node | None]] = {tensor: [None] for tensor in graph.outputs}
    for node in graph.nodes:
        for tensor in node.inputs:
            readers.setdefault(tensor.index, []).append(node)
    kept = _with_pads(graph, _without_costly(chosen, readers), readers)
    return {node for part in _parts(kept) if _pays(part, readers) for node in part}


def _with_pads(graph: Graph, chosen: Set[Node], readers: Mapping[int, Sequence[Node | None]]) -> list[Node]:
    """These operations in order, with the PADs that only they read: convolutions pad images of 16 bits themselves."""

    def leads(node: Node) -> bool:
        is_pad = node.code in (OperationCode.PAD, OperationCode.PAD_V2) and _may_be_float16(node)
        return is_pad and all(reader in chosen for reader in readers.get(node.outputs[0].index, (None,)))

    return [node for node in graph.nodes if node in chosen or leads(node)]


def _without_costly(chosen: Sequence[Node], readers: Mapping[int, Sequence[Node | None]]) -> Set[Node]:
    """The operations without those that follow GEMMs and only need conversions because they have 16 bits.

    The inputs of such an operation are there with 32 bits anyway, and its result is read with 32 bits. ``readers`` are
    as in `_pays`.
    """
    kept = dict.fromkeys(chosen)
    writers = {tensor.index: node for node in chosen for tensor in node.outputs}

    def is_read(index: int, node: Node, *, narrow: bool) -> bool:
        """Whether others read a tensor with 16 bits, or with 32 bits."""
        return any(reader is not node and (reader in kept) == narrow for reader in readers.get(index, ()))

    def is_costly(node: Node) -> bool:
        given, read = {tensor.index for tensor in node.outputs}, _read_floats(node)
        from_narrow = {index for index in read if writers.get(index) in kept}
        if not all(is_read(index, node, narrow=False) for index in from_narrow):
            return False
        narrowed = sum(not is_read(index, node, narrow=True) for index in read - from_narrow)
        widened = sum(is_read(index, node, narrow=False) for index in given)
        return narrowed + widened > sum(is_read(index, node, narrow=True) for index in given)

    before = len(kept) + 1
    while len(kept) < before:
        before = len(kept)
        for node in list(kept):
            if node.traits.fp16 is Fp16.FOLLOWS and is_costly(node):
                del kept[node]
    return kept.keys()


def _subtracted_means(graph: Graph) -> set[int]:
    """The means of tensors that are subtracted from these."""
    means = {node.outputs[0].index: node.inputs[0].index for node in graph.nodes if node.code is OperationCode.MEAN}
    pairs = ([each.index for each in node.inputs[:2]] for node in graph.nodes if node.code is OperationCode.SUB)
    return {mean for source, mean in pairs if means.get(mean) == source}


def _is_fp16(node: Node, given: Set[int]) -> bool:
    """Whether an operation's trait lets it read 16-bit floats, if the tensors in ``given`` have them.

    One that follows needs no more conversions of its operands to 16 bits than it would need to 32 bits.
    """
    if node.traits.fp16 is not Fp16.FOLLOWS:
        return node.traits.fp16 is Fp16.STARTS
    narrow = [index in given for index in _read_floats(node)]
    return any(narrow) and 2 * sum(narrow) >= len(narrow)


def _read_floats(node: Node) -> set[int]:
    """The tensors of 32-bit floats that an operation reads and that are not constant."""
    return {each.index for each in node.inputs if each.code is OperandCode.TENSOR_FLOAT32 and not each.is_constant}


def _may_be_float16(node: Node) -> bool:
    """Whether an operation is on 32-bit floats, and all of its constants are about as good in 16 bits."""
    floats = [tensor for tensor in node.inputs if tensor.code is OperandCode.TENSOR_FLOAT32]
    if not floats or node.inputs[0] is not floats[0]:
        return False
    if node.code is OperationCode.MUL and len({tensor.index for tensor in floats}) == 1:
        return False  # a square
    if node.code is OperationCode.DIV and not _divides_by_constant(node.call):
        return False
    if node.code is OperationCode.PAD_V2 and abs(node.call.pad_value) > LARGEST:
        return False
    return all(_fits(tensor.data) for tensor in floats if tensor.is_constant)


def _divides_by_constant(call: Call) -> bool:
    """Whether a DIV has a constant divisor, whose inverse is as good in 16 bits: quotients are about as large."""
    divisor = call.input1
    return divisor.is_constant and bool(np.all(divisor.data)) and _fits(1.0 / divisor.data)


def _fits(constant: np.ndarray) -> bool:
    largest = float(np.abs(constant).max(initial=0))
    return largest == 0 or _SMALLEST <= largest <= LARGEST


def _parts(chosen: Sequence[Node]) -> list[list[Node]]:
    """The operations in parts: two are in the same one if a 16-bit tensor of one is read by the other."""
    parent = list(range(len(chosen)))

    def first(position: int) -> int:
        while parent[position] != position:
            parent[position] = position = parent[parent[position]]
        return position

    writers: dict[int, int] = {}
    for position, node in enumerate(chosen):
        for index in _read_floats(node):
            if index in writers:
                parent[first(writers[index])] = first(position)
        writers.update((tensor.index, position) for tensor in node.outputs)
    parts: dict[int, list[Node]] = {}
    for position, node in enumerate(chosen):
        parts.setdefault(first(position), []).append(node)
    return list(parts.values())


def _pays(part: Sequence[Node], readers: Mapping[int, Sequence[Node | None]]) -> bool:
    """Whether GEMMs gain more by 16 bits than the conversions around their part cost.

    A conversion is a command of its own, unless a GEMM or an elementwise operation gives what is converted to 32 bits,
    or elementwise operations read it. ``readers`` are those of each tensor; None stands for the caller of the model.
    """
    within = set(part)

    def is_converted(reader: Node | None) -> bool:
        return reader is None or (reader not in within and reader.traits.elementwise is None)

    written = {tensor.index for node in part for tensor in node.outputs}
    narrowed = {index for node in part for index in _read_floats(node)} - written
    widened = [
        tensor.index
        for node in part
        if node.traits.gemm is None and node.traits.elementwise is None
        for tensor in node.outputs
        if any(map(is_converted, readers.get(tensor.index, ())))
    ]
    gemms = [node for node in part if node.traits.fp16 is Fp16.STARTS]
    conversions = len(narrowed) + len(widened)
    return sum(map(_products, gemms)) >= conversions * _WORTH_A_CONVERSION


def _products(node: Node) -> int:
    """The multiplications of a GEMM."""
    gemm = node.traits.gemm
    assert gemm is not None
    weights: Tensor = getattr(node.call, gemm.weights)
    return node.outputs[0].size * math.prod(weights.shape[gemm.summed])


# --- the rewrite -----------------------------------------------------------------------------------------------------


class _Narrowing:
    """Lets operations read and give 16-bit floats, with conversions between them and the others."""

    def __init__(self, graph: Graph, make: MakeTensor, chosen: Set[Node]) -> None:
        self._graph = graph
        self._make = make
        self._chosen = chosen
        self._narrow: dict[int, Tensor] = {}
        """The 16-bit tensors, by the indices of those of 32 bits."""
        self._wide = {tensor.index for node in graph.nodes if node not in chosen for tensor in node.inputs}
        self._wide.update(graph.outputs)
        """The tensors that are read with 32 bits."""
        self._nodes: list[Node] = []

    def result(self) -> Graph:
        """The graph with 16-bit floats."""
        for node in self._graph.nodes:
            if node in self._chosen:
                self._add(node)
            else:
                self._nodes.append(node)
        return self._graph.with_nodes(self._nodes)

    def _add(self, node: Node) -> None:
        for output in node.outputs:
            if output.code is OperandCode.TENSOR_FLOAT32:
                self._narrow[output.index] = self._like(output)
        call = node.call.with_tensors(lambda tensor: self._narrowed(tensor, node.operation))
        self._nodes.append(node.with_call(call))
        for output in node.outputs:
            if output.index in self._wide and output.index in self._narrow:
                self._convert(self._narrow[output.index], output, node.operation)

    def _narrowed(self, tensor: Tensor, operation: int) -> Tensor:
        """A tensor with 16 bits; the same tensor if it has no 32-bit floats."""
        if tensor.code is not OperandCode.TENSOR_FLOAT32:
            return tensor
        known = self._narrow.get(tensor.index)
        if known is None:
            if tensor.is_constant:
                half = np.dtype(np.float16)
                data = DeferredConstant(tensor.shape, half, lambda: _saturated(tensor), tensor.constant, "saturated")
                known = self._like(tensor, data)
            else:
                known = self._like(tensor)
                self._convert(tensor, known, operation)
            self._narrow[tensor.index] = known
        return known

    def _like(self, tensor: Tensor, data: DeferredConstant | None = None) -> Tensor:
        type_ = replace(tensor.type, code=OperandCode.TENSOR_FLOAT16, dimensions=tensor.shape)
        return self._make(tensor.name, type_, data)

    def _convert(self, source: Tensor, target: Tensor, operation: int) -> None:
        saturate = target.code is OperandCode.TENSOR_FLOAT16
        call = call_of(InternalCode.CONVERT_FLOAT, target, input=source, saturate=saturate)
        self._nodes.append(Node(call, operation))


def _saturated(tensor: Tensor) -> np.ndarray:
    """A constant in 16 bits; numbers beyond the range become its ends."""
    data = tensor.data
    return np.where(np.isfinite(data), np.clip(data, -LARGEST, LARGEST), data).astype(np.float16)
