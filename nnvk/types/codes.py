"""The enumerations of NeuralNetworks.h at feature level 8, with its numbers (``ANEURALNETWORKS_`` left out)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from nnvk.base.errors import ResultCode

__all__ = [
    "BYTE_SIZE_OF_CACHE_TOKEN",
    "MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES",
    "DeviceTypeCode",
    "DurationCode",
    "ExtensionCode",
    "FeatureLevelCode",
    "FuseCode",
    "OperandCode",
    "OperationCode",
    "PaddingCode",
    "PreferenceCode",
    "PriorityCode",
    "ResultCode",
]

MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES = 128
"""Bytes up to which `Model.set_operand_value` copies at once; above it refers to the caller's buffer."""
BYTE_SIZE_OF_CACHE_TOKEN = 32
"""Bytes of a compilation's cache token."""
EXTENSION_LOW_BITS = 16
"""An extension's code as a number: the extension's prefix above so many bits, the code within it below."""


class OperandCode(IntEnum):
    """Type of an operand: a scalar, a tensor, or a model."""

    __hash__ = int.__hash__  # Enum's is a function in Python, and every table of types calls it

    FLOAT32 = 0
    INT32 = 1
    UINT32 = 2
    TENSOR_FLOAT32 = 3
    TENSOR_INT32 = 4
    TENSOR_QUANT8_ASYMM = 5
    BOOL = 6
    TENSOR_QUANT16_SYMM = 7
    TENSOR_FLOAT16 = 8
    TENSOR_BOOL8 = 9
    FLOAT16 = 10
    TENSOR_QUANT8_SYMM_PER_CHANNEL = 11
    TENSOR_QUANT16_ASYMM = 12
    TENSOR_QUANT8_SYMM = 13
    TENSOR_QUANT8_ASYMM_SIGNED = 14
    MODEL = 15


class OperationCode(IntEnum):
    """The 106 operations."""

    __hash__ = int.__hash__

    ADD = 0
    AVERAGE_POOL_2D = 1
    CONCATENATION = 2
    CONV_2D = 3
    DEPTHWISE_CONV_2D = 4
    DEPTH_TO_SPACE = 5
    DEQUANTIZE = 6
    EMBEDDING_LOOKUP = 7
    FLOOR = 8
    FULLY_CONNECTED = 9
    HASHTABLE_LOOKUP = 10
    L2_NORMALIZATION = 11
    L2_POOL_2D = 12
    LOCAL_RESPONSE_NORMALIZATION = 13
    LOGISTIC = 14
    LSH_PROJECTION = 15
    LSTM = 16
    MAX_POOL_2D = 17
    MUL = 18
    RELU = 19
    RELU1 = 20
    RELU6 = 21
    RESHAPE = 22
    RESIZE_BILINEAR = 23
    RNN = 24
    SOFTMAX = 25
    SPACE_TO_DEPTH = 26
    SVDF = 27
    TANH = 28
    BATCH_TO_SPACE_ND = 29
    DIV = 30
    MEAN = 31
    PAD = 32
    SPACE_TO_BATCH_ND = 33
    SQUEEZE = 34
    STRIDED_SLICE = 35
    SUB = 36
    TRANSPOSE = 37
    ABS = 38
    ARGMAX = 39
    ARGMIN = 40
    AXIS_ALIGNED_BBOX_TRANSFORM = 41
    BIDIRECTIONAL_SEQUENCE_LSTM = 42
    BIDIRECTIONAL_SEQUENCE_RNN = 43
    BOX_WITH_NMS_LIMIT = 44
    CAST = 45
    CHANNEL_SHUFFLE = 46
    DETECTION_POSTPROCESSING = 47
    EQUAL = 48
    EXP = 49
    EXPAND_DIMS = 50
    GATHER = 51
    GENERATE_PROPOSALS = 52
    GREATER = 53
    GREATER_EQUAL = 54
    GROUPED_CONV_2D = 55
    HEATMAP_MAX_KEYPOINT = 56
    INSTANCE_NORMALIZATION = 57
    LESS = 58
    LESS_EQUAL = 59
    LOG = 60
    LOGICAL_AND = 61
    LOGICAL_NOT = 62
    LOGICAL_OR = 63
    LOG_SOFTMAX = 64
    MAXIMUM = 65
    MINIMUM = 66
    NEG = 67
    NOT_EQUAL = 68
    PAD_V2 = 69
    POW = 70
    PRELU = 71
    QUANTIZE = 72
    QUANTIZED_16BIT_LSTM = 73
    RANDOM_MULTINOMIAL = 74
    REDUCE_ALL = 75
    REDUCE_ANY = 76
    REDUCE_MAX = 77
    REDUCE_MIN = 78
    REDUCE_PROD = 79
    REDUCE_SUM = 80
    ROI_ALIGN = 81
    ROI_POOLING = 82
    RSQRT = 83
    SELECT = 84
    SIN = 85
    SLICE = 86
    SPLIT = 87
    SQRT = 88
    TILE = 89
    TOPK_V2 = 90
    TRANSPOSE_CONV_2D = 91
    UNIDIRECTIONAL_SEQUENCE_LSTM = 92
    UNIDIRECTIONAL_SEQUENCE_RNN = 93
    RESIZE_NEAREST_NEIGHBOR = 94
    QUANTIZED_LSTM = 95
    IF = 96
    WHILE = 97
    ELU = 98
    HARD_SWISH = 99
    FILL = 100
    RANK = 101
    BATCH_MATMUL = 102
    PACK = 103
    MIRROR_PAD = 104
    REVERSE = 105


class FuseCode(IntEnum):
    """Activation fused into an operation."""

    NONE = 0
    RELU = 1
    RELU1 = 2
    RELU6 = 3


class PaddingCode(IntEnum):
    """Implicit padding."""

    SAME = 1
    VALID = 2


class PreferenceCode(IntEnum):
    """The preference for executions."""

    LOW_POWER = 0
    FAST_SINGLE_ANSWER = 1
    SUSTAINED_SPEED = 2


class PriorityCode(IntEnum):
    """Relative priority of a compilation's executions."""

    LOW = 90
    MEDIUM = 100
    HIGH = 110


class DeviceTypeCode(IntEnum):
    """Kind of device."""

    UNKNOWN = 0
    OTHER = 1
    CPU = 2
    GPU = 3
    ACCELERATOR = 4


class DurationCode(IntEnum):
    """The durations that `Execution.get_duration` measures."""

    DURATION_ON_HARDWARE = 0
    DURATION_IN_DRIVER = 1
    FENCED_DURATION_ON_HARDWARE = 2
    FENCED_DURATION_IN_DRIVER = 3


class FeatureLevelCode(IntEnum):
    """Feature levels as a device reports them."""

    LEVEL_1 = 27
    LEVEL_2 = 28
    LEVEL_3 = 29
    LEVEL_4 = 30
    LEVEL_5 = 31
    LEVEL_6 = 1000006
    LEVEL_7 = 1000007
    LEVEL_8 = 1000008


@dataclass(frozen=True, slots=True)
class ExtensionCode:
    """An operation of somebody else's extension, in the place of an `OperationCode`: only its driver knows it."""

    extension: str
    """The extension's name, e.g. ``com.example.filters``."""
    code: int
    """The number of the operation within the extension, from 0."""

    @property
    def name(self) -> str:
        """The text for people."""
        return f"{self.extension}/{self.code}"
