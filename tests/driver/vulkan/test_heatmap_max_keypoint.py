"""HEATMAP_MAX_KEYPOINT on the GPU: what the reference gives, on all types and layouts."""

import numpy as np
import pytest
from against_reference import check_like_the_reference
from data_errors import data_error

from nnvk.check.model_rows import Row, execute, parse, reference

TYPES = [
    ("f32{}", "f32[{},4]^50x40", "f32 f32"),
    ("f32{}~2", "f32[{},4]^50x40", "f32 f32"),  # with many equal peaks
    ("f16{}", "f16[{},4]^50x40", "f16 f16"),
    ("u8{}*0.031+117", "u16[{},4]*0.125^50x40", "u8*0.05+100 u16*0.125"),
    ("i8{}*0.25-13~9", "u16[{},4]*0.125^50x40", "i8*0.5-10 u16*0.125"),
]
SHAPES = ["[3,2,2,1] nhwc", "[2,7,7,3] nhwc", "[5,11,11,17] nhwc", "[1,61,61,8] nhwc", "[3,5,13,13] nchw"]
LARGE = ["[1,61,61,8] nhwc", "[2,47,47,3] nhwc", "[2,3,59,59] nchw"]


def rows(shapes: list[str]) -> list[str]:
    return [
        f"HEATMAP_MAX_KEYPOINT {maps.format(shape)} {boxes.format(shape[1])} {layout} -> {outputs}"
        for maps, boxes, outputs in TYPES
        for shape, layout in map(str.split, shapes)
    ]


@pytest.mark.parametrize("text", rows(SHAPES))
def test_like_the_reference(vulkan, text):
    check_like_the_reference(vulkan, text)


@pytest.mark.parametrize("text", rows(LARGE))
def test_large_workgroups_of_gpus(as_gpu, text):
    check_like_the_reference(as_gpu, text)


@pytest.mark.parametrize("corner", [(0, 0), (0, 6), (6, 0), (6, 6), (3, 0), (0, 3)])
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_peaks_at_the_edges(vulkan, corner, layout):
    row = parse(f"HEATMAP_MAX_KEYPOINT f32[1,7,7,7] f32[1,4]^50x40 {layout} -> f32 f32")
    heatmap = row.inputs[0]
    if layout == "nhwc":
        heatmap[:, corner[0], corner[1], :] = 9
    else:
        heatmap[:, :, corner[0], corner[1]] = 9
    check_like_the_reference(vulkan, row)


@pytest.mark.parametrize("value", [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-30, 3e38])
def test_maps_of_one_number(vulkan, value):
    row = parse("HEATMAP_MAX_KEYPOINT f32[2,5,5,3] f32[2,4]^50x40 nhwc -> f32 f32")
    check_like_the_reference(vulkan, Row(row.model, (np.full_like(row.inputs[0], value), row.inputs[1])))


def test_boxes_that_are_turned_over_are_refused(vulkan):
    row = parse("HEATMAP_MAX_KEYPOINT f32[3,5,5,3] f32[3,4]^50x40 nhwc -> f32 f32")
    row.inputs[1][1] = [3, 1, 2, 2]
    refused = data_error(lambda: reference(row))
    assert refused is not None
    outputs = [np.zeros((3, 3), np.float32), np.zeros((3, 3, 2), np.float32)]
    assert data_error(lambda: execute(vulkan, row, outputs)) == refused
