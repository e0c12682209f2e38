"""Measure a token of the examples of transformers, and products with weights of 4 bits.

    python benchmarks/tokens.py [--device NAME] [--seconds S] [--runs N] [--save]

A token is a step of the networks of `examples/python`, at places that go on as in a text. onnxruntime computes the same
networks on the CPU, in turns, and keeps the caches as its own values. The products have the same weights with 4 bits
(MatMulNBits) and as float32 (MatMul); so many rows are computed at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import Effort, Run, Section, Table, Times, device_of, effort_of, interleave, options, report
from onnx import ModelProto, TensorProto, helper, numpy_helper

import nnvk
from nnvk.cli.output import progress

sys.path.append(str(Path(__file__).parents[1] / "examples" / "python"))
import language_model
import speech_to_text
from decoding import Decoder, memory_for

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

SIZE, BLOCK = 2048, 32
"""Columns and outputs of the products, and levels of a block."""
ROWS = 1, 8, 64, 512
NNVK, OTHER = "nnvk", "onnxruntime, CPU"
FOUR, FLOATS = "4 bits", "float32"
_VALUES = ("cache", "cross")


# --- tokens --------------------------------------------------------------------------------------------------


def on_nnvk(model: ModelProto, device: nnvk.Device) -> Run:
    """A token in nnvk."""
    loaded = nnvk.load(model.SerializeToString(), device=device.name)
    others = [number for number, one in enumerate(loaded.inputs) if one.name not in ("token", "position", "cache")]
    decoder = Decoder(loaded, {number: memory_for([(loaded.compilation, number)], []) for number in others})
    for memory in decoder.others.values():
        nnvk.Memory.copy(nnvk.Memory(np.zeros(memory.size, np.uint8)), memory)

    def step() -> None:
        if decoder.place == decoder.length:
            decoder.reset()
        decoder(decoder.place)

    return step


def on_onnxruntime(model: ModelProto) -> Run:
    """A token in onnxruntime, with caches that it keeps."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    shapes = {one.name: one.shape for one in session.get_inputs()}
    for name in filter(shapes.__contains__, _VALUES):
        value = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shapes[name], np.float32))
        binding.bind_ortvalue_input(name, value)
    place = 0

    def step() -> None:
        nonlocal place
        for name in ("token", "position"):
            binding.bind_cpu_input(name, np.full(1, place, np.int64))
        for output in ("scores", "best", "next_cache"):
            binding.bind_output(output)
        session.run_with_iobinding(binding)
        binding.bind_ortvalue_input("cache", binding.get_outputs()[2])
        place = (place + 1) % shapes["cache"][1]

    return step


def tokens(device: nnvk.Device, effort: Effort) -> dict[str, dict[str, Times]]:
    """A token of each network."""
    networks = {
        "language_model.py": language_model.network(language_model.Sizes(), 0),
        "speech_to_text.py": speech_to_text.decoder(speech_to_text.Sizes(), 0),
    }
    found = {}
    with progress("Tokens", len(networks)) as advance:
        for name, network in networks.items():
            contenders = {NNVK: on_nnvk(network, device)}
            if onnxruntime is not None:
                contenders[OTHER] = on_onnxruntime(network)
            found[name] = interleave(contenders, effort)
            advance(name)
    return found


# --- products ------------------------------------------------------------------------------------------------


def product(rows: int, *, four: bool) -> ModelProto:
    """A product with the same weights in either form, with the zero points 8."""
    random, blocks = np.random.default_rng(0), SIZE // BLOCK
    levels = random.integers(0, 256, (SIZE, blocks, BLOCK // 2), np.uint8)
    scales = (random.random((SIZE, blocks, 1), np.float32) + 0.5) / 64
    if four:
        constants = {"w": levels, "s": scales.reshape(-1)}
        node = helper.make_node(
            "MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", K=SIZE, N=SIZE, bits=4, block_size=BLOCK
        )
    else:
        apart = np.stack([levels & 15, levels >> 4], axis=-1).reshape(SIZE, blocks, BLOCK)
        weights = (apart - np.float32(8)) * scales
        constants = {"w": np.ascontiguousarray(weights.reshape(SIZE, SIZE).T)}
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
    edges = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, SIZE])] for name in "xy"]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "product", *edges, initializers)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    )
    model.ir_version = 10
    return model


def products(device: nnvk.Device, effort: Effort) -> dict[str, dict[str, Times]]:
    """Products of each number of rows, in both forms."""
    found = {}
    with progress("Products", len(ROWS)) as advance:
        for rows in ROWS:
            x = np.random.default_rng(1).standard_normal((rows, SIZE), np.float32)
            models = {
                name: nnvk.load(product(rows, four=name == FOUR).SerializeToString(), device=device.name)
                for name in (FOUR, FLOATS)
            }
            found[str(rows)] = interleave({name: partial(model, x) for name, model in models.items()}, effort)
            advance(str(rows))
    return found


# --- the report ----------------------------------------------------------------------------------------------


def tables(of_tokens: Mapping[str, Mapping[str, Times]], of_products: Mapping[str, Mapping[str, Times]]) -> list[Table]:
    """Tokens a second, and times of products."""
    rows = []
    for name, times in of_tokens.items():
        cells = [name]
        for engine in (NNVK, OTHER):
            known = times.get(engine)
            cells += ["-", "-"] if known is None else [f"{1e9 / known.median:.0f}", f"{1e9 / known.minimum:.0f}"]
        rows.append(cells)
    columns = ["network", NNVK, f"{NNVK}, most", OTHER, f"{OTHER}, most"]
    note = "By the median of all steps, and by the shortest one."
    by_rows = [
        [
            count,
            *(f"{value / 1e6:.2f}" for name in (FOUR, FLOATS) for value in (times[name].median, times[name].minimum)),
            f"{times[FOUR].median / times[FLOATS].median:.2f}",
            f"{times[FOUR].minimum / times[FLOATS].minimum:.2f}",
        ]
        for count, times in of_products.items()
    ]
    titles = ["rows", FOUR, f"{FOUR}, min", FLOATS, f"{FLOATS}, min", "ratio", "ratio of min"]
    return [
        Table("Tokens a second", columns, rows, note=note),
        Table(f"Products with weights {SIZE}x{SIZE}, in blocks of {BLOCK}, in ms", titles, by_rows),
    ]


def figures(found: Mapping[str, Mapping[str, Times]]) -> dict[str, Any]:
    """The numbers."""
    return {name: {engine: times.figures() for engine, times in each.items()} for name, each in found.items()}


def main() -> int:
    """Measure the device of the command line."""
    parser = options("A token of the examples of transformers, and products with weights of 4 bits.")
    arguments = parser.parse_args()
    device = device_of(arguments)
    effort = effort_of(arguments, Effort(seconds=3.0, least=5))
    of_tokens, of_products = tokens(device, effort), products(device, effort)
    numbers = {"tokens": figures(of_tokens), "products": figures(of_products)}
    return report(
        Section("tokens", "Tokens and weights of 4 bits", tables(of_tokens, of_products), numbers), device, arguments
    )


if __name__ == "__main__":
    sys.exit(main())
