"""Operations that move and pick boxes, on the GPU: what the reference gives, on all types and options."""

from __future__ import annotations

import numpy as np
import pytest
from against_reference import check_like_the_reference
from data_errors import data_error

from nnvk.check.model_rows import Row, execute, parse, reference

# The leading type, boxes beside it, its numbers, and scores, deltas and anchors.
FLOATS = {"f32": "f", "f16": "h"}
STEPS = {"u8": ("u8{}*0.00390625", "u8{}*0.02+128"), "i8": ("i8{}*0.00390625-128", "i8{}*0.02+0")}


def limit_rows(count: int, classes: int, options: str) -> list[str]:
    boxes = f"[{count},{4 * classes}]"
    rows = [
        f"BOX_WITH_NMS_LIMIT {t}[{count},{classes}] {t}{boxes}^31x23 i32[{count}]<3 {options.format(n=n)}"
        f" -> {t} {t} i32 i32"
        for t, n in FLOATS.items()
    ]
    for scores, _ in STEPS.values():
        inputs = (
            f"{scores.format(f'[{count},{classes}]')} u16{boxes}*0.125^31x23 i32[{count}]<3 {options.format(n='f')}"
        )
        rows.append(f"BOX_WITH_NMS_LIMIT {inputs} -> {scores.format('')} u16*0.125 i32 i32")
    return rows


def proposal_rows(shape: str, options: str) -> list[str]:
    sizes, layout = shape.split()
    batches, *rest = map(int, sizes[1:-1].split(","))
    channels = rest[-1] if layout == "nhwc" else rest[0]
    deltas = [*rest[:-1], 4 * channels] if layout == "nhwc" else [4 * channels, *rest[1:]]
    more = f"[{batches},{','.join(map(str, deltas))}]"
    rows = []
    for t, n in FLOATS.items():
        inputs = f"{t}{sizes} {t}{more} {t}[{channels},4]^16x13 {t}[{batches},2]"
        rows.append(f"GENERATE_PROPOSALS {inputs} 4.0{n} 4.0{n} {options.format(n=n)} {layout} -> {t} {t} i32")
    for scores, small in STEPS.values():
        inputs = f"{scores.format(sizes)} {small.format(more)} i16[{channels},4]*0.125^16x13 u16[{batches},2]*0.125"
        outputs = f"{scores.format('')} u16*0.125 i32"
        rows.append(f"GENERATE_PROPOSALS {inputs} 4.0f 4.0f {options.format(n='f')} {layout} -> {outputs}")
    return rows


