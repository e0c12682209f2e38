"""ROI_ALIGN and ROI_POOLING on the GPU: what the reference gives, on all types, layouts and options."""

from __future__ import annotations

import numpy as np
import pytest
from against_reference import agree, check_like_the_reference
from data_errors import data_error

from nnvk.check.model_rows import Row, empty_like, execute, parse, reference

# Feature maps, [batches, height, width, channels] by layout, and boxes on an image of 2 x 1.5 times their size.
TYPES = {
    "f32": ("f32{}", "f32{}^{}"),
    "f16": ("f16{}", "f16{}^{}"),
    "u8": ("u8{}*0.031+117", "u16{}*0.125^{}"),
    "i8": ("i8{}*0.25-13", "u16{}*0.125^{}"),
}
MAPS = ["[3,7,5,1]", "[2,11,13,3]", "[2,5,7,8]", "[1,31,2,17]"]
NUMBERS = {"f32": "f", "f16": "h", "u8": "f", "i8": "f"}


def rows(code: str, options: list[str], outputs: dict[str, list[str]]) -> list[str]:
    found = []
    for type_, (features, boxes) in TYPES.items():
        for number, shape in enumerate(MAPS):
            batches, *sizes = map(int, shape[1:-1].split(","))
            for layout in ("nhwc", "nchw"):
                height, width = sizes[:2] if layout == "nhwc" else sizes[1:]
                image = f"{2 * width}x{3 * height // 2}"
                option = options[(number + (layout == "nchw")) % len(options)].format(n=NUMBERS[type_])
                inputs = [features.format(shape), boxes.format("[7,4]", image), f"i32[7]<{batches}", option, layout]
                found += [f"{code} {' '.join(inputs)}{output}" for output in outputs[type_]]
    return found


ALIGN = ["3 2 1.5{n} 2.0{n} 0 0", "1 5 1.5{n} 2.0{n} 2 3", "7 1 1.75{n} 2.0{n} 0 1", "2 2 1.5{n} 2.125{n} 4 0"]
POOLING = ["3 2 1.5{n} 2.0{n}", "1 5 1.75{n} 2.0{n}", "7 1 1.5{n} 2.125{n}", "13 17 1.5{n} 2.0{n}"]
SAME = {"f32": [""], "f16": [""], "u8": [""], "i8": [""]}
OTHER = SAME | {"u8": ["", " -> u8*0.011+3"], "i8": ["", " -> i8*0.5-100"]}


@pytest.mark.parametrize("text", rows("ROI_ALIGN", ALIGN, OTHER) + rows("ROI_POOLING", POOLING, SAME))
def test_like_the_reference(vulkan, text):
    check_like_the_reference(vulkan, text)


@pytest.mark.parametrize(
    "text",
    [
        "ROI_ALIGN #f32[1,5,7,4] #f32[3,4]^7x5 (0,0,0) 2 3 1.0f 1.0f 0 0 nhwc",
        "ROI_POOLING f32[1?,4?,5?,7] f32[3?,4]^7x5 i32[3?]<1 2 3 1.0f 1.0f nchw",
        "ROI_POOLING f32[1,5,7,4] f32[0?,4] i32[0?] 2 3 1.0f 1.0f nhwc",
        "ROI_ALIGN f32[1,5,7,0?] f32[3,4]^7x5 i32[3]<1 2 3 1.0f 1.0f 0 0 nhwc",
    ],
)
def test_constants_and_open_shapes(vulkan, text):
    check_like_the_reference(vulkan, text)


def test_late_values(vulkan):
    row = parse("ROI_ALIGN f32[1,5,7,4] f32[3,4]^7x5 i32[3]<1 @2 @3 @1.0f @1.0f @0 @0 @nhwc")
    expected = reference(row)
    outputs = empty_like(expected)
    execute(vulkan, row, outputs)
    agree(expected[0], outputs[0])


@pytest.mark.parametrize(
    "text",
    [
        "ROI_ALIGN f32[1,211,97,1] f32[2,4]^97x211 i32[2]<1 1 1 1.0f 1.0f 0 0 nhwc",
        "ROI_ALIGN u8[1,211,97,1]*0.5+3 u16[2,4]*0.125^97x211 i32[2]<1 1 1 1.0f 1.0f 0 0 nhwc",
        "ROI_POOLING f32[1,7,60013,1] f32[2,4]^60013x7 i32[2]<1 1 1 1.0f 1.0f nhwc",
        "ROI_POOLING u8[1,7,60013,1]*0.5 u16[2,4]*0.125^8000x7 i32[2]<1 2 1 1.0f 1.0f nhwc",
    ],
)
def test_large_bins(vulkan, text):
    check_like_the_reference(vulkan, text)


def test_bins_that_are_too_large_are_refused(vulkan):
    (align,) = vulkan.get_supported_operations(
        parse("ROI_ALIGN f32[1,200,200,1] f32[1,4] i32[1] 1 1 1.0f 1.0f 0 0 nhwc").model
    )
    assert align.reason == "bins may have 200 x 200 sampling points, the shader takes at most 30000"
    (pooling,) = vulkan.get_supported_operations(
        parse("ROI_POOLING f32[1,1,240001,1] f32[1,4] i32[1] 1 1 1.0f 1.0f nhwc").model
    )
    assert pooling.reason == "input has rows of 240001 elements, the shader takes at most 240000"


WRONG = {
    "order": ([3, 1, 2, 2], 0),
    "nan": ([1, 1, np.nan, 2], 0),
    "negative": ([-0.125, 1, 2, 2], 0),
    "right": ([0, 0, 7.125, 5], 0),
    "below": ([0, 0, 7, 5.125], 0),
    "infinite": ([0, 0, 7, np.inf], 0),
    "batch": ([0, 0, 7, 5], 2),
    "no batch": ([0, 0, 7, 5], -1),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("options", ["0 0 nhwc", "nhwc"])
@pytest.mark.parametrize("shape", ["[2,5,7,3]", "[2,5,7,4]", "[0?,5,7,3]"])
def test_what_is_wrong_with_the_regions_is_said(vulkan, name, options, shape):
    code = "ROI_POOLING" if options == "nhwc" else "ROI_ALIGN"
    row = parse(f"{code} f32{shape} f32[3,4]^7x5 i32[3]<2 3 2 1.0f 1.0f {options}")
    _, rois, split = row.inputs
    box, batch = WRONG[name]
    rois[1], split[1] = box, batch
    refused = data_error(lambda: reference(row))
    assert refused is not None
    assert data_error(lambda: execute(vulkan, row, [np.zeros((3, 3, 2, int(shape[-2])), np.float32)])) == refused


def test_numbers_that_are_none_stay_where_they_are(vulkan):
    row = parse("ROI_POOLING f32[1,5,7,3] f32[5,4]^7x5 i32[5]<1 3 2 1.0f 1.0f nhwc")
    features = row.inputs[0].copy()
    features[0, :, 3], features[0, 4, 6] = np.nan, -np.inf
    rois = np.array([[0, 0, 7, 5], [1, 1, 2, 2], [3, 3, 3, 3], [0, 4, 7, 4], [5, 2, 6, 5]], np.float32)
    row = Row(row.model, (features, rois, row.inputs[2]))
    (expected,) = reference(row)
    outputs = empty_like([expected])
    execute(vulkan, row, outputs)
    np.testing.assert_array_equal(outputs[0], expected)
    assert np.isnan(expected).any()
