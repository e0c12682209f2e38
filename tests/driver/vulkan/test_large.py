"""Long loops and large grids. Mesa's llvmpipe ends an invocation's loops after 65,535 rounds in all, silently."""

from __future__ import annotations

import numpy as np
import pytest
from builder import Builder
from samples import compiled

import nnvk
from nnvk.base.errors import NnapiError, ResultCode
from nnvk.check.model_rows import empty_like, execute, parse, reference, request
from nnvk.conformance.compare import first_difference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.kernels.argmax import LONGEST
from nnvk.types.request import ExecuteOptions, PrepareOptions

# The inputs are small integers, so that the reference's sums are exact too.
ROWS = """
MEAN f32[4200000] (0) 0
MEAN f32[66000,200]~9 (0) 0
MEAN i8[5000000]*0.5+3 (0) 0
MEAN u8[3,1200000]*0.5+3 (1) 1
SOFTMAX f32[4300000] 0.1f
SOFTMAX f32[2,70000,2] 1.0f 1
SOFTMAX u8[4300000]*0.5+3 0.1f
LOG_SOFTMAX f32[4300000] 0.1f 0
LOG_SOFTMAX f32[2,70000,2] -1.0f 1
L2_NORMALIZATION f32[4300000]~9
L2_NORMALIZATION f32[70000,61]~9 0
L2_NORMALIZATION i8[4300000]*0.5+3 -> i8*0.0078125+0
INSTANCE_NORMALIZATION f32[1,2100,2000,1]~9 1.5f 0.5f 0.001f nhwc
INSTANCE_NORMALIZATION f32[1,3,1400,1001]~9 1.5f 0.5f 0.001f nchw
LOCAL_RESPONSE_NORMALIZATION f32[70001]~3 40000 1.0f 0.0001f 0.75f
L2_POOL_2D f32[1,260,260,3]~3 VALID 1 1 260 260 NONE
RESIZE_BILINEAR u8[1,9,7,3]*0.5+3 1500 1401
AVERAGE_POOL_2D f32[1,260,260,3]~3 VALID 1 1 260 260 NONE
AVERAGE_POOL_2D u8[1,700,700,4]*1+100 VALID 1 1 700 700 NONE
AVERAGE_POOL_2D i8[1,265,262,5]*1+0 VALID 1 1 257 256 NONE
MAX_POOL_2D f32[1,4,300,301] VALID 1 1 301 300 NONE nchw
MAX_POOL_2D u8[1,700,700,3]*1+100 VALID 1 1 700 700 NONE
RELU6 u8[17000001]*0.05+3
"""


@pytest.mark.parametrize("text", ROWS.strip().splitlines())
def test_like_the_reference(own: VulkanDevice, text: str) -> None:
    row = parse(text)
    (expected,) = reference(row)
    (actual,) = outputs = empty_like([expected])
    execute(own, row, outputs)
    if not np.array_equal(expected, actual):
        assert first_difference(expected, actual, row.model.output_types()[0].code) is None


def test_masked_parts_of_a_long_softmax(vulkan: VulkanDevice) -> None:
    row = parse("SOFTMAX f32[2,50000] 1.0f")
    (source,) = row.inputs
    source[0, :40000] = source[1, 20000:] = -np.inf
    (expected,) = reference(row)
    (actual,) = outputs = empty_like([expected])
    execute(vulkan, row, outputs)
    np.testing.assert_allclose(actual, expected, rtol=2e-6)
    assert not actual[0, :40000].any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("MEAN u8[8388608]*1+0 (0) 0", "8388608 quantised elements go into one, the shader sums at most 8388607"),
        (
            "MAX_POOL_2D u8[1,1024,1025,1]*1+0 VALID 1 1 1025 1024 NONE",
            "a window covers 1049600 elements, the shader folds at most 524288",
        ),
        ("FULLY_CONNECTED f32[1,270000] #f32[1,270000] #f32[1] NONE", "a sum over 1 x 1 x 270000 values takes"),
    ],
)
def test_what_is_too_long_is_refused(vulkan: VulkanDevice, text: str, reason: str) -> None:
    (support,) = vulkan.get_supported_operations(parse(text).model)
    assert support.reason.startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ARGMAX i8[7680001?]*1+0 0 -> i32", "ARGMAX: axis 0 has 7680001 elements, the shader searches at most 768"),
        ("MEAN u8[8388608?]*1+0 (0) 0", "MEAN: 8388608 quantised elements go into one, the shader sums at most"),
        ("FULLY_CONNECTED f32[1,270000?] f32[1,270000?] f32[1] NONE", "FULLY_CONNECTED: a sum over 1 x 1 x 270000"),
    ],
)
def test_what_turns_out_too_long_is_refused_at_execution(vulkan: VulkanDevice, text: str, reason: str) -> None:
    row = parse(text)
    (support,) = vulkan.get_supported_operations(row.model)
    assert support.supported, "the length is open"
    prepared = vulkan.prepare_model(row.model, PrepareOptions())
    with pytest.raises(NnapiError, match=reason) as error:
        prepared.execute(request(row.inputs, empty_like(reference(row))), ExecuteOptions())
    assert error.value.code is ResultCode.OP_FAILED


def test_the_cpu_takes_over_what_turns_out_too_long(own: VulkanDevice) -> None:
    f32, i32 = nnvk.OperandCode.TENSOR_FLOAT32, nnvk.OperandCode.TENSOR_INT32
    build = Builder()
    source = build.operand(nnvk.OperandType(f32, (0,)))
    target = build.operation(nnvk.OperationCode.ARGMAX, [source, build.value(0)], nnvk.OperandType(i32, (1,)))
    compilation = compiled(build.finish([source], [target]))
    values, output = np.zeros(LONGEST + 1, np.float32), np.zeros(1, np.int32)
    values[LONGEST] = 1
    execution = nnvk.Execution(compilation)
    execution.set_input(0, values, nnvk.OperandType(f32, values.shape))
    execution.set_output(0, output)
    execution.compute()
    assert output.tolist() == [LONGEST]
