"""Every operation of NNAPI on every leading type that it has, as rows of text.

``nnvk/check/templates.py`` says how to read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import cells
import numpy as np
from builder import Builder, rebuilt
from graphs import Single

import nnvk
from nnvk import OperandCode, OperandType, OperationCode
from nnvk.check.model_rows import TYPES, code_of, parse
from nnvk.check.templates import derived, filled, fits, on_all_types
from nnvk.ops import registry
from nnvk.ops.flow import CONTROL_FLOW
from nnvk.types.extension import ExtendedOperationCode, KnownCode

_SHAPE = (1, 56, 56, 64)
_MAP = "T[1,56,56,64]"
"""A feature map of 200,704 elements."""
_PAIR = f"{_MAP} {_MAP}"
_WINDOW = f"{_MAP} SAME 1 1 3 3 NONE"
_ROIS = "T[1,50,50,64] B[100,4]^50x50 i32[100]<1 7 7 1.0R 1.0R"

TEMPLATES: Mapping[str, Sequence[str]] = {
    "LOGISTIC": [f"{_MAP} -> P"],
    "TANH L2_NORMALIZATION": [f"{_MAP} -> C"],
    "HARD_SWISH RSQRT": [f"{_MAP} -> T"],
    "ELU": [f"{_MAP} 1.5R"],
    "GELU": [f"{_MAP} false", f"{_MAP} true"],
    "TABLE_LOOKUP": [f"{_MAP} S[256] -> P", f"{_MAP} T[65536] -> T"],
    "ADD SUB MUL DIV": [f"{_PAIR} NONE -> T", f"{_MAP} T[64] NONE -> T", f"{_MAP} T[1,56,56,1] NONE -> T"],
    "MAXIMUM MINIMUM POW": [f"{_PAIR} -> T"],
    "PRELU": [f"{_MAP} T[64] -> T"],
    "EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL NOT_EQUAL LOGICAL_AND LOGICAL_OR": [f"{_PAIR} -> b8"],
    "SELECT": [f"b8[1,56,56,64] {_PAIR} -> T"],
    "CAST": [f"{_MAP} -> same", f"{_MAP} -> F", f"{_MAP} -> Q"],
    "QUANTIZE": [f"{_MAP} -> u8*0.031+117", f"{_MAP} -> i16*0.0003"],
    "QUANTIZE_TIES_TO_EVEN": [f"{_MAP} -> u8*0.031+117"],
    "DEQUANTIZE": [f"{_MAP} -> f32"],
    "FILL": ["(1,56,56,64) V -> T"],
    "SOFTMAX": ["T[1536,128] 1.0R -> P", "T[1,1001] 1.0R -> P", "T[16,10007] 1.0R -> P"],
    "LOG_SOFTMAX": ["T[1536,128] 1.0R -1", "T[16,10007] 1.0R -1"],
    "LOCAL_RESPONSE_NORMALIZATION": [f"{_MAP} 2 1.0R 0.1R 0.75R"],
    "INSTANCE_NORMALIZATION": ["T[4,28,28,64] 1.5R -0.5R 0.001R nhwc", "T[4,64,28,28] 1.5R -0.5R 0.001R nchw"],
    "RESHAPE": [f"{_MAP} (1,3136,64)"],
    "SQUEEZE": [f"{_MAP} (0)"],
    "EXPAND_DIMS": [f"{_MAP} 0"],
    "TRANSPOSE": [f"{_MAP} (0,3,1,2)", "T[12,64,256] (1,0,2)"],
    "TILE": ["T[1,28,28,64] (1,2,2,1)", "T[56,56,16] (1,1,4)"],
    "REVERSE": [f"{_MAP} (2)"],
    "CHANNEL_SHUFFLE": [f"{_MAP} 4 3"],
    "PAD": [f"{_MAP} (0,0;1,1;1,1;0,0)", "T[1,64,56,56] (0,0;0,0;1,1;1,1)"],
    "PAD_V2": [f"{_MAP} (0,0;1,1;1,1;0,0) V"],
    "MIRROR_PAD": [f"{_MAP} (0,0;1,1;1,1;0,0) 0"],
    "SLICE": [f"{_MAP} (0,1,1,0) (1,54,54,64)"],
    "STRIDED_SLICE": [f"{_MAP} (0,0,0,0) (1,56,56,64) (1,2,2,1) 0 0 0"],
    "SPLIT": [f"{_MAP} 3 4 -> T T T T"],
    "GATHER": ["T[10007,64] 0 i32[4096]<10007", "T[64,1009] 1 i32[4096]<1009"],
    "GATHER_ND": ["T[64,64,64] i32[4096,2]<64"],
    "SCATTER_ND": ["i32[4096,2]<64 T[4096,64] (64,64,64) -> T", "T[64,64,64] i32[4096,2]<64 T[4096,64] 0 -> T"],
    **{f"{name}_INT64": [f"{_MAP} {_MAP} {_MAP} {_MAP} -> i32 i32"] for name in ("ADD", "SUB", "MUL", "DIV")},
    "COMPARE_INT64": [f"{_MAP} {_MAP} {_MAP} {_MAP} -> i32"],
    "INT64_TO_FLOAT": [f"{_MAP} {_MAP} -> f32"],
    "INT64_TO_INT32": [f"{_MAP} none"],
    "EMBEDDING_LOOKUP": ["i32[4096]<10007 T[10007,64] -> T"],
    "HASHTABLE_LOOKUP": ["i32[4096]<20000 i32[10007]<20000 T[10007,64] -> T u8*1.0+0"],
    "CONCATENATION": ["T[1,28,28,64] T[1,28,28,128] T[1,28,28,32] T[1,28,28,32] 3 -> T"],
    "PACK": ["0 T[56,56,16] T[56,56,16] T[56,56,16] T[56,56,16] -> T", "2 T[56,56,16] T[56,56,16] -> T"],
    "DEPTH_TO_SPACE SPACE_TO_DEPTH": [f"{_MAP} 2", "T[1,64,56,56] 2 nchw"],
    "SPACE_TO_BATCH_ND": [f"{_MAP} (2,2) (0,0;0,0)"],
    "BATCH_TO_SPACE_ND": ["T[4,28,28,64] (2,2)"],
    "ARGMAX ARGMIN": [f"{_MAP} 3 -> i32", f"{_MAP} 1 -> i32", "T[16,10007] 1 -> i32"],
    "TOPK_V2": ["T[16,10007] 10 -> T i32", "T[1,10007] 1000 -> T i32"],
    "MEAN ROUNDED_MEAN": [f"{_MAP} (1,2) 0", f"{_MAP} (3) 0"],
    "REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_SUM": [
        f"{_MAP} (1,2) false",
        f"{_MAP} (3) false",
        f"{_MAP} (0,1,2,3) false",
    ],
    "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR": [f"{_MAP} 112 112 nhwc", "T[1,64,56,56] 112 112 nchw"],
    "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D": [f"{_WINDOW} nhwc", "T[1,64,56,56] SAME 1 1 3 3 NONE nchw"],
    "CONV_2D": ["T[1,56,56,64] W[64,3,3,64] Z[64] SAME 1 1 RELU nhwc -> T"],
    "DEPTHWISE_CONV_2D": ["T[1,56,56,144] W[1,3,3,144] Z[144] SAME 1 1 1 RELU6 nhwc -> T"],
    "GROUPED_CONV_2D": ["T[1,56,56,128] W[128,3,3,4] Z[128] SAME 1 1 32 NONE nhwc -> T"],
    "TRANSPOSE_CONV_2D": ["T[1,28,28,64] W[32,3,3,64] Z[32] (1,56,56,32) SAME 2 2 NONE nhwc -> T"],
    "FULLY_CONNECTED": ["T[1,1280] W[1001,1280] Z[1001] NONE -> T", "T[64,512] W[256,512] Z[256] NONE -> T"],
    "BLOCK_QUANTIZED_FULLY_CONNECTED": [
        f"T[{rows},2048] #i32[2048,256]~2147483647 #f32[2048,64]~3/64 32 none none NONE -> T" for rows in (1, 64)
    ],
    "BLOCK_QUANTIZED_EMBEDDING_LOOKUP": ["i32[512]<4096 #i32[4096,32]~2147483647 #T[4096,8]~3/64 32 256 none -> T"],
    "BATCH_MATMUL": ["T[12,64,64] T[12,64,64] false false -> T"],
    "ROI_ALIGN": [f"{_ROIS} 2 2 nhwc -> T"],
    "ROI_ALIGN_V2": ["T[1,64,50,50] T[100,4]^50x50 i32[100]<1 7 7 1.0R 2 true false -> T"],
    "ROI_POOLING": [f"{_ROIS} nhwc -> T"],
    "HEATMAP_MAX_KEYPOINT": [
        "T[16,56,56,17] B[16,4]^400x300 nhwc -> T B",
        "T[16,17,56,56] B[16,4]^400x300 nchw -> T B",
    ],
    "AXIS_ALIGNED_BBOX_TRANSFORM": ["B[4001,4]^310x230 D[4001,84] i32[4001]<7 B[7,2]=1600"],
    "BOX_WITH_NMS_LIMIT": [
        "S[2003,21] B[2003,84]^500x400 i32[2003]<1 0.5R 101 0 0.5R 0.5R 0.5R -> S B i32 i32",
    ],
    "GENERATE_PROPOSALS": [
        "S[1,61,67,3] D[1,61,67,12]~1 A[3,4]^64x64 B[1,2]=1600 16.0R 16.0R 2003 307 0.7R 1.0R nhwc -> S B i32",
    ],
    "DETECTION_POSTPROCESSING": [
        "T[1,1917,91] T[1,1917,4] T[1917,4]^9x7 10.0R 10.0R 5.0R 5.0R false 101 1 100 0.5R 0.5R false -> T T i32 i32",
    ],
    "NON_MAX_SUPPRESSION": [
        "T[1,2003,4]^500x400 T[1,1,2003] 101 T[1]=0.5 T[1]=0 0 false 0.0R -> i32 T i32",
        "T[1,2003,4]^500x400 T[1,1,2003] 101 T[1]=0.5 T[1]=0 0 false 0.5R -> i32 T i32",
        "T[1,8400,4]^500x400 T[1,5,8400] 301 T[1]=0.5 none 1 true 0.0R -> i32 T i32",
    ],
    "QUANTIZED_SVDF": [
        "i8[1,40]*0.0078125+3 #i8[512,40]*0.0078125 #i16[512,10]*0.00003 none i16[1,5120]*0.00048828125 2 "
        "-> i16*0.00048828125 i8*0.125-7"
    ],
    "UNIDIRECTIONAL_SEQUENCE_GRU": [
        f"T[40,1,128]~1 3:#T[256,128]~1/16 3:#T[256,256]~1/16 3:#T[256]~1 {inner} T[1,256]~1 4 {reset_after} -> T"
        for inner, reset_after in (("#T[256]~1", "true"), ("none", "false"))
    ],
    "LSH_PROJECTION": ["#T[4,8] i32[100003] T[100003] 1 -> i32", "#T[8,16] f32[1009,16] none 3 -> i32"],
    "RANDOM_MULTINOMIAL": ["T[1,32003] 16 (17,-9) -> i32", "T[64,1001] 1024 (17,-9) -> i32"],
}
"""The templates of operations, by their inputs and outputs. `derived` makes one row for every other operation from its
signature."""


SHORT: Mapping[OperandCode, str] = {
    **{code: name for name, code in TYPES.items() if code is not OperandCode.INT32},
    **{code: code.name.lower() for code in (OperandCode.FLOAT32, OperandCode.FLOAT16, OperandCode.INT32)},
    OperandCode.MODEL: "model",
}
"""How tables call types."""

_CELLS: Mapping[OperationCode, Sequence[tuple[str, Callable[[OperandCode], Single]]]] = {
    OperationCode.RNN: [("128 -> 256", lambda t: cells.rnn(128, 256, t))],
    OperationCode.LSTM: [("128 -> 256", lambda t: cells.lstm(128, 256, t))],
    OperationCode.SVDF: [("40 -> 256, 10 steps, rank 2", lambda t: cells.svdf(40, 256, 10, 2, t))],
    OperationCode.UNIDIRECTIONAL_SEQUENCE_RNN: [
        ("40 x 128 -> 256", lambda t: cells.sequence_rnn(40, 1, 128, 256, t)),
    ],
    OperationCode.BIDIRECTIONAL_SEQUENCE_RNN: [
        ("40 x 128 -> 2 x 256", lambda t: cells.bidirectional_rnn(40, 1, 128, 256, t)),
    ],
    OperationCode.UNIDIRECTIONAL_SEQUENCE_LSTM: [
        ("40 x 128 -> 256", lambda t: cells.sequence_lstm(40, 1, 128, 256, t)),
        ("40 x 16 x 128 -> 256", lambda t: cells.sequence_lstm(40, 16, 128, 256, t)),
    ],
    OperationCode.BIDIRECTIONAL_SEQUENCE_LSTM: [
        ("40 x 128 -> 2 x 128", lambda t: cells.bidirectional_lstm(40, 1, 128, 128, t)),
    ],
    OperationCode.QUANTIZED_LSTM: [("128 -> 256", lambda t: cells.quantized_lstm(128, 256))],
    OperationCode.QUANTIZED_16BIT_LSTM: [("128 -> 256", lambda t: cells.quantized_16bit_lstm(128, 256))],
}


@dataclass(frozen=True, slots=True)
class Row:
    """One operation at one size, on one leading type."""

    name: str
    """The same for all leading types."""
    code: KnownCode
    leading: OperandCode
    make: Callable[[], Single]


def rows() -> Iterator[Row]:
    """All of them."""
    for names, templates in (*TEMPLATES.items(), *_derived()):
        for code, leading in on_all_types(names.split()):
            for template in templates:
                if _is_of(template, code, leading) and fits(template, leading):
                    text = filled(code, template, leading)
                    yield Row(f"{text.split()[0]} {template}", code, leading, partial(_parsed, text))
    for code, sizes in _CELLS.items():
        for size, make in sizes:
            for leading in registry.lookup(code).types:
                yield Row(f"{code.name} {size}", code, leading, partial(make, leading))
    flag, model = OperandCode.TENSOR_BOOL8, OperandCode.MODEL
    yield Row("IF, ADD or SUB 56x56x64", OperationCode.IF, flag, _if)
    yield Row("WHILE, 5 times ADD 56x56x64", OperationCode.WHILE, model, _while)


def _derived() -> Iterator[tuple[str, Sequence[str]]]:
    """The operations that no table here names, with their templates."""
    named = {name for names in TEMPLATES for name in names.split()} | {code.name for code in {*_CELLS, *CONTROL_FLOW}}
    for name in dict.fromkeys(code.name for code in registry.definitions()):
        template = None if name in named else derived(code_of(name), _SHAPE)
        if template is not None:
            yield name, [template]


def _is_of(template: str, code: KnownCode, leading: OperandCode) -> bool:
    """Whether a template is of this operation and leading type where letters do not say that.

    QUANTIZE's output says which operation it is, and a table's size says which levels it is for.
    """
    if code.name == "QUANTIZE":
        return template.endswith("i16*0.0003") == isinstance(code, ExtendedOperationCode)
    if code.name == "TABLE_LOOKUP":
        return ("[65536]" in template) == (leading is OperandCode.TENSOR_QUANT16_SYMM)
    return True


def _parsed(text: str) -> Single:
    row = parse(text)
    return Single(rebuilt(row.model), tuple(row.inputs))


_FLAG = OperandType(OperandCode.TENSOR_BOOL8, (1,))
_COUNTER = OperandType(OperandCode.TENSOR_INT32, (1,))
_REAL_MAP = OperandType(OperandCode.TENSOR_FLOAT32, (1, 56, 56, 64))


def _ones() -> np.ndarray:
    return np.ones(_REAL_MAP.dimensions, np.float32)


def _if() -> Single:
    build = Builder()
    inputs = [build.operand(_FLAG)]
    branches = [build.reference(_branch(code)) for code in (OperationCode.ADD, OperationCode.SUB)]
    data = [build.operand(_REAL_MAP), build.operand(_REAL_MAP)]
    outputs = build.outputs(OperationCode.IF, [*inputs, *branches, *data], _REAL_MAP)
    return Single(build.finish([*inputs, *data], outputs), (np.array([True]), _ones(), _ones()))


def _branch(code: OperationCode) -> nnvk.Model:
    build = Builder()
    inputs = [build.operand(_REAL_MAP), build.operand(_REAL_MAP)]
    return build.finish(inputs, [build.operation(code, inputs, _REAL_MAP)])


def _while() -> Single:
    types = [_COUNTER, _REAL_MAP, _REAL_MAP]
    condition, body, build = Builder(), Builder(), Builder()
    state = [condition.operand(type_) for type_ in types]
    five = condition.constant(_COUNTER, np.array([5], np.int32))
    once = condition.finish(state, [condition.operation(OperationCode.LESS, [state[0], five], _FLAG)])
    state = [body.operand(type_) for type_ in types]
    counter = body.operation(OperationCode.ADD, [state[0], body.constant(_COUNTER, np.array([1], np.int32))], _COUNTER)
    total = body.operation(OperationCode.ADD, state[1:], _REAL_MAP)
    models = [build.reference(once), build.reference(body.finish(state, [counter, total]))]
    inputs = [build.operand(type_) for type_ in types]
    outputs = build.outputs(OperationCode.WHILE, [*models, *inputs], _COUNTER, _REAL_MAP)
    return Single(build.finish(inputs, outputs), (np.zeros(1, np.int32), _ones(), _ones()))
