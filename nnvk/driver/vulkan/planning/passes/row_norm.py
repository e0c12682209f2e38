"""Layer normalisation, which models compose of ten operations, becomes one (ROW_NORM).

(x - MEAN(x)) * RSQRT(MEAN((x - MEAN(x)) ** 2) + epsilon) * weights + bias, where any of the last two may be missing; or
divided by a SQRT; or x * scale + (bias - MEAN(x) * scale); or without subtraction of the mean. Sums are added up in
another order than MEAN has, so that results may differ by a few units in the last place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.planning.passes.context import Context, MakeTensor
from nnvk.driver.vulkan.planning.passes.patterns import are_last, has_no_activation
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.reduce import reduced_axes
from nnvk.ops.strided import Box
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import KnownCode
from nnvk.types.operand import Shape

_SHORTEST, _LONGEST = 16, 1 << 14
"""Elements of a row that is normalised so."""
_DEPTH = 4
"""How many elementwise operations may be between a transposition and the normalisation of its result."""


def fuse_row_norms(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Normalise rows by one operation."""
    instead: dict[Node, list[Node]] = {}
    positions = {node: position for position, node in enumerate(graph.nodes)}
    for root in graph.nodes:
        found = _Norm.around(graph, root) if root.code in (Op.RSQRT, Op.SQRT) else None
        nodes = None if found is None else found.nodes(context.tensor)
        if found is None or nodes is None or any(context.refuse(node.call) for node in nodes):
            continue
        if instead.keys().isdisjoint(found.inside):
            last = max(found.inside, key=positions.__getitem__)
            instead.update((node, nodes if node is last else []) for node in found.inside)
    if not instead:
        return graph, 0
    nodes_after = (each for node in graph.nodes for each in instead.get(node, [node]))
    return graph.with_nodes(nodes_after), sum(map(bool, instead.values()))


class _Mismatch(Exception):
    """Operations do something else than to normalise rows."""


