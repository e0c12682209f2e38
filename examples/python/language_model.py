"""Writes text one token at a time with a decoder-only transformer, whose keys and values stay on the device.

    .venv/bin/pip install onnx  # after scripts/install.sh, which installs it
    python language_model.py "Once upon a time" --tokens 40
    python language_model.py "Once upon a time" --temperature 0.8 --seed 3

A token is a byte. Without ``--model`` the weights are random numbers of ``--weights-seed``, so the text is noise; the
time is that of trained weights of this size. ``--model`` takes an .onnx file with the inputs and outputs of `network`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from decoding import VOCABULARY, Decoder, Network, generated, shown

import nnvk


@dataclass(frozen=True)
class Sizes:
    """The sizes of a transformer."""

    layers: int = 4
    width: int = 256
    heads: int = 8
    length: int = 256
    """The most tokens, those of the prompt included."""

    @property
    def cache(self) -> tuple[int, int, int]:
        """The shape of the cache: keys and values of each layer in turn, for each place."""
        return 2 * self.layers, self.length, self.width


def normalised(net: Network, x: str) -> str:
    """RMS normalisation of rows."""
    squares = net.op("ReduceMean", net.op("Mul", x, x), np.int64([-1]), keepdims=1)
    root = net.op("Sqrt", net.op("Add", squares, np.float32(1e-6)))
    return net.op("Mul", net.op("Div", x, root), np.ones(net.width, np.float32))


def network(sizes: Sizes, seed: int) -> onnx.ModelProto:
    """One step. Inputs: a token, its place, the cache. Outputs: the scores, the best token, the next cache.

    The places of the cache from ``position`` on are not read, and ``position`` is written.
    """
    net, width = Network(sizes.width, sizes.heads, seed), sizes.width
    x, mask = net.embedded(sizes.length)
    written = []
    for layer in range(sizes.layers):
        mixed, *own = net.cached_attention(normalised(net, x), layer, sizes.length, mask)
        written += own
        x = net.op("Add", x, mixed)
        inner = net.projected(normalised(net, x), width, 4 * width)
        x = net.op("Add", x, net.projected(net.op("Mul", inner, net.op("Sigmoid", inner)), 4 * width, width))
    net.chosen(normalised(net, x))
    net.written(written)
    return net.model(
        {"token": [1], "position": [1], "cache": sizes.cache},
        {"scores": [VOCABULARY], "best": [1], "next_cache": sizes.cache},
    )


def main() -> None:
    """Write the model if none is given, and print the text and the time of a token."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=40, help="how many to write")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the best token; default: 0")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--model", type=Path, help="default: random weights")
    parser.add_argument("--weights-seed", type=int, default=0)
    parser.add_argument("--device", help="one that `nnvk devices` shows; default: the preferred one")
    arguments = parser.parse_args()
    prompt = arguments.prompt.encode()
    if not prompt:
        raise SystemExit("the prompt must have a byte")
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.model
        if path is None:
            path = Path(folder) / "decoder.onnx"
            onnx.save(network(Sizes(), arguments.weights_seed), path)
        decoder = Decoder(nnvk.load(path, device=arguments.device))
    if len(prompt) + arguments.tokens - 1 > decoder.length:
        raise SystemExit(f"the prompt and the tokens take more than the {decoder.length} places of the cache")
    print(decoder.compilation.plan.summary)
    decoder(prompt[0])  # compiles
    decoder.reset()
    begun = time.perf_counter()
    tokens = list(generated(decoder, prompt, arguments.tokens, arguments.temperature, arguments.seed))
    seconds = time.perf_counter() - begun
    if arguments.model is None:
        print("The weights are random, so the text is noise; --model FILE takes a trained model.")
    print(arguments.prompt + shown(tokens))
    steps = len(prompt) + len(tokens) - 1
    print(f"{steps / seconds:.0f} tokens a second, {seconds / steps * 1e3:.2f} ms each")


if __name__ == "__main__":
    main()
