"""Train the network of ``nnvk demo`` and write the package data that the demo ships.

    pip install numpy scikit-learn pillow tflite ai-edge-litert
    python tools/train_demo.py

Trains a small convolutional network on scikit-learn's copy of the UCI handwritten digits, quantises it
after training, and writes to ``nnvk/demo/data``: ``digits_float.tflite`` (float32),
``digits_int8.tflite`` (all int8), ``labels.txt``, held-out digits as PNGs, and a ``README.md`` with the
accuracies measured. It takes about a minute. ai-edge-litert is only needed to measure the written files
with another runtime, and may be left out. The seed fixes everything but the BLAS library's order of
summation: another machine gives weights that differ a little.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from digits_net import IMAGE_SIZE, NETWORK, Array, Layer, Parameters, forward, softmax, train
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tflite import ActivationFunctionType, Padding
from tflite_writer import Graph, Operator, Quantization, Tensor, serialize

try:
    from ai_edge_litert.interpreter import Interpreter
except ImportError:
    Interpreter = None

DATA = Path(__file__).resolve().parent.parent / "nnvk" / "demo" / "data"
SEED = 20240607
HELD_OUT = 360
PICTURES_PER_DIGIT = 6
LABELS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

INPUT_QUANTIZATION = Quantization((1.0 / 255.0,), (-128,))
"""A pixel ``p`` of 0..255 is ``p / 255`` to the float network and ``p - 128`` to the int8 one."""
SOFTMAX_QUANTIZATION = Quantization((1.0 / 256.0,), (-128,))
"""The quantisation that TFLite and NNAPI require for the output of a signed 8-bit SOFTMAX."""


@dataclass(frozen=True, slots=True)
class Split:
    """Pictures ``[N, 16, 16]`` as uint8, their labels, and their places in scikit-learn's data set."""

    pictures: NDArray[np.uint8]
    labels: NDArray[np.int64]
    places: NDArray[np.int64]

    @property
    def images(self) -> Array:
        """The pictures as the float network takes them: ``[N, 16, 16, 1]`` in [0, 1]."""
        return self.pictures[..., None].astype(np.float32) / np.float32(255.0)


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """How a kind of layer is written: operator, its version for int8, options table, and fixed options."""

    builtin: str
    int8_version: int
    options_table: str
    options: Mapping[str, int | float | bool]


