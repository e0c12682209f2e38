"""Every kernel on option rows, against the reference: results, and that nothing else in memory is touched.

A test's name is the row: ``nnvk/check/model_rows.py`` says how to read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from guarded import run_guarded, run_plan_guarded

from nnvk.check.model_rows import empty_like, execute, parse, reference
from nnvk.conformance.compare import first_difference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.ops.quant import is_quantised
from nnvk.types.codes import OperationCode
from nnvk.types.request import PrepareOptions

# T and S stand for each of the data types, in different scales.
KINDS = {
    "f32": ("f32{}", "f32{}"),
    "u8": ("u8{}*0.5+120", "u8{}*0.037+3"),
    "i8": ("i8{}*0.25-7", "i8{}*0.0611+100"),
}
# C[shape of the filter](channel dimension of its scales) is a constant filter with its bias, of each of these kinds.
FILTERS = {
    "f32": ("f32{}", "#f32{} #f32[{}]", ""),
    "f32, at run time": ("f32{}", "f32{} f32[{}]", ""),
    "u8": ("u8{}*0.05+120", "#u8{}*0.02+131 #i32[{}]", " -> u8*0.08+100"),
    "u8, at run time": ("u8{}*0.05+120", "u8{}*0.02+131 i32[{}]", " -> u8*0.08+100"),
    "i8": ("i8{}*0.05-7", "#i8{}*0.02+5 #i32[{}]", " -> i8*0.08-20"),
    "u8, per channel": ("u8{}*0.05+120", "#pcN{} #i32[{}]", " -> u8*0.08+100"),
    "i8, per channel": ("i8{}*0.05-7", "#pcN{} #i32[{}]", " -> i8*0.08-20"),
}

ELEMENTWISE = """
ADD T[1] S[1] NONE
ADD T[5] T[5] RELU
ADD T[2,3,5,7] T[2,3,5,7] RELU6
ADD T[2,3,5,7] S[7] RELU1
ADD T[7] S[2,3,5,7] NONE
ADD T[2,1,5,1] S[1,3,1,7] NONE
ADD T[3,1] S[1,5] RELU
ADD T[2,3,4,4] S[1,1,1,4] NONE
ADD T[1,1,1,1] S[13] NONE
ADD T[300,257] S[300,1] NONE
ADD #T[3,5] S[2,3,5] NONE
ADD T[3,5] #S[5] NONE
SUB T[1] S[5] NONE
SUB T[3,5] T[3,5] RELU1
SUB T[2,3,5,7] S[2,3,5,7] NONE
SUB T[2,3,1,7] S[5,1] RELU
SUB S[2,3,5] #T[1] NONE
MUL T[1] S[1] NONE
MUL T[5] T[5] RELU
MUL T[2,3,5,7] S[2,3,5,7] RELU6
MUL T[2,3,5,7] S[1,7] NONE
MUL T[2,3,1,1] S[5,7] RELU1
MUL S[4,8] #T[8] NONE
RELU T[1]
RELU T[2,3,5,7]
RELU1 T[13]
RELU1 T[2,3]
RELU6 T[1,1,17]
RELU6 T[64,65]
"""

WINDOWS = """
{} T[1,1,1,1] VALID 1 1 1 1 NONE
{} T[1,2,2,4] SAME 1 1 2 2 NONE nhwc
{} T[2,7,5,3] SAME 1 1 3 3 NONE nhwc
{} T[2,7,5,3] VALID 2 3 3 2 RELU nhwc
{} T[1,7,5,8] SAME 2 1 3 2 RELU6 nhwc
{} T[1,7,5,4] VALID 1 1 5 7 RELU1 nhwc
{} T[3,13,11,5] SAME 3 2 5 4 NONE nhwc
{} T[1,5,6,7] 1 2 0 1 1 1 3 2 NONE nhwc
{} T[1,5,6,4] 2 2 2 2 2 2 3 3 NONE nhwc
{} T[2,3,7,5] SAME 2 2 3 3 NONE nchw
{} T[1,8,3,5] VALID 1 2 2 2 RELU nchw
{} T[2,5,3,4] 0 1 1 0 1 1 2 2 NONE nchw
{} T[1,33,32,3] VALID 1 1 32 33 NONE nhwc
{} T[1,64,64,8] VALID 1 1 64 64 NONE nhwc
{} T[1,34,35,260] VALID 1 1 35 34 RELU nhwc
{} T[1,3,40,41] VALID 1 1 41 40 NONE nchw
{} T[1,97,95,5] SAME 40 40 90 90 NONE nhwc
"""

SHAPES = """
SOFTMAX T[1] 1.0f
SOFTMAX T[7] 0.5f
SOFTMAX T[3,5] 1.0f
SOFTMAX T[3,5] 1.0f 0
SOFTMAX T[3,5] 2.5f -1
SOFTMAX T[2,3,5,7] 1.0f 1
SOFTMAX T[2,3,5,7] 0.25f -4
SOFTMAX T[2,1,5,1] 1.0f 3
SOFTMAX T[2,127] 1.0f
SOFTMAX T[2,128] 1.0f
SOFTMAX T[2,129,3] 1.0f 1
SOFTMAX T[1001] 0.1f
SOFTMAX T[2,5,300] 1.0f 2
RESHAPE T[2,3,5] (6,-1)
RESHAPE T[7] (7,1,1,1)
RESHAPE T[2,3,2,2] (-1)
SQUEEZE T[1,3,1,5]
SQUEEZE T[1,3,1,5] (2)
SQUEEZE T[1,3,1,5] (0,-2)
CONCATENATION T[5] 0
CONCATENATION T[1] T[1] 0
CONCATENATION T[2,3] T[2,5] 1
CONCATENATION T[2,3] S[3,3] T[1,3] 0
CONCATENATION T[2,3,5,7] S[2,3,5,1] 3
CONCATENATION T[2,3,5,7] S[2,1,5,7] 1
CONCATENATION T[2,3,8] S[2,5,8] T[2,1,8] 1
CONCATENATION T[2,3,4] T[2,3,8] 2
CONCATENATION #T[2,3] S[2,2] 1
CONCATENATION T[1,1,1,3] T[1,1,1,2] T[1,1,1,5] T[1,1,1,1] T[1,1,1,7] 3
PAD T[1] (2,3;)
PAD T[7] (1,0;)
PAD T[3,5] (0,0;1,2)
PAD T[3,5] (2,1;0,0)
PAD T[2,3,5,7] (0,1;2,0;0,3;1,1)
PAD T[2,3,4,8] (0,0;1,1;4,4;0,0)
PAD T[1,2,3,4] (0,0;0,0;0,0;0,0)
MEAN T[1] (0) 0
MEAN T[7] (0) 1
MEAN T[3,5] (1) 0
MEAN T[3,5] (0) 1
MEAN T[3,5] (0,1) 0
MEAN T[2,3,5,7] (1,2) 0
MEAN T[2,3,5,7] (1,2) 1
MEAN T[2,3,5,7] (-1) 0
MEAN T[2,3,5,7] (0,-2) 1
MEAN T[2,3,5,7] (0,1,2,3) 0
MEAN T[2,3,5,7] (2,2,-2) 0
MEAN T[3,255] (1) 0
MEAN T[3,256] (1) 0
MEAN T[257,3] (0) 0
MEAN T[2,17,19,23] (1,2) 0
MEAN T[300,301] (1) 1
MEAN T[3,16385] (1) 0
MEAN T[16385,5] (0) 0
MEAN T[20000,70] (0) 0
"""

FLOATS = """
LOGISTIC f32[2,3,5,7]
LOGISTIC f32[1]
TANH f32[2,3,5,7]
TANH f32[64,17]
LOGISTIC u8[2,3,5,7]*0.1+128 -> u8*0.00390625+0
LOGISTIC i8[13]*0.05+3 -> i8*0.00390625-128
TANH u8[2,3,5]*0.04+100 -> u8*0.0078125+128
TANH i8[7]*0.1-9 -> i8*0.0078125+0
QUANTIZE f32[1] -> u8*0.05+128
QUANTIZE f32[2,3,5,7] -> u8*0.01+3
QUANTIZE f32[13] -> i8*0.037-5
QUANTIZE f32[5,5] -> i8*0.001+127
QUANTIZE_TIES_TO_EVEN f32[2,3,5,7]~9 -> u8*0.5+3
QUANTIZE_TIES_TO_EVEN f16[13]~9 -> i8*0.5-5
QUANTIZE_TIES_TO_EVEN f32[5,5] -> i8*0.001+127
DEQUANTIZE u8[2,3,5,7]*0.05+128 -> f32
DEQUANTIZE i8[13]*0.037-5 -> f32
DEQUANTIZE i8[1]*3.5+100 -> f32
MUL u8[2,30]*20+0 u8[2,30]*20+9 NONE -> u8*400.1+128
MUL i8[51]*0.01-128 i8[51]*20+127 NONE -> i8*0.3+127
ADD i8[5,5]*100-5 i8[5,5]*0.001+9 NONE -> i8*0.001+3
SUB u8[5,5]*100+0 u8[5,5]*90+255 NONE -> u8*0.0001+3
"""

FILTER_ROWS = """
CONV_2D T[1,1,1,1] C[1,1,1,1](0) SAME 1 1 NONE
CONV_2D T[1,5,7,3] C[5,3,3,3](0) SAME 1 1 RELU
CONV_2D T[2,9,7,8] C[33,3,2,8](0) VALID 2 1 RELU6
CONV_2D T[1,7,11,13] C[7,2,3,13](0) 1 0 2 1 1 2 NONE nhwc
CONV_2D T[2,4,5,7] C[8,1,1,4](0) SAME 1 1 NONE nchw
CONV_2D T[1,11,13,4] C[6,3,3,4](0) SAME 1 1 RELU1 nhwc 2 3
DEPTHWISE_CONV_2D T[1,5,7,3] C[1,3,3,3](3) SAME 1 1 1 RELU
DEPTHWISE_CONV_2D T[2,9,7,8] C[1,3,2,8](3) VALID 2 1 1 RELU6
DEPTHWISE_CONV_2D T[1,7,6,5] C[1,2,3,10](3) 1 0 2 1 1 2 2 NONE nhwc
DEPTHWISE_CONV_2D T[2,4,5,7] C[1,3,3,4](3) SAME 2 2 1 NONE nchw
DEPTHWISE_CONV_2D T[1,11,13,4] C[1,3,3,4](3) SAME 1 1 1 RELU1 nhwc 2 3
FULLY_CONNECTED T[1,1] C[1,1](0) NONE
FULLY_CONNECTED T[2,33] C[7,33](0) RELU
FULLY_CONNECTED T[2,3,5] C[9,15](0) RELU6
FULLY_CONNECTED T[37,64] C[65,64](0) RELU1
"""


def expanded(template: str) -> Iterator[str]:
    """A row for each data type, or for each kind of filter."""
    filter_ = re.search(r" C(\[[0-9,]*\])\(([0-9])\)", template)
    if filter_ is not None:
        shape, channel = filter_[1], filter_[2]
        outputs = shape[1:-1].split(",")[int(channel)]
        for kind, (source, weights, output) in FILTERS.items():
            if "per channel" in kind and template.startswith("FULLY"):
                continue
            words = weights.replace("N", channel).format(shape, outputs)
            row = template.replace(filter_[0], f" {words}")
            yield re.sub(r"\bT(\[[0-9,]*\])", lambda match, kind=source: kind.format(match[1]), row) + output
    elif re.search(r"\bT\[", template):
        for first, second in KINDS.values():
            row = re.sub(r"\bT(\[[0-9,]*\])", lambda match, kind=first: kind.format(match[1]), template)
            yield re.sub(r"\bS(\[[0-9,]*\])", lambda match, kind=second: kind.format(match[1]), row)
    else:
        yield template


def rows() -> Iterator[str]:
    for table in (ELEMENTWISE, SHAPES, FLOATS, FILTER_ROWS):
        for template in table.strip().splitlines():
            yield from expanded(template)
    for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        for template in WINDOWS.strip().splitlines():
            yield from expanded(template.format(code))
    for template in WINDOWS.strip().splitlines():
        for kind in ("f32", "f16"):
            yield template.format("L2_POOL_2D").replace("T[", f"{kind}[")


STEPS = {
    OperationCode.SOFTMAX: 1,  # where the sum of exponentials is as near to a half step as their last bits differ
    OperationCode.QUANTIZE: 1,  # Vulkan allows the division an error of 2.5 units in the last place
}


def difference(expected: np.ndarray, actual: np.ndarray, code: OperationCode) -> str | None:
    """Describe how results differ, or return None if they agree.

    Floats agree within the conformance tolerance. Other values are equal, or within the levels of ``STEPS``.
    """
    if expected.dtype.kind == "f":
        return first_difference(expected, actual, parse("RELU f32[1]").model.operands[0].type.code)
    off = np.abs(expected.astype(int) - actual)
    if off.max(initial=0) <= STEPS.get(code, 0):
        return None
    where = tuple(np.argwhere(off == off.max())[0])
    count = int((off > 0).sum())
    return f"element {list(where)}: expected {expected[where]}, got {actual[where]} ({count} of {off.size} differ)"


@pytest.mark.parametrize("text", list(rows()))
def test_like_the_reference(vulkan: VulkanDevice, text: str) -> None:
    row = parse(text)
    code = row.model.operations[0].code
    expected = reference(row)
    outputs, guarded = empty_like(expected), empty_like(expected)
    result = execute(vulkan, row, outputs)
    assert [shape.dimensions for shape in result.output_shapes] == [array.shape for array in expected]
    assert run_guarded(vulkan, row.model, row.inputs, guarded) == []
    for want, got, alone in zip(expected, outputs, guarded, strict=True):
        assert difference(want, got, code) is None
        assert got.tobytes() == alone.tobytes(), "the result depends on where tensors lie"


def large_rows() -> Iterator[str]:
    """Rows without filters, and of some size."""
    for text in rows():
        first = parse(text).model.operands[0].type
        if np.prod(first.dimensions) > 768 and not re.match("CONV|DEPTHWISE|FULLY", text):
            yield text


@pytest.mark.parametrize("text", list(large_rows()))
def test_dispatches_that_fold(narrow: VulkanDevice, text: str) -> None:
    row = parse(text)
    expected = reference(row)
    outputs = empty_like(expected)
    execute(narrow, row, outputs)
    for want, got in zip(expected, outputs, strict=True):
        assert difference(want, got, row.model.operations[0].code) is None


@pytest.mark.parametrize("text", ["ADD f32[5] f32[5] NONE", "PAD u8[3,5]*1+0 (0,0;1,2)", "MEAN f32[3,70000] (1) 0"])
def test_guards_see_a_shader_that_writes_too_far(own: VulkanDevice, text: str) -> None:
    row = parse(text)
    plan = own.planner.plan(row.model, [array.shape for array in row.inputs], PrepareOptions())
    for command in plan.commands:
        if isinstance(command, Dispatch):
            command.push["count"] += 64  # type: ignore[index, operator]
    wrong = run_plan_guarded(own, plan, row.inputs, empty_like(reference(row)))
    assert any("were written" in violation for violation in wrong)


@pytest.mark.parametrize("kind", ["u8[1,2,2,1]*1+0", "i8[1,2,2,1]*1+0", "u8[1,2,2,4]*1+128", "i8[1,2,2,4]*1-128"])
def test_average_pools_round_halves_away_from_level_0(vulkan: VulkanDevice, kind: str) -> None:
    row = parse(f"AVERAGE_POOL_2D {kind} VALID 1 1 2 2 NONE")
    (source,) = row.inputs
    steps = source.astype(int).reshape(4, -1)
    unsigned = source.dtype == np.uint8
    middle = 128 if unsigned else 0
    halves = ((-6, -1), (-2, 0)) if unsigned else ((-6, -2), (-2, -1))
    for sums, mean in (*halves, (-5, -1), (-1, 0), (1, 0), (2, 1), (5, 1), (6, 2)):
        steps[:] = middle
        steps[1] += sums
        source[:] = steps.reshape(source.shape)
        (output,) = outputs = empty_like(reference(row))
        execute(vulkan, row, outputs)
        assert (output == middle + mean).all(), f"sum {sums} of four"
        np.testing.assert_array_equal(output, reference(row)[0])


def test_rows_are_about_every_quantised_type() -> None:
    codes = {parse(text).model.operands[0].type.code for text in expanded("ADD T[1] S[1] NONE")}
    assert {is_quantised(code) for code in codes} == {True, False}
    assert len(codes) == 3
