"""Kernels that move elements, on rows that meet every path: by single elements, by vec4s of a row, by whole vectors."""

import numpy as np
import pytest
from guarded import run_guarded

from nnvk.check.model_rows import empty_like, execute, parse, reference

TEMPLATES = """
TRANSPOSE T[7] (0)
TRANSPOSE T[3,5] (1,0)
TRANSPOSE T[4,8] (1,0)
TRANSPOSE T[2,3,5,7] (0,2,3,1)
TRANSPOSE T[2,3,5,8] (2,0,1,3)
TRANSPOSE T[2,3,5,8] (0,1,2,3)
TRANSPOSE T[1,64,65,3] (0,3,1,2)
CHANNEL_SHUFFLE T[2,3,5,12] 3 3
CHANNEL_SHUFFLE T[2,12,5,8] 4 -3
CHANNEL_SHUFFLE T[6] 2 0
TILE T[3] (5)
TILE T[2,3,5,7] (2,1,3,2)
TILE T[2,3,5,4] (1,2,1,1)
TILE T[1,1,1,1] (2,3,5,7)
SLICE T[7] (2) (3)
SLICE T[2,3,5,8] (0,1,2,4) (-1,2,2,4)
SLICE T[5,8] (1,3) (3,-1)
SLICE T[4,13] (0,0) (4,13)
STRIDED_SLICE T[13] (10) (1) (-3) 0 0 0
STRIDED_SLICE T[5,7] (4,0) (0,7) (-1,2) 2 0 0
STRIDED_SLICE T[2,5,7,4] (0,1,6,0) (2,5,0,4) (1,2,-2,1) 0 0 0
STRIDED_SLICE T[2,3,5,8] (1,0,0,0) (2,3,5,8) (1,1,1,1) 0 0 1
REVERSE T[2,3,5] (1)
REVERSE T[2,3,8] (2)
REVERSE T[2,3,8] (0)
SPACE_TO_DEPTH T[2,4,6,3] 2 nhwc
SPACE_TO_DEPTH T[1,6,9,4] 3 nhwc
SPACE_TO_DEPTH T[2,3,4,6] 2 nchw
DEPTH_TO_SPACE T[2,3,5,12] 2 nhwc
DEPTH_TO_SPACE T[2,9,2,3] 3 nchw
BATCH_TO_SPACE_ND T[6,3,5,7] (2,3) nhwc
BATCH_TO_SPACE_ND T[8,4,3,2] (2,2) nchw
SPACE_TO_BATCH_ND T[2,4,6,3] (2,3) (0,0;0,0) nhwc
SPACE_TO_BATCH_ND T[2,5,4,4] (3,2) (1,3;2,0) nhwc
SPACE_TO_BATCH_ND T[1,3,5,4] (3,2) (1,0;2,2) nchw
PACK 0 T[7] T[7]
PACK 1 T[2,3] T[2,3] T[2,3]
PACK 2 T[2,4] T[2,4]
PACK 1 T[3,8] T[3,8]
MIRROR_PAD T[7] (6,5;) 0
MIRROR_PAD T[7] (7,0;) 1
MIRROR_PAD T[3,4,5] (2,1;0,0;3,4) 0
MIRROR_PAD T[2,3,1,4] (1,2;0,3;1,1;4,4) 1
MIRROR_PAD T[2,3] (0,0;0,0) 0
MIRROR_PAD T[3,5,8] (2,1;4,4;0,0) 0
MIRROR_PAD T[1,2,3,2,1,2,3] (0,0;1,1;0,0;1,0;0,1;1,1;2,0) 1
PAD_V2 T[2,3,5,4] (0,1;2,0;1,1;4,8) V
PAD_V2 T[2,3,5,4] (1,0;0,0;0,3;1,2) V
PAD_V2 T[1,3,5,7] (0,0;0,0;1,1;2,1) V
PAD_V2 T[3,5] (1,0;2,3) V
EXPAND_DIMS T[3,5] 1
EXPAND_DIMS T[3,5] -1
"""
# A type, and what PAD_V2 pads with.
TYPES = {"f32{}": "-1.5f", "i32{}": "", "u8{}*0.5+120": "7", "i8{}*0.25-7": "-100"}


def rows():
    for template in TEMPLATES.strip().splitlines():
        name, *words = template.split()
        for type_, value in TYPES.items():
            if type_.startswith("i32") and name in NO_INTEGERS:
                continue
            filled = [
                type_.format(word[1:]) if word.startswith("T") else value if word == "V" else word for word in words
            ]
            output = f" -> {type_.format('')}" if name == "PACK" else ""
            yield " ".join([name, *filled]) + output


NO_INTEGERS = {
    *("TRANSPOSE", "CHANNEL_SHUFFLE", "STRIDED_SLICE", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE"),
    *("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "PAD_V2"),
}


@pytest.mark.parametrize("text", list(rows()))
def test_like_the_reference(vulkan, text):
    row = parse(text)
    expected = reference(row)
    outputs, guarded = empty_like(expected), empty_like(expected)
    execute(vulkan, row, outputs)
    assert run_guarded(vulkan, row.model, row.inputs, guarded) == []
    for want, got, alone in zip(expected, outputs, guarded, strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.tobytes() == alone.tobytes(), "the result depends on where tensors lie"
