"""The operands that an operation accepts: parameters, signatures, and the data type that ties them together.

Most operations are generic in one type ``T``, the type of their leading tensor: an ADD of FLOAT32 gives
FLOAT32. A parameter says which operand codes it accepts as a function of ``T``, so that one signature covers
all data types of an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nnvk.types.codes import FuseCode, OperandCode

F32 = OperandCode.TENSOR_FLOAT32
F16 = OperandCode.TENSOR_FLOAT16
I32 = OperandCode.TENSOR_INT32
BOOL8 = OperandCode.TENSOR_BOOL8
Q8 = OperandCode.TENSOR_QUANT8_ASYMM
Q8S = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
Q8_SYMM = OperandCode.TENSOR_QUANT8_SYMM
Q8_CHANNEL = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
Q16_SYMM = OperandCode.TENSOR_QUANT16_SYMM
Q16_ASYMM = OperandCode.TENSOR_QUANT16_ASYMM

# Leading types and the feature level (1 to 8) that brought them, for `OpDef.types`.
FLOAT32: Mapping[OperandCode, int] = {F32: 1}
FLOATS: Mapping[OperandCode, int] = {F32: 1, F16: 3}
QUANT8: Mapping[OperandCode, int] = {Q8: 1, Q8S: 4}

EXTENSIONS_SINCE = 3
"""The feature level that brought vendor extensions."""

Codes = frozenset[OperandCode]
Accepts = Callable[[OperandCode], Codes]
"""The codes that a parameter accepts where the leading tensor has the given code."""


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()
"""Marks a parameter that can't be left out."""


@dataclass(frozen=True, slots=True)
class Param:
    """One input or output of a signature."""

    name: str
    accepts: Accepts
    default: Any = REQUIRED
    """The value where a trailing parameter is absent or the operand has no value (NO_VALUE)."""
    variadic: bool = False
    """Takes all operands that the other parameters leave over, as a list."""
    since: int = 1
    """Feature level (1 to 8) that brought this parameter."""
    rank: tuple[int, int] | None = None
    """The least and the largest rank that a tensor may have; None where that is not all that is said of it."""
    listed: bool = False
    """It must be among the operands, though it may be one without a value."""

    @property
    def optional(self) -> bool:
        """Whether it can be left out."""
        return self.default is not REQUIRED


@dataclass(frozen=True, slots=True)
class Signature:
    """One overload of an operation: its input parameters, in order."""

    params: tuple[Param, ...]
    variadic: Param | None = field(compare=False, repr=False)
    """The variadic parameter, if there is one."""
    arity: tuple[int, int | None] = field(compare=False, repr=False)
    """The smallest and largest number of inputs (None: no limit)."""

    def __init__(self, *params: Param) -> None:
        variadic = next((param for param in params if param.variadic), None)
        required = sum(1 for param in params if not param.optional or param.listed)
        object.__setattr__(self, "params", params)
        object.__setattr__(self, "variadic", variadic)
        object.__setattr__(self, "arity", (required, None if variadic else len(params)))

    def takes(self, count: int) -> bool:
        """Whether so many inputs are an input for each parameter that can't be left out."""
        least, most = self.arity
        if self.variadic:
            return count >= least
        return (most is None or count <= most) and not self.required(count)

    def required(self, count: int) -> list[str]:
        """Names of the parameters that ``count`` inputs lack, of a signature that is not variadic."""
        return [param.name for param in self.params[count:] if not param.optional or param.listed]

    def spread(self, count: int) -> list[Param]:
        """The parameter of each of ``count`` inputs."""
        if self.variadic is None:
            return list(self.params[:count])
        params: list[Param] = []
        extra = count - len(self.params)
        for param in self.params:
            params += [param] * (extra + 1) if param.variadic else [param]
        return params[:count]


# --- rules for `Param.accepts` -------------------------------------------------------------------------------


def same(code: OperandCode) -> Codes:
    """The type of the leading tensor."""
    return frozenset({code})


def one_of(*codes: OperandCode) -> Accepts:
    """Always these types."""
    accepted = frozenset(codes)
    return lambda _: accepted


def by_type(rules: Mapping[OperandCode, OperandCode | Codes]) -> Accepts:
    """A table from the leading type to the accepted ones; types not listed accept themselves."""
    table = {code: rule if isinstance(rule, frozenset) else frozenset({rule}) for code, rule in rules.items()}
    return lambda code: table.get(code, frozenset({code}))


real_scalar: Accepts = by_type(
    {
        F16: OperandCode.FLOAT16,
        **dict.fromkeys((F32, I32, Q8, Q8S, Q16_SYMM, Q16_ASYMM, BOOL8), OperandCode.FLOAT32),
    }
)
"""A FLOAT16 scalar beside TENSOR_FLOAT16, a FLOAT32 scalar beside every other type."""


UP_TO_4 = (0, 4)
"""The ranks of operations that take at most 4."""


# --- parameters that occur everywhere ------------------------------------------------------------------------


Rank = int | tuple[int, int] | None
"""One rank, or the least and the largest; None: any."""


def tensor(
    name: str,
    accepts: Accepts = same,
    default: Any = REQUIRED,
    *,
    rank: Rank = None,
    variadic: bool = False,
    since: int = 1,
) -> Param:
    """A tensor, by default of the leading type and of any rank."""
    return Param(name, accepts, default, variadic, since, (rank, rank) if isinstance(rank, int) else rank)


def optional_tensor(name: str, accepts: Accepts = same, *, rank: Rank = None, since: int = 1) -> Param:
    """A tensor that may be left out; it is then None."""
    return tensor(name, accepts, None, rank=rank, since=since)


def i32(name: str, default: Any = REQUIRED, *, since: int = 1) -> Param:
    """An INT32 scalar."""
    return Param(name, one_of(OperandCode.INT32), default, False, since)


def boolean(name: str, default: Any = REQUIRED, *, since: int = 1) -> Param:
    """A BOOL scalar."""
    return Param(name, one_of(OperandCode.BOOL), default, False, since)


def real(name: str, default: Any = REQUIRED, accepts: Accepts = real_scalar, *, since: int = 1) -> Param:
    """A floating-point scalar."""
    return Param(name, accepts, default, False, since)


def activation(default: Any = REQUIRED) -> Param:
    """The FuseCode that ends the parameters of many operations."""
    return i32("activation", default)


NO_ACTIVATION = int(FuseCode.NONE)
LAYOUT = boolean("nchw", False, since=3)
"""The data layout: true for NCHW, false (the default) for NHWC."""
