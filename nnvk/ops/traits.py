"""Traits: the properties of an operation that importers, passes and kernels go by, declared with its definition.

They hold on every device. A trait that an operation does not have is None, or no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, IntEnum, auto

from nnvk.ops.call import Call
from nnvk.ops.strided import Box
from nnvk.ops.window import Axis
from nnvk.types.codes import FuseCode


class Fp16(Enum):
    """Whether a relaxed model may compute an operation with 16-bit floats."""

    STARTS = auto()
    """Yes: a GEMM gains from narrow operands, so they are converted for it."""
    FOLLOWS = auto()
    """Yes, where an operand is a 16-bit float already: results stay about as large as operands."""
    NEVER = auto()
    """No: the results may leave the range of 16-bit floats, as squares and powers do, or need more digits."""


class Function(IntEnum):
    """The elementwise functions that fused dispatches compute, as `shaders/include/elementwise.glsl` numbers them."""

    ADD = 1
    SUB = 2
    MUL = 3
    DIV = 4
    MAXIMUM = 5
    MINIMUM = 6
    PRELU = 7
    AT_LEAST = 8
    AT_MOST = 9
    ABS = 10
    NEG = 11
    FLOOR = 12
    EXP = 13
    ELU = 14
    HARD_SWISH = 15
    LOG = 16
    LOGISTIC = 17
    RSQRT = 18
    SIN = 19
    SQRT = 20
    TANH = 21
    ERF = 22
    GELU = 23
    GELU_BY_TANH = 24
    SATURATE = 25
    """Numbers beyond the range of float16 become its ends. No operation has this function; conversions do."""
    COS = 26
    MISH = 27
    SOFTPLUS = 28
    SWISH = 29


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An operation that computes each element of its output from one element of each operand."""

    kind: str
    """The function's name in the names of shader variants."""
    operands: tuple[str, ...] = ("input",)
    """The names of its parameters that are tensors; two of them broadcast."""
    numbers: tuple[str, ...] = ()
    """The names of its parameters that are real numbers, two at most; shaders call them ``low`` and ``high``."""
    function: Function | None = None
    """The function; None if fused dispatches can't compute it, or if it is ``clip``."""
    approximate: tuple[str, Function] | None = None
    """Kind and function that replace these where the parameter ``approximate`` is true."""
    clip: FuseCode = FuseCode.NONE
    """The activation that the operation computes, if it is one."""
    is_fused: bool = False
    """Whether the operation has a parameter ``activation`` that follows the function."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters that are no tensors."""
        activation = ("activation",) if self.is_fused else ()
        return (*self.numbers, *activation, *(("approximate",) if self.approximate is not None else ()))


@dataclass(frozen=True, slots=True)
class Gemm:
    """An operation that multiplies matrices: each element of its output is a sum of products with weights."""

    input: str
    """The names of its parameters: the activations,"""
    weights: str
    """the weights, or the second matrix,"""
    bias: str | None
    """and the vector that is added, if it has one."""
    summed: slice
    """The axes of the weights that a sum goes along."""


class View(Enum):
    """How an operation's output shows all elements of its input, each once and with its value."""

    RESHAPED = auto()
    """In the same order in memory, with other dimensions."""
    TRANSPOSED = auto()
    """With the axes in another order."""


class Effect(Flag):
    """Effects of an operation besides its outputs. Passes must not drop or merge an operation that has one."""

    NONE = 0
    RANDOM = auto()
    """Two calls with equal inputs may give different outputs."""
    CHECKS_DATA = auto()
    """An execution fails if the elements of an input break a rule, also if nobody reads the outputs."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of an operation. The first two have no default, so that each definition says them."""

    foldable: bool
    """Importers compute it if all inputs are constants: models compute shapes with it.

    It takes not much more time than it has elements, as a GEMM would.
    """
    fp16: Fp16
    elementwise: Elementwise | None = None
    gemm: Gemm | None = None
    window: Callable[[Call], tuple[Axis, Axis]] | None = None
    """The vertical and the horizontal axis along which a window slides over the images of ``input``.

    Padding stands for zeros if the operation is a GEMM. Otherwise padding does not count.
    """
    converts: bool = False
    """The operation computes each element of ``output`` from the element of ``input`` at the same place, and perhaps
    from others whatever their order is. It is not one of the arithmetic operations that are `elementwise`."""
    view: View | None = None
    boxes: Callable[[Call], Sequence[Box] | None] | None = None
    """The boxes of ``input`` that the outputs of a call are, one for each output; None for a call that computes more.

    Raises UnknownValue if a value that decides on them is not known.
    """
    effects: Effect = Effect.NONE
