"""Siblings: FULLY_CONNECTED on one input as one product, as the queries, keys and values of attention are.

One product fills a GPU where several small ones do not, and reads its input once. What each sibling gives is columns of
its rows then. That pays where nobody has to copy them: where they are reshaped, transposed and multiplied by a number
alone on their way to a BATCH_MATMUL, which takes its matrices from amid larger rows (`fusions.matrices`). A CPU is busy
with each of them, too.

The numbers, as queries have one, become a vector with 1 for the other siblings. Each sum is of the same products as
before; their order is that of the strategy, which is chosen for the whole product.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from nnvk.driver.vulkan.lowering.arrange import arrange
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.filters import BLOCK
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.relayout import round_up
from nnvk.driver.vulkan.shaders.commands import padded
from nnvk.ops.call import Call, Tensor
from nnvk.types.codes import FuseCode, OperandCode, OperationCode
from nnvk.types.model import Model, Operation

Lower = Callable[[Call, Lowering], None]
"""What lowers a call."""

_FLOATS = frozenset({OperandCode.TENSOR_FLOAT16, OperandCode.TENSOR_FLOAT32})
_PASSING = frozenset({OperationCode.EXPAND_DIMS, OperationCode.RESHAPE, OperationCode.SQUEEZE, OperationCode.TRANSPOSE})
"""What leaves elements as they are."""
_LARGEST = 16 << 20
"""Bytes of weights of a family: larger ones keep a device busy each by itself, and need not be in memory twice."""


@dataclass(frozen=True, slots=True)
class _Sibling:
    """One FULLY_CONNECTED of several."""

    operation: int
    """Its position in the model."""
    weights: np.ndarray
    bias: np.ndarray
    scaling: int | None = None
    """The position of the MUL that multiplies what it gives by a number, if there is one."""
    scale: float = 1.0


class Siblings:
    """Which operations of a model are computed as one, and the calls that come of it."""

    def __init__(self, g: Lowering, model: Model, halved: Sequence[bool] | None) -> None:
        """``halved``: for each operation whether it is computed on 16-bit floats; None where none is."""
        self._g = g
        self._families: dict[int, list[_Sibling]] = {}
        self._scalings: set[int] = set()
        self._together: dict[int, Tensor] = {}
        for family in _families(model, halved) if g.device.fusion and not g.device.is_cpu else ():
            for sibling in family:
                self._families[sibling.operation] = family
                if sibling.scaling is not None:
                    self._scalings.add(sibling.scaling)

    def calls(self, call: Call, lower: Lower) -> Iterator[tuple[Call, Lower]]:
        """What is to be lowered for the call of the operation whose turn it is, and by what."""
        operation = self._g.operation
        family = self._families.get(operation)
        if family is not None and operation == family[0].operation and not self._can_bind(call, family):
            self._part(family)
            family = None
        if operation in self._scalings:
            (source,) = (tensor for _, tensor in call.tensors if not tensor.is_constant)
            yield _moving(call, source), lambda moving, g: g.alias(moving.input, moving.output)
        elif family is None:
            yield call, lower
        else:
            first = family[0].operation
            if operation == first:
                together = self._joined(call, family)
                yield together, lower
                scaled = self._scaled(together.output, family)
                if scaled is not None:
                    yield scaled, kernels()[scaled.code].lower
                self._together[first] = together.output if scaled is None else scaled.output
            before = sum(len(sibling.bias) for sibling in family if sibling.operation < operation)
            yield _moving(call, self._together[first]), partial(_take_columns, first=before)

    def _can_bind(self, call: Call, family: Sequence[_Sibling]) -> bool:
        """Whether the device can bind what a family has together: its weights in blocks, and what it gives."""
        columns = round_up(sum(len(sibling.bias) for sibling in family), BLOCK)
        values = columns * max(call.output.shape[0], round_up(call.weights.shape[1], 4))
        return padded(values * call.weights.dtype.itemsize) <= self._g.device.max_buffer

    def _part(self, family: Sequence[_Sibling]) -> None:
        """Let each of a family be computed by itself."""
        for sibling in family:
            del self._families[sibling.operation]
            self._scalings.discard(-1 if sibling.scaling is None else sibling.scaling)

    def _joined(self, call: Call, family: Sequence[_Sibling]) -> Call:
        """The call of a whole family for that of its first one."""
        rows = call.output.shape[0]
        weights = np.concatenate([sibling.weights for sibling in family])
        joined = {
            call.weights: self._like(call.weights, weights.shape, weights),
            call.bias: self._like(call.bias, (len(weights),), np.concatenate([sibling.bias for sibling in family])),
            call.output: self._like(call.output, (rows, len(weights))),
        }
        return call.with_tensors(lambda tensor: joined.get(tensor, tensor))

    def _scaled(self, source: Tensor, family: Sequence[_Sibling]) -> Call | None:
        """The MUL of the results of a family, if one of them is multiplied."""
        if all(sibling.scaling is None for sibling in family):
            return None
        scales = np.concatenate([np.full(len(sibling.bias), sibling.scale, source.dtype) for sibling in family])
        factors, output = self._like(source, scales.shape, scales), self._like(source, source.shape)
        values = {"input0": source, "input1": factors, "activation": int(FuseCode.NONE), "output": output}
        return Call(OperationCode.MUL, values, [output])

    def _like(self, tensor: Tensor, shape: tuple[int, ...], data: np.ndarray | None = None) -> Tensor:
        return self._g.intermediate(tensor.name, replace(tensor.type, dimensions=shape), data)


def _moving(call: Call, source: Tensor) -> Call:
    """A call that gives the same output from another tensor."""
    return Call(call.code, {"input": source, "output": call.output}, [call.output])


def _take_columns(call: Call, g: Lowering, first: int) -> None:
    """Columns of the input from this one on, as many as the output has."""
    rows, width = call.output.shape
    box = [(rows, call.input.shape[1]), (width, 1)]
    arrange(g, moved(call.input), g.tensor(call.input), g.tensor(call.output), box, first)


# --- which operations --------------------------------------------------------------------------------------------


def _families(model: Model, halved: Sequence[bool] | None) -> Iterator[list[_Sibling]]:
    """The families of a model, the siblings of each in order."""
    alike: dict[Hashable, list[int]] = {}
    for position, operation in enumerate(model.operations):
        if operation.code is OperationCode.FULLY_CONNECTED:
            question = _common(model, operation)
            if question is not None:
                alike.setdefault((question, halved is not None and halved[position]), []).append(position)
    several = [positions for positions in alike.values() if len(positions) > 1]
    readers = _readers(model) if several else {}
    for positions in several:
        found = (_sibling(model, readers, position, halved) for position in positions)
        family = [sibling for sibling in found if sibling is not None]
        if len(family) > 1 and sum(sibling.weights.nbytes for sibling in family) <= _LARGEST:
            yield family


def _common(model: Model, operation: Operation) -> Hashable | None:
    """What siblings have in common; None for what has none: weights, bias or activation are no constants, say."""
    types = [model.operands[index].type.code for index in operation.inputs]
    weights, bias, activation = (model.operands[index].value for index in operation.inputs[1:])
    if weights is None or bias is None or activation is None or not weights.size or types[0] not in _FLOATS:
        return None
    return operation.inputs[0], tuple(types), weights.shape[1], int(activation)


def _readers(model: Model) -> Mapping[int, list[int]]:
    """The positions of the operations that read each operand; a model's outputs are read by what comes after all."""
    readers: dict[int, list[int]] = {index: [len(model.operations)] for index in model.outputs}
    for position, operation in enumerate(model.operations):
        for index in operation.inputs:
            readers.setdefault(index, []).append(position)
    return readers


