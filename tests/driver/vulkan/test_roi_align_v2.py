"""ROI_ALIGN_V2 on the GPU: what the reference gives, and complaints about data."""

from __future__ import annotations

import numpy as np
import pytest
from against_reference import check_like_the_reference
from data_errors import data_error

from nnvk.check.model_rows import Row, execute, parse, reference

OPTIONS = [
    f"3 2 {scale}f {ratio} {moved} {largest}"
    for scale in (1.0, 0.5)
    for ratio in (0, 2)
    for moved in ("true", "false")
    for largest in ("true", "false")
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("operands", ["f32[2,3,7,11] f32[5,4]^11x7 i32[5]<2", "f32[1,1,1,1] f32[3,4]~9 i32[3]<1"])
def test_like_the_reference(vulkan, operands, options):
    check_like_the_reference(vulkan, f"ROI_ALIGN_V2 {operands} {options} -> f32")


def test_open_shapes(vulkan):
    check_like_the_reference(
        vulkan, "ROI_ALIGN_V2 f32[1?,3?,5?,7] f32[3?,4]^7x5 i32[3?]<1 2 3 1.0f 0 true false -> f32"
    )


@pytest.mark.parametrize(
    ("rois", "split", "said"),
    [
        ([[0, 0, 2, 2], [0, 0, 2, 2]], [0, 2], "batch_split[#] must be in [#, #), got #"),
        ([[0, 0, 2, 2], [0, 0, 300, 300]], [0, 1], "sampling points at most, region # has more"),
        ([[0, 0, 2, 2], [0, 0, 1e30, 1e30]], [0, 1], "sampling points at most, region # has more"),
    ],
    ids=["batch", "points", "huge"],
)
def test_complaints(vulkan, rois, split, said):
    row = parse("ROI_ALIGN_V2 f32[2,3,5,7] f32[2,4] i32[2]<2 2 2 1.0f 0 true false -> f32")
    bad = Row(row.model, [row.inputs[0], np.array(rois, np.float32), np.array(split, np.int32)])
    for run in (lambda: execute(vulkan, bad, [np.zeros((2, 3, 2, 2), np.float32)]), lambda: reference(bad)):
        assert said in str(data_error(run))
