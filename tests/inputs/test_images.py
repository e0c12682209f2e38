"""Images as inputs: sizes, types, scaling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nnvk import NnapiError, OperandCode, OperandType
from nnvk.importers.ports import Port
from nnvk.inputs.images import ImageOptions, Normalization, image_array, load_image

MODELS = Path(__file__).parents[3] / "shared" / "models"
UINT8 = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (1, 2, 2, 3), 0.5, 3)
INT8 = OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (1, 2, 2, 3), 0.5, -3)
FLOAT32 = OperandType(OperandCode.TENSOR_FLOAT32, (1, 2, 2, 3))


FILE_TYPES = {
    OperandCode.TENSOR_QUANT8_ASYMM: "UINT8",
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: "INT8",
    OperandCode.TENSOR_FLOAT32: "FLOAT32",
    OperandCode.TENSOR_FLOAT16: "FLOAT16",
    OperandCode.TENSOR_INT32: "INT32",
}


def port(type_: OperandType, shape: tuple[int, ...] | None = None) -> Port:
    return Port("x", type_, FILE_TYPES[type_.code], type_.dimensions if shape is None else shape)


def load(path: Path, type_: OperandType, normalization: Normalization | None = None, **options: str) -> np.ndarray:
    return load_image(path, port(type_), ImageOptions(normalization, **options))


@pytest.fixture
def pixels() -> np.ndarray:
    return np.array([[[0, 1, 2], [100, 127, 128]], [[129, 200, 250], [253, 254, 255]]], np.uint8)


@pytest.fixture
def picture(tmp_path: Path, pixels: np.ndarray) -> Path:
    path = tmp_path / "picture.png"
    Image.fromarray(pixels).save(path)
    return path


def test_uint8_gets_the_pixels(picture: Path, pixels: np.ndarray) -> None:
    array = load(picture, UINT8)
    assert (array.dtype, array.shape) == (np.uint8, (1, 2, 2, 3))
    assert (array[0] == pixels).all()


def test_int8_gets_the_pixels_minus_128(picture: Path, pixels: np.ndarray) -> None:
    array = load(picture, INT8)
    assert array.dtype == np.int8
    assert (array[0] == pixels.astype(int) - 128).all()


@pytest.mark.parametrize("code", [OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16])
def test_float_gets_the_pixels_by_255(picture: Path, pixels: np.ndarray, code: OperandCode) -> None:
    array = load(picture, OperandType(code, (1, 2, 2, 3)))
    assert array.dtype == OperandType(code).dtype
    assert (array[0] == (pixels.astype(np.float32) / np.float32(255)).astype(array.dtype)).all()


def test_mean_and_std(picture: Path, pixels: np.ndarray) -> None:
    array = load(picture, FLOAT32, Normalization.parse("127.5", "127.5"))
    assert np.allclose(array[0], pixels / 127.5 - 1, atol=1e-6)
    array = load(picture, FLOAT32, Normalization.parse("0, 10, 20", "1,2,4"))
    assert np.allclose(array[0], (pixels - [0.0, 10.0, 20.0]) / [1, 2, 4], atol=1e-6)
    assert np.allclose(load(picture, FLOAT32, Normalization.parse("255", None))[0], pixels / 255 - 1, atol=1e-6)


def test_mean_and_std_of_a_quantised_input_are_quantised(picture: Path, pixels: np.ndarray) -> None:
    array = load(picture, INT8, Normalization.parse("128", "2"))
    assert (array[0] == np.clip(np.rint((pixels - 128.0) / 2 / 0.5) - 3, -128, 127)).all()


def test_it_is_resized(picture: Path) -> None:
    assert load(picture, FLOAT32.with_dimensions((1, 7, 5, 3))).shape == (1, 7, 5, 3)
    assert load(picture, FLOAT32.with_dimensions((7, 5, 3))).shape == (7, 5, 3)


def test_one_channel_is_grey(tmp_path: Path) -> None:
    path = tmp_path / "blue.png"
    Image.new("RGB", (2, 2), (0, 0, 255)).save(path)
    assert load(path, UINT8.with_dimensions((1, 2, 2, 1))).reshape(-1).tolist() == [29] * 4


def test_other_modes_become_colour(tmp_path: Path) -> None:
    path = tmp_path / "palette.gif"
    Image.new("L", (2, 2), 77).save(path)
    assert (load(path, UINT8) == 77).all()


def test_it_is_turned_upright(tmp_path: Path) -> None:
    path = tmp_path / "turned.jpg"
    image = Image.new("L", (8, 4))
    image.paste(255, (0, 0, 4, 4))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera lay on its side: turn by 90 degrees clockwise
    image.save(path, exif=exif, quality=95)
    upright = load(path, UINT8.with_dimensions((1, 8, 4, 1)))[0, :, :, 0]
    assert upright[:4].min() > 250
    assert upright[4:].max() < 5


@pytest.mark.parametrize(
    "type_",
    [
        OperandType(OperandCode.TENSOR_FLOAT32, (1, 640)),
        OperandType(OperandCode.TENSOR_FLOAT32, (2, 8, 8, 3)),
        OperandType(OperandCode.TENSOR_FLOAT32, (1, 0, 0, 3)),
        OperandType(OperandCode.TENSOR_FLOAT32, (1, 8, 8, 2)),
        OperandType(OperandCode.TENSOR_INT32, (1, 8, 8, 3)),
    ],
    ids=str,
)
def test_inputs_that_take_no_image(picture: Path, type_: OperandType) -> None:
    with pytest.raises(ValueError, match=r"an image (fits|can't be) an input of .*picture\.png"):
        load(picture, type_)


def test_files_that_are_no_image(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.png", FLOAT32)
    (tmp_path / "text.png").write_text("hello")
    with pytest.raises(ValueError, match=r"not an image: .*text\.png"):
        load(tmp_path / "text.png", FLOAT32)


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "gif", "tif", "webp"])
@pytest.mark.parametrize("left", [0.1, 0.5, 0.9])
def test_a_truncated_image_is_an_error_that_names_it(tmp_path: Path, suffix: str, left: float) -> None:
    path = tmp_path / f"half.{suffix}"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * left)])
    with pytest.raises((OSError, ValueError), match=rf"half\.{suffix}"):
        load(path, FLOAT32)


@pytest.mark.parametrize("name", ["deep.png", "deep.tif", "deep.pgm"])
def test_grey_of_16_bits_is_scaled_to_8(tmp_path: Path, name: str) -> None:
    values = np.array([[0, 257, 128], [30000, 65534, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / name)
    for channels in (1, 3):
        array = load(tmp_path / name, UINT8.with_dimensions((1, 2, 3, channels)))
        wanted = np.rint(values / 257)[:, :, None].repeat(channels, 2)
        assert (array[0] == wanted).all()


@pytest.mark.parametrize(("mode", "dtype"), [("I", np.int32), ("F", np.float32)])
def test_pixels_of_unknown_range_are_refused(tmp_path: Path, mode: str, dtype: type) -> None:
    Image.fromarray(np.ones((2, 2), dtype)).save(tmp_path / "raw.tif")
    with pytest.raises(ValueError, match=rf"raw\.tif.*mode {mode}\b"):
        load(tmp_path / "raw.tif", UINT8)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white(tmp_path: Path, mode: str) -> None:
    image = Image.new("RGBA", (2, 2), (0, 0, 0, 0))
    image.putpixel((1, 0), (10, 10, 10, 255))
    if mode == "P":
        image = Image.new("P", (2, 2), 0)
        image.putpalette([0, 0, 0, 10, 10, 10])
        image.putpixel((1, 0), 1)
        image.info["transparency"] = 0
    else:
        image = image.convert(mode)
    image.save(tmp_path / "clear.png")
    for channels in (1, 3):
        array = load(tmp_path / "clear.png", UINT8.with_dimensions((1, 2, 2, channels)))
        assert array[0, :, :, 0].tolist() == [[255, 10], [255, 255]]
    array = load(tmp_path / "clear.png", UINT8.with_dimensions((1, 2, 2, 4)))
    assert array[0, :, :, 3].tolist() == [[0, 255], [0, 0]]


NOT_FLOAT32 = ["nan", "inf", "-inf", "1e300", "1,nan,1"]


@pytest.mark.parametrize(
    ("mean", "std"),
    [
        ("a", None),
        ("1,,2", None),
        (None, "0"),
        (None, "1,0,1"),
        (None, "1e-300"),
        ("", ""),
        *((text, None) for text in NOT_FLOAT32),
        *((None, text) for text in NOT_FLOAT32),
    ],
)
def test_normalization_that_is_none(mean: str | None, std: str | None) -> None:
    with pytest.raises((ValueError, NnapiError), match=r"mean|std"):
        Normalization.parse(mean, std)


def test_normalization_must_fit_the_type(picture: Path) -> None:
    for code, scale in ((OperandCode.TENSOR_FLOAT16, "1e6"), (OperandCode.TENSOR_FLOAT32, "1e38")):
        dtype = code.name.removeprefix("TENSOR_").lower()
        with pytest.raises(ValueError, match=rf"mean and std .* {dtype} does not have: .*picture\.png"):
            load(picture, OperandType(code, (1, 2, 2, 3)), Normalization.parse(None, None, scale))


def test_normalization_must_fit_the_channels(picture: Path) -> None:
    with pytest.raises(ValueError, match="mean has 2 values, the input has 3 channels"):
        load(picture, FLOAT32, Normalization.parse("10,20", None))


PHOTOS = sorted(MODELS.glob("*/*.bmp"))


@pytest.mark.skipif(not PHOTOS, reason=f"there are no models in {MODELS}")
@pytest.mark.parametrize("photo", PHOTOS, ids=lambda photo: photo.parent.name)
def test_photos_become_the_inputs_that_came_with_them(photo: Path) -> None:
    wanted = np.load(photo.with_name("input.npz"))["0"]
    codes = {"u": OperandCode.TENSOR_QUANT8_ASYMM, "i": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED}
    code = codes.get(wanted.dtype.kind, OperandCode.TENSOR_FLOAT32)
    array = load(photo, OperandType(code, wanted.shape, 0.0 if code is OperandCode.TENSOR_FLOAT32 else 1.0))
    assert array.dtype == wanted.dtype
    assert np.abs(array.astype(np.float64) - wanted).max() < 1e-7


@pytest.mark.parametrize("side", [9460, 12_000])
def test_an_image_of_too_many_pixels_is_not_decoded(tmp_path: Path, side: int) -> None:
    """A small file: of one colour, with one bit a pixel."""
    path = tmp_path / "large.png"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "MAX_IMAGE_PIXELS", None)
        Image.new("1", (side, side)).save(path)
    reason = rf"not an image that can be read: .*large\.png .*{side * side} pixels\) exceeds"
    with pytest.raises(ValueError, match=reason):
        load(path, UINT8)


# --- layouts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [UINT8, INT8, FLOAT32])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_come_first_where_the_shape_says_so(picture: Path, type_: OperandType, channels: int) -> None:
    last = load(picture, type_.with_dimensions((1, 5, 6, channels)))
    first = load(picture, type_.with_dimensions((1, channels, 5, 6)))
    assert first.shape == (1, channels, 5, 6)
    assert first.flags.c_contiguous
    assert (first == last.transpose(0, 3, 1, 2)).all()
    assert (load(picture, type_.with_dimensions((channels, 5, 6))) == first[0]).all()


def test_the_layout_decides_where_both_are_possible(picture: Path) -> None:
    square = FLOAT32.with_dimensions((1, 3, 3, 3))
    last, first = (load(picture, square, layout=layout) for layout in ("nhwc", "nchw"))
    assert (first == last.transpose(0, 3, 1, 2)).all()
    assert not (first == last).all()
    assert (load(picture, square) == last).all()
    assert (load(picture, FLOAT32.with_dimensions((1, 4, 3, 1)), layout="nchw") != 0).any(), "four channels"
    with pytest.raises(ValueError, match="in the layout nchw"):
        load(picture, FLOAT32, layout="nchw")


def test_mean_and_std_are_by_channel_in_every_layout(picture: Path, pixels: np.ndarray) -> None:
    normalization = Normalization((0.0, 10.0, 20.0), (1.0, 2.0, 4.0))
    array = load(picture, FLOAT32.with_dimensions((1, 3, 2, 2)), normalization)
    assert np.allclose(array[0].transpose(1, 2, 0), (pixels - [0.0, 10.0, 20.0]) / [1, 2, 4], atol=1e-6)


def test_scale_comes_before_mean_and_std(picture: Path, pixels: np.ndarray) -> None:
    array = load(picture, FLOAT32, Normalization.parse("0.485,0.456,0.406", "0.229,0.224,0.225", "1/255"))
    wanted = (pixels / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    assert np.allclose(array[0], wanted, atol=1e-5)
    assert np.allclose(load(picture, FLOAT32, Normalization.parse(None, None, "2"))[0], pixels * 2.0)


@pytest.mark.parametrize("scale", ["0", "1/0", "a", "1/2/3", "nan", "1e-300", "1,2", "1/255,3"])
def test_scales_that_are_none(scale: str) -> None:
    with pytest.raises(ValueError, match="scale"):
        Normalization.parse(None, None, scale)


def test_an_image_is_cut_off_or_padded_instead_of_stretched(tmp_path: Path) -> None:
    """A wide image of which the left quarter is white."""
    path = tmp_path / "wide.png"
    image = Image.new("L", (32, 16))
    image.paste(255, (0, 0, 8, 16))
    image.save(path)
    square = UINT8.with_dimensions((1, 16, 16, 1))
    stretched, covering, contained = (
        load(path, square, resize=how)[0, :, :, 0] for how in ("stretch", "cover", "contain")
    )
    assert stretched[:, :3].min() == 255
    assert stretched[:, 6:].max() == 0
    assert covering.max() == 0, "the middle half"
    assert contained[:4].max() == contained[-4:].max() == 0, "a border"
    assert contained[5:-5, :3].min() == 255


def test_an_image_keeps_its_size_where_the_input_has_none(picture: Path) -> None:
    open_ = port(FLOAT32, (1, 3, -1, -1))
    assert load_image(picture, open_).shape == (1, 3, 2, 2)
    assert load_image(picture, port(FLOAT32, (-1, -1, 4, 3))).shape == (1, 2, 4, 3)


def test_images_of_pillow_are_left_as_they_are(pixels: np.ndarray) -> None:
    image = Image.fromarray(pixels).convert("RGBA")
    before = image.tobytes()
    assert (image_array(image, port(UINT8))[0] == pixels).all()
    assert image.tobytes() == before
    with pytest.raises(ValueError, match=r"an image fits an input of .*float32 1x640"):
        image_array(image, port(FLOAT32.with_dimensions((1, 640))))


def test_pixels_without_quantisation_take_no_real_numbers(picture: Path, pixels: np.ndarray) -> None:
    plain = Port("x", OperandType(OperandCode.TENSOR_INT32, (1, 2, 2, 3)), "UINT8", (1, 2, 2, 3))
    assert (load_image(picture, plain)[0] == pixels).all()
    with pytest.raises(ValueError, match="make real numbers of pixels, and 'x' takes uint8"):
        load_image(picture, plain, ImageOptions(Normalization()))


@pytest.mark.parametrize("options", [{"layout": "hwc"}, {"resize": "crop"}])
def test_words_that_are_unknown(options: dict[str, str]) -> None:
    with pytest.raises(NnapiError, match=r"must be .* or .*, not"):
        ImageOptions(**options)
