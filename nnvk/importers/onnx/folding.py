"""Nodes whose inputs are all constants, above all arithmetic on shapes.

The onnx package's reference moves elements and computes whole numbers. All else onnxruntime computes, where it is
there: the reference is wrong for some operators, and sums FLOAT16 in FLOAT16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from nnvk.importers.budget import Budget
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import SMALL
from nnvk.importers.onnx import open_folding
from nnvk.importers.onnx.folding_process import computed
from nnvk.importers.onnx.kinds import ELEMENTWISE, PAIRS
from nnvk.importers.onnx.node import Node, domain_of
from nnvk.importers.onnx.tensors import Tensor, constant
from nnvk.types.constant import Constant, converted, elements, transposed

_BROADCASTING = PAIRS | {"BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Expand"}
_KEEPING = ELEMENTWISE | {
    *("ArgMax", "ArgMin", "BatchNormalization", "BitwiseNot", "Compress", "Concat", "Constant", "CumSum"),
    *("DepthToSpace", "EyeLike", "Flatten", "LogSoftmax", "NonZero", "ReduceL1", "ReduceL2", "ReduceLogSum"),
    *("ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
    *("Reshape", "ReverseSequence", "ScatterElements", "ScatterND", "Shape", "Shrink", "Size", "Slice", "Softmax"),
    *("SpaceToDepth", "Split", "Squeeze", "ThresholdedRelu", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze"),
}
"""Operators that give no more elements than their largest input has, but for Concat."""
_MULTIPLYING = frozenset({"Einsum", "Gather", "GatherElements", "GatherND", "Gemm", "MatMul"})
_IR_VERSION = 8
"""The version of the format of graphs for onnxruntime, which each one reads that knows the operators."""
_SOURCES = frozenset({"Constant"})
"""Operators without inputs."""
_LARGEST = 1 << 24
"""The most elements of a node's outputs that are computed here."""
_LARGEST_ELEMENT = 8
"""The bytes of an element of a node without inputs."""
_REPEATING = frozenset({"ConstantOfShape", "Expand"})
_VIEWS = _REPEATING | {"Flatten", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose outputs are views, which take no memory."""
_NODE_WORK = 1 << 13
"""The cost of a node in the reference, in elements."""
_MOST_KEPT, _LARGEST_KEPT = 256, 1 << 10
"""The most nodes for which the reference is kept, and the bytes of the largest: they differ in more than names."""
_PASSES_OF_WINDOWS = 4
"""The number of float64 arrays in the formula of a window."""
_PASSES: Mapping[str, int] = {
    **dict.fromkeys(("GatherElements", "GatherND", "ScatterElements", "ScatterND"), 64),  # loops in Python
    **dict.fromkeys(("TopK", "Unique"), 16),
}
"""The cost of an element by operator, relative to most operators."""
_PICKING = frozenset({"Gather", "GatherElements", "GatherND", "Shape", "Size", "Slice"})
"""The operators that do not read all of their first input."""
_EINSUM_MULTIPLICATIONS = 8
"""The multiplications of an Einsum that cost as much as an element."""
_DAMAGED = (ValueError, TypeError, IndexError, KeyError, RuntimeError, ArithmeticError, AttributeError)
"""Exceptions of the reference for inputs that an operator does not take."""


def _of_shape(arrays: Sequence[np.ndarray]) -> int:
    return math.prod(int(size) for size in arrays[0].reshape(-1))


def _of_range(arrays: Sequence[np.ndarray]) -> int:
    start, limit, delta = (array.reshape(()).item() for array in arrays)
    return math.ceil((limit - start) / delta) if delta else 0


def _of_window(arrays: Sequence[np.ndarray]) -> int:
    return _PASSES_OF_WINDOWS * int(arrays[0].reshape(()))


_SIZES: Mapping[str, Callable[[Sequence[np.ndarray]], int]] = {
    "BlackmanWindow": _of_window,
    "ConstantOfShape": _of_shape,
    "Expand": lambda arrays: arrays[0].size * _of_shape(arrays[1:]),
    "HammingWindow": _of_window,
    "HannWindow": _of_window,
    "MelWeightMatrix": lambda arrays: int(arrays[0].reshape(())) * (int(arrays[1].reshape(())) // 2 + 1),
    "OneHot": lambda arrays: arrays[0].size * int(arrays[1].reshape(-1)[0]),
    "Pad": lambda arrays: math.prod(size + int(np.abs(arrays[1]).max(initial=0)) * 2 for size in arrays[0].shape),
    "Range": _of_range,
    "Tile": lambda arrays: arrays[0].size * _of_shape(arrays[1:]),
}


# fmt: off
_MOVING = frozenset((
    "Concat", "Constant", "ConstantOfShape", "Expand", "Flatten", "Gather", "Reshape", "Shape", "Size", "Slice",
    "Split", "Tile", "Transpose", "Trilu",
))
"""Operators by which the reference moves elements of all types rightly."""
_COUNTING = frozenset((
    "Add", "And", "Cast", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mul", "Not",
    "Or", "Range", "Squeeze", "Sub", "Unsqueeze", "Where",
))
"""Operators that the reference computes rightly for whole numbers."""
# fmt: on
_AXES_ARE_INPUTS = 13
"""The version from which on Squeeze and Unsqueeze have axes as an input: before, the reference takes others."""


_INDEXED = frozenset({"Gather", "GatherElements", "ScatterElements"})
"""Operators whose second input has indices along an axis of the first."""


def _check(node: Node, arrays: Sequence[np.ndarray]) -> None:
    """`Unmapped` where an operator does not take its inputs, and the reference would not say so."""
    if node.op_type in _INDEXED and len(arrays) > 1:
        source, indices = arrays[:2]
        axis = node.integer("axis", 0)
        size = source.shape[axis] if -source.ndim <= axis < source.ndim else 0
        if indices.size and not -size <= int(indices.min()) <= int(indices.max()) < size:
            raise Unmapped(
                f"its indices must lie between {-size} and {size - 1}, got {indices.min()} to {indices.max()}"
            )
    if node.op_type == "Split" and node.integer("num_outputs", 0) > len(node.outputs):
        raise Unmapped(f"it has {len(node.outputs)} outputs, num_outputs says {node.integer('num_outputs', 0)}")


def _is_refused(node: Node, arrays: Sequence[np.ndarray]) -> bool:
    """Whether the reference does not compute a node, although the operator allows its inputs."""
    if node.op_type == "OneHot":
        return arrays[1].ndim > 0
    return node.op_type == "Pad" and bool((arrays[1] < 0).any())


def is_foldable(node: Node) -> bool:
    """Whether a node could be folded if its inputs were constants."""
    return not domain_of(node.proto.domain) and any(
        node.op_type in table for table in (_KEEPING, _BROADCASTING, _MULTIPLYING, _SIZES)
    )


def _most(op_type: str, arrays: Sequence[np.ndarray]) -> int | None:
    """The most elements of the outputs, or None for operators that are not computed here."""
    if op_type in _SIZES:
        return _SIZES[op_type](arrays)
    if op_type in _BROADCASTING:
        return math.prod(np.broadcast_shapes(*(array.shape for array in arrays)))
    if op_type in _KEEPING:
        sizes = [array.size for array in arrays]
        return sum(sizes) if op_type == "Concat" else max(sizes, default=0)
    if op_type in _MULTIPLYING:
        return math.prod(array.size for array in arrays)
    return None


def _gives_texts(node: Node) -> bool:
    """Whether a node makes texts of numbers, which are no tensors here and take hundreds of bytes each."""
    return node.op_type == "Cast" and node.integer("to", 0) == TensorProto.STRING


def _deferred(node: Node, tensor: Tensor, source: Constant) -> Tensor | None:
    """A large constant in another order or in FLOAT32, which is made when somebody looks at it; None: neither."""
    if node.op_type == "Transpose":
        order = node.integers("perm") or list(range(tensor.rank))[::-1]
        if sorted(order) != list(range(tensor.rank)):
            return None
        levels = tensor.levels
        return constant(transposed(source, order), None if levels is None else levels.transposed(order))
    if node.op_type == "Cast" and node.integer("to", 0) == TensorProto.FLOAT and tensor.narrow is not None:
        return constant(source) if tensor.dtype == np.float32 else None
    if node.op_type == "Cast" and node.integer("to", 0) == TensorProto.FLOAT and tensor.dtype == np.float16:
        return constant(converted(source, tensor.shape, np.dtype(np.float32)))
    return None


def folded(node: Node, inputs: Sequence[Tensor | None], budget: Budget) -> list[Tensor] | None:
    """The outputs of a node whose inputs are constants; None where it has to be mapped."""
    given = [tensor for tensor in inputs if tensor is not None]
    if domain_of(node.proto.domain) or not all(tensor.is_constant for tensor in given):
        return None
    if not given and node.op_type not in _SOURCES:
        return None
    if any(map(open_folding.depends, given)):
        done = open_folding.folded(node, inputs, partial(_evaluated, node))
        if done is not None:
            budget.charge(sum(one.size * one.dtype.itemsize for one in done))
        if done is not None or node.op_type in open_folding.MAPPED:
            return done
        inputs = [one if one is None or not open_folding.depends(one) else open_folding.fixed(one) for one in inputs]
        given = [tensor for tensor in inputs if tensor is not None]
    if given and given[0].constant is not None and given[0].constant.nbytes >= SMALL:
        deferred = _deferred(node, given[0], given[0].constant)
        if deferred is not None:
            budget.charge(deferred.size * deferred.dtype.itemsize)
            return [deferred]
    arrays = [tensor.array for tensor in given]
    try:
        _check(node, arrays)
        most = _most(node.op_type, arrays)
    except _DAMAGED as error:
        raise Unmapped(f"its inputs do not fit together ({error})") from error
    if most is None or most > _LARGEST or _gives_texts(node) or _is_refused(node, arrays):
        return None
    if node.op_type not in _VIEWS:
        largest = max(arrays, key=lambda array: array.size, default=None)
        budget.check(max(most, 0) * (_LARGEST_ELEMENT if largest is None else largest.itemsize))
    passes = _PASSES.get(node.op_type, 1)
    einsum = most // _EINSUM_MULTIPLICATIONS if node.op_type == "Einsum" else 0
    walked = arrays[1:] if node.op_type in _PICKING else arrays
    budget.work(_NODE_WORK + einsum + passes * sum(array.size for array in walked))
    found = iter(_results(node, inputs))
    outputs = []
    for name in node.outputs:
        array = np.asarray(next(found)) if name else np.zeros(0)
        if array.dtype == object:
            return None
        budget.hold(array)
        budget.work(passes * array.size)
        outputs.append(constant(array))
    return outputs


def _results(node: Node, inputs: Sequence[Tensor | None]) -> Sequence[np.ndarray]:
    """The outputs that have names."""
    given = [tensor for tensor in inputs if tensor is not None]
    attributes = node.attributes()
    is_value = node.op_type == "Constant" and [*attributes] == ["value"]
    if (is_value or node.op_type in _REPEATING) and len(node.outputs) == 1:
        return [_stored(node, [tensor.stored for tensor in given])]
    proto = NodeProto(op_type=node.op_type)
    for name, attribute in attributes.items():
        proto.attribute.add().CopyFrom(attribute)
        proto.attribute[-1].name = name
    if node.op_type == "ReduceMean" and not given[0].array.size:
        proto.op_type = "ReduceL1"  # that is 0, as onnxruntime's mean of nothing; ONNX leaves it undefined
    # Nodes that differ in nothing but names are one for the reference.
    proto.input.extend("" if tensor is None else f"in {place}" for place, tensor in enumerate(inputs))
    proto.output.extend(name and f"out {place}" for place, name in enumerate(node.outputs))
    return _computed(node, proto, inputs)


def _evaluated(node: Node, *constants: Constant | None) -> np.ndarray:
    """The first output, of all inputs. `Unmapped`: they do not fit together."""
    arrays = [None if one is None else elements(one) for one in constants]
    _check(node, [one for one in arrays if one is not None])
    inputs = [None if one is None else Tensor(one.dtype, one.shape, None, one) for one in arrays]
    return np.asarray(_results(node, inputs)[0])


def _stored(node: Node, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The output that the file has, or of an operator that repeats elements. `Unmapped`: the shape does not fit."""
    value = node.attributes().get("value")
    try:
        source = np.zeros((), np.float32) if value is None else numpy_helper.to_array(value.t)
        if node.op_type == "Constant":
            return source
        source, shape = arrays if node.op_type == "Expand" else (source.reshape(()), arrays[0])
        return np.broadcast_to(source, np.broadcast_shapes(source.shape, tuple(shape.reshape(-1).tolist())))
    except _DAMAGED as error:
        raise Unmapped(f"its inputs do not fit together ({error})") from error


def _is_plain(node: Node, inputs: Sequence[Tensor | None]) -> bool:
    """Whether the reference is known to be right."""
    if node.op_type in _MOVING or node.op_type == "Einsum":  # on some of which onnxruntime never ends
        return True
    is_whole = all(one is None or one.dtype.kind in "iub" for one in inputs)
    return (
        node.op_type in _COUNTING
        and is_whole
        and (node.op_type not in ("Squeeze", "Unsqueeze") or node.version >= _AXES_ARE_INPUTS)
    )


def _computed(node: Node, proto: NodeProto, inputs: Sequence[Tensor | None]) -> Sequence[np.ndarray]:
    """The outputs that have names. `Unmapped`: the inputs do not fit together."""
    graph = GraphProto(node=[proto], name="constant")
    graph.output.extend(ValueInfoProto(name=name) for name in proto.output if name)
    whole = ModelProto(ir_version=_IR_VERSION, opset_import=[helper.make_opsetid("", node.version)], graph=graph)
    feeds = {name: tensor.stored for name, tensor in zip(proto.input, inputs, strict=True) if tensor is not None}
    if not _is_plain(node, inputs):
        whole.graph.initializer.extend(
            numpy_helper.from_array(np.asarray(array, order="C"), name) for name, array in feeds.items()
        )
        results = computed(whole)
        if results is not None:
            return results
        del whole.graph.initializer[:]
    whole.graph.input.extend(ValueInfoProto(name=name) for name in feeds)
    data = whole.SerializeToString()
    reference = _kept_reference if len(data) <= _LARGEST_KEPT else ReferenceEvaluator
    try:
        with np.errstate(all="ignore"):
            return list(reference(data).run(None, feeds))
    except _DAMAGED as error:
        raise Unmapped(f"its inputs do not fit together ({error})") from error


_kept_reference = lru_cache(_MOST_KEPT)(ReferenceEvaluator)
