"""Functions in Python that compute operators of files, above all those that nnvk does not know."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np

from nnvk.base.errors import NnapiError, op_failed
from nnvk.importers.bounds import INT32, of_array, within
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Graph, Value, at_least_1d, edge_shape
from nnvk.ops import functions
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType, Shape

UserFunction = TypeVar("UserFunction", bound=Callable[..., Any])
States = Callable[..., Mapping[str, np.ndarray]]
"""Returns the first arrays of states, by name."""
_LONG = np.dtype(np.uint64)
_UNSIGNED = frozenset({np.dtype(np.uint32), _LONG})
Called = TypeVar("Called")
_BYTES = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, scale=1.0)
_NODES_KEPT = 1024
"""Nodes whose parameters stay decoded."""


def operator(name: str, *, states: States | None = None, real: bool = False) -> Callable[[UserFunction], UserFunction]:
    """Decorates the function that computes an operator of ``.onnx`` and ``.tflite`` files, on the reference device.

    ``name`` is the operator's, with its domain in ``.onnx`` files where that is not ONNX's own: ``com.example.Scale``.
    The function replaces nnvk's own mapping of the operator, if there is one, and a function that was given before.

    The function gets the inputs as arrays that it must not change, in the file's types and shapes, and None for one
    that is left out. It gets the attributes of an ``.onnx`` node as keyword arguments, and the options of a custom
    operator of a ``.tflite`` file as the keyword argument ``custom_options``, bytes, unless there are none. It returns
    an array, or a tuple of one for each output. Their types and shapes may depend on those of the inputs, on the
    elements of constants, and on attributes only: each import calls the function on arrays of zeros to learn them.
    `nnvk.importers.errors.Unmapped` that it raises then refuses the operator in its own words.

    ``states`` is for operators of ``.tflite`` files that keep arrays from one execution to the next: a function of the
    same inputs and options that returns what they are at first, by name. The operator's function gets these arrays
    behind the inputs, and returns the new ones behind the outputs. With ``real`` quantised tensors of ``.tflite`` files
    are real numbers, float32, and not levels. TypeError: ``name`` is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f"expected the name of an operator, such as @operator('com.example.Scale'), got {name!r}")

    def register(function: UserFunction) -> UserFunction:
        functions.register(name, partial(_run, function))
        _known[name] = _Function(function, states, real)
        return function

    return register


def forget(name: str) -> None:
    """Drop the function of an operator. Models that have the operator can't be computed any more."""
    _known.pop(name, None)
    functions.unregister(name)


@dataclass(frozen=True, slots=True)
class _Function:
    """The function of an operator."""

    call: Callable[..., Any]
    states: States | None
    real: bool


_known: dict[str, _Function] = {}


def is_function(name: str) -> bool:
    """Whether a function computes an operator."""
    return name in _known


def function_names() -> frozenset[str]:
    """The operators that functions compute."""
    return frozenset(_known)


def has_states(name: str) -> bool:
    """Whether the function of an operator keeps arrays from one execution to the next."""
    return _known[name].states is not None


def takes_real(name: str) -> bool:
    """Whether the function of an operator takes quantised tensors as real numbers."""
    return _known[name].real


@dataclass(frozen=True, slots=True)
class Given:
    """An input of an operator."""

    value: Value
    dtype: np.dtype
    shape: Shape
    """The type and shape of the file's tensor, which the function gets."""

    def sample(self, has_bits: bool) -> np.ndarray:
        """The elements of a constant, zeros otherwise. ``has_bits``: see `Node`."""
        known = self.value.known_array
        if known is None:
            return _read_only(np.zeros(self.shape, self.dtype))
        return _given(known, self.dtype, self.shape, has_bits)


@dataclass(frozen=True, slots=True)
class Result:
    """An output of an operator, as the function gives it."""

    value: Value
    dtype: np.dtype
    shape: Shape


@dataclass(frozen=True, slots=True)
class Node:
    """An operator in a file that a function computes."""

    name: str
    """The operator's name, which its function has."""
    where: str
    """The text that names it in errors."""
    inputs: Sequence[Given | None]
    attributes: Mapping[str, Any]
    outputs: int
    """The number of outputs."""
    has_bits: bool = False
    """Whether operands of UINT32 and UINT64 have the bits of their numbers; those of UINT64 are two elements each."""


def first_states(graph: Graph, node: Node) -> Mapping[str, np.ndarray]:
    """The states of a node before the first execution, by name. Errors as `add`."""
    states = _known[node.name].states
    return {} if states is None else _on_zeros(graph, node, states)


