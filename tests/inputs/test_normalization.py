"""Means and deviations as torchvision's users give them, of numbers from 0 to 1: never silently another picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nnvk import Model, NnapiError, OperandCode, OperandType
from nnvk.batch import Task
from nnvk.demo.assets import DATA
from nnvk.importers.metadata import Metadata, TensorMetadata
from nnvk.importers.ports import ImportedModel, Port
from nnvk.inputs.images import ImageOptions, Normalization, image_array
from nnvk.inputs.reader import InputReader

IMAGE = Port("image", OperandType(OperandCode.TENSOR_FLOAT32, (1, 1, 1, 3)), "FLOAT32", (1, 1, 1, 3))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PIXEL = Image.new("RGB", (1, 1), (10, 100, 250))
REMARK = (
    "mean 0.485, 0.456, 0.406 and std 0.229, 0.224, 0.225 are taken as shares of 255, because pixels are 0 to 255: "
    "mean 123.675, 116.28, 103.53 and std 58.395, 57.12, 57.375"
)


def made(normalization: Normalization) -> np.ndarray:
    return image_array(PIXEL, IMAGE, ImageOptions(normalization)).reshape(-1)


def torchvision(mean: Any = MEAN, std: Any = STD) -> np.ndarray:
    """ToTensor, then Normalize."""
    return (np.array([10, 100, 250]) / 255 - mean) / std


def test_shares_of_255_are_taken_as_such() -> None:
    ways = [
        Normalization(MEAN, STD),
        Normalization.parse("0.485,0.456,0.406", "0.229,0.224,0.225"),
        Normalization(MEAN, STD, 1 / 255),
        Normalization.parse("0.485,0.456,0.406", "0.229,0.224,0.225", "1/255"),
        Normalization((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
    ]
    for way in ways:
        assert way is not None
        assert np.allclose(made(way), torchvision(), atol=1e-5), way
    assert [way.remark for way in ways if way is not None] == [REMARK, REMARK, "", "", ""]


@pytest.mark.parametrize(
    ("mean", "std"), [((0.5,), (0.5,)), ((0.5,), (1.0,)), ((0.0,), (0.5,)), ((0.0, 0.5, 1.0), (1.0, 0.5, 0.25))]
)
def test_other_shares(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    assert np.allclose(made(Normalization(mean, std)), torchvision(mean, std), atol=1e-5)


@pytest.mark.parametrize(
    ("normalization", "wanted"),
    [
        (Normalization(), [10 / 255, 100 / 255, 250 / 255]),
        (Normalization((0.0,), (1.0,)), [10, 100, 250]),
        (Normalization((103.94, 116.78, 123.68), (1.0,)), [-93.94, -16.78, 126.32]),
        (Normalization((127.5,), (127.5,)), [-117.5 / 127.5, -27.5 / 127.5, 122.5 / 127.5]),
        (Normalization(scale=1 / 255), [10 / 255, 100 / 255, 250 / 255]),
        (Normalization(scale=1e-3), [0.01, 0.1, 0.25]),
        (Normalization((1.0,), scale=1 / 127.5), [10 / 127.5 - 1, 100 / 127.5 - 1, 250 / 127.5 - 1]),
        (Normalization((0.5,), (0.5,), 1.0), [19, 199, 499]),
    ],
)
def test_numbers_of_pixels_are_taken_as_they_are(normalization: Normalization, wanted: list[float]) -> None:
    assert np.allclose(made(normalization), wanted, atol=1e-4)
    assert normalization.remark == ""


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (("0.485", None, None), "mean 0.485 and std 255 do not go together: give both for pixels of 0 to 255"),
        (("1", "127.5", None), "mean 1 and std 127.5 do not go together"),
        (("123.675", "0.229", None), "mean 123.675 and std 0.229 do not go together"),
        (("0.485", "58.395", None), "or both as shares of 255, such as 0.485 and 0.229; with a scale of 1 they are"),
        (("100,0.5,100", "50", None), "mean 100, 0.5, 100 and std 50 do not go together"),
        ((None, "0.00392157", None), "to multiply pixels, give a scale, such as 1/255"),
        (("123.675", "58.395", "1/255"), "mean 123.675 and std 58.395 are not of pixels that scale 0.00392157 multi"),
        (("0.485", "58.395", "1/255"), "which are 0 to 1"),
        ((None, "255", "1/255"), "mean 0 and std 255 are not of pixels that scale"),
    ],
)
def test_numbers_that_fit_no_pixels_are_refused(numbers: tuple[str | None, ...], said: str) -> None:
    with pytest.raises(NnapiError, match=re.escape(said)):
        Normalization.parse(*numbers)


def reader(said: list[str], normalization: Normalization | None, metadata: TensorMetadata | None = None) -> InputReader:
    described = Metadata() if metadata is None else Metadata(inputs=(metadata,))
    imported = ImportedModel(Model(), (IMAGE,), (), metadata=described)
    return InputReader(imported, ImageOptions(normalization), say=said.append)


def test_the_user_is_told_once(tmp_path: Path) -> None:
    PIXEL.save(tmp_path / "a.png")
    said: list[str] = []
    read = reader(said, Normalization(MEAN, STD))
    for value in (PIXEL, str(tmp_path / "a.png"), PIXEL):
        (array,) = read.arrays([value])
        assert np.allclose(array.reshape(-1), torchvision(), atol=1e-5)
    assert said == [f"input 'image': {REMARK}"]


def test_metadata_are_taken_the_same_way() -> None:
    said: list[str] = []
    (array,) = reader(said, None, TensorMetadata(mean=MEAN, std=STD)).arrays([PIXEL])
    assert np.allclose(array.reshape(-1), torchvision(), atol=1e-5)
    assert said == [f"input 'image': {REMARK}"]
    # TFLite takes any numbers, so that nnvk refuses no file for numbers that fit no pixels.
    (array,) = reader([], None, TensorMetadata(mean=(0.5,), std=(2.0,))).arrays([PIXEL])
    assert array.reshape(-1).tolist() == [4.75, 49.75, 124.75]


def test_a_batch_knows_both_ways_as_the_same() -> None:
    ways = (Normalization(MEAN, STD), Normalization(MEAN, STD, 1 / 255))
    about = [Task(DATA / "digits_int8.tflite", images=ImageOptions(way)).about()["normalization"] for way in ways]
    assert np.allclose(about[0], about[1])
    assert np.allclose(about[0], [[123.675, 116.28, 103.53], [58.395, 57.12, 57.375]])
