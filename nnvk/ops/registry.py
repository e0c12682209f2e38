"""The registry: one `OpDef` per operation, and the binding of a model's operations to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode, UnfitData, bad_data
from nnvk.ops.call import Call, Tensor, Unknown, UnknownValue
from nnvk.ops.signature import EXTENSIONS_SINCE, Q16_SYMM, Param, Signature, same, tensor
from nnvk.ops.traits import Traits
from nnvk.types.codes import ExtensionCode, OperandCode, OperationCode
from nnvk.types.constant import Constant, elements
from nnvk.types.extension import AnyCode, ExtendedOperationCode, KnownCode
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType, Shape

Infer = Callable[[Call], list[Shape]]
Reference = Callable[[Call], "np.ndarray | list[np.ndarray]"]


@dataclass(frozen=True, slots=True)
class OpDef:
    """Everything nnvk knows of an operation that no device needs to know better."""

    code: KnownCode
    """The code that its calls have and kernels are registered for; NNAPI's where the extension only adds a type."""
    types: Mapping[OperandCode, int]
    """Leading types, each with the feature level (1 to 8) that brought it."""
    signatures: tuple[Signature, ...]
    outputs: tuple[Param, ...]
    traits: Traits
    infer: Infer
    """Shapes of the outputs. Checks shapes and values on the way: raises BAD_DATA with the reason."""
    reference: Reference | None
    """Outputs in the outputs' dtypes; None for control flow, which devices run themselves."""
    validate: Callable[[Call], None] | None = None
    """Rules on types, scales and zero points beyond the signature; called once shapes may still be unknown."""
    leading: str | None = None
    """Name of the parameter whose type is ``T``; the first one if None."""
    largest: Infer | None = None
    """The largest shapes that the outputs may have, of operations whose data decides on their first dimension."""
    results: Signature = field(init=False, repr=False, compare=False)
    """The outputs as a signature."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", Signature(*self.outputs))


_registry: dict[KnownCode, OpDef] = {}


def define(
    code: KnownCode,
    *,
    traits: Traits,
    types: Mapping[OperandCode, int],
    signatures: Sequence[Signature] | Signature,
    infer: Infer,
    reference: Reference | None,
    outputs: Sequence[Param] = (tensor("output", same),),
    validate: Callable[[Call], None] | None = None,
    leading: str | None = None,
    largest: Infer | None = None,
    wide: bool = False,
    extended: tuple[Mapping[OperandCode, int], Signature] | None = None,
) -> OpDef:
    """Register an operation; see `OpDef` for the arguments.

    ``wide``: the extension has one of the same name, which is the same on TENSOR_QUANT16_SYMM. ``extended`` are the
    types and the signature of the extension's operation where more is different.
    """
    if code in _registry:
        raise ValueError(f"{code.name} is defined twice")
    overloads = (signatures,) if isinstance(signatures, Signature) else tuple(signatures)
    definition = OpDef(code, types, overloads, tuple(outputs), traits, infer, reference, validate, leading, largest)
    _registry[code] = definition
    if wide:
        _registry[ExtendedOperationCode[code.name]] = replace(definition, types={Q16_SYMM: EXTENSIONS_SINCE})
    if extended is not None:
        types, signature = extended
        _registry[ExtendedOperationCode[code.name]] = replace(definition, types=types, signatures=(signature,))
    return definition


def fitting(code: KnownCode, types: Iterable[OperandType]) -> KnownCode:
    """The extension's operation of the same name, where there is one and an operand is TENSOR_QUANT16_SYMM."""
    if code.name in ExtendedOperationCode.__members__ and any(type_.code is Q16_SYMM for type_ in types):
        return ExtendedOperationCode[code.name]
    return code


def lookup(code: AnyCode) -> OpDef:
    """The definition of an operation; BAD_DATA where there is none."""
    definition = None if isinstance(code, ExtensionCode) else _registry.get(code)
    if definition is None:
        raise bad_data(f"{code.name}: this operation is not defined")
    return definition


def definitions() -> Mapping[KnownCode, OpDef]:
    """All defined operations."""
    return _registry


Values = Callable[[int], Constant | None]
"""The known value of an operand by index, or None."""
Shapes = Callable[[int], "Shape | None"]
"""The known shape of an operand by index, or None."""


