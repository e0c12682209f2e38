"""One operation on several types gives one result, for every operation that has them.

FLOAT16 is FLOAT32 rounded at the end; a quantised result is the real one to a step; NCHW is NHWC transposed.
Signed and unsigned quantisation are in test_signed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drawn import HypothesisDraw
from generators import Arg, Case, draw_case, run_case
from generators.draw import SCALES
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nnvk.ops import registry
from nnvk.ops.quant import is_quantised, limits
from nnvk.ops.signature import F16, F32, I32, Q8
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.operand import OperandType

HALF_AS_MANY = settings(max_examples=settings().max_examples // 2)
"""For tests of nearly all operations."""


def ids(code: Op) -> str:
    return code.name


# --- FLOAT16 -------------------------------------------------------------------------------------------------

_NOT_ROUNDED_FLOAT32 = {
    Op.HEATMAP_MAX_KEYPOINT: "tolerances depend on the type",
    Op.LSH_PROJECTION: "bytes are hashed",
    Op.WHILE: "every iteration is rounded",
    Op.IF: "its models would have to change too",
}
HALF = [
    code
    for code in Op
    if {F16, F32} <= set(registry.lookup(code).types) | registry.lookup(code).outputs[0].accepts(Q8)
    and code not in _NOT_ROUNDED_FLOAT32
]
_SINGLE = {F16: F32, OperandCode.FLOAT16: OperandCode.FLOAT32}


def single(arg: Arg) -> Arg:
    """A FLOAT16 operand as FLOAT32."""
    if arg.type.code not in _SINGLE:
        return arg
    data = None if arg.data is None else arg.data.astype(np.float32)
    return replace(arg, type=replace(arg.type, code=_SINGLE[arg.type.code]), data=data)


@pytest.mark.parametrize("code", HALF, ids=ids)
@HALF_AS_MANY
@given(data=st.data())
def test_float16_is_float32_rounded_at_the_end(code: Op, data: st.DataObject) -> None:
    leading = F16 if F16 in registry.lookup(code).types else Q8
    case = draw_case(HypothesisDraw(data), code, leading)
    results = tuple(replace(type_, code=_SINGLE.get(type_.code, type_.code)) for type_ in case.outputs)
    wide = Case(code, tuple(map(single, case.inputs)), results)
    for half, full in zip(run_case(case), run_case(wide), strict=True):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(half, full.astype(half.dtype))


# --- quantised -----------------------------------------------------------------------------------------------


class MildDraw(HypothesisDraw):
    """Scales of everyday, so that real numbers don't hang on the last bit."""

    def scale(self) -> float:
        return self.pick(SCALES)


_NO_REAL_COUNTERPART = {
    Op.CAST: "numbers are cast, not what they stand for",
    Op.EMBEDDING_LOOKUP: "elements are moved as they are",
    Op.HASHTABLE_LOOKUP: "rows that are missed are 0",
    Op.IF: "its models would have to change too",
    Op.WHILE: "its models would have to change too",
    Op.DEQUANTIZE: "it has no real input",
    Op.QUANTIZE: "it has no quantised input",
    Op.LSH_PROJECTION: "bytes are hashed",
    Op.BOX_WITH_NMS_LIMIT: "which boxes are picked hangs on the last bit",
    Op.GENERATE_PROPOSALS: "which boxes are picked hangs on the last bit",
    Op.HEATMAP_MAX_KEYPOINT: "where a peak is hangs on the last bit",
    Op.EQUAL: "tests of the operation have it",
}
QUANTISED = [code for code in Op if {Q8, F32} <= set(registry.lookup(code).types) and code not in _NO_REAL_COUNTERPART]
_STEPS = {
    Op.ROI_ALIGN: 3,  # weights are rounded to steps of 1/255
    Op.HARD_SWISH: 3,  # 16 bits on the way
    Op.PRELU: 2,
    Op.CONCATENATION: 1.5,
}


def real_values(case: Case, arg: Arg) -> np.ndarray:
    """Return the real values of a quantised operand. A bias has the scale of the products that it is added to."""
    type_, data = arg.type, np.asarray(arg.data)
    if type_.code is I32:
        source, weights = case.inputs[:2]
        channels = weights.type.channel_quant
        scales = np.array(channels.scales) if channels else weights.type.scale
        return data * (source.type.scale * scales)
    scales = type_.scale
    if type_.channel_quant:
        scales = np.array(type_.channel_quant.scales)
        scales = scales.reshape([-1 if axis == type_.channel_quant.channel_dim else 1 for axis in range(data.ndim)])
    return (data.astype(np.float64) - type_.zero_point) * scales