def _sibling(
    model: Model, readers: Mapping[int, list[int]], position: int, halved: Sequence[bool] | None
) -> _Sibling | None:
    """A FULLY_CONNECTED whose result goes to a BATCH_MATMUL as it is, or multiplied by a number; None for others."""
    operation = model.operations[position]
    weights, bias = (model.operands[index].value for index in operation.inputs[1:3])
    assert weights is not None and bias is not None
    sibling, tensor = _Sibling(position, weights, bias), operation.outputs[0]
    while len(some := readers.get(tensor, [])) == 1 and some[0] < len(model.operations):
        (reader,) = some
        operation = model.operations[reader]
        if operation.code is OperationCode.BATCH_MATMUL:
            return sibling
        scale = _number(model, operation, tensor)
        alike = halved is None or halved[reader] == halved[position]
        if scale is not None and sibling.scaling is None and alike:
            sibling = replace(sibling, scaling=reader, scale=scale)
        elif operation.code not in _PASSING:
            return None
        (tensor,) = operation.outputs
    return None


def _number(model: Model, operation: Operation, tensor: int) -> float | None:
    """The number that a MUL multiplies a tensor by; None for other operations."""
    if operation.code is not OperationCode.MUL:
        return None
    one, other, activation = operation.inputs
    factor, fused = (model.operands[index].value for index in (other if one == tensor else one, activation))
    if factor is None or factor.size != 1 or fused is None or fused != FuseCode.NONE:
        return None
    return float(factor.reshape(()))
