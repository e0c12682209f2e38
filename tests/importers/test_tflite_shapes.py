"""Inputs in other shapes than the file's, against TFLite's after `resize_tensor_input`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from tflite_net import Net, T, write
from tflite_oracle import compare, f32c, i32c

from nnvk.api import NnapiError, ResultCode
from nnvk.importers.tflite import TfliteImportError, load


def floats(*shape: int, name: str = "", signature: tuple[int, ...] | None = None) -> T:
    return T("FLOAT32", shape, name=name, signature=signature)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).random(shape, np.float32) * 2 - 1


def classifier() -> bytes:
    """A convolution, a mean over the image, a row for each image; sizes are in the file as for one image."""
    image, mean, row = floats(1, 8, 6, 3, name="image"), floats(1, 5), floats(1, 4, name="row")
    net = Net([image], [row])
    convolved = net.op(
        "CONV_2D",
        [image, f32c(5, 3, 3, 3), f32c(5)],
        floats(1, 6, 4, 5),
        "Conv2DOptions",
        Padding=1,
        StrideW=1,
        StrideH=1,
    )
    net.op("MEAN", [convolved, i32c(1, 2)], mean, "ReducerOptions")
    net.op("FULLY_CONNECTED", [mean, f32c(4, 5), f32c(4)], row, "FullyConnectedOptions")
    return write(net)


@pytest.mark.parametrize("shape", [(4, 8, 6, 3), (1, 11, 9, 3), (3, 5, 7, 3)])
def test_a_batch_and_another_size_of_image(shape: tuple[int, ...]) -> None:
    imported = compare(classifier(), [noise(*shape)], shapes={"image": shape})
    assert imported.inputs[0].shape == shape
    assert imported.outputs[0].shape == (shape[0], 4)
    assert imported.model.frozen.output_types()[0].dimensions == (shape[0], 4)


def test_sizes_that_are_kept() -> None:
    for kept in (-1, None):
        assert load(classifier(), shapes={"image": (2, kept, kept, kept)}).inputs[0].shape == (2, 8, 6, 3)


def test_shapes_that_a_model_computes() -> None:
    """SHAPE, STRIDED_SLICE, PACK and RESHAPE, as Keras's Flatten with an open batch is converted."""
    source, sizes, first, shape, flat = (
        floats(1, 2, 3, signature=(-1, 2, 3), name="x"),
        *(T("INT32", ()) for _ in range(3)),
        T(),
    )
    sizes.shape, shape.shape = (3,), (2,)
    net = Net([source], [flat])
    net.op("SHAPE", [source], sizes, "ShapeOptions", OutType=2)
    net.op("STRIDED_SLICE", [sizes, i32c(0), i32c(1), i32c(1)], first, "StridedSliceOptions", ShrinkAxisMask=1)
    net.op("PACK", [first, T("INT32", data=-1)], shape, "PackOptions", ValuesCount=2)
    net.op("RESHAPE", [source, shape], flat, "ReshapeOptions")
    imported = compare(write(net), [noise(5, 2, 3)], shapes={"x": (5, 2, 3)})
    assert imported.outputs[0].shape == (5, 6)
    assert imported.inputs[0].signature == (-1, 2, 3)


def test_scalars_of_which_the_file_knows_no_shape_are_packed_to_a_row() -> None:
    """As converters without ranks write them: a scalar looks like a tensor of an unknown shape."""
    source, sizes, flat = floats(2, 3, 2, name="x"), T("INT32", (3,)), floats(2, 6)
    first, last, shape = T("INT32"), T("INT32"), T("INT32", (2,))
    net = Net([source], [flat])
    net.op("SHAPE", [source], sizes, "ShapeOptions", OutType=2)
    for index, number in enumerate((first, last)):
        cut = [sizes, i32c(index), i32c(index + 1), i32c(1)]
        net.op("STRIDED_SLICE", cut, number, "StridedSliceOptions", ShrinkAxisMask=1)
    doubled = net.op("MUL", [last, T("INT32", data=2)], T("INT32"), "MulOptions")
    net.op("PACK", [first, doubled], shape, "PackOptions", ValuesCount=2)
    net.op("RESHAPE", [source, shape], flat, "ReshapeOptions")
    compare(write(net), [noise(2, 3, 2)])