_BIASED = (Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.GROUPED_CONV_2D, Op.TRANSPOSE_CONV_2D, Op.FULLY_CONNECTED)


def real(case: Case) -> Case:
    """The case on the real numbers that its quantised operands stand for."""
    inputs = []
    for position, arg in enumerate(case.inputs):
        bias = position == 2 and case.code in _BIASED
        if arg.data is not None and (is_quantised(arg.type.code) or bias):
            data = real_values(case, arg).astype(np.float32)
            arg = Arg(OperandType(F32, data.shape), data, arg.is_parameter)
        elif case.code is Op.PAD_V2 and position == 2:
            source = case.inputs[0].type
            number = np.float32((int(np.asarray(arg.data)) - source.zero_point) * source.scale)
            arg = Arg(OperandType(OperandCode.FLOAT32), np.asarray(number), True)
        inputs.append(arg)
    return Case(case.code, tuple(inputs), tuple(_real_type(type_) for type_ in case.outputs))


def _real_type(type_: OperandType) -> OperandType:
    return OperandType(F32) if is_quantised(type_.code) else type_


@pytest.mark.parametrize("code", QUANTISED, ids=ids)
@given(data=st.data())
def test_quantised_is_the_real_result_to_a_step(code: Op, data: st.DataObject) -> None:
    case = draw_case(MildDraw(data), code, Q8)
    for type_, steps, exact in zip(case.outputs, run_case(case), run_case(real(case)), strict=True):
        if not is_quantised(type_.code):
            assert steps.dtype == np.bool_ or (steps == exact).all()  # truth may hang on the last bit
            continue
        low, high = limits(type_.code)
        defined = ~np.isnan(exact)
        with np.errstate(over="ignore"):
            expected = np.clip(exact[defined].astype(np.float64) / type_.scale + type_.zero_point, low, high)
        # Half a step is rounded away, and more where multipliers have been rounded before.
        assert np.abs(steps[defined] - expected).max(initial=0) <= _STEPS.get(code, 1.01)


# --- layouts -------------------------------------------------------------------------------------------------

LAYOUTS = [
    code
    for code in Op
    if any(param.name == "nchw" for signature in registry.lookup(code).signatures for param in signature.params)
]
_IMAGES = {Op.GENERATE_PROPOSALS: 2}
"""How many of the first operands are images; 1 for the rest."""
_NO_IMAGE = {Op.GENERATE_PROPOSALS, Op.HEATMAP_MAX_KEYPOINT}
"""Operations whose outputs have no layout."""


def nhwc(case: Case) -> Case | None:
    """The case in NHWC, None where it is not in NCHW."""
    flags = [number for number, arg in enumerate(case.inputs) if arg.type.code is OperandCode.BOOL]
    if not flags or not bool(case.inputs[flags[0]].data):  # the layout is the first flag of all that have one
        return None
    inputs = list(case.inputs)
    inputs[flags[0]] = replace(inputs[flags[0]], data=np.array(False))
    for number in range(_IMAGES.get(case.code, 1)):
        arg = inputs[number]
        data = np.ascontiguousarray(np.moveaxis(np.asarray(arg.data), 1, 3))
        inputs[number] = replace(arg, type=arg.type.with_dimensions(data.shape), data=data)
    if case.code is Op.TRANSPOSE_CONV_2D and inputs[3].type.is_tensor:
        n, c, h, w = np.asarray(inputs[3].data)
        inputs[3] = replace(inputs[3], data=np.array([n, h, w, c], np.int32))
    return Case(case.code, tuple(inputs), case.outputs)


@pytest.mark.parametrize("code", LAYOUTS, ids=ids)
@given(data=st.data())
def test_nchw_is_nhwc_transposed(code: Op, data: st.DataObject) -> None:
    case = draw_case(HypothesisDraw(data), code)
    other = nhwc(case)
    assume(other is not None)
    for channels_first, channels_last in zip(run_case(case), run_case(other), strict=True):
        if code not in _NO_IMAGE:
            channels_first = np.moveaxis(channels_first, 1, 3)
        np.testing.assert_array_equal(channels_first, channels_last)


# --- unknown shapes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", list(Op), ids=ids)
@HALF_AS_MANY
@given(data=st.data())
def test_declared_dimensions_make_no_difference(code: Op, data: st.DataObject) -> None:
    case = draw_case(HypothesisDraw(data), code)
    outputs = run_case(case)
    declared = tuple(type_.with_dimensions(result.shape) for type_, result in zip(case.outputs, outputs, strict=True))
    again = run_case(Case(code, case.inputs, declared))
    for one, other in zip(outputs, again, strict=True):
        np.testing.assert_array_equal(one, other)
