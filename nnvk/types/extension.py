"""nnvk's vendor extension: operations that models of other formats need and NNAPI lacks."""

from __future__ import annotations

from enum import Enum

from nnvk.base.errors import bad_data
from nnvk.types.codes import ExtensionCode, OperationCode

EXTENSION = "org.nnvk.operations"
"""The extension's name, for `Model.get_extension_operation_type` and `Device.get_extension_support`."""


class ExtendedOperationCode(Enum):
    """The operations of the extension, with their numbers within it.

    Those with the name and number of one of NNAPI's are the same on TENSOR_QUANT16_SYMM, which NNAPI has for few; the
    others, from 256 on, are new. They are no `IntEnum`: as a number an operation of an extension has a prefix, which
    each model gives it.
    """

    ADD = 0
    AVERAGE_POOL_2D = 1
    CONCATENATION = 2
    CONV_2D = 3
    DEPTHWISE_CONV_2D = 4
    DEPTH_TO_SPACE = 5
    DEQUANTIZE = 6
    FULLY_CONNECTED = 9
    LOGISTIC = 14
    MAX_POOL_2D = 17
    MUL = 18
    RELU = 19
    RELU1 = 20
    RELU6 = 21
    RESHAPE = 22
    RESIZE_BILINEAR = 23
    SOFTMAX = 25
    SPACE_TO_DEPTH = 26
    TANH = 28
    PAD = 32
    SQUEEZE = 34
    STRIDED_SLICE = 35
    SUB = 36
    TRANSPOSE = 37
    EXPAND_DIMS = 50
    GATHER = 51
    GROUPED_CONV_2D = 55
    MAXIMUM = 65
    MINIMUM = 66
    PRELU = 71
    QUANTIZE = 72
    SELECT = 84
    SLICE = 86
    SPLIT = 87
    TILE = 89
    TRANSPOSE_CONV_2D = 91
    PACK = 103
    MIRROR_PAD = 104
    REVERSE = 105
    GATHER_ND = 256
    SCATTER_ND = 257
    NON_MAX_SUPPRESSION = 258
    ERF = 259
    GELU = 260
    ROUNDED_MEAN = 261
    TABLE_LOOKUP = 262
    QUANTIZE_TIES_TO_EVEN = 263
    ADD_INT64 = 264
    SUB_INT64 = 265
    MUL_INT64 = 266
    DIV_INT64 = 267
    COMPARE_INT64 = 268
    FLOAT_TO_INT64 = 269
    INT64_TO_FLOAT = 270
    INT64_TO_INT32 = 271
    ROI_ALIGN_V2 = 272
    ROUND_FLOAT = 274
    BITS = 275
    BITCAST = 276
    QUANTIZED_SVDF = 277
    BLOCK_QUANTIZED_FULLY_CONNECTED = 278
    BLOCK_QUANTIZED_EMBEDDING_LOOKUP = 279
    COS = 280
    TAN = 281
    ACOS = 282
    ASIN = 283
    ATAN = 284
    COSH = 285
    SINH = 286
    ACOSH = 287
    ASINH = 288
    ATANH = 289
    CBRT = 290
    SOFTPLUS = 291
    MISH = 292
    SWISH = 293
    ATAN2 = 294
    FLOOR_DIV = 295
    FLOOR_MOD = 296
    FMOD = 297
    DYNAMIC_QUANTIZE = 298
    ROUND_ROWS = 299
    UNIDIRECTIONAL_SEQUENCE_GRU = 300


KnownCode = OperationCode | ExtendedOperationCode
"""Operations that nnvk defines, and that its own devices run."""
AnyCode = KnownCode | ExtensionCode
"""The codes that an operation of a model may have."""


def operation_of(extension: str, code: int) -> ExtendedOperationCode | ExtensionCode:
    """An extension's operation by its number; BAD_DATA if that is none of nnvk's own extension."""
    if extension != EXTENSION:
        return ExtensionCode(extension, code)
    try:
        return ExtendedOperationCode(code)
    except ValueError:
        raise bad_data(f"{EXTENSION} has no operation {code}") from None
