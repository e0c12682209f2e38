"""16-bit levels on the GPU: products of every form, sizes that leave tails. The generators have all operations in
small."""

from __future__ import annotations

import pytest
from against_reference import check_like_the_reference

from nnvk.check.model_rows import parse
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.kernels.pool import MOST_WIDE
from nnvk.driver.vulkan.kernels.softmax import LONGEST_16

PRODUCTS = """
CONV_2D i16[1,5,7,8]*0.001 #i8[8,3,3,8]*0.02+0 #i32[8] SAME 1 1 NONE -> i16*0.01
CONV_2D i16[2,5,7,8]*0.001 #i8[7,3,2,8]*0.02+0 #i32[14] VALID 2 1 RELU -> i16*3000
CONV_2D i16[1,5,7,3]*0.001 #pc0[4,3,3,3] #i32[4] 1 0 2 1 1 2 RELU6 nhwc 2 1 -> i16*0.01
CONV_2D i16[1,3,5,7]*0.001 #pc0[5,3,3,3] #i32[10] SAME 1 1 NONE nchw -> i16*3000
CONV_2D i16[1,3,3,512]*0.001 i8[4,1,1,512]*0.02+0 i32[4] VALID 1 1 NONE -> i16*0.1
CONV_2D i16[1,3,3,601]*0.001 #i8[3,3,3,601]*0.02+0 #i32[6] VALID 1 1 NONE -> i16*5000
GROUPED_CONV_2D i16[1,5,5,8]*0.001 #i8[12,3,3,2]*0.02+0 #i32[12] SAME 1 1 4 NONE nhwc -> i16*0.01
GROUPED_CONV_2D i16[1,5,5,8]*0.001 #pc0[8,3,3,4] #i32[16] SAME 1 1 2 RELU nhwc -> i16*3000
DEPTHWISE_CONV_2D i16[1,7,5,6]*0.001 #pc3[1,3,3,6] #i32[12] SAME 1 1 1 NONE -> i16*3000
DEPTHWISE_CONV_2D i16[2,7,5,3]*0.001 #i8[1,3,2,12]*0.02+0 #i32[12] VALID 1 2 4 NONE -> i16*0.01
DEPTHWISE_CONV_2D i16[2,7,5,3]*0.001 i8[1,3,2,6]*0.02+0 i32[6] VALID 1 2 2 NONE -> i16*0.01
DEPTHWISE_CONV_2D i16[2,7,5,8]*0.001 #pc3[1,3,2,8] #i32[16] SAME 1 2 1 NONE -> i16*3000
CONV_2D i16[2,5,9,4]*0.001 #i8[8,3,3,4]*0.02+0 #i32[16] SAME 2 1 NONE nhwc 2 2 -> i16*3000
TRANSPOSE_CONV_2D i16[1,5,4,8]*0.001 #i8[4,3,3,8]*0.02+0 #i32[8] (1,10,8,4) SAME 2 2 NONE nhwc -> i16*3000
TRANSPOSE_CONV_2D i16[2,5,3,3]*0.001 #pc0[5,2,3,3] #i32[5] 1 0 0 2 3 1 RELU nhwc -> i16*0.01
FULLY_CONNECTED i16[5,257]*0.001 #i8[7,257]*0.02+0 #i32[7] NONE -> i16*0.05
FULLY_CONNECTED i16[3,64]*0.001 #pc0[12,64] #i32[24] RELU -> i16*3000
FULLY_CONNECTED i16[1,1024]*0.001 i8[8,1024]*0.02+0 i32[16] NONE -> i16*3000
""".strip().splitlines()
OTHERS = """
ADD i16[3,5,7]*0.5 i16[7]*0.25 RELU -> i16*0.3
SUB i16[1,8]*0.5 i16[5,1]*0.001 NONE -> i16*0.7
MUL i16[3,8]*0.001 i16[8]*0.002 RELU6 -> i16*0.01
MAXIMUM i16[3,7]*0.5 i16[7]*0.25 -> i16*0.3
PRELU i16[3,7]*0.5 #i16[1]*0.3~1 -> i16*0.6
AVERAGE_POOL_2D i16[1,7,5,3]*0.5 SAME 2 1 3 2 NONE
AVERAGE_POOL_2D i16[1,41,43,2]*0.5 VALID 1 1 43 41 NONE
MAX_POOL_2D i16[1,7,5,8]*0.5 SAME 2 1 3 2 RELU
LOGISTIC i16[1031]*0.0003 -> i16*0.000030517578125
TANH i16[1031]*0.000244140625 -> i16*0.000030517578125
SOFTMAX i16[3,1001]*0.0003 1.0f
SOFTMAX i16[5,7,3]*0.01 0.5f 1
CONCATENATION i16[3,5]*0.5 i16[3,2]*0.25 1 -> i16*0.5
QUANTIZE f32[3,7] -> i16*0.0001
DEQUANTIZE i16[3,7]*0.5 -> f32
""".strip().splitlines()


@pytest.mark.parametrize("text", [*PRODUCTS, *OTHERS])
def test_like_the_reference(vulkan: VulkanDevice, text: str) -> None:
    check_like_the_reference(vulkan, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"SOFTMAX i16[1,{LONGEST_16 + 1}]*0.5 1.0f", f"axis -1 has {LONGEST_16 + 1} elements"),
        ("AVERAGE_POOL_2D i16[1,257,257,1]*0.5 VALID 1 1 257 257 NONE", f"the shader folds at most {MOST_WIDE}"),
        ("FULLY_CONNECTED i16[1,270001]*0.5 i8[3,270001]*0.5+0 i32[3] NONE -> i16*5000", "at most 65000"),
    ],
)
def test_what_is_refused(vulkan: VulkanDevice, text: str, reason: str) -> None:
    (support,) = vulkan.get_supported_operations(parse(text).model)
    assert reason in support.reason
