"""Relaxed models: 16-bit floats between operations, where the device has them (relaxComputationFloat32toFloat16).

Float16 tensors begin at products: their factors and what they give are 16-bit floats, and so is what others make of
that, as long as it stays about as large. What a model takes and gives, and what other operations see, are 32-bit
floats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Set
from dataclasses import replace

import numpy as np

from nnvk.driver.vulkan.lowering.convert import convert
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops import registry
from nnvk.ops.call import Call, Tensor
from nnvk.ops.traits import Fp16
from nnvk.types.codes import ExtensionCode, OperandCode, OperationCode
from nnvk.types.constant import Constant, DeferredConstant
from nnvk.types.model import Lifetime, Model, Operation
from nnvk.types.operand import Shape

LARGEST = 65504.0
"""The largest 16-bit float."""
_SMALLEST = 2.0**-14
"""The smallest 16-bit float with all digits."""
FLOAT16, FLOATS = "16-bit floats between operations", "32-bit floats between operations"
"""The ways to compute a relaxed model."""

_ROOTS = frozenset({OperationCode.RSQRT, OperationCode.SQRT})
_APPLIED_BY = frozenset({OperationCode.ADD, OperationCode.DIV, OperationCode.MUL, OperationCode.SUB})
"""How normalisations come by the roots of variances, and rows by these and by their means."""


def float16(model: Model) -> list[bool]:
    """For each operation of a relaxed model whether it is to be computed on 16-bit floats, where that pays.

    Not a normalisation, though it begins with what others have in 16 bits: its squares leave their range, and it is one
    dispatch where all of it has the same type.
    """
    given: set[int] = set()
    statistics = _means_taken_away(model)
    result = []
    for operation in model.operations:
        tensors = [index for index in operation.inputs if model.operands[index].type.is_tensor]
        given_later = [index for index in tensors if model.operands[index].constant is None]
        normalises = operation.code in _APPLIED_BY and not statistics.isdisjoint(given_later)
        if operation.code in _ROOTS or (normalises and statistics.issuperset(given_later)):
            statistics.update(operation.outputs)
        in_float16 = (
            _may_be_float16(model, operation)
            and not (normalises or statistics.intersection(operation.outputs))
            and _is_fp16(operation, given)
        )
        if in_float16:
            given.update(operation.outputs)
        result.append(in_float16)
    return result


def _is_fp16(operation: Operation, given: Set[int]) -> bool:
    """Whether an operation's trait lets it take 16-bit floats, where the operands in ``given`` are such."""
    fp16 = registry.lookup(operation.code).traits.fp16
    return fp16 is Fp16.STARTS or (fp16 is Fp16.FOLLOWS and not given.isdisjoint(operation.inputs))


def _means_taken_away(model: Model) -> set[int]:
    """The means of operands that are taken away from them."""
    means = {op.outputs[0]: op.inputs[0] for op in model.operations if op.code is OperationCode.MEAN}
    less = (op.inputs[:2] for op in model.operations if op.code is OperationCode.SUB)
    return {mean for source, mean in less if means.get(mean) == source}


def _may_be_float16(model: Model, operation: Operation) -> bool:
    """Whether an operation is on 32-bit floats, and all of its constants are about as good in 16 bits."""
    if isinstance(operation.code, ExtensionCode):
        return False
    tensors = [index for index in operation.inputs if model.operands[index].type.code is OperandCode.TENSOR_FLOAT32]
    if not tensors or operation.inputs[0] not in tensors:
        return False
    if operation.code is OperationCode.MUL and len(set(tensors)) == 1:
        return False  # a square
    return all(_fits(model.operands[index].value) for index in tensors)


def _fits(constant: np.ndarray | None) -> bool:
    if constant is None or not constant.size:
        return True
    largest = float(np.abs(constant).max())
    return largest == 0 or _SMALLEST <= largest <= LARGEST


def choose_float16(g: Lowering, model: Model, shapes: tuple[Shape, ...]) -> Float16Lowering | None:
    """How a model is lowered where it is relaxed and 16-bit floats pay, by what is known of the device or measured."""
    if not (model.relaxed and g.device.has_native_16 and g.device.runs(Pass.FP16)):
        return None
    in_float16 = float16(model)
    if not any(in_float16):
        return None
    content = repr((model.operations, [operand.type for operand in model.operands], shapes))
    tuning_key = f"relaxed model {hashlib.sha256(content.encode()).hexdigest()[:16]}"
    chosen = g.choose(tuning_key, ranked(g.device), of_all=True)
    if chosen != FLOAT16:
        return None
    g.applied[Pass.FP16] += sum(in_float16)
    return Float16Lowering(g, model, in_float16)


def ranked(device: DeviceProfile) -> list[str]:
    """The ways to compute a relaxed model, what is thought to be faster first: CPUs convert float16, GPUs have them."""
    return [FLOATS, FLOAT16] if device.is_cpu else [FLOAT16, FLOATS]


class Float16Lowering:
    """Lowers a relaxed model's operations on 16-bit floats, and converts what comes from others, or goes to them."""

    def __init__(self, g: Lowering, model: Model, in_float16: list[bool]) -> None:
        self._g = g
        self.in_float16 = in_float16
        """For each operation whether it is on 16-bit floats."""
        self._half: dict[int, Tensor] = {}
        """By the index of an operand of 32 bits: the same numbers in 16."""
        self._wanted: set[int] = {*model.outputs}
        """Operands that somebody needs in 32 bits."""
        for operation, is_in_float16 in zip(model.operations, in_float16, strict=True):
            if not is_in_float16:
                self._wanted.update(operation.inputs)
        self._wanted -= {i for i, operand in enumerate(model.operands) if operand.lifetime is Lifetime.NO_VALUE}

    def lower(self, call: Call, lower: Callable[[Call, Lowering], None]) -> None:
        """Lower the operation that is to be lowered now, by its kernel."""
        if not self.in_float16[self._g.operation]:
            lower(call, self._g)
            return
        for output in call.outputs:
            if output.code is OperandCode.TENSOR_FLOAT32:
                self._half[output.index] = self._like(output)
        lower(call.with_tensors(self._narrowed), self._g)
        for output in call.outputs:
            if output.index in self._wanted and output.index in self._half:
                convert(self._g, self._half[output.index], output)

    def _like(self, tensor: Tensor, data: Constant | None = None) -> Tensor:
        type_ = replace(tensor.type, code=OperandCode.TENSOR_FLOAT16, dimensions=tensor.shape)
        return self._g.intermediate(tensor.name, type_, data)

    def _narrowed(self, tensor: Tensor) -> Tensor:
        """A tensor in 16 bits, as it is if it has no 32-bit floats. Numbers beyond the range are its ends."""
        if tensor.code is not OperandCode.TENSOR_FLOAT32:
            return tensor
        known = self._half.get(tensor.index)
        if known is None:
            if tensor.is_constant:
                known = self._like(
                    tensor, DeferredConstant(tensor.shape, np.dtype(np.float16), lambda: _narrow(tensor))
                )
            else:
                known = self._like(tensor)
                convert(self._g, tensor, known, saturate=True)
            self._half[tensor.index] = known
        return known


def _narrow(tensor: Tensor) -> np.ndarray:
    """A constant in 16 bits."""
    data = tensor.data
    return np.where(np.isfinite(data), np.clip(data, -LARGEST, LARGEST), data).astype(np.float16)
