"""The generator of operations that have none of their own: it draws operands as the signature describes them.

It suits an operation whose tensors have one shape, whose integers are axes or other small numbers, and that takes
all data. Other operations register a generator: weights, indices and regions depend on more than a signature says.
"""

from __future__ import annotations

import numpy as np

from generators.draw import Arg, Case, Draw, boolean, i32, like, omitted
from generators.run import frozen
from nnvk.base.errors import NnapiError
from nnvk.ops import registry
from nnvk.ops.check import check_calls
from nnvk.ops.quant import is_quantised
from nnvk.ops.registry import OpDef
from nnvk.ops.signature import Param, Signature
from nnvk.types.codes import OperandCode
from nnvk.types.extension import KnownCode
from nnvk.types.operand import OperandType

_ATTEMPTS = 50
_RANKS = (1, 4)
_REALS = (0.0, 0.5, 1.0, 2.5)
_ACTIVATIONS = 4


def derived(d: Draw, code: KnownCode, leading: OperandCode) -> Case:
    """Draw a case by the signature, again while the operation refuses it; the last one where it refuses all."""
    definition = registry.lookup(code)
    for _ in range(_ATTEMPTS):
        case = _drawn(d, code, definition, leading)
        try:
            check_calls(frozen(case))
        except NnapiError:
            continue
        break
    return case


def _drawn(d: Draw, code: KnownCode, definition: OpDef, leading: OperandCode) -> Case:
    signatures = definition.signatures
    signature = d.pick(signatures) if len(signatures) > 1 else signatures[0]
    params = _given(d, signature)
    names = [param.name for param in params]
    place = names.index(definition.leading) if definition.leading in names else 0
    first = d.any(leading, *_ranks(params[place]))
    inputs = [first if number == place else _input(d, param, first) for number, param in enumerate(params)]
    return Case(code, tuple(inputs), tuple(_output(d, param, first) for param in definition.outputs))


def _given(d: Draw, signature: Signature) -> list[Param]:
    """The parameters that get an operand: two for a variadic one, and all optional ones or none of them."""
    required, most = signature.arity
    if most is None:
        return signature.spread(len(signature.params) + 1)
    leaves_out = required < most and signature.takes(required) and d.chance()
    return signature.spread(required if leaves_out else most)


def _ranks(param: Param) -> tuple[int, int]:
    least, most = param.rank or _RANKS
    return max(least, _RANKS[0]), min(most, _RANKS[1])


def _code(d: Draw, param: Param, leading: OperandCode) -> OperandCode:
    accepted = param.accepts(leading)
    return leading if leading in accepted else d.pick(sorted(accepted))


def _input(d: Draw, param: Param, first: Arg) -> Arg:
    code = _code(d, param, first.type.code)
    type_ = OperandType(code)
    if code is OperandCode.BOOL:
        return boolean(d.chance())
    if code is OperandCode.INT32:
        return i32(d.integer(0, _ACTIVATIONS - 1 if param.name == "activation" else max(1, len(first.shape) - 1)))
    if not type_.is_tensor:
        return Arg(type_, np.array(d.pick(_REALS), type_.dtype), is_parameter=True)
    if param.optional and d.chance():
        return omitted(code)
    least, most = _ranks(param)
    return d.tensor(code, first.shape) if least <= len(first.shape) <= most else d.any(code, least, most)


def _output(d: Draw, param: Param, first: Arg) -> OperandType:
    code = _code(d, param, first.type.code)
    if code is first.type.code and not (is_quantised(code) and d.chance()):
        return like(first)
    return d.quantised(code)