def bind(
    operation: Operation,
    operands: Sequence[Operand],
    values: Values,
    shapes: Shapes,
    relaxed: bool = False,
    *,
    final: bool = False,
) -> Call:
    """Choose the overload that fits the operands' types and name them.

    ``final``: inputs that the execution omits are known, and are operands without a value. Raises BAD_DATA that names
    the operation, the operand, the expected types and the one that came.
    """
    definition = lookup(operation.code)
    signature, leading = _choose(definition, operation, operands)
    params = signature.spread(len(operation.inputs))
    named: dict[str, Any] = {param.name: [] if param.variadic else param.default for param in signature.params}
    tensors: list[tuple[Param, Tensor]] = []
    for param, index in zip(params, operation.inputs, strict=True):
        operand = operands[index]
        value: Any
        if operand.lifetime is Lifetime.NO_VALUE:
            value = param.default
        elif operand.type.code == OperandCode.MODEL:
            value = operand.subgraph
        elif operand.type.is_tensor:
            omitted = operand.lifetime is Lifetime.SUBGRAPH_INPUT and not final
            value = Tensor(param.name, index, operand.type, shapes(index), values(index), may_be_omitted=omitted)
            tensors.append((param, value))
        else:
            known = values(index)
            value = Unknown(param.name, index) if known is None else elements(known).reshape(()).item()
        if param.variadic:
            named[param.name].append(value)
        else:
            named[param.name] = value
    outputs = _bind_outputs(definition, operation, operands, leading, shapes)
    named.update({output.name: output for output in outputs})
    return Call(cast(OperationCode, definition.code), named, outputs, relaxed, tensors)


def _bind_outputs(
    definition: OpDef, operation: Operation, operands: Sequence[Operand], leading: OperandCode, shapes: Shapes
) -> list[Tensor]:
    params = definition.results
    least, most = params.arity
    count = len(operation.outputs)
    if count < least or (most is not None and count > most):
        raise bad_data(f"{operation}: expected {_range(least, most)} outputs, got {count}")
    outputs = []
    for param, index in zip(params.spread(count), operation.outputs, strict=True):
        type_ = operands[index].type
        if type_.code not in param.accepts(leading):
            raise bad_data(f"{operation}: output {param.name} must be {_names(param.accepts(leading))}, got {type_}")
        outputs.append(Tensor(param.name, index, type_, shapes(index)))
    return outputs


def _choose(definition: OpDef, operation: Operation, operands: Sequence[Operand]) -> tuple[Signature, OperandCode]:
    """The first overload that fits, else the problem of the one that fitted furthest."""
    count = len(operation.inputs)
    if len(definition.signatures) > 1 and not any(each.takes(count) for each in definition.signatures):
        raise bad_data(f"{operation}: expected {_counts(definition.signatures)} inputs, got {count}")
    furthest, problem = -2, ""
    for signature in definition.signatures:
        matched, leading, reason = _match(definition, signature, operation, operands)
        if not reason:
            return signature, leading
        if matched > furthest:
            furthest, problem = matched, reason
    raise bad_data(f"{operation}: {problem}")


def _match(
    definition: OpDef, signature: Signature, operation: Operation, operands: Sequence[Operand]
) -> tuple[int, OperandCode, str]:
    """How many inputs fit, the leading type, and why the next input does not fit ("" if all fit)."""
    count = len(operation.inputs)
    nothing = OperandCode.TENSOR_FLOAT32
    least, most = signature.arity
    if count < least or (most is not None and count > most):
        return -1, nothing, f"expected {_range(least, most)} inputs, got {count}"
    params = signature.spread(count)
    absent = signature.required(count)
    if absent and not signature.variadic:
        return -1, nothing, f"{absent[0]} (input {count + len(absent) - 1}) is required, got {count} inputs"
    names = [param.name for param in params]
    position = names.index(definition.leading) if definition.leading in names else 0
    leading = operands[operation.inputs[position]].type.code if count else nothing
    if leading not in definition.types:
        return 0, nothing, f"{names[position]} must be {_names(definition.types)}, got {leading.name}"
    for matched, (param, index) in enumerate(zip(params, operation.inputs, strict=True)):
        operand = operands[index]
        if operand.lifetime is Lifetime.NO_VALUE:
            if not param.optional:
                return matched, leading, f"{param.name} (input {matched}) can't be omitted"
        elif operand.type.code not in param.accepts(leading):
            expected = _names(param.accepts(leading))
            return matched, leading, f"{param.name} (input {matched}) must be {expected}, got {operand.type}"
    return count, leading, ""


@contextmanager
def naming(code: AnyCode) -> Iterator[None]:
    """Put the operation at the head of the reasons of errors that are raised inside."""
    try:
        yield
    except NnapiError as error:
        prefix = f"{code.name}: "
        if error.reason.startswith(prefix):
            raise
        raise NnapiError(error.code, prefix + error.reason) from error


@contextmanager
def at_execution() -> Iterator[None]:
    """From here on, what breaks a rule came with an execution: BAD_DATA becomes OP_FAILED (`UnfitData`).

    Android does the same: a failing operation fails the execution. The model, and each argument alone, were checked
    before.
    """
    try:
        yield
    except NnapiError as error:
        if error.code is not ResultCode.BAD_DATA:
            raise
        raise UnfitData(error.reason) from error


def _check_rank(param: Param, source: Tensor) -> None:
    """Raise BAD_DATA where a tensor's rank, known or declared, is none that its parameter takes."""
    shape = source.known_dimensions
    if param.rank is None or shape is None or (param.optional and 0 in shape):
        return  # an optional one without elements is left out
    least, most = param.rank
    if not least <= len(shape) <= most:
        expected = f"{most} at most" if not least else str(most) if least == most else f"{least} to {most}"
        raise bad_data(f"{param.name} must have rank {expected}, got shape {list(shape)}")