LIMITS = [
    *limit_rows(7, 2, "0.25{n} -1 0 0.5{n} 0.75{n} 0.125{n}"),
    *limit_rows(31, 5, "0.125{n} 3 1 0.25{n} 0.5{n} 0.125{n}"),
    *limit_rows(61, 3, "0.25{n} 11 2 0.25{n} 0.5{n} 0.125{n}"),
    "BOX_WITH_NMS_LIMIT f32[1009,3] f32[1009,12]^500x400 i32[1009]<7 0.5f 101 0 0.5f 0.5f 0.5f -> f32 f32 i32 i32",
]
PROPOSALS = [
    *proposal_rows("[2,5,7,3] nhwc", "0 0 0.5{n} 1.0{n}"),
    *proposal_rows("[1,3,11,13] nchw", "31 7 0.25{n} 2.0{n}"),
    "GENERATE_PROPOSALS f32[1,61,67,3] f32[1,61,67,12]~1 f32[3,4]^64x64 f32[1,2] 16.0f 16.0f 2003 307 0.7f 1.0f nhwc"
    " -> f32 f32 i32",
]
TRANSFORMS = [
    "AXIS_ALIGNED_BBOX_TRANSFORM f32[7,4]^31x23 f32[7,12] i32[7]<3 f32[3,2]",
    "AXIS_ALIGNED_BBOX_TRANSFORM f16[7,4]^31x23 f16[7,4] i32[7]<1 f16[1,2]",
    "AXIS_ALIGNED_BBOX_TRANSFORM u16[7,4]*0.125^31x23 u8[7,20]*0.02+128 i32[7]<2 u16[2,2]*0.125",
    "AXIS_ALIGNED_BBOX_TRANSFORM u16[7,4]*0.125^31x23 i8[7,8]*0.02+0 i32[7]<2 u16[2,2]*0.125",
    "AXIS_ALIGNED_BBOX_TRANSFORM f32[4001,4]^310x230 f32[4001,84] i32[4001]<7 f32[7,2]",
]
DETECTIONS = [
    f"DETECTION_POSTPROCESSING {t}{scores} {t}{deltas} {t}[{anchors},4]^9x7 10.0{n} 10.0{n} 5.0{n} 5.0{n} {options}"
    f" -> {t} {t} i32 i32"
    for t, n in FLOATS.items()
    for scores, deltas, anchors, options in (
        ("[1,7,3]", "[1,7,4]", 7, f"true 5 1 3 0.25{n} 0.5{n} false"),
        ("[2,61,5]", "[2,61,7]", 61, f"true 11 2 7 0.125{n} 0.5{n} true"),
        ("[2,61,5]", "[2,61,4]", 61, f"false 11 3 7 0.125{n} 0.5{n} true"),
        ("[1,1009,11]", "[1,1009,4]", 1009, f"false 101 1 100 0.5{n} 0.5{n} false"),
    )
]


@pytest.mark.parametrize("text", LIMITS + PROPOSALS + TRANSFORMS + DETECTIONS, ids=str)
def test_like_the_reference(vulkan, text):
    check_like_the_reference(vulkan, with_images(text))


@pytest.mark.parametrize("text", [*LIMITS[-5:], PROPOSALS[-1], *DETECTIONS[-2:]], ids=str)
def test_large_workgroups_of_gpus(as_gpu, text):
    check_like_the_reference(as_gpu, with_images(text))


def with_images(text: str) -> Row:
    """A row with a height and a width for each image."""
    row = parse(text)
    if text.startswith(("GENERATE", "AXIS")):
        for index, operand in enumerate(row.model.operands):
            if len(operand.type.dimensions) == 2 and operand.type.dimensions[1] == 2 and index in row.model.inputs:
                sizes = row.inputs[row.model.inputs.index(index)]
                sizes[:] = 1600 if sizes.dtype.kind == "u" else 200
    return row


@pytest.mark.parametrize(
    "text",
    [
        "AXIS_ALIGNED_BBOX_TRANSFORM f32[7,4]^31x23 f32[7,12] i32[7]<3 f32[3,2]",
        "BOX_WITH_NMS_LIMIT f32[7,3] f32[7,12]^31x23 i32[7]<3 0.25f -1 0 0.5f 0.75f 0.125f -> f32 f32 i32 i32",
    ],
)
def test_boxes_that_are_turned_over_are_refused(vulkan, text):
    row = parse(text)
    rois = next(array for array in row.inputs[:2] if array.shape[1] in (4, 12))
    rois[3, :4] = [3, 1, 2, 2]
    refused = data_error(lambda: reference(row))
    assert refused is not None
    assert data_error(lambda: execute(vulkan, row, [np.zeros(10**4, np.int32)] * len(row.model.outputs))) == refused


def test_anchors_of_empty_maps_are_checked(vulkan):
    row = parse(
        "GENERATE_PROPOSALS f32[1,0?,3,2] f32[1,0?,3,8] f32[2,4]^16x13 f32[1,2] 4.0f 4.0f 0 0 0.5f 1.0f nhwc"
        " -> f32 f32 i32"
    )
    check_like_the_reference(vulkan, row)
    row.inputs[2][1] = [3, 1, 2, 2]
    refused = data_error(lambda: reference(row))
    assert refused is not None
    assert data_error(lambda: execute(vulkan, row, [np.zeros(0, np.int32)] * 3)) == refused