_STRIDE_1 = {"Padding": Padding.SAME, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
OPERATOR_KINDS = {
    "conv": OperatorKind("CONV_2D", 3, "Conv2DOptions", _STRIDE_1),
    "depthwise": OperatorKind("DEPTHWISE_CONV_2D", 3, "DepthwiseConv2DOptions", {**_STRIDE_1, "DepthMultiplier": 1}),
    "max_pool": OperatorKind("MAX_POOL_2D", 2, "Pool2DOptions", {"Padding": Padding.VALID}),
    "average_pool": OperatorKind("AVERAGE_POOL_2D", 2, "Pool2DOptions", {"Padding": Padding.VALID}),
    "add": OperatorKind("ADD", 2, "AddOptions", {}),
    "flatten": OperatorKind("RESHAPE", 1, "ReshapeOptions", {}),
    "dense": OperatorKind("FULLY_CONNECTED", 4, "FullyConnectedOptions", {}),
}
ACTIVATIONS = {
    None: ActivationFunctionType.NONE,
    "relu": ActivationFunctionType.RELU,
    "relu6": ActivationFunctionType.RELU6,
}
KEEPS_QUANTIZATION = ("max_pool", "average_pool", "flatten")
"""Kinds whose 8-bit output must have the scale and zero point of their input."""


def main() -> None:
    """Train, quantise, write, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DATA, help="folder to write (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=40, help="passes over the training set (%(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="of split, weights and order (%(default)s)")
    arguments = parser.parse_args()

    training, held_out = load(arguments.seed)
    print(f"training on {len(training.labels)} digits, {len(held_out.labels)} held out")
    rng = np.random.default_rng(arguments.seed)
    parameters = train(training.images, training.labels, rng, arguments.epochs)

    arguments.output.mkdir(parents=True, exist_ok=True)
    models = {
        "digits_float.tflite": build(parameters, None),
        "digits_int8.tflite": build(parameters, calibrate(parameters, training.images)),
    }
    for name, graph in models.items():
        (arguments.output / name).write_bytes(serialize(graph, "handwritten digits 0..9, of nnvk's demo"))
    (arguments.output / "labels.txt").write_text("\n".join(LABELS) + "\n", encoding="utf-8")
    shipped = write_pictures(held_out, arguments.output)

    report = measure(parameters, held_out, arguments.output, list(models))
    text = readme(report, len(training.labels), shipped)
    (arguments.output / "README.md").write_text(text, encoding="utf-8")
    print("\n".join(report))


def load(seed: int) -> tuple[Split, Split]:
    """The training and the held-out part of the digits, brought from 8x8 to 16x16 pixels."""
    digits = load_digits()
    counts = np.rint(digits.images * (255.0 / 16.0)).astype(np.uint8)
    size = (IMAGE_SIZE, IMAGE_SIZE)
    pictures = np.stack([np.asarray(Image.fromarray(count).resize(size, Image.Resampling.BICUBIC)) for count in counts])
    places = np.arange(len(pictures))
    parts = train_test_split(places, test_size=HELD_OUT, random_state=seed, stratify=digits.target)
    training, held_out = map(np.sort, parts)
    targets = digits.target.astype(np.int64)
    return Split(pictures[training], targets[training], training), Split(
        pictures[held_out], targets[held_out], held_out
    )


def calibrate(parameters: Parameters, images: Array) -> list[Quantization]:
    """Activations' quantisation, by place in ``forward``'s list: the range on ``images``, with zero in it."""
    found = [INPUT_QUANTIZATION]
    for layer, value in zip(NETWORK, forward(parameters, images)[1:], strict=True):
        if layer.kind in KEEPS_QUANTIZATION:
            found.append(found[-layer.sources[0]])
            continue
        low, high = min(float(value.min()), 0.0), max(float(value.max()), 0.0)
        scale = float(np.float32((high - low) / 255.0))
        found.append(Quantization((scale,), (int(np.rint(-128.0 - low / scale)),)))
    return found


def build(parameters: Parameters, activations: list[Quantization] | None) -> Graph:
    """The network as a TFLite graph: float32, or int8 where the activations' quantisation is given."""
    kind_of_activation = np.dtype(np.float32 if activations is None else np.int8)
    tensors: list[Tensor] = []
    operators: list[Operator] = []
    places: list[int] = []  # of each activation, in the graph's tensors

    def add(tensor: Tensor) -> int:
        tensors.append(tensor)
        return len(tensors) - 1

    def quantization(index: int) -> Quantization | None:
        return None if activations is None else activations[index]

    image = np.zeros((1, IMAGE_SIZE, IMAGE_SIZE, 1), np.float32)
    shapes = [value.shape for value in forward(parameters, image)]
    places.append(add(Tensor("image", shapes[0], kind_of_activation, quantization=quantization(0))))
    for row, layer in enumerate(NETWORK):
        sources = [row + 1 - back for back in layer.sources]
        constants = [add(tensor) for tensor in _constants(layer, parameters, quantization(sources[0]))]
        output = add(Tensor(layer.name, shapes[row + 1], kind_of_activation, None, quantization(row + 1)))
        operators.append(_operator(layer, (*(places[s] for s in sources), *constants), output, activations is not None))
        places.append(output)

    last = None if activations is None else SOFTMAX_QUANTIZATION
    probabilities = add(Tensor("probabilities", shapes[-1], kind_of_activation, None, last))
    version = 1 if activations is None else 2
    operators.append(Operator("SOFTMAX", (places[-1],), (probabilities,), version, "SoftmaxOptions", {"Beta": 1.0}))
    return Graph("digits", tensors, operators, (places[0],), (probabilities,))


def _operator(layer: Layer, inputs: tuple[int, ...], output: int, int8: bool) -> Operator:
    kind = OPERATOR_KINDS[layer.kind]
    options = dict(kind.options)
    if kind.options_table == "Pool2DOptions":
        side = layer.kernel
        options |= {"StrideH": side, "StrideW": side, "FilterHeight": side, "FilterWidth": side}
    if kind.options_table != "ReshapeOptions":
        options["FusedActivationFunction"] = ACTIVATIONS[layer.activation]
    version = kind.int8_version if int8 else 1
    return Operator(kind.builtin, inputs, (output,), version, kind.options_table, options)


def _constants(layer: Layer, parameters: Parameters, source: Quantization | None) -> Iterator[Tensor]:
    """The constant inputs of a layer, in TFLite's layout; int8 and int32 where ``source`` is quantised."""
    if layer.kind == "flatten":
        shape = np.array([1, -1], np.int32)
        yield Tensor(f"{layer.name}/shape", shape.shape, shape.dtype, shape)
    if layer.name not in parameters:
        return
    weights, bias = parameters[layer.name]
    # Convolutions have one scale per output channel; NNAPI's FULLY_CONNECTED takes a single one.
    match layer.kind:
        case "conv":
            weights, dimension, others = weights.transpose(3, 0, 1, 2), 0, (1, 2, 3)
        case "depthwise":
            weights, dimension, others = weights[None], 3, (0, 1, 2)
        case _:
            weights, dimension, others = weights.T, 0, (0, 1)
    if source is None:
        yield _constant(f"{layer.name}/weights", weights, None)
        yield _constant(f"{layer.name}/bias", bias, None)
        return
    scales = np.float32(np.abs(weights).max(axis=others, keepdims=True) / 127.0)
    rounded = np.clip(np.rint(weights / scales), -127, 127).astype(np.int8)
    yield _constant(f"{layer.name}/weights", rounded, _symmetric(scales, dimension))
    products = scales.ravel() * np.float32(source.scales[0])
    yield _constant(f"{layer.name}/bias", np.rint(bias / products).astype(np.int32), _symmetric(products, 0))


def _constant(name: str, data: np.ndarray, quantization: Quantization | None) -> Tensor:
    return Tensor(name, data.shape, data.dtype, np.ascontiguousarray(data), quantization)


def _symmetric(scales: np.ndarray, dimension: int) -> Quantization:
    return Quantization(tuple(float(s) for s in scales.ravel()), (0,) * scales.size, dimension)


def write_pictures(held_out: Split, folder: Path) -> int:
    """Write the first held-out digits of each class, right or wrong, as ``<place>_label<digit>.png``."""
    for old in folder.glob("*_label?.png"):
        old.unlink()
    of_class = [np.flatnonzero(held_out.labels == digit) for digit in range(len(LABELS))]
    chosen = np.concatenate([indices[:PICTURES_PER_DIGIT] for indices in of_class])
    for index in chosen:
        name = f"{held_out.places[index]:04d}_label{held_out.labels[index]}.png"
        Image.fromarray(held_out.pictures[index]).save(folder / name, optimize=True)
    return len(chosen)


def measure(parameters: Parameters, held_out: Split, folder: Path, models: list[str]) -> list[str]:
    """Accuracy on all held-out digits, a Markdown table: NumPy's, and LiteRT's with the written files."""
    answers = {"NumPy, float32": softmax(forward(parameters, held_out.images)[-1]).argmax(axis=1)}
    if Interpreter is None:
        print("ai-edge-litert is not installed: the written files are not measured")
    else:
        answers |= {f"LiteRT, `{name}`": litert(folder / name, held_out).argmax(axis=1) for name in models}
    reference = next(iter(answers.values()))
    rows = ["| | right | accuracy | agrees with NumPy |", "| --- | --- | --- | --- |"]
    for name, answer in answers.items():
        right, same = int((answer == held_out.labels).sum()), float((answer == reference).mean())
        rows.append(f"| {name} | {right} of {HELD_OUT} | {right / HELD_OUT:.2%} | {same:.2%} |")
    return rows


def litert(model: Path, split: Split) -> np.ndarray:
    """The outputs of a written model under LiteRT, ``[N, 10]``."""
    interpreter = Interpreter(model_path=str(model))
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    if source["dtype"] is np.int8:
        images = (split.pictures[..., None].astype(np.int16) - 128).astype(np.int8)
    else:
        images = split.images
    outputs = []
    for image in images:
        interpreter.set_tensor(source["index"], image[None])
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(target["index"])[0])
    return np.stack(outputs)


def readme(report: list[str], trained_on: int, shipped: int) -> str:
    """The text that accompanies the data."""
    table = "\n".join(report)
    size = f"{IMAGE_SIZE}x{IMAGE_SIZE}"
    return f"""# Data of `nnvk demo`

`tools/train_demo.py` writes this page and the data, and says how to run it again. Do not edit them.

`digits_float.tflite` and `digits_int8.tflite` contain the same small convolutional network, in float32
and quantised to int8 after training. It recognises handwritten digits. It was trained on {trained_on} digits and
measured on the {HELD_OUT} that were held out:

{table}

The {shipped} PNGs are the first {PICTURES_PER_DIGIT} held-out digits of each class, whether the network
recognises them or not. They are named `<place in the data set>_label<digit>.png`. They are 8-bit grey, scaled
from 8x8 to {size} pixels.
The float network takes `pixel / 255`, the int8 one `pixel - 128`.

The digits are from E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine
Learning Repository, 1998, https://doi.org/10.24432/C50P49, licensed CC BY 4.0, in scikit-learn's copy (its
test part). That copy does not say who wrote which digit, so the same writers are on both sides of the split.
"""


if __name__ == "__main__":
    main()