def infer(call: Call) -> list[Shape] | None:
    """Validate a call and set its outputs' shapes. None: not known before execution."""
    definition = lookup(call.code)
    try:
        with naming(call.code):
            for param, source in call.tensors:
                _check_rank(param, source)
            if definition.validate:
                definition.validate(call)
            shapes = definition.infer(call)
    except UnknownValue as unknown:
        call.unknown = unknown.with_traceback(None)  # its frames would refer to the call, and to all that called
        return None
    for place, (output, shape) in enumerate(zip(call.outputs, shapes, strict=True)):
        check_declared(call.code, output.name, output.type, shape)
        _check_size(call.code, output, shape)
        if output.type.dimensions and output.type.is_fully_specified:
            shapes[place] = output.type.dimensions  # the same numbers; a traced model knows what they depend on
        output.shape = shapes[place]
    return shapes


def check_declared(code: AnyCode, name: str, type_: OperandType, shape: Shape) -> None:
    """Raise BAD_DATA unless an output's shape is one that its operand allows."""
    declared = type_.dimensions
    if type_.is_tensor and declared and not compatible(declared, shape):
        raise bad_data(f"{code.name}: output {name} is declared as {list(declared)}, but the inputs give {list(shape)}")


def _check_size(code: AnyCode, output: Tensor, shape: Shape) -> None:
    nbytes = math.prod(shape) * output.dtype.itemsize
    if 0 < nbytes < 2**32:
        return
    what = f"{code.name}: output {output.name} of shape {list(shape)}"
    if any(size >= 2**32 for size in shape):
        raise bad_data(f"{what}: a dimension is a number of 32 bits")
    if nbytes >= 2**32:
        raise bad_data(f"{what} is 4 GiB or more")
    if math.prod(size or 1 for size in shape) * output.dtype.itemsize >= 2**63:
        raise bad_data(f"{what}, though empty, has larger dimensions than an array may have")


def calls(
    model: Model,
    input_shapes: Sequence[Shape],
    *,
    final: bool = False,
    late: Mapping[int, np.ndarray] | None = None,
) -> Iterator[tuple[Operation, Call]]:
    """Each operation of a model, bound and with its shapes inferred as far as ``input_shapes`` tell.

    ``late`` are values of operands that are no constants of the model, where they are known already.

    A dimension of 0 in ``input_shapes``, or no dimensions at all, means not known; if they are ``final``, those of an
    execution, an input with a dimension of 0 is empty. Raises what `bind` and `infer` do, `at_execution` if final,
    with the operand indexes named. Operations of others' extensions are known by their drivers only: their calls name
    no operands, and their outputs have the shapes that are declared.
    """
    shapes: dict[int, Shape] = {
        index: operand.constant.shape for index, operand in enumerate(model.operands) if operand.constant is not None
    }
    for index, shape in zip(model.inputs, input_shapes, strict=True):
        if final or model.operands[index].type.with_dimensions(shape).is_fully_specified:
            shapes[index] = shape
    raising = at_execution if final else nullcontext
    known = {} if late is None else late  # it may grow between two operations

    def value(index: int) -> Constant | None:
        return known.get(index, model.operands[index].constant)

    for operation in model.operations:
        if isinstance(operation.code, ExtensionCode):
            declared = {index: model.operands[index].type for index in operation.outputs}
            shapes.update((index, type_.dimensions) for index, type_ in declared.items() if type_.is_fully_specified)
            yield operation, Call(cast(OperationCode, operation.code), {}, [])  # no table has it
            continue
        with raising():
            try:
                call = bind(operation, model.operands, value, shapes.get, model.relaxed, final=final)
                inferred = infer(call)
            except NnapiError as error:
                where = f" (operands {list(operation.inputs)} -> {list(operation.outputs)})"
                raise NnapiError(error.code, error.reason + where) from error
        if inferred is not None:
            shapes.update(zip(operation.outputs, inferred, strict=True))
        yield operation, call


def compatible(declared: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a shape fits declared dimensions, in which 0 is any size."""
    if declared == shape:
        return True
    return len(declared) == len(shape) and all(d in (0, s) for d, s in zip(declared, shape, strict=True))


def feature_level(definition: OpDef, call_types: Sequence[OperandCode]) -> int:
    """The lowest feature level (1 to 8) that has the operation with this leading type."""
    return definition.types[call_types[0]] if call_types else 1


def _names(codes: Any) -> str:
    return " or ".join(sorted(code.name for code in codes))


def _counts(signatures: Sequence[Signature]) -> str:
    """All numbers of inputs that one of several overloads takes, none of them variadic."""
    counts = [
        count
        for count in range(1 + max(len(signature.params) for signature in signatures))
        if any(signature.takes(count) for signature in signatures)
    ]
    if counts == list(range(counts[0], counts[-1] + 1)):
        return _range(counts[0], counts[-1])
    return f"{', '.join(map(str, counts[:-1]))} or {counts[-1]}"


def _range(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least}"
    return str(least) if least == most else f"{least} to {most}"