@dataclass(slots=True)
class _Norm:
    """The operations of a normalisation, found from the root in its middle to both sides."""

    graph: Graph
    is_divided: bool
    """Whether rows are divided by the root, which is multiplied by them otherwise."""
    inside: set[Node]
    """The operations that it replaces."""
    between: list[Tensor]
    """Tensors that are not there any more, so that nobody else may read them: those not known to have one reader."""
    source: Tensor | None = None
    target: Tensor | None = None
    mean: Tensor | None = None
    axes: tuple[int, ...] = ()
    """The axes of the source that a row consists of."""
    epsilon: float = 0.0
    weights: Tensor | None = None
    bias: Tensor | None = None

    @classmethod
    def around(cls, graph: Graph, root: Node) -> _Norm | None:
        """The normalisation around a root; None if there is none."""
        norm = cls(graph, root.code is Op.SQRT, {root}, [])
        try:
            norm._find(root.call)
        except _Mismatch:
            return None
        return norm

    def _find(self, root: Call) -> None:
        added = self._given(root.input, Op.ADD)
        variance, self.epsilon = _with_number(added)
        squares, self.axes = self._mean(variance)
        centred = self._square(squares)
        self.source = centred
        self._centre(centred)
        if self.source is not centred:
            self.between.append(centred)
        self._apply(centred, root.output)
        assert self.target is not None
        _require(self.target.shape == self.source.shape and self.source.code is OperandCode.TENSOR_FLOAT32)
        for tensor in self.between:
            users = self.graph.users.get(tensor.index, ())
            _require(not self.graph.is_output(tensor) and self.inside.issuperset(users))

    # --- before the root -------------------------------------------------------------------------------------

    def _given(self, tensor: Tensor, *codes: KnownCode) -> Call:
        """The call, of one of these operations, that gives a tensor."""
        node = self.graph.producer(tensor)
        if node is None or node.code not in codes or not has_no_activation(node.call):
            raise _Mismatch
        self.inside.add(node)
        self.between.append(tensor)
        return node.call

    def _mean(self, tensor: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """The tensor whose rows have these means, and the axes of a row."""
        call = self._given(tensor, Op.MEAN)
        _require(call.axes.is_constant and call.known("keep_dims") is not None)
        axes = reduced_axes(call)
        length = math.prod(call.input.shape[axis] for axis in axes)
        _require(_SHORTEST <= length <= _LONGEST)
        return call.input, axes

    def _square(self, tensor: Tensor) -> Tensor:
        """The tensor of which this is the square."""
        call = self._given(tensor, Op.MUL, Op.POW)
        if call.code is Op.POW:
            _require(call.exponent.is_constant and call.exponent.size == 1 and call.exponent.data.item() == 2)
            base: Tensor = call.base
            return base
        _require(call.input0.index == call.input1.index)
        factor: Tensor = call.input0
        return factor

    def _centre(self, tensor: Tensor) -> None:
        """Go on from a tensor to the one from whose rows the means are subtracted, if there is one."""
        node = self.graph.producer(tensor)
        if node is None or node.code is not Op.SUB or not has_no_activation(node.call):
            return
        before = set(self.inside), list(self.between)
        source, mean = node.call.input0, node.call.input1
        try:
            _require(self._is_of_rows(mean, source.shape))
            of, axes = self._mean(mean)
            _require(of.index == source.index and axes == self.axes)
        except _Mismatch:
            self.inside, self.between = before
            return
        self.inside.add(node)
        self.mean, self.source = mean, source

    # --- behind it -------------------------------------------------------------------------------------------

    def _apply(self, centred: Tensor, root: Tensor) -> None:
        """Rows are multiplied by the inverse root, or divided by the root; weights and bias follow."""
        call = self._reader(root, Op.DIV if self.is_divided else Op.MUL)
        self.target = call.output
        other = _other(call, root)
        _require(self._is_of_rows(root, call.output.shape))
        if other.index == centred.index:
            _require(not self.is_divided or call.input1.index == root.index)
            self.weights = self._next(Op.MUL)
            self.bias = self._next(Op.ADD)
        else:
            _require(not self.is_divided and self._is_row(other, call.output.shape))
            self._apply_scale(call.output, other)

    def _apply_scale(self, scale: Tensor, weights: Tensor) -> None:
        """The inverse times the weights is the scale: x times it, plus the bias less the mean times it."""
        source, mean = self.source, self.mean
        assert source is not None
        readers = self.graph.users.get(scale.index, ())
        products = {_other(node.call, scale).index: node for node in readers if node.code is Op.MUL}
        if mean is None or len(readers) != 2 or set(products) != {source.index, mean.index}:
            raise _Mismatch
        _require(all(has_no_activation(node.call) for node in readers))
        self.inside.update(readers)
        scaled, moved = products[source.index].call.output, products[mean.index].call.output
        less = self._reader(moved, Op.SUB)
        _require(less.input1.index == moved.index and self._is_row(less.input0, less.output.shape))
        total = self._reader(scaled, Op.ADD)
        _require(_other(total, scaled).index == less.output.index)
        self.between.append(scale)
        self.target, self.weights, self.bias = total.output, weights, less.input0

    def _reader(self, tensor: Tensor, code: KnownCode) -> Call:
        """The call of the one operation that reads a tensor, which is of this code."""
        node = self.graph.only_user(tensor)
        if node is None or node.code is not code or not has_no_activation(node.call):
            raise _Mismatch
        self.inside.add(node)
        return node.call

    def _next(self, code: KnownCode) -> Tensor | None:
        """The row that all rows so far are combined with next; None if there is none."""
        target = self.target
        assert target is not None
        node = self.graph.only_user(target)
        if (
            node is None
            or node.code is not code
            or not has_no_activation(node.call)
            or node.call.output.shape != target.shape
        ):
            return None
        other = _other(node.call, target)
        if other.index == target.index or not self._is_row(other, target.shape):
            return None
        self.inside.add(node)
        self.target = node.call.output
        return other

    # --- shapes ----------------------------------------------------------------------------------------------

    def _is_of_rows(self, tensor: Tensor, shape: Shape) -> bool:
        """Whether a tensor has one element for each row of a tensor of this shape."""
        return _full(tensor.shape, shape) == [1 if axis in self.axes else size for axis, size in enumerate(shape)]

    def _is_row(self, tensor: Tensor, shape: Shape) -> bool:
        """Whether a tensor has one element for each of a row of a tensor of this shape."""
        return _full(tensor.shape, shape) == [size if axis in self.axes else 1 for axis, size in enumerate(shape)]

    # --- the rewrite -----------------------------------------------------------------------------------------

    def nodes(self, make: MakeTensor) -> list[Node] | None:
        """The nodes that do it all; None if the elements of a row are apart, and nothing else puts them together."""
        source, target = self.source, self.target
        assert source is not None and target is not None
        if are_last(self.axes, source.shape):
            return [self._normalised(source, target)]
        kept = [axis for axis in range(source.rank) if axis not in self.axes]
        order = (*kept, *self.axes)
        if len(self.axes) != 1 or not _is_transposed(self.graph, source, self.axes[0], _DEPTH):
            return None

        def like(tensor: Tensor) -> Tensor:
            dimensions = tuple(tensor.shape[axis] for axis in order)
            return make(tensor.name, replace(tensor.type, dimensions=dimensions))

        before, after = like(source), like(target)
        back = tuple(order.index(axis) for axis in range(source.rank))
        return [
            self._node(call_of(InternalCode.ARRANGE, before, input=source, box=Box.transposed(source.shape, order))),
            self._normalised(before, after),
            self._node(call_of(InternalCode.ARRANGE, target, input=after, box=Box.transposed(after.shape, back))),
        ]

    def _normalised(self, source: Tensor, target: Tensor) -> Node:
        assert self.source is not None
        call = call_of(
            InternalCode.ROW_NORM,
            target,
            input=source,
            weights=self.weights,
            bias=self.bias,
            length=math.prod(self.source.shape[axis] for axis in self.axes),
            epsilon=self.epsilon,
            is_centred=self.mean is not None,
            is_divided=self.is_divided,
        )
        return self._node(call)

    def _node(self, call: Call) -> Node:
        first = min(self.inside, key=lambda node: node.operation)
        return first.with_call(call, self.inside)


def _require(is_so: bool) -> None:
    if not is_so:
        raise _Mismatch


def _with_number(call: Call) -> tuple[Tensor, float]:
    """The operand that is no number, and the one that is."""
    for own, other in ((call.input0, call.input1), (call.input1, call.input0)):
        if other.is_constant and other.size == 1:
            return own, float(other.data.item())
    raise _Mismatch


def _other(call: Call, tensor: Tensor) -> Tensor:
    """The operand beside a tensor."""
    other: Tensor = call.input1 if call.input0.index == tensor.index else call.input0
    return other


def _full(shape: Shape, of: Shape) -> list[int]:
    """A shape with as many dimensions as another one."""
    return [*[1] * (len(of) - len(shape)), *shape]


def _is_transposed(graph: Graph, tensor: Tensor, axis: int, depth: int) -> bool:
    """Whether a transposition has brought the last axis here, perhaps ahead of elementwise operations."""
    node = graph.producer(tensor)
    if node is None:
        return False
    if node.boxes is not None and len(node.boxes) == 1:
        dimensions = node.boxes[0].dimensions
        return len(dimensions) == tensor.rank and dimensions[axis][1] == 1
    if node.traits.elementwise is None or not depth:
        return False
    same = (each for each in node.inputs if each.shape == tensor.shape)
    return any(_is_transposed(graph, each, axis, depth - 1) for each in same)
