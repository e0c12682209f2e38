"""Operand types: what the specification calls ``ANeuralNetworksOperandType``, and what each code means in NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nnvk.base.checks import instance, real, whole, wholes
from nnvk.base.errors import bad_data
from nnvk.base.text import dimensions as dimensions_text
from nnvk.types.codes import OperandCode

Shape = tuple[int, ...]

SCALAR_CODES = frozenset(
    {OperandCode.FLOAT32, OperandCode.INT32, OperandCode.UINT32, OperandCode.BOOL, OperandCode.FLOAT16}
)
QUANT8_CODES = frozenset({OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED})
QUANTISED_CODES = QUANT8_CODES | {OperandCode.TENSOR_QUANT16_SYMM}
"""Types of quantised activations."""

_DTYPES: dict[OperandCode, np.dtype] = {
    code: np.dtype(dtype)
    for code, dtype in {
        OperandCode.FLOAT32: np.float32,
        OperandCode.INT32: np.int32,
        OperandCode.UINT32: np.uint32,
        OperandCode.BOOL: np.bool_,
        OperandCode.FLOAT16: np.float16,
        OperandCode.TENSOR_FLOAT32: np.float32,
        OperandCode.TENSOR_INT32: np.int32,
        OperandCode.TENSOR_QUANT8_ASYMM: np.uint8,
        OperandCode.TENSOR_QUANT16_SYMM: np.int16,
        OperandCode.TENSOR_FLOAT16: np.float16,
        OperandCode.TENSOR_BOOL8: np.bool_,
        OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL: np.int8,
        OperandCode.TENSOR_QUANT16_ASYMM: np.uint16,
        OperandCode.TENSOR_QUANT8_SYMM: np.int8,
        OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: np.int8,
    }.items()
}

_CODES = {int(code): code for code in OperandCode}
_ZERO_POINTS: dict[OperandCode, tuple[int, int]] = {
    OperandCode.TENSOR_QUANT8_ASYMM: (0, 255),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: (-128, 127),
    OperandCode.TENSOR_QUANT16_ASYMM: (0, 65535),
}
_SCALED = frozenset(
    {*_ZERO_POINTS, OperandCode.TENSOR_QUANT16_SYMM, OperandCode.TENSOR_QUANT8_SYMM, OperandCode.TENSOR_INT32}
)
_SMALLEST_SCALE = float(np.finfo(np.float32).smallest_subnormal)
_LARGEST_SCALE = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class ChannelQuant:
    """Scales of a TENSOR_QUANT8_SYMM_PER_CHANNEL operand (``ANeuralNetworksSymmPerChannelQuantParams``)."""

    scales: tuple[float, ...]
    """One positive scale per index of ``channel_dim``."""
    channel_dim: int


@dataclass(frozen=True, slots=True)
class OperandType:
    """``ANeuralNetworksOperandType``.

    ``dimensions`` of a tensor: a 0 is a size that is not known yet, ``()`` a rank that is not known yet.
    ``scale`` is in real units per quantisation step. ``zero_point`` is the level that stands for 0.0.
    """

    code: OperandCode
    dimensions: Shape = ()
    scale: float = 0.0
    zero_point: int = 0
    channel_quant: ChannelQuant | None = field(default=None)

    def __post_init__(self) -> None:
        """Take numbers as C code has them. BAD_DATA: the code is none. TypeError: something is no number."""
        code = whole("the operand's code", self.code)
        if code not in _CODES:
            raise bad_data(f"{code} is no operand code of feature level 8 (0 to 15)")
        object.__setattr__(self, "code", _CODES[code])
        object.__setattr__(self, "dimensions", wholes("the dimensions", self.dimensions))
        object.__setattr__(self, "scale", real("scale", self.scale))
        object.__setattr__(self, "zero_point", whole("the zero point", self.zero_point))
        if self.channel_quant is not None:
            instance("channel_quant", self.channel_quant, ChannelQuant)

    @property
    def is_tensor(self) -> bool:
        """Whether this is a tensor; otherwise it is a scalar or a model."""
        return self.code not in SCALAR_CODES and self.code != OperandCode.MODEL

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type of one element."""
        return dtype_of(self.code)

    @property
    def is_fully_specified(self) -> bool:
        """Whether rank and all dimensions are known. Scalars always are."""
        return not self.is_tensor or (bool(self.dimensions) and 0 not in self.dimensions)

    @property
    def size(self) -> int:
        """Bytes of a value, 0 where dimensions are not known."""
        if self.is_tensor and not self.is_fully_specified:
            return 0
        return math.prod(self.dimensions) * self.dtype.itemsize

    def with_dimensions(self, dimensions: Sequence[int]) -> OperandType:
        """The same type with other dimensions."""
        made = object.__new__(OperandType)  # all else was checked when this one was made
        put = object.__setattr__
        put(made, "code", self.code)
        put(made, "dimensions", wholes("the dimensions", dimensions))
        put(made, "scale", self.scale)
        put(made, "zero_point", self.zero_point)
        put(made, "channel_quant", self.channel_quant)
        return made

    def check(self, what: str) -> None:
        """Raise BAD_DATA where the parts of the type contradict each other. ``what`` names the operand."""
        if any(not 0 <= size < 2**32 for size in self.dimensions):
            raise bad_data(f"{what}: dimensions {self.dimensions} must be whole numbers from 0 to 2^32 - 1")
        if not self.is_tensor and self.dimensions:
            raise bad_data(f"{what}: a scalar of type {self.code.name} can't have dimensions {self.dimensions}")
        if (
            math.prod(size for size in self.dimensions if size)
            * (self.dtype.itemsize if self.code != OperandCode.MODEL else 0)
            >= 2**32
        ):
            raise bad_data(f"{what}: {self.dimensions} of {self.code.name} is 4 GiB or more")
        if self.scale and not _SMALLEST_SCALE <= self.scale <= _LARGEST_SCALE:
            raise bad_data(f"{what}: scale {self.scale} must be finite and not negative, a number of float32")
        if self.code in _ZERO_POINTS or self.code in (OperandCode.TENSOR_QUANT16_SYMM, OperandCode.TENSOR_QUANT8_SYMM):
            if self.scale == 0:
                raise bad_data(f"{what}: {self.code.name} needs a positive scale")
        elif self.scale and self.code not in _SCALED:
            raise bad_data(f"{what}: {self.code.name} can't have a scale, got {self.scale}")
        low, high = _ZERO_POINTS.get(self.code, (0, 0))
        if not low <= self.zero_point <= high:
            raise bad_data(f"{what}: zero point {self.zero_point} of {self.code.name} must be in [{low}, {high}]")

    def check_channels(self, what: str) -> None:
        """Raise BAD_DATA unless exactly a TENSOR_QUANT8_SYMM_PER_CHANNEL has scales, one for each channel."""
        quant = self.channel_quant
        if (self.code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL) != (quant is not None):
            raise bad_data(f"{what} is {self.code.name} and has {'no ' if quant is None else ''}scales of channels")
        if quant is None:
            return
        if not 0 <= quant.channel_dim < len(self.dimensions):
            raise bad_data(f"{what}: channel_dim {quant.channel_dim} is no dimension of {list(self.dimensions)}")
        channels = self.dimensions[quant.channel_dim]
        if len(quant.scales) != channels:
            raise bad_data(
                f"{what}: expected {channels} scales, as dimension {quant.channel_dim} has, got {len(quant.scales)}"
            )
        if not all(math.isfinite(scale) and scale > 0 for scale in quant.scales):
            raise bad_data(f"{what}: every scale of a channel must be finite and positive")

    @property
    def brief(self) -> str:
        """The type as tables have it: ``int8 1x16x16x1``, with NumPy's name of an element."""
        if self.code is OperandCode.MODEL:
            return "model"
        rank_is_open = self.is_tensor and not self.dimensions
        return f"{self.dtype} {'?' if rank_is_open else dimensions_text(self.dimensions)}"

    def __str__(self) -> str:
        quant = f" scale {self.scale:g} zero point {self.zero_point}" if self.scale else ""
        return f"{self.code.name}{list(self.dimensions) if self.is_tensor else ''}{quant}"


def dtype_of(code: OperandCode) -> np.dtype:
    """The NumPy type of one element of an operand of type ``code``."""
    try:
        return _DTYPES[code]
    except KeyError:
        raise bad_data(f"operands of type {code.name} have no data") from None
