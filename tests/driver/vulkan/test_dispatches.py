"""How many dispatches an operation takes: no more than it needs, which no result would tell."""

from __future__ import annotations

import pytest
from profiles import UNIFIED

from nnvk.check.model_rows import parse
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.commands import Clear, Dispatch
from nnvk.driver.vulkan.shaders.library import ShaderLibrary

ROWS = {
    # Filters are packed at preparation where they are constant.
    "CONV_2D f32[1,9,9,8] #f32[16,3,3,8] #f32[16] SAME 1 1 RELU": "gemm",
    "CONV_2D f32[2,7,5,3] #f32[5,2,3,3] #f32[5] VALID 2 1 NONE": "gemm",
    "CONV_2D f32[1,9,9,8] #f32[16,1,1,8] #f32[16] SAME 1 1 NONE": "gemm",
    "CONV_2D u8[1,9,9,8]*0.5+3 #u8[16,3,3,8]*0.1+9 #i32[16] SAME 1 1 RELU -> u8*0.7+100": "gemm",
    "CONV_2D i8[1,9,9,8]*0.5+3 #pc0[16,3,3,8] #i32[16] SAME 1 1 RELU -> i8*0.7+10": "gemm",
    "CONV_2D f32[1,8,9,9] #f32[16,3,3,8] #f32[16] SAME 1 1 RELU nchw": "arrange gemm arrange",
    "CONV_2D f32[1,9,9,8] f32[20,3,3,8] f32[20] SAME 1 1 RELU": "pack_filter gemm",
    "CONV_2D f32[1,9,9,8] f32[16,3,3,8] f32[16] SAME 1 1 RELU": "pack_filter gemm",
    "GROUPED_CONV_2D f32[1,9,9,8] #f32[40,3,3,4] #f32[40] SAME 1 1 2 NONE nhwc": "gemm",
    "GROUPED_CONV_2D f32[1,9,9,8] #f32[16,3,3,1] #f32[16] SAME 1 1 8 NONE nhwc": "depthwise_conv2d",
    "TRANSPOSE_CONV_2D f32[1,9,9,8] #f32[40,3,3,8] #f32[40] 1 1 1 1 2 2 NONE nhwc": "gemm",
    "BATCH_MATMUL f32[3,9,8] #f32[3,8,40]": "gemm",
    "BATCH_MATMUL f32[3,9,8] f32[3,8,40]": "gemm",
    "BATCH_MATMUL f32[3,9,8] f32[3,8,41]": "pack_filter gemm",
    "BATCH_MATMUL f32[3,9,8] f32[3,8,16]": "gemm",
    "DEPTHWISE_CONV_2D f32[1,9,9,8] #f32[1,3,3,8] #f32[8] SAME 1 1 1 RELU": "depthwise_conv2d",
    "DEPTHWISE_CONV_2D f32[1,9,9,8] #f32[1,3,3,16] #f32[16] SAME 1 1 2 RELU": "depthwise_conv2d",
    "DEPTHWISE_CONV_2D u8[1,9,9,8]*0.5+3 #u8[1,3,3,8]*0.1+9 #i32[8] SAME 1 1 1 NONE -> u8*0.7+9": "depthwise_conv2d",
    "DEPTHWISE_CONV_2D f32[1,8,9,9] #f32[1,3,3,8] #f32[8] SAME 1 1 1 RELU nchw": "arrange depthwise_conv2d arrange",
    "FULLY_CONNECTED f32[1,32] #f32[16,32] #f32[16] NONE": "fully_connected",
    "FULLY_CONNECTED f32[40,32] #f32[16,32] #f32[16] NONE": "gemm",
    "FULLY_CONNECTED f32[40,32] f32[20,32] f32[20] NONE": "gemm",
    "FULLY_CONNECTED f32[40,34] f32[20,34] f32[20] NONE": "pack_filter gemm",
    "AVERAGE_POOL_2D f32[1,9,9,8] SAME 1 1 3 3 NONE": "pool2d",
    "L2_POOL_2D f32[1,9,9,8] SAME 1 1 3 3 NONE": "pool2d",
    "MAX_POOL_2D u8[1,8,9,9]*0.5+3 SAME 1 1 3 3 NONE nchw": "arrange pool2d arrange",
    "ADD f32[2,3] f32[3] RELU": "binary",
    "MUL u8[2,3]*0.5+3 u8[3]*0.1+9 RELU -> u8*0.7+9": "binary",
    "SOFTMAX f32[4,7] 1.0f": "softmax softmax",
    "LOG_SOFTMAX f32[4,7] 1.0f -1": "softmax softmax",
    "L2_NORMALIZATION f32[4,7] -1": "normalize normalize",
    "INSTANCE_NORMALIZATION f32[2,5,3,7] 1.0f 0.0f 0.1f nhwc": "normalize normalize",
    "LOCAL_RESPONSE_NORMALIZATION f32[2,5,3,7] 2 1.0f 0.5f 0.5f": "local_response",
    "RESIZE_BILINEAR f32[2,5,3,7] 9 8 nhwc": "resize",
    "RESIZE_NEAREST_NEIGHBOR u8[2,7,5,3]*0.5+3 9 8 nchw": "resize",
    "RELU f32[3]": "unary",
    "TRANSPOSE f32[2,3,5] (2,0,1)": "arrange",
    "GATHER f32[4,6,5] 1 (1,3,5)": "arrange",
    "GATHER u8[4,6,8]*0.5+3 1 (4)": "arrange",
    "GATHER f32[4,6,5] -3 (3,2,1,0)": "arrange",
    "GATHER f32[4,6,5] 1 (1,3,4)": "gather",
    "GATHER f32[4,6,5] 1 (2,2)": "gather",
}
"""The families of the shaders, in the order of dispatch, where tensors need not be copied."""


@pytest.fixture(scope="module")
def library() -> ShaderLibrary:
    return ShaderLibrary()


@pytest.mark.parametrize("text", ROWS)
def test_dispatches(library: ShaderLibrary, text: str) -> None:
    row = parse(text)
    plan = lower(row.model, [array.shape for array in row.inputs], UNIFIED, library)
    clears = [command for command in plan.commands if isinstance(command, Clear)]  # of counters, for K in pieces
    assert all(isinstance(command, Dispatch) for command in plan.commands[len(clears) :])
    families = [command.shader.name.partition(".")[0] for command in plan.commands if isinstance(command, Dispatch)]
    assert " ".join(families) == ROWS[text]
    first = len(clears)  # waits for the counters alone
    assert len(plan.barriers - {first}) == len(families) - 1
