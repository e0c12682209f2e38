"""Operations that may be slower on a device than on the reference device, by which factor, and why.

The first row whose pattern is found in an operation's name and type (``ABS T[1,56,56,64] on f32``) counts. Factors are
for a busy machine, about twice what an idle one gives: they tell a kernel that got slower from one that always was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MOVES = (
    "RESHAPE|SQUEEZE|EXPAND_DIMS|TRANSPOSE|TILE|REVERSE|CHANNEL_SHUFFLE|PAD|PAD_V2|MIRROR_PAD|SLICE|STRIDED_SLICE|SPLIT|"
    "GATHER|EMBEDDING_LOOKUP|HASHTABLE_LOOKUP|CONCATENATION|PACK|DEPTH_TO_SPACE|SPACE_TO_DEPTH|SPACE_TO_BATCH_ND|"
    "BATCH_TO_SPACE_ND|RESIZE_NEAREST_NEIGHBOR|FILL|SELECT"
)
_MAPS = (
    "ABS|ADD|CAST|DEQUANTIZE|DIV|ELU|EXP|FLOOR|HARD_SWISH|LOG|LOGICAL_NOT|LOGISTIC|MAXIMUM|MINIMUM|MUL|NEG|POW|PRELU|"
    "QUANTIZE|RELU|RELU1|RELU6|RSQRT|SIN|SQRT|SUB|TANH|IF|WHILE"
)
_COMPARISONS = "EQUAL|GREATER|GREATER_EQUAL|LESS|LESS_EQUAL|NOT_EQUAL|LOGICAL_AND|LOGICAL_OR"
_FOLDS = "ARGMAX|ARGMIN|MEAN|REDUCE_ALL|REDUCE_ANY|REDUCE_MAX|REDUCE_MIN|REDUCE_PROD|REDUCE_SUM"
_SEQUENCES = "(UNI|BI)DIRECTIONAL_SEQUENCE_(RNN|LSTM)"


@dataclass(frozen=True, slots=True)
class Slower:
    """A row of the table."""

    name: str
    pattern: str
    at_most: float
    """How many times as long as the reference device."""
    why: str


SLOWER: Sequence[Slower] = (
    Slower(
        "small",
        r"^(RANK|RNN|LSTM|SVDF|QUANTIZED_LSTM|SOFTMAX [^ ]*1[x,]1001\S*|TOPK_V2 T\[1,10007\])[ ,]",
        16,
        "so little to compute that to submit it and to wait for it is most of the time",
    ),
    Slower(
        "moves",
        rf"^({_MOVES})\b",
        24,
        "NumPy copies rows at the memory's speed; here each tensor is also copied into the device's memory or out of "
        "it, and llvmpipe reads and writes every word by itself",
    ),
    Slower(
        "places",
        r"^(GATHER_ND|SCATTER_ND)\b",
        3,
        "moves whose places are computed first; rows are copied word by word, by llvmpipe, and in one go by NumPy",
    ),
    Slower(
        "maps",
        rf"^({_MAPS}|{_COMPARISONS})\b",
        16,
        "one pass over the memory for NumPy; here each tensor is also copied into the device's memory or out of it, "
        "and llvmpipe reads and writes every word by itself",
    ),
    Slower(
        "rows",
        r"^(ARGMAX|ARGMIN) T\[16,10007\]",
        18,
        "an invocation searches a whole row, and there are few",
    ),
    Slower(
        "folds",
        rf"^({_FOLDS})\b",
        14,
        "one pass over the memory for NumPy; here the input is also copied into the device's memory, and llvmpipe "
        "reads every word by itself",
    ),
    Slower(
        "time steps",
        rf"^{_SEQUENCES}\b",
        16,
        "every time step waits for the previous one, in a separate dispatch; a GEMM of one row is memory-bound, and "
        "BLAS begins it in a microsecond",
    ),
    Slower(
        "exponentials",
        r"^(SOFTMAX|LOG_SOFTMAX)\b",
        10,
        "NumPy's exponential has vectors of 512 bits, llvmpipe 256; the shader computes each twice, for the sum "
        "and for the result",
    ),
    Slower(
        "pools",
        r"^(AVERAGE_POOL_2D|L2_POOL_2D|MAX_POOL_2D)\b",
        6,
        "passes over the memory with wide vectors for NumPy; llvmpipe reads every word of a window by itself",
    ),
    Slower(
        "neighbours",
        r"^(L2_NORMALIZATION|LOCAL_RESPONSE_NORMALIZATION|INSTANCE_NORMALIZATION|RESIZE_BILINEAR)\b",
        4,
        "few operations for each element: llvmpipe reads and writes every word by itself",
    ),
    Slower(
        "products",
        r"^(BATCH_MATMUL|TRANSPOSE_CONV_2D|FULLY_CONNECTED|CONV_2D)\b",
        12,
        "BLAS multiplies with vectors of 512 bits",
    ),
    Slower(
        "peaks",
        r"^HEATMAP_MAX_KEYPOINT\b",
        6,
        "one pass over the memory for NumPy; llvmpipe reads every word by itself, and waits at every barrier",
    ),
    Slower(
        "chance",
        r"^RANDOM_MULTINOMIAL\b",
        6,
        "exponentials and their sums are whole numbers of 64 bits in two words, to draw as the reference does; NumPy "
        "has doubles",
    ),
    Slower("bytes", r"^TOPK_V2\b.* on [ui]8", 10, "NumPy sorts bytes by radix"),
    Slower(
        "hashes",
        r"^LSH_PROJECTION\b",
        2,
        "a hash is one long chain of 64-bit products, which are several instructions each",
    ),
)


def allowance(name: str) -> Slower | None:
    """The row for an operation on a type, if there is one."""
    return next((row for row in SLOWER if re.search(row.pattern, name)), None)
