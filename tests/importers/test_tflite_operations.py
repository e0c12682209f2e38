"""The operations that operators of TFLite become: on levels where NNAPI can, else on real numbers, and no more.

Results are compared with TFLite's elsewhere. In the tables, tensors are letters (`TENSORS`); the operations are
NNAPI's, ``*`` is the operator's own name, and DEQUANTIZE and QUANTIZE are "real" and "levels".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import tflite
from tflite_net import Net, T, write
from tflite_oracle import f32, f32c, i32c, int4c, out, q8c, scalar

from nnvk.importers.tflite import TfliteImportError, load

SHORT = {"DEQUANTIZE": "real", "QUANTIZE": "levels"}
TENSORS: dict[str, dict[str, Any]] = {
    "f": {},
    "h": {"type": "FLOAT16"},
    "i": {"type": "INT32"},
    "b": {"type": "BOOL"},
    "s": {"type": "INT8", "scale": 0.05, "zero_point": 3},
    "S": {"type": "INT8", "scale": 0.1, "zero_point": 3},
    "z": {"type": "INT8", "scale": 0.05, "zero_point": 4},
    "d": {"type": "INT8", "scale": 0.02, "zero_point": 3},
    "u": {"type": "UINT8", "scale": 0.05, "zero_point": 131},
    "w": {"type": "INT16", "scale": 0.001},
    "W": {"type": "INT16", "scale": 0.002},
    "n": {"type": "INT8"},
    "N": {"type": "UINT8"},
    # The one quantisation of LOGISTIC and SOFTMAX, and that of TANH and L2_NORMALIZATION.
    "p": {"type": "INT8", "scale": 1 / 256, "zero_point": -128},
    "P": {"type": "UINT8", "scale": 1 / 256},
    "t": {"type": "INT8", "scale": 1 / 128},
    "o": {"type": "UINT8", "scale": 1 / 128, "zero_point": 128},
    "v": {"type": "INT16", "scale": 1 / 32768},
}
"""Real numbers, halves, whole numbers, booleans, and levels of several types, scales and zero points."""
OPTIONS = {
    **{"AVERAGE_POOL_2D": "Pool2DOptions", "L2_POOL_2D": "Pool2DOptions", "MAX_POOL_2D": "Pool2DOptions"},
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), "ReducerOptions"),
    **{"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"},
    **{"SOFTMAX": "SoftmaxOptions", "L2_NORMALIZATION": "L2NormOptions", "LEAKY_RELU": "LeakyReluOptions"},
}
WINDOW = {"StrideW": 1, "StrideH": 1, "FilterWidth": 2, "FilterHeight": 2}
POOLS = ("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D")
VALUES: dict[str, dict[str, Any]] = {
    **{name: WINDOW for name in POOLS},
    "LEAKY_RELU": {"Alpha": 0.5},
    "SOFTMAX": {"Beta": 1.0},
}
ROUNDED = "ROUND_ROWS"
SQUARE = "real levels TABLE_LOOKUP real levels TABLE_LOOKUP SUB TABLE_LOOKUP real levels"
ORDERED = "real levels TABLE_LOOKUP real real levels TABLE_LOOKUP real *"
TRUNCATED = "DIV MUL SUB LESS NOT_EQUAL LOGICAL_AND SELECT ADD"
TABLE = [
    # Operators, inputs > output, operations. An output of other levels than the operation's is converted.
    ("FLOOR NEG SIN SQRT", "f>f", "*"),
    ("FLOOR SIN", "s>s u>u w>w s>w", "real * levels"),
    ("NEG", "s>s w>w", "TABLE_LOOKUP"),
    ("NEG", "u>u s>w", "real * levels"),
    ("SQRT", "s>s", "TABLE_LOOKUP"),
    ("SQRT", "u>u w>w s>w", "real * levels"),
    ("ELU EXP LOG ABS GELU", "f>f", "*"),
    ("ELU EXP LOG ABS GELU RELU_0_TO_1", "s>s s>S s>z s>u u>s w>w w>W", "TABLE_LOOKUP"),
    ("ELU EXP LOG ABS GELU", "s>w w>s w>u", "real * levels"),
    ("ELU EXP LOG ABS GELU", "s>f w>f", "real *"),
    ("RELU_0_TO_1", "f>f", "MINIMUM MAXIMUM"),
    ("RELU_0_TO_1", "s>w w>s", "real MINIMUM MAXIMUM levels"),
    ("RELU RELU6", "f>f h>h s>s u>u", "*"),
    ("RELU_N1_TO_1", "f>f h>h s>s u>u", "RELU1"),
    ("RELU RELU6 RELU_N1_TO_1", "s>S s>z s>u u>s w>W", "TABLE_LOOKUP"),
    ("RELU RELU6", "s>w", "* real levels"),
    ("RELU RELU6", "s>f", "* real"),
    ("HARD_SWISH RSQRT", "f>f h>h s>s s>S s>z u>u", "*"),
    ("HARD_SWISH", "w>w w>s", "real * levels"),
    ("RSQRT", "w>w w>W", "TABLE_LOOKUP"),
    ("RSQRT", "w>s", "real * levels"),
    ("LOGISTIC SOFTMAX", "f>f h>h s>p u>P w>v", "*"),
    ("TANH", "f>f h>h s>t u>o w>v", "*"),
    ("L2_NORMALIZATION", "f>f h>h s>t u>o", "*"),
    ("LOGISTIC SOFTMAX", "s>s s>t s>P s>v u>p w>w w>p", "real * levels"),
    ("TANH", "s>s s>p s>o s>v u>t w>w w>t", "real * levels"),
    ("L2_NORMALIZATION", "s>s s>p s>o u>t w>w w>v", "real * levels"),
    ("LOGISTIC SOFTMAX TANH L2_NORMALIZATION", "s>f w>f", "real *"),
    ("LOG_SOFTMAX", "f>f", "*"),
    ("LOG_SOFTMAX", "s>s w>w", "real * levels"),
    ("LEAKY_RELU", "f>f h>h s>s s>S u>u w>w", "PRELU"),
    ("PRELU", "ff>f hh>h ss>s sS>z uu>u", "PRELU"),
    ("PRELU", "fs>f", "real PRELU"),
    ("ADD SUB MUL", "ff>f hh>h ii>i ss>s ss>S sS>s uu>u ww>w", "*"),
    ("ADD SUB MUL DIV MAXIMUM MINIMUM POW", "sf>s fs>s", "real * levels"),
    ("ADD SUB MUL DIV POW", "ss>u sw>s", "real real * levels"),
    ("DIV POW", "su>s us>s", "real real * levels"),
    ("MUL DIV POW", "ss>f", "real real *"),
    ("DIV", "ff>f", "*"),
    ("DIV", "ss>s uu>u ww>w", "real real * levels"),
    ("DIV", "ii>i", TRUNCATED),
    ("MUL", "SS>p", "real real MUL levels"),
    ("MAXIMUM MINIMUM", "ff>f ii>i ss>s ss>S sS>s uu>u ww>w", "*"),
    ("MAXIMUM MINIMUM", "sw>s", "real real * levels"),
    ("POW", "ff>f", "*"),
    ("POW", "ss>s uu>u ww>w", "real real * levels"),
    ("SQUARE", "f>f", "MUL"),
    ("SQUARE", "s>s", "real MUL levels"),
    ("SQUARED_DIFFERENCE", "ff>f ii>i", "SUB MUL"),
    ("SQUARED_DIFFERENCE", "ss>s sS>z", SQUARE),
    ("SQUARED_DIFFERENCE", "ss>u su>s us>s uu>u ww>w sw>s", "real real SUB MUL levels"),
    ("SQUARED_DIFFERENCE", "sf>s", "real SUB MUL levels"),
    ("SQUARED_DIFFERENCE", "ss>f", "real real SUB MUL"),
    ("FLOOR_DIV", "ff>f", "FLOOR_DIV"),
    ("FLOOR_DIV", "ii>i", "DIV"),
    ("FLOOR_DIV", "ss>s ww>w", "TABLE_LOOKUP real TABLE_LOOKUP real FLOOR_DIV levels TABLE_LOOKUP"),
    ("FLOOR_DIV", "uu>u", "real real FLOOR_DIV levels"),
    ("FLOOR_MOD", "ff>f", "FLOOR_MOD"),
    ("FLOOR_MOD", "ii>i", "DIV MUL SUB"),
    ("FLOOR_MOD", "ss>s ww>w", "TABLE_LOOKUP real TABLE_LOOKUP real FLOOR_MOD levels TABLE_LOOKUP"),
    ("FLOOR_MOD", "uu>u", "real real FLOOR_MOD levels"),
    ("ADD_N", "ff>f", "ADD"),
    ("ADD_N", "fff>f", "ADD ADD"),
    ("ADD_N", "ss>s", "real real ADD levels"),
    ("EQUAL LESS", "ff>b ii>b ss>b sS>b sz>b uu>b", "*"),
    ("EQUAL LESS", "sd>b ds>b", ORDERED),
    ("EQUAL LESS", "sf>b fs>b", "real *"),
    ("EQUAL LESS", "sw>b", "real real *"),
    ("EQUAL", "ww>b", "real real *"),
    ("LESS GREATER_EQUAL", "ww>b", "TABLE_LOOKUP real TABLE_LOOKUP real *"),
    ("LOGICAL_AND LOGICAL_OR", "bb>b", "*"),
    ("LOGICAL_NOT", "b>b", "*"),
    # An output that is the input is a copy of it.
    ("CAST", "f>f h>h i>i n>n N>N", "RESHAPE"),
    ("CAST", "b>b", "LOGICAL_OR"),
    ("CAST", "f>h f>i f>N h>f h>i h>N i>f i>h i>N N>f N>h N>i", "CAST"),
    ("CAST", "b>f b>h b>i b>N b>n", "SELECT"),
    ("CAST", "f>b h>b i>b N>b n>b s>b", "NOT_EQUAL"),
    ("CAST", "n>f", "real"),
    ("CAST", "n>h n>i n>N", "real CAST"),
    ("AVERAGE_POOL_2D MAX_POOL_2D", "f>f s>s u>u", "*"),
    ("AVERAGE_POOL_2D MAX_POOL_2D", "s>S s>z s>u", "* real levels"),
    ("AVERAGE_POOL_2D MAX_POOL_2D", "s>f", "* real"),
    ("L2_POOL_2D", "f>f", "*"),
    ("MEAN REDUCE_MAX REDUCE_MIN REDUCE_PROD", "f>f", "*"),
    ("MEAN", "s>s s>S s>z u>u w>w", "ROUNDED_MEAN"),
    ("MEAN", "s>u s>w", "real MEAN levels"),
    ("REDUCE_MAX REDUCE_MIN", "s>s u>u", "*"),
    ("REDUCE_MAX REDUCE_MIN", "s>S s>z s>u", "* real levels"),
    ("REDUCE_PROD", "u>u", "real REDUCE_PROD levels"),
    ("SUM", "f>f", "REDUCE_SUM"),
    ("SUM", "s>s s>S u>u", "real REDUCE_SUM levels"),
    ("QUANTIZE", "f>s h>s", "levels"),
    ("QUANTIZE", "s>s i>i", "RESHAPE"),
    ("QUANTIZE", "s>S s>z s>u u>s w>W", "TABLE_LOOKUP"),
    ("QUANTIZE", "s>w", "real levels TABLE_LOOKUP"),
    ("QUANTIZE", "w>s", "TABLE_LOOKUP real levels"),
    ("DEQUANTIZE", "s>f w>f", "real"),
    ("DEQUANTIZE", "h>f", "CAST"),
    ("DEQUANTIZE", "f>f", "RESHAPE"),
    ("BATCH_MATMUL", "ff>f ss>s sS>z", "*"),
    ("BATCH_MATMUL", "uu>u su>s us>s ww>w", "real real * levels"),
    ("BATCH_MATMUL", "sf>f", "real *"),
    ("BATCH_MATMUL", "fs>f", f"{ROUNDED} real *"),
]


def rows() -> Iterator[tuple[str, str, str]]:
    """Operators, their tensors and operations, one by one."""
    for names, kinds, operations in TABLE:
        for name in names.split():
            for kind in kinds.split():
                yield name, kind, operations.replace("*", name)


def operations(
    name: str, inputs: Sequence[T | None], result: T, table: str | None = None, *, rounds: bool = True, **options: Any
) -> str:
    """The operations of the model of one operator."""
    free = [tensor for tensor in inputs if tensor is not None and tensor.is_free] or [f32(1)]
    net = Net(free, [result])
    net.op(name, inputs, result, table, **options)
    codes = [one.code.name for one in load(write(net), round_hybrid=rounds).model.frozen.operations]
    return " ".join(SHORT.get(code, code) for code in codes)


def inputs_of(name: str, kinds: str) -> list[T]:
    shape = (1, 4, 4, 2) if name in POOLS else (2, 3, 3) if name == "BATCH_MATMUL" else (2, 3)
    axes = [i32c(1)] if OPTIONS.get(name) == "ReducerOptions" else []
    return [*(T(**{"shape": shape, "type": "FLOAT32"} | TENSORS[kind]) for kind in kinds), *axes]


@pytest.mark.parametrize(("name", "kinds", "wanted"), list(rows()))
def test_operations(name: str, kinds: str, wanted: str) -> None:
    sources, result = kinds.split(">")
    made = T(**TENSORS[result])
    assert operations(name, inputs_of(name, sources), made, OPTIONS.get(name), **VALUES.get(name, {})) == wanted


# --- refused: types that neither NNAPI's operation takes nor another way ----------------------------------------

REFUSED = [
    ("LEAKY_RELU", "s>w", "input must be TENSOR_QUANT16_SYMM, got TENSOR_QUANT8_ASYMM_SIGNED"),
    ("HARD_SWISH RSQRT", "s>w", "output output must be TENSOR_QUANT8_ASYMM_SIGNED, got TENSOR_QUANT16_SYMM"),
    ("HARD_SWISH RSQRT LEAKY_RELU", "s>f", "output output must be TENSOR_QUANT8_ASYMM_SIGNED, got"),
    ("ADD SUB", "ss>f", "output output must be TENSOR_QUANT8_ASYMM_SIGNED, got TENSOR_FLOAT32"),
    ("MAXIMUM MINIMUM", "ss>f ss>u", "output output must be TENSOR_QUANT8_ASYMM_SIGNED, got"),
    ("ADD SUB MUL MAXIMUM MINIMUM", "su>s", "input1 (input 1) must be TENSOR_QUANT8_ASYMM_SIGNED, got"),
    ("L2_POOL_2D", "s>s", "input must be TENSOR_FLOAT16 or TENSOR_FLOAT32, got TENSOR_QUANT8_ASYMM_SIGNED"),
    ("CAST", "s>f s>h s>i s>N", "output output must be TENSOR_QUANT8_ASYMM_SIGNED, got"),
    ("CAST", "f>n h>n i>n N>n", "got TENSOR_QUANT8_ASYMM_SIGNED"),
]


@pytest.mark.parametrize(
    ("name", "kinds", "reason"),
    [(name, kind, reason) for names, kinds, reason in REFUSED for name in names.split() for kind in kinds.split()],
)
def test_refused(name: str, kinds: str, reason: str) -> None:
    sources, result = kinds.split(">")
    with pytest.raises(TfliteImportError) as caught:
        operations(name, inputs_of(name, sources), T(**TENSORS[result]), OPTIONS.get(name), **VALUES.get(name, {}))
    assert f"operator 0 ({name}): " in str(caught.value)
    assert reason in str(caught.value)


# --- filters -------------------------------------------------------------------------------------------------


def of(kind: str, *shape: int) -> T:
    return T(**{"shape": shape, "type": "FLOAT32"} | TENSORS[kind])


STEPS = {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
PRODUCT = 0.05 * 0.02
"""The scale of a bias."""
BIASES: dict[str, Callable[[int], T | None]] = {
    "none": lambda count: None,
    "real": f32c,
    "levels": lambda count: T("INT32", data=range(count), scale=PRODUCT),
    "computed": lambda count: T("INT32", (count,), scale=PRODUCT),
}
FILTERED = [
    # Input, whether the filter has levels, bias, result, operations before the convolution.
    ("f", False, "real", "f", ""),
    ("f", False, "none", "f", ""),
    ("s", True, "levels", "s", ""),
    ("s", True, "computed", "s", ""),
    ("s", True, "none", "S", ""),
    ("f", True, "real", "f", "rounded"),
]


@pytest.mark.parametrize("rounds", [True, False])
@pytest.mark.parametrize(("source", "has_levels", "bias", "result", "before"), FILTERED)
@pytest.mark.parametrize("name", ["CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"])
def test_filters(name: str, source: str, has_levels: bool, bias: str, result: str, before: str, rounds: bool) -> None:
    rest = (4,) if name == "FULLY_CONNECTED" else (2, 2, 2)
    units = 2 if name == "DEPTHWISE_CONV_2D" else 3
    shape = (1, *rest) if name == "DEPTHWISE_CONV_2D" else (units, *rest)
    weights = q8c(*shape) if has_levels else f32c(*shape)
    addend = BIASES[bias](units)
    given = of(source, *((2, 4) if name == "FULLY_CONNECTED" else (1, 4, 4, 2)))
    inputs = [given, weights, addend] if name != "TRANSPOSE_CONV" else [i32c(1, 5, 5, 3), weights, given, addend]
    table = {
        "CONV_2D": "Conv2DOptions",
        "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
        "TRANSPOSE_CONV": "TransposeConvOptions",
        "FULLY_CONNECTED": "FullyConnectedOptions",
    }[name]
    values: dict[str, Any] = {} if name == "FULLY_CONNECTED" else dict(STEPS)
    if name == "TRANSPOSE_CONV":
        values = {"StrideW": 1, "StrideH": 1, "Padding": tflite.Padding.VALID}
    wanted = [ROUNDED] if before and rounds else []
    wanted.append("TRANSPOSE_CONV_2D" if name == "TRANSPOSE_CONV" else name)
    assert operations(name, inputs, T(**TENSORS[result]), table, rounds=rounds, **values) == " ".join(wanted)


@pytest.mark.parametrize(
    ("source", "weights", "wanted"),
    [
        (of("s", 2, 4), q8c(3, 4, scale=[0.1, 0.2, 0.3]), "FULLY_CONNECTED"),
        (of("s", 2, 4), int4c(3, 4), "FULLY_CONNECTED"),
        (of("f", 2, 4), int4c(3, 4), f"{ROUNDED} BLOCK_QUANTIZED_FULLY_CONNECTED"),
        (of("f", 2, 4), q8c(3, 4, scale=[0.1, 0.2, 0.3]), f"{ROUNDED} FULLY_CONNECTED"),
        (of("w", 2, 4), q8c(3, 4, scale=[0.1, 0.2, 0.3]), "FULLY_CONNECTED"),
        (of("f", 2, 4), of("f", 3, 4), "FULLY_CONNECTED"),
        (of("f", 2, 2, 2), f32c(3, 4), "RESHAPE FULLY_CONNECTED"),
    ],
    ids=["channels", "4 bits", "hybrid 4 bits", "hybrid channels", "wide channels", "computed weights", "rank 3"],
)
def test_products(source: T, weights: T, wanted: str) -> None:
    result = T("FLOAT32") if source.type == "FLOAT32" else T(source.type, scale=0.05)
    assert operations("FULLY_CONNECTED", [source, weights, None], result, "FullyConnectedOptions") == wanted


# --- sizes and shapes ----------------------------------------------------------------------------------------

REAL = of("f", 4, 5, 6)
SHAPED: list[tuple[str, list[T], str | None, dict[str, Any], str]] = [
    ("SOFTMAX", [of("f", 3)], "SoftmaxOptions", {"Beta": 1.0}, "SOFTMAX"),
    ("SOFTMAX", [of("f", 2, 3, 4)], "SoftmaxOptions", {"Beta": 1.0}, "SOFTMAX"),
    ("L2_NORMALIZATION", [of("f", 2, 3)], "L2NormOptions", {"FusedActivationFunction": 1}, "* RELU"),
    *(
        ("CONCATENATION", [REAL, of("f", 4, 5, 6)], "ConcatenationOptions", {"FusedActivationFunction": kind}, wanted)
        for kind, wanted in enumerate(("*", "* RELU", "* RELU1", "* RELU6"))
    ),
    ("CONCATENATION", [of("i", 2, 3), of("i", 2, 3)], "ConcatenationOptions", {}, "PACK RESHAPE"),
    ("RESHAPE", [of("f", 2, 3), i32c(3, 2)], None, {}, "RESHAPE"),
    ("SQUEEZE", [of("f", 2, 1, 3)], "SqueezeOptions", {}, "RESHAPE"),
    ("TRANSPOSE", [REAL, i32c(2, 0, 1)], None, {}, "TRANSPOSE"),
    ("TRANSPOSE", [REAL, i32c(0, 1, 2)], None, {}, "RESHAPE"),
    ("TRANSPOSE", [of("b", 4, 5), i32c(1, 0)], None, {}, "SELECT TRANSPOSE NOT_EQUAL"),
    ("REVERSE_V2", [REAL, i32c(0, 2)], None, {}, "REVERSE REVERSE"),
    ("SLICE", [REAL, i32c(0, 1, 2), i32c(4, 2, 1)], None, {}, "SLICE"),
    ("STRIDED_SLICE", [REAL, i32c(0, 1, 0), i32c(4, 3, 6), i32c(1, 1, 1)], "StridedSliceOptions", {}, "SLICE"),
    ("STRIDED_SLICE", [REAL, i32c(0, 1, 0), i32c(4, 5, 6), i32c(1, 2, 1)], "StridedSliceOptions", {}, "STRIDED_SLICE"),
    ("STRIDED_SLICE", [REAL, i32c(0, 0, 0), i32c(4, 5, 6), i32c(1, 1, 1)], "StridedSliceOptions", {}, "RESHAPE"),
    ("EMBEDDING_LOOKUP", [of("i", 3), f32c(4, 5)], None, {}, "*"),
    ("EMBEDDING_LOOKUP", [of("i", 3), q8c(4, 5)], None, {}, "*"),
    ("GATHER", [REAL, i32c(1, 0)], "GatherOptions", {"Axis": 1}, "GATHER"),
    ("GATHER", [REAL, scalar(1)], "GatherOptions", {"Axis": 1}, "GATHER RESHAPE"),
    ("PAD", [REAL, i32c([[0, 0], [1, 0], [0, 2]])], None, {}, "PAD"),
    ("TILE", [REAL, i32c(1, 2, 1)], None, {}, "TILE"),
    ("BROADCAST_TO", [of("f", 1, 5), i32c(4, 5)], None, {}, "TILE"),
    ("SPACE_TO_BATCH_ND", [of("f", 1, 4, 4, 2), i32c(2, 2), i32c([[0, 0], [0, 0]])], None, {}, "*"),
    ("SPACE_TO_BATCH_ND", [of("f", 1, 4, 2), i32c(2), i32c([[0, 0]])], None, {}, "RESHAPE * RESHAPE"),
    ("BATCH_TO_SPACE_ND", [of("f", 4, 2, 2, 2), i32c(2, 2), i32c([[0, 0], [0, 0]])], None, {}, "*"),
    ("BATCH_TO_SPACE_ND", [of("f", 4, 2, 2, 2), i32c(2, 2), i32c([[0, 1], [0, 0]])], None, {}, "* SLICE"),
    ("RESIZE_BILINEAR", [of("f", 1, 4, 4, 2), i32c(8, 8)], "ResizeBilinearOptions", {}, "*"),
    ("SELECT_V2", [of("b", 4, 5), of("f", 4, 5), of("f", 4, 5)], None, {}, "SELECT"),
]


@pytest.mark.parametrize(
    ("name", "inputs", "table", "options", "wanted"), SHAPED, ids=[f"{row[0]}-{row[4]}" for row in SHAPED]
)
def test_shapes(name: str, inputs: list[T], table: str | None, options: dict[str, Any], wanted: str) -> None:
    result = out("FLOAT32" if name in ("EMBEDDING_LOOKUP", "SELECT_V2") else inputs[0].type)
    assert operations(name, inputs, result, table, **options) == wanted.replace("*", name)


def test_levels_that_are_looked_up_stay_such() -> None:
    table = q8c(4, 5, scale=0.5)
    assert operations("EMBEDDING_LOOKUP", [of("i", 3), table], T("INT8", scale=0.5)) == "EMBEDDING_LOOKUP"
    assert operations("EMBEDDING_LOOKUP", [of("i", 3), table], T("INT8", scale=0.25)) == "EMBEDDING_LOOKUP real levels"
    four = int4c(4, 6)
    assert operations("EMBEDDING_LOOKUP", [of("i", 3), four], out()) == "BLOCK_QUANTIZED_EMBEDDING_LOOKUP"
