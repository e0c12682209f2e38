"""Horizontal fusion: compute several FULLY_CONNECTED operations that read the same input as one GEMM.

One GEMM fills a GPU where several small ones do not, and reads its input once. What each fused operation gives is
columns of its rows then. That pays where nobody has to copy them: where they are reshaped and transposed on their way
to a BATCH_MATMUL, which takes its matrices from amid larger rows (`fusions.matrices`). At most they get a vector added,
as ONNX has biases, and are multiplied by a number, as queries are; that is done with all columns at once, by 1 with
those of others. A CPU is busy with each of them, too. It may take a little more memory: all of the rows are there until
the last fused operation's are read.

Each sum is of the same products as before; their order is that of the strategy, which is chosen for all of it.
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
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.ops import registry
from nnvk.ops.call import Call, Tensor
from nnvk.ops.traits import View
from nnvk.types.codes import FuseCode, OperandCode, OperationCode
from nnvk.types.constant import Constant, elements
from nnvk.types.model import Model, Operation

Lower = Callable[[Call, Lowering], None]
"""A function that lowers a call."""

_FLOATS = frozenset({OperandCode.TENSOR_FLOAT16, OperandCode.TENSOR_FLOAT32})
_LARGEST = 16 << 20
"""Bytes of weights of a family: larger ones keep a device busy each by itself, and need not be in memory twice."""


@dataclass(frozen=True, slots=True)
class _Member:
    """One FULLY_CONNECTED of several."""

    operation: int
    """Its position in the model."""
    weights: Constant
    bias: np.ndarray
    term: np.ndarray | None = None
    """The term of each row of its result."""
    scale: float | None = None
    """The factor of the sum."""
    absorbed: tuple[int, ...] = ()
    """The positions of the ADD and the MUL that do so."""


class HorizontalFusions:
    """Which operations of a model are computed as one, and the calls that come of it."""

    def __init__(self, g: Lowering, model: Model, in_float16: Sequence[bool] | None) -> None:
        """``in_float16``: for each operation whether it is computed on 16-bit floats; None where none is."""
        self._g = g
        self._families: dict[int, list[_Member]] = {}
        self._absorbed: set[int] = set()
        self._together: dict[int, Tensor] = {}
        for family in _families(model, in_float16) if g.device.runs(Pass.HORIZONTAL) and not g.device.is_cpu else ():
            for member in family:
                self._families[member.operation] = family
                self._absorbed.update(member.absorbed)

    def calls(self, call: Call, lower: Lower) -> Iterator[tuple[Call, Lower]]:
        """The calls to be lowered for the call of the operation whose turn it is, and the function for each."""
        operation = self._g.operation
        family = self._families.get(operation)
        if family is not None and operation == family[0].operation and not self._can_bind(call, family):
            self._part(family)
            family = None
        if operation in self._absorbed:
            (source,) = (tensor for _, tensor in call.tensors if not tensor.is_constant)
            yield _moving(call, source), lambda moving, g: g.alias(moving.input, moving.output)
        elif family is None:
            yield call, lower
        else:
            first = family[0].operation
            if operation == first:
                self._g.applied[Pass.HORIZONTAL] += 1
                for together in self._joined(call, family):
                    yield together, lower if together.code is call.code else kernels()[together.code].lower
                    self._together[first] = together.output
            before = sum(len(member.bias) for member in family if member.operation < operation)
            yield _moving(call, self._together[first]), partial(_take_columns, first=before)

    def _can_bind(self, call: Call, family: Sequence[_Member]) -> bool:
        """Whether the device can bind what a family has together: its weights in blocks, and what it gives."""
        columns = round_up(sum(len(member.bias) for member in family), BLOCK)
        values = columns * max(call.output.shape[0], round_up(call.weights.shape[1], 4))
        return padded(values * call.weights.dtype.itemsize) <= self._g.device.max_buffer

    def _part(self, family: Sequence[_Member]) -> None:
        """Let each of a family be computed by itself."""
        for member in family:
            del self._families[member.operation]
            self._absorbed.difference_update(member.absorbed)

    def _joined(self, call: Call, family: Sequence[_Member]) -> Iterator[Call]:
        """The calls of a whole family for that of its first one."""
        weights = np.concatenate([elements(member.weights) for member in family])
        bias = np.concatenate([member.bias for member in family])
        output = self._like(call.output, (call.output.shape[0], len(bias)))
        joined = {
            call.weights: self._like(call.weights, weights.shape, weights),
            call.bias: self._like(call.bias, bias.shape, bias),
            call.output: output,
        }
        yield call.with_tensors(lambda tensor: joined.get(tensor, tensor))
        terms = [member.term for member in family if member.term is not None]
        if terms:
            added = self._combined(OperationCode.ADD, output, np.concatenate(terms))
            yield added
            output = added.output
        if any(member.scale is not None for member in family):
            scales = [1.0 if member.scale is None else member.scale for member in family]
            factors = np.repeat(np.array(scales, output.dtype), [len(member.bias) for member in family])
            yield self._combined(OperationCode.MUL, output, factors)

    def _combined(self, code: OperationCode, source: Tensor, vector: np.ndarray) -> Call:
        """The call that combines each row with a vector."""
        row, output = self._like(source, vector.shape, vector), self._like(source, source.shape)
        values = {"input0": source, "input1": row, "activation": int(FuseCode.NONE), "output": output}
        return Call(code, values, [output])

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


def _families(model: Model, in_float16: Sequence[bool] | None) -> Iterator[list[_Member]]:
    """The families of a model, the fused operations of each in order."""
    alike: dict[Hashable, list[int]] = {}
    for position, operation in enumerate(model.operations):
        if operation.code is OperationCode.FULLY_CONNECTED:
            shared = _common(model, operation)
            if shared is not None:
                alike.setdefault((shared, in_float16 is not None and in_float16[position]), []).append(position)
    several = [positions for positions in alike.values() if len(positions) > 1]
    readers = _readers(model) if several else {}
    for positions in several:
        found = (_member(model, readers, position, in_float16) for position in positions)
        some = [member for member in found if member is not None]
        for family in ([each for each in some if (each.term is None) == plain] for plain in (True, False)):
            if len(family) > 1 and sum(member.weights.nbytes for member in family) <= _LARGEST:
                yield family


def _common(model: Model, operation: Operation) -> Hashable | None:
    """The key that fused operations share; None for an operation without fused operations, whose weights are no
    constants, say.
    """
    types = [model.operands[index].type.code for index in operation.inputs]
    weights, bias, activation = (model.operands[index].constant for index in operation.inputs[1:])
    if weights is None or bias is None or activation is None or not weights.size or types[0] not in _FLOATS:
        return None
    return operation.inputs[0], tuple(types), weights.shape[1], int(elements(activation))


def _readers(model: Model) -> Mapping[int, list[int]]:
    """The positions of the operations that read each operand; a model's outputs are read by what comes after all."""
    readers: dict[int, list[int]] = {index: [len(model.operations)] for index in model.outputs}
    for position, operation in enumerate(model.operations):
        for index in operation.inputs:
            readers.setdefault(index, []).append(position)
    return readers