def add(graph: Graph, node: Node, type_of: Callable[[int, np.dtype], OperandType]) -> list[Result]:
    """Add the operation of a node to a graph, and return its outputs.

    ``type_of`` gives the operand type of an output from its position and NumPy type, without dimensions. `Unmapped`:
    the function fails on arrays of zeros, or gives outputs that NNAPI has no tensors for. `OverBudget`: the inputs are
    too large to compute anything of at import.
    """
    samples = _several(_on_zeros(graph, node, _known[node.name].call))
    if len(samples) != node.outputs:
        what = "outputs and states" if has_states(node.name) else "outputs"
        raise Unmapped(f"its function must give {node.outputs} {what}, got {len(samples)}")
    types, shapes = [], []
    for position, sample in enumerate(samples):
        if not sample.size:
            raise Unmapped(f"its function gives output {position} of shape {list(sample.shape)}, without elements")
        shapes.append(_carried_shape(sample.dtype, sample.shape, node.has_bits))
        types.append(type_of(position, sample.dtype).with_dimensions(edge_shape(shapes[-1])))
    text = json.dumps(
        {
            "where": node.where,
            "has_bits": node.has_bits,
            "inputs": [None if one is None else [one.dtype.name, one.shape] for one in node.inputs],
            "outputs": [
                [sample.dtype.name, sample.shape, type_.dtype.name]
                for sample, type_ in zip(samples, types, strict=True)
            ],
            "attributes": {name: _encoded(value) for name, value in node.attributes.items()},
        }
    )
    data = np.frombuffer(text.encode(), np.uint8)
    parameters = graph.constant(_BYTES.with_dimensions((data.size,)), lambda: data)
    inputs = [parameters, *(graph.edge(one.value) for one in node.inputs if one is not None)]
    values = graph.call(functions.code_of(node.name), inputs, types)
    return [
        Result(graph.reshape(value, shape), sample.dtype, sample.shape)
        for value, sample, shape in zip(values, samples, shapes, strict=True)
    ]


def _on_zeros(graph: Graph, node: Node, function: Callable[..., Called]) -> Called:
    """The result of a function for constants and zeros."""
    graph.budget.work(sum(one.value.size for one in node.inputs if one is not None))
    try:
        return function(*(None if one is None else one.sample(node.has_bits) for one in node.inputs), **node.attributes)
    except Unmapped:
        raise
    except Exception as error:
        raise Unmapped(f"its function fails on arrays of zeros ({type(error).__name__}: {error})") from error


def _carried_shape(dtype: np.dtype, shape: Shape, has_bits: bool) -> Shape:
    """The shape of the operand of an output, whatever its rank is."""
    return (*at_least_1d(shape), 2) if has_bits and dtype == _LONG else at_least_1d(shape)


@dataclass(frozen=True, slots=True)
class _Parameters:
    """The parameters of an operation, decoded."""

    where: str
    has_bits: bool
    inputs: Sequence[tuple[np.dtype, Shape] | None]
    outputs: Sequence[tuple[np.dtype, Shape, np.dtype]]
    """The types and shapes of the file's tensors, and the types of the operands."""
    attributes: Mapping[str, Any]


@lru_cache(_NODES_KEPT)
def _decoded(data: bytes) -> _Parameters:
    found = json.loads(data)
    return _Parameters(
        found["where"],
        found["has_bits"],
        [None if one is None else (np.dtype(one[0]), tuple(one[1])) for one in found["inputs"]],
        [(np.dtype(one[0]), tuple(one[1]), np.dtype(one[2])) for one in found["outputs"]],
        {name: _attribute(value) for name, value in found["attributes"].items()},
    )


def _encoded(value: Any) -> Any:
    """An attribute in the terms of JSON."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray):
        data = base64.b64encode(value.tobytes()).decode()
        return {"array": data, "dtype": value.dtype.name, "shape": value.shape}
    return value


def _attribute(value: Any) -> Any:
    """The reverse of `_encoded`."""
    if not isinstance(value, dict):
        return value
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    return np.frombuffer(base64.b64decode(value["array"]), value["dtype"]).reshape(value["shape"])


def _run(function: Callable[..., Any], data: np.ndarray, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of an operation in the types of their operands. OP_FAILED: the function fails, or changes shapes."""
    parameters = _decoded(data.tobytes())
    given = iter(inputs)
    arrays = [None if one is None else _given(next(given), *one, parameters.has_bits) for one in parameters.inputs]
    try:
        outputs = _several(function(*arrays, **parameters.attributes))
    except NnapiError:
        raise
    except Exception as error:
        raise op_failed(f"{parameters.where}: its function fails ({type(error).__name__}: {error})") from error
    if len(outputs) != len(parameters.outputs):
        raise op_failed(f"{parameters.where}: {len(parameters.outputs)} outputs are expected, got {len(outputs)}")
    results = []
    for position, (array, (dtype, shape, carrier)) in enumerate(zip(outputs, parameters.outputs, strict=True)):
        if (array.dtype, array.shape) != (dtype, shape):
            raise op_failed(
                f"{parameters.where}: output {position} must be {dtype} {list(shape)}, as for arrays of zeros, got "
                f"{array.dtype} {list(array.shape)}"
            )
        if parameters.has_bits and dtype in _UNSIGNED:
            array = np.ascontiguousarray(array).reshape(-1).view(carrier)
        elif carrier == np.int32 and not within(of_array(array), INT32):
            raise op_failed(f"{parameters.where}: output {position} must fit into 32 bits, got {of_array(array)}")
        results.append(
            np.asarray(array, carrier).reshape(edge_shape(_carried_shape(dtype, shape, parameters.has_bits)))
        )
    return results


def _several(result: Any) -> list[np.ndarray]:
    """The outputs that a function returned."""
    return [np.asarray(one) for one in (result if isinstance(result, tuple | list) else [result])]


def _given(array: np.ndarray, dtype: np.dtype, shape: Shape, has_bits: bool) -> np.ndarray:
    """The elements of an operand as the function gets them."""
    numbers = np.ascontiguousarray(array).view(dtype) if has_bits and dtype in _UNSIGNED else array
    return _read_only(np.asarray(numbers.reshape(shape), dtype))


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view that the function can't write through: other operations may read the elements, too."""
    view = array.view()
    view.flags.writeable = False
    return view
