"""A subgraph that was imported, and the edge of its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnvk.api import Model
from nnvk.importers.emitter import same_quantisation
from nnvk.importers.graph_builder import Source, Value, at_least_1d, edge_shape
from nnvk.importers.ports import COMPLEX, Port, State
from nnvk.importers.tflite.operands import UNSIGNED, operand_type
from nnvk.importers.tflite.schema import Tensor
from nnvk.types.operand import QUANTISED_CODES


@dataclass(slots=True, eq=False)
class Finished:
    """A subgraph that was imported."""

    model: Model
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[State, ...]
    has_variables: bool
    """Whether operators read or assign resource variables."""
    sources: tuple[Source | None, ...]
    tensors: Mapping[int | str, int]
    """As in `ImportedModel`."""


def port(tensor: Tensor, value: Value, in_words: bool = False) -> Port:
    """The edge of a tensor, of the file's shape unless the file leaves that open."""
    in_words = in_words or tensor.type == "UINT64"
    own = value.shape[:-1] if tensor.type == COMPLEX or in_words else value.shape
    known = at_least_1d(tensor.shape) == own and (tensor.is_static or bool(tensor.shape))
    shape = tensor.shape if known else tuple(size or -1 for size in own)
    type_ = value.type.with_dimensions(edge_shape(value.shape))
    return Port(tensor.name, type_, tensor.type, shape, tensor.signature, in_words, has_bits=tensor.type in UNSIGNED)


def late_port(tensor: Tensor) -> Port:
    """The edge of a tensor whose sizes are not known yet, as the file declares it."""
    shape = tensor.shape if tensor.is_static else tensor.signature or (-1,)
    type_ = operand_type(tensor).with_dimensions(tuple(max(size, 0) for size in shape))
    return Port(tensor.name, type_, tensor.type, shape, tensor.signature, has_bits=tensor.type in UNSIGNED)


def is_alike(before: Value, after: Value) -> bool:
    """Whether a variable's value can be the one before of the next execution."""
    has_scale = before.code in QUANTISED_CODES
    return (before.code, before.shape) == (after.code, after.shape) and (
        not has_scale or same_quantisation(before.type, after.type)
    )