def _member(
    model: Model, readers: Mapping[int, list[int]], position: int, in_float16: Sequence[bool] | None
) -> _Member | None:
    """A FULLY_CONNECTED whose result goes to a BATCH_MATMUL, with no more done to it than is said above; else None."""
    operation = model.operations[position]
    weights, bias = model.operands[operation.inputs[1]].constant, model.operands[operation.inputs[2]].value
    assert weights is not None and bias is not None
    member, tensor, in_rows = _Member(position, weights, bias), operation.outputs[0], True
    while len(some := readers.get(tensor, [])) == 1 and some[0] < len(model.operations):
        (reader,) = some
        operation = model.operations[reader]
        if operation.code is OperationCode.BATCH_MATMUL:
            return member
        view = registry.lookup(operation.code).traits.view
        if view is None:
            if in_float16 is not None and in_float16[reader] != in_float16[position]:
                return None
            combined = _combined_with(member, model, operation, tensor, in_rows)
            if combined is None:
                return None
            member = replace(combined, absorbed=(*member.absorbed, reader))
        in_rows &= view is not View.TRANSPOSED
        (tensor,) = operation.outputs
    return None


def _combined_with(member: _Member, model: Model, operation: Operation, tensor: int, in_rows: bool) -> _Member | None:
    """The fused operation with what an ADD or MUL does to its result, a tensor; None where that is nothing for all
    columns.

    ``in_rows``: the elements of the tensor are in the order that they were given in.
    """
    if operation.code not in (OperationCode.ADD, OperationCode.MUL) or member.scale is not None:
        return None
    one, other, activation = operation.inputs
    vector, fused = (model.operands[index].value for index in (other if one == tensor else one, activation))
    if vector is None or fused is None or fused != FuseCode.NONE:
        return None
    if operation.code is OperationCode.MUL:
        return replace(member, scale=float(vector.reshape(()))) if vector.size == 1 else None
    columns = (len(member.bias),)
    is_row = tensor in model.operations[member.operation].outputs  # else dimensions that may not be known say so
    is_row |= in_rows and model.operands[tensor].type.dimensions[-1:] == columns
    if member.term is not None or not is_row or vector.shape[-1:] != columns or (vector.size,) != columns:
        return None
    return replace(member, term=vector.reshape(-1))
