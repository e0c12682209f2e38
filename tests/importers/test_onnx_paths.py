"""The operations that nodes of ONNX become: each condition that chooses between them, and onnxruntime's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import check, operations

from nnvk.importers.onnx import OnnxImportError, load

F, I32, U8 = np.float32, np.int32, np.uint8


def reals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def whole(*shape: int, dtype: Any = I32, seed: int = 0) -> np.ndarray:
    limits = (0, 200) if dtype is U8 else (-90, 90)
    return np.random.default_rng(seed).integers(*limits, shape).astype(dtype)


class Path:
    """A node, its inputs (those whose names are capitals are constants), and the operations that it becomes."""

    def __init__(
        self, kind: str, wanted: str, arrays: dict[str, Any], opset: int = 18, outputs: str = "y", **attributes: Any
    ) -> None:
        self.kind, self.wanted, self.arrays = kind, wanted, arrays
        self.opset, self.outputs, self.attributes = opset, outputs, attributes


IMAGE, ROW, VOLUME = {"a": reals(1, 2, 7, 6)}, {"a": reals(2, 3, 9)}, {"a": reals(1, 2, 5, 4, 6)}
KERNEL = {"kernel_shape": [3, 2]}


def conv(source: tuple[int, ...], *weights: int, known: bool = True, bias: str = "") -> dict[str, Any]:
    name = "W" if known else "w"
    found = {"a": reals(*source), name: reals(*weights, seed=1)}
    return found | ({bias: reals(weights[0], seed=2)} if bias else {})


def resized(shape: tuple[int, ...], scales: list[float]) -> dict[str, Any]:
    return {"a": reals(*shape), "-": None, "S": np.array(scales, F)}


POOLS = [
    Path("MaxPool", "MAX_POOL_2D", IMAGE, **KERNEL),
    Path("MaxPool", "MAX_POOL_2D", IMAGE, **KERNEL, pads=[2, 1, 2, 1]),
    Path("MaxPool", "MAX_POOL_2D", {"a": reals(1, 2, 6, 6)}, kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1),
    Path(
        "MaxPool",
        "MAX_POOL_2D",
        {"a": reals(1, 2, 8, 6)},
        kernel_shape=[2, 2],
        strides=[5, 3],
        pads=[1, 0, 1, 0],
        ceil_mode=1,
    ),
    Path(
        "MaxPool",
        "MAX_POOL_2D",
        {"a": reals(1, 2, 6, 7)},
        kernel_shape=[2, 2],
        strides=[4, 4],
        pads=[0, 1, 0, 1],
        ceil_mode=1,
    ),
    Path("MaxPool", "RESHAPE MAX_POOL_2D RESHAPE", ROW, kernel_shape=[3]),
    Path(
        "MaxPool", "RESHAPE MAX_POOL_2D RESHAPE MAX_POOL_2D RESHAPE MAX_POOL_2D RESHAPE", VOLUME, kernel_shape=[3, 2, 2]
    ),
    Path("MaxPool", "CAST MAX_POOL_2D CAST DIV MUL SUB", {"a": whole(1, 2, 7, 6, dtype=U8)}, **KERNEL),
    Path("AveragePool", "AVERAGE_POOL_2D", IMAGE, **KERNEL, pads=[2, 1, 1, 0]),
    Path("AveragePool", "PAD_V2 AVERAGE_POOL_2D", IMAGE, **KERNEL, pads=[2, 1, 1, 0], count_include_pad=1),
    Path("AveragePool", "AVERAGE_POOL_2D", IMAGE, **KERNEL, pads=[0, 0, 0, 0], count_include_pad=1),
    Path("AveragePool", "RESHAPE AVERAGE_POOL_2D RESHAPE", ROW, kernel_shape=[3]),
    Path(
        "AveragePool",
        "RESHAPE AVERAGE_POOL_2D RESHAPE AVERAGE_POOL_2D RESHAPE AVERAGE_POOL_2D RESHAPE",
        VOLUME,
        kernel_shape=[3, 2, 2],
    ),
]
CONVOLUTIONS = [
    Path("Conv", "CONV_2D", conv((1, 4, 7, 6), 5, 4, 3, 2)),
    Path("Conv", "CONV_2D", conv((1, 4, 7, 6), 5, 4, 3, 2, bias="B")),
    Path("Conv", "CONV_2D", conv((1, 4, 7, 6), 5, 4, 3, 2, bias="b")),
    Path("Conv", "TRANSPOSE CONV_2D", conv((1, 4, 7, 6), 5, 4, 3, 2, known=False)),
    Path("Conv", "DEPTHWISE_CONV_2D", conv((1, 4, 7, 6), 4, 1, 3, 2), group=4),
    Path("Conv", "DEPTHWISE_CONV_2D", conv((1, 4, 7, 6), 8, 1, 3, 2), group=4),
    Path("Conv", "TRANSPOSE DEPTHWISE_CONV_2D", conv((1, 4, 7, 6), 4, 1, 3, 2, known=False), group=4),
    Path("Conv", "DEPTHWISE_CONV_2D", conv((1, 4, 7, 6), 4, 1, 3, 2), group=4, dilations=[2, 1]),
    Path("Conv", "GROUPED_CONV_2D", conv((1, 4, 7, 6), 6, 2, 3, 2), group=2),
    Path("Conv", "GROUPED_CONV_2D", conv((1, 4, 7, 6), 6, 2, 3, 2), group=2, dilations=[2, 1]),
    Path("Conv", "GROUPED_CONV_2D", conv((1, 4, 7, 6), 6, 2, 3, 2), group=2, dilations=[1, 3]),
    Path(
        "Conv",
        "TRANSPOSE RESHAPE PAD_V2 RESHAPE SLICE RESHAPE PAD_V2 RESHAPE SLICE RESHAPE GROUPED_CONV_2D",
        conv((1, 4, 7, 6), 6, 2, 3, 2, known=False),
        group=2,
        dilations=[2, 3],
    ),
    Path("Conv", "CONV_2D", conv((1, 1, 7, 6), 1, 1, 3, 2)),
    Path("Conv", "RESHAPE CONV_2D RESHAPE", conv((2, 4, 9), 5, 4, 3), pads=[1, 0]),
    Path("Conv", "RESHAPE DEPTHWISE_CONV_2D RESHAPE", conv((2, 4, 9), 4, 1, 3), group=4, dilations=[2]),
    Path(
        "Conv",
        "RESHAPE TRANSPOSE PAD_V2 STRIDED_SLICE STRIDED_SLICE STRIDED_SLICE RESHAPE RESHAPE "
        "RESHAPE CONCATENATION RESHAPE CONV_2D RESHAPE TRANSPOSE RESHAPE",
        conv((1, 2, 5, 4, 6), 3, 2, 3, 2, 2),
        strides=[2, 1, 1],
        pads=[1, 0, 0, 1, 1, 0],
    ),
    Path("Conv", "RESHAPE TRANSPOSE RESHAPE CONV_2D RESHAPE TRANSPOSE RESHAPE", conv((1, 2, 5, 4, 6), 3, 2, 1, 2, 2)),
    Path(
        "Conv",
        "RESHAPE TRANSPOSE SLICE SLICE RESHAPE RESHAPE CONCATENATION RESHAPE GROUPED_CONV_2D RESHAPE TRANSPOSE RESHAPE",
        conv((1, 2, 5, 4, 6), 2, 1, 2, 2, 2),
        group=2,
    ),
    Path("ConvTranspose", "TRANSPOSE_CONV_2D", conv((1, 4, 3, 5), 4, 3, 3, 2)),
    Path("ConvTranspose", "TRANSPOSE TRANSPOSE_CONV_2D", conv((1, 4, 3, 5), 4, 3, 3, 2, known=False)),
    Path(
        "ConvTranspose",
        "SLICE TRANSPOSE_CONV_2D SLICE TRANSPOSE_CONV_2D CONCATENATION",
        conv((1, 4, 3, 5), 4, 3, 3, 2),
        group=2,
    ),
    Path(
        "ConvTranspose",
        "TRANSPOSE RESHAPE PAD_V2 RESHAPE SLICE RESHAPE SLICE SLICE SLICE TRANSPOSE_CONV_2D "
        "SLICE TRANSPOSE_CONV_2D CONCATENATION",
        conv((1, 4, 3, 5), 4, 3, 3, 2, known=False),
        group=2,
        dilations=[1, 2],
    ),
    Path(
        "ConvTranspose",
        "TRANSPOSE_CONV_2D",
        conv((1, 4, 3, 5), 4, 3, 3, 2),
        dilations=[2, 1],
        strides=[2, 3],
        output_padding=[1, 2],
    ),
    Path("ConvTranspose", "TRANSPOSE_CONV_2D", conv((1, 4, 3, 5), 4, 3, 3, 2), strides=[2, 3], output_shape=[8, 15]),
    Path("ConvTranspose", "TRANSPOSE_CONV_2D", conv((1, 4, 3, 5), 4, 3, 3, 2), strides=[2, 3], output_shape=[6, 13]),
    Path(
        "ConvTranspose",
        "TRANSPOSE_CONV_2D",
        conv((1, 4, 3, 5), 4, 3, 3, 2),
        strides=[2, 3],
        output_shape=[6, 13],
        auto_pad="SAME_UPPER",
    ),
    Path("ConvTranspose", "TRANSPOSE_CONV_2D", conv((1, 4, 3, 5), 4, 3, 4, 5), strides=[2, 2], auto_pad="SAME_UPPER"),
    Path("ConvTranspose", "TRANSPOSE_CONV_2D", conv((1, 4, 3, 5), 4, 3, 4, 5), strides=[2, 2], auto_pad="SAME_LOWER"),
    Path("ConvTranspose", "TRANSPOSE_CONV_2D", conv((1, 4, 3, 5), 4, 3, 4, 5), strides=[2, 2], pads=[1, 2, 0, 1]),
    Path(
        "ConvTranspose",
        "RESHAPE TRANSPOSE_CONV_2D RESHAPE",
        conv((2, 4, 5), 4, 3, 3),
        strides=[2],
        pads=[0, 1],
        output_padding=[1],
    ),
    Path(
        "ConvTranspose",
        "RESHAPE TRANSPOSE RESHAPE TRANSPOSE_CONV_2D RESHAPE SLICE RESHAPE PAD_V2 RESHAPE "
        "PAD_V2 SLICE RESHAPE PAD_V2 RESHAPE PAD_V2 ADD SLICE RESHAPE PAD_V2 RESHAPE PAD_V2 "
        "ADD SLICE RESHAPE TRANSPOSE RESHAPE",
        conv((1, 2, 3, 4, 2), 2, 3, 3, 2, 2),
        strides=[2, 1, 2],
        pads=[1, 0, 0, 0, 1, 0],
        dilations=[2, 1, 1],
    ),
]
PRODUCTS = [
    Path("Gemm", "FULLY_CONNECTED", {"a": reals(3, 4), "B": reals(4, 5)}),
    Path("Gemm", "FULLY_CONNECTED", {"a": reals(3, 4), "B": reals(5, 4)}, transB=1),
    Path("Gemm", "TRANSPOSE FULLY_CONNECTED", {"a": reals(4, 3), "B": reals(4, 5)}, transA=1),
    Path("Gemm", "FULLY_CONNECTED", {"a": reals(3, 4), "B": reals(4, 5), "C": reals(5)}),
    Path("Gemm", "FULLY_CONNECTED", {"a": reals(3, 4), "B": reals(4, 5), "C": reals(1, 5)}, beta=0.5),
    Path("Gemm", "FULLY_CONNECTED ADD", {"a": reals(3, 4), "B": reals(4, 5), "C": reals(3, 1)}, beta=0.5),
    Path("Gemm", "FULLY_CONNECTED ADD", {"a": reals(3, 4), "B": reals(4, 5), "c": reals(5)}),
    Path("Gemm", "FULLY_CONNECTED MUL ADD", {"a": reals(3, 4), "B": reals(4, 5), "c": reals(5)}, beta=0.5, alpha=2.0),
    Path("Gemm", "RESHAPE RESHAPE BATCH_MATMUL RESHAPE", {"a": reals(3, 4), "b": reals(4, 5)}),
    Path(
        "Gemm",
        "RESHAPE RESHAPE BATCH_MATMUL RESHAPE MUL ADD",
        {"a": reals(3, 4), "b": reals(5, 4), "C": reals(5)},
        transB=1,
        alpha=2.0,
    ),
    Path("MatMul", "FULLY_CONNECTED", {"a": reals(3, 4), "B": reals(4, 5)}),
    Path("MatMul", "RESHAPE FULLY_CONNECTED RESHAPE", {"a": reals(2, 3, 4), "B": reals(4, 5)}),
    Path("MatMul", "RESHAPE RESHAPE BATCH_MATMUL RESHAPE", {"a": reals(2, 3, 4), "b": reals(4, 5)}),
    Path("MatMul", "RESHAPE BATCH_MATMUL", {"a": reals(1, 3, 4), "b": reals(4, 5)}),
    Path("MatMul", "BATCH_MATMUL", {"a": reals(2, 3, 4), "b": reals(2, 4, 5)}),
    Path(
        "MatMul",
        "TILE RESHAPE TILE RESHAPE RESHAPE BATCH_MATMUL RESHAPE",
        {"a": reals(2, 1, 3, 4), "b": reals(3, 4, 5)},
    ),
    Path("MatMul", "RESHAPE FULLY_CONNECTED RESHAPE", {"a": reals(4), "B": reals(4, 5)}),
    Path("MatMul", "RESHAPE RESHAPE BATCH_MATMUL RESHAPE", {"a": reals(4), "b": reals(4, 5)}),
    Path("MatMul", "RESHAPE RESHAPE BATCH_MATMUL RESHAPE", {"a": reals(3, 4), "b": reals(4)}),
    Path("MatMul", "RESHAPE RESHAPE BATCH_MATMUL RESHAPE", {"a": reals(4), "b": reals(4)}),
    Path("MatMul", "RESHAPE BATCH_MATMUL RESHAPE", {"a": reals(3, 4), "B": reals(4)}),
    Path("MatMul", "RESHAPE BATCH_MATMUL RESHAPE", {"A": reals(3, 4), "b": reals(4, 5)}),
]
ALONG_AXES = [
    Path("Softmax", "RESHAPE SOFTMAX RESHAPE", {"a": reals(2, 3, 4)}),
    Path("Softmax", "SOFTMAX", {"a": reals(2, 3, 4)}, axis=1),
    Path("LogSoftmax", "RESHAPE LOG_SOFTMAX RESHAPE", {"a": reals(2, 3, 4)}),
    Path("LogSoftmax", "LOG_SOFTMAX", {"a": reals(2, 3, 4)}, axis=0),
    Path("Softmax", "RESHAPE SOFTMAX RESHAPE", {"a": reals(2, 3, 4)}, opset=11),
    Path("LRN", "LOCAL_RESPONSE_NORMALIZATION", {"a": reals(1, 5, 3, 2)}, size=3),
]
MOVED = [
    Path("Transpose", "TRANSPOSE", {"a": reals(2, 3, 4)}, perm=[1, 0, 2]),
    Path("Transpose", "RESHAPE", {"a": reals(2, 1, 4)}, perm=[1, 0, 2]),
    Path("Transpose", "TRANSPOSE", {"a": reals(1, 3, 4)}, perm=[0, 2, 1]),
    Path("Transpose", "RESHAPE GATHER RESHAPE", {"a": whole(2, 3, 4)}, perm=[1, 0, 2]),
    Path("Slice", "SLICE", {"a": reals(5, 7), "S": np.array([1, 2]), "E": np.array([4, 7])}),
    Path("Slice", "RESHAPE", {"a": reals(5, 7), "S": np.array([0, 0]), "E": np.array([5, 7])}),
    Path(
        "Slice",
        "STRIDED_SLICE",
        {
            "a": reals(5, 7),
            "S": np.array([4, 6]),
            "E": np.array([-9, 1]),
            "X": np.array([0, 1]),
            "T": np.array([-1, -2]),
        },
    ),
    Path(
        "Slice",
        "STRIDED_SLICE",
        {"a": reals(5, 7), "S": np.array([4]), "E": np.array([-9]), "X": np.array([1]), "T": np.array([-2])},
    ),
    Path(
        "Slice",
        "GATHER",
        {"a": whole(5, 7), "S": np.array([1]), "E": np.array([7]), "X": np.array([1]), "T": np.array([2])},
    ),
    Path(
        "Slice",
        "STRIDED_SLICE",
        {"a": reals(6, 7), "S": np.array([1, 2]), "E": np.array([6, 7]), "X": np.array([0, 1]), "T": np.array([2, 3])},
    ),
    Path("Split", "SPLIT", {"a": reals(4, 3)}, outputs="x y", num_outputs=2),
    Path("Split", "SLICE SLICE", {"a": reals(4, 3), "S": np.array([1, 3])}, outputs="x y"),
    Path("Split", "SLICE SLICE", {"a": reals(5, 3)}, outputs="x y", num_outputs=2),
    Path("Pad", "PAD_V2", {"a": reals(4, 3), "P": np.array([1, 0, 0, 2])}),
    Path("Pad", "SLICE", {"a": reals(4, 3), "P": np.array([-1, 0, 0, -1])}),
    Path("Pad", "SLICE PAD_V2", {"a": reals(4, 3), "P": np.array([-1, 2, 0, -1])}),
    Path("Pad", "RESHAPE", {"a": reals(4, 3), "P": np.array([-5, 0, 3, 0]), "V": np.array(0.5, F)}),
    Path(
        "Pad", "RESHAPE GATHER RESHAPE SELECT", {"a": whole(4, 3), "P": np.array([1, 0, 0, 2]), "V": np.array(7, I32)}
    ),
    Path("Pad", "RESHAPE", {"a": reals(4, 3), "P": np.array([0, 0, 0, 0])}),
    Path("Pad", "GATHER GATHER", {"a": reals(4, 3), "P": np.array([1, 0, 0, 2])}, mode="reflect"),
    Path("Pad", "GATHER", {"a": reals(1, 3), "P": np.array([2, 0, 1, 0])}, mode="edge"),
    Path("Expand", "RESHAPE TILE", {"a": reals(3, 1), "S": np.array([2, 1, 4])}),
    Path("Expand", "RESHAPE", {"a": reals(3, 1), "S": np.array([1, 1])}),
    Path("Tile", "TILE", {"a": reals(3, 2), "R": np.array([1, 3])}),
    Path("Tile", "RESHAPE", {"a": reals(3, 2), "R": np.array([1, 1])}),
    Path("TopK", "REVERSE TOPK_V2 SUB", {"a": reals(3, 5), "K": np.array([2])}, outputs="x y"),
    Path("TopK", "NEG REVERSE TOPK_V2 SUB NEG", {"a": reals(3, 5), "K": np.array([2])}, outputs="x y", largest=0),
    Path(
        "TopK",
        "RESHAPE GATHER RESHAPE SUB REVERSE TOPK_V2 SUB SUB RESHAPE GATHER RESHAPE GATHER RESHAPE RESHAPE",
        {"a": whole(3, 5), "K": np.array([2])},
        outputs="x y",
        largest=0,
        axis=0,
    ),
    Path("ArgMax", "REVERSE ARGMAX SUB", {"a": reals(3, 5)}, select_last_index=1, keepdims=0, axis=1),
    Path("DepthToSpace", "DEPTH_TO_SPACE", {"a": reals(1, 12, 2, 3)}, blocksize=2),
    Path(
        "DepthToSpace",
        "RESHAPE TRANSPOSE RESHAPE TRANSPOSE RESHAPE",
        {"a": reals(1, 12, 2, 3)},
        blocksize=2,
        mode="CRD",
    ),
    Path("SpaceToDepth", "SPACE_TO_DEPTH", {"a": reals(1, 3, 4, 6)}, blocksize=2),
]
RESIZED = [
    Path("Resize", "RESIZE_NEAREST_NEIGHBOR", resized((1, 2, 5, 4), [1, 1, 2, 3])),
    Path(
        "Resize",
        "RESIZE_NEAREST_NEIGHBOR",
        resized((1, 2, 5, 4), [1, 1, 2, 3]),
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    ),
    Path("Resize", "GATHER GATHER", resized((1, 2, 5, 4), [1, 1, 2, 1.6]), nearest_mode="ceil"),
    Path("Resize", "RESIZE_BILINEAR", resized((1, 2, 5, 4), [1, 1, 2, 3]), mode="linear"),
    Path(
        "Resize",
        "RESIZE_BILINEAR",
        resized((1, 2, 5, 4), [1, 1, 2, 3]),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    ),
    Path(
        "Resize",
        "RESIZE_BILINEAR",
        resized((1, 2, 5, 4), [1, 1, 2, 3]),
        mode="linear",
        coordinate_transformation_mode="asymmetric",
    ),
    Path(
        "Resize",
        "TRANSPOSE RESHAPE FULLY_CONNECTED RESHAPE TRANSPOSE RESHAPE FULLY_CONNECTED RESHAPE",
        resized((1, 2, 5, 4), [1, 1, 1.5, 1.6]),
        mode="linear",
        coordinate_transformation_mode="pytorch_half_pixel",
    ),
    Path(
        "Resize",
        "TRANSPOSE RESHAPE FULLY_CONNECTED RESHAPE TRANSPOSE",
        resized((1, 2, 5, 4), [1, 2, 1, 1]),
        mode="linear",
    ),
    Path("Resize", "RESIZE_BILINEAR", resized((1, 2, 5, 4), [1, 1, 1, 2]), mode="linear"),
    Path("Resize", "RESIZE_NEAREST_NEIGHBOR", resized((1, 2, 5, 4), [1, 1, 2, 1])),
    Path(
        "Resize",
        "TRANSPOSE RESHAPE FULLY_CONNECTED RESHAPE TRANSPOSE RESHAPE FULLY_CONNECTED RESHAPE",
        resized((2, 5, 4), [1, 2, 3]),
        mode="linear",
    ),
    Path("Resize", "GATHER GATHER", resized((5, 4), [2, 3])),
    Path("Resize", "RESHAPE", resized((1, 2, 5, 4), [1, 1, 1, 1]), mode="linear"),
    Path("Resize", "GATHER GATHER", {"a": whole(1, 2, 5, 4), "-": None, "S": np.array([1, 1, 2, 3], F)}),
    Path("Resize", "GATHER", resized((1, 2, 5, 4), [1, 1, 1, 1.6]), nearest_mode="ceil"),
    Path("Resize", "GATHER", resized((1, 2, 5, 4), [1, 1, 1.6, 1]), nearest_mode="ceil"),
    Path(
        "Resize",
        "RESHAPE FULLY_CONNECTED RESHAPE",
        resized((1, 2, 5, 4), [1, 1, 1, 1.6]),
        mode="linear",
        coordinate_transformation_mode="pytorch_half_pixel",
    ),
]
CHOSEN = [
    Path("Clip", "RELU6", {"a": reals(9), "L": np.array(0, F), "H": np.array(6, F)}),
    Path("Clip", "RELU1", {"a": reals(9), "L": np.array(-1, F), "H": np.array(1, F)}),
    Path("Clip", "RELU", {"a": reals(9), "L": np.array(0, F)}),
    Path("Clip", "MAXIMUM MINIMUM", {"a": reals(9), "L": np.array(0, F), "H": np.array(5, F)}),
    Path("Clip", "MAXIMUM MINIMUM", {"a": reals(9), "l": np.array(0, F), "h": np.array(6, F)}),
    Path("Clip", "MAXIMUM", {"a": reals(9), "l": np.array(0, F)}),
    Path("Clip", "MAXIMUM MINIMUM", {"a": whole(9), "L": np.array(0, I32), "H": np.array(6, I32)}),
    Path("Clip", "MINIMUM", {"a": reals(9), "-": None, "H": np.array(0, F)}),
    Path("Clip", "RESHAPE", {"a": reals(9)}),
    Path("Dropout", "RESHAPE", {"a": reals(9)}),
]


def numbered(paths: list[Path]) -> Any:
    """Draws the paths, each with its number and operator as its name."""
    names = [f"{number}-{one.kind}" for number, one in enumerate(paths)]
    return pytest.mark.parametrize("path", paths, ids=names)


def check_path(path: Path) -> None:
    constants = {name: array for name, array in path.arrays.items() if array is not None and name.isupper()}
    feeds = {name: array for name, array in path.arrays.items() if array is not None and not name.isupper()}
    inputs = {name: (array.dtype, array.shape) for name, array in feeds.items()}
    node = op(path.kind, " ".join(path.arrays), path.outputs, **path.attributes)
    net = model([node], inputs, path.outputs.split(), constants, opset=path.opset)
    assert operations(check(net, feeds, devices=("nnapi-reference",))) == path.wanted.split()


@numbered(POOLS)
def test_pools(path: Path) -> None:
    check_path(path)


@numbered(CONVOLUTIONS)
def test_convolutions(path: Path) -> None:
    check_path(path)


@numbered(PRODUCTS)
def test_products(path: Path) -> None:
    check_path(path)


@numbered(ALONG_AXES)
def test_along_axes(path: Path) -> None:
    check_path(path)


@numbered(MOVED)
def test_moved(path: Path) -> None:
    check_path(path)


@numbered(RESIZED)
def test_resized(path: Path) -> None:
    check_path(path)


@numbered(CHOSEN)
def test_chosen(path: Path) -> None:
    check_path(path)


@pytest.mark.parametrize("pads", [[2, 0, 0, 0], [0, 0, 0, 2], [0, 2, 0, 0]])
def test_windows_in_the_padding_alone(pads: list[int]) -> None:
    """NNAPI's pools have none."""
    net = model([op("MaxPool", "x", "y", kernel_shape=[2, 2], pads=pads)], {"x": (F, [1, 2, 5, 4])}, ["y"])
    with pytest.raises(OnnxImportError, match="NNAPI's pools have no dilation, and no padding as wide as a window"):
        load(net.SerializeToString())