def test_branches_get_the_shapes_of_their_caller() -> None:
    flag, source, result = T("BOOL", (), name="flag"), floats(2, 3, name="x"), floats(2, 3)
    main = Net([flag, source], [result])
    main.op("IF", [flag, source], result, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    nets = [main]
    for name in ("ADD", "MUL"):
        net = Net([floats(2, 3)], [floats(2, 3)])
        net.op(name, [net.inputs[0], T(data=[2.0])], net.outputs[0])
        nets.append(net)
    for flag_value in (True, False):
        compare(write(*nets), [np.bool_(flag_value).reshape(()), noise(7, 5)], shapes={"x": (7, 5)})


def test_states_keep_their_shape() -> None:
    source, state, result = floats(1, 2, name="x"), T("FLOAT32", (1, 2), variable=True), floats(1, 2)
    net = Net([source], [result])
    net.op("RNN", [source, T(data=np.eye(2)), T(data=np.eye(2)), T(data=[0.0, 0.0]), state], result, "RNNOptions")
    with pytest.raises(TfliteImportError, match=r"operator 0 \(RNN\)"):
        load(write(net), shapes={"x": (3, 2)})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"picture": (1, 8, 6, 3)}, r"no input of the model is called 'picture', there are \['image'\]"),
        ({"image": (8, 6, 3)}, r"the shape of 'image' must have 4 sizes, as in \[1, 8, 6, 3\], got 3"),
        ({"image": (0, 8, 6, 3)}, r"tensor 0 'image' is an input of shape \[0, 8, 6, 3\], without elements"),
        ({"image": (-2, 8, 6, 3)}, "a size in the shape of 'image' must be at least 0, got -2"),
        ({"image": (2**40, 8, 6, 3)}, "far too large"),
        ({"image": (2**26, 2, 2, 2)}, "far too large"),
        ({"image": (1, 2, 6, 3)}, r"operator 0 \(CONV_2D\): .*does not fit"),
        ({"image": (1, 8, 6, 4)}, r"operator 0 \(CONV_2D\)"),
    ],
)
def test_refused(shapes: Mapping[str, Sequence[int]], message: str) -> None:
    with pytest.raises(NnapiError, match=message) as caught:
        load(classifier(), shapes=shapes)
    assert caught.value.code is ResultCode.BAD_DATA


@pytest.mark.parametrize("shapes", [[(1, 8, 6, 3)], {"image": 8}, {"image": (1, 8.5, 6, 3)}, {"image": "1863"}])
def test_objects_of_a_wrong_kind(shapes: object) -> None:
    with pytest.raises(TypeError, match="shape"):
        load(classifier(), shapes=shapes)


def test_open_sizes_are_named_where_they_do_not_do() -> None:
    source = floats(1, 1, name="samples", signature=(1, -1))
    net = Net([source], [floats(1, 2)])
    net.op("SLICE", [source, i32c(0, 0), i32c(1, 2)], net.outputs[0])
    with pytest.raises(TfliteImportError, match=r"'samples' of shape \[1, -1\] is taken as \[1, 1\].*shapes="):
        load(write(net))
    compare(write(net), [noise(1, 7)], shapes={"samples": (1, 7)})
    other = Net([source], [floats(1, 1)])
    other.op("CONCAT_EMBEDDINGS", [source, i32c(0)], other.outputs[0])
    with pytest.raises(TfliteImportError) as caught:
        load(write(other))
    assert "shapes=" not in str(caught.value), "other shapes would not help"
    working = Net([source], [floats(1, 1)])
    working.op("NEG", [source], working.outputs[0])
    with pytest.raises(NnapiError, match=r"'samples' must have shape \[1, 1\], got \[1, 7\]; --shape or load.*shapes="):
        load(write(working)).encode([noise(1, 7)])
