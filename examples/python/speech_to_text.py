"""Writes the text of a recording with an encoder and a decoder in the shape of Whisper, one token at a time.

    .venv/bin/pip install onnx  # after scripts/install.sh, which installs it
    python speech_to_text.py --tokens 40
    python speech_to_text.py recording.wav --temperature 0.8 --seed 3

The encoder runs once for a recording. It leaves the keys and values of the cross-attention in the memory of the device,
where the decoder reads them; the cache of the self-attention stays there, too, from token to token. The weights are
random numbers of ``--weights-seed``, so the text is noise; the time is that of trained weights of this size, which is
Whisper's "tiny". A recording is a .wav file of 16 kHz with 16 bits; without one, a tone that rises is heard.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from decoding import VOCABULARY, Decoder, Network, generated, memory_for, shown

import nnvk

RATE = 16_000
"""Samples a second."""
WINDOW, HOP = 400, 160
"""Samples of a frame, and from a frame to the next."""
START = END = 0
"""The token before a text, and the one behind it."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of both networks."""

    bins: int = 80
    """Frequencies of a frame."""
    frames: int = 300
    """Frames of the recording, 10 ms each. Their number is even, because the encoder makes one place of two frames."""
    layers: int = 4
    """Layers of the encoder, and as many of the decoder."""
    width: int = 384
    heads: int = 6
    length: int = 64
    """The most tokens."""

    @property
    def places(self) -> int:
        """Places of the cross-attention."""
        return self.frames // 2

    @property
    def cache(self) -> tuple[int, int, int]:
        """The shape of the cache of the self-attention: keys and values of each layer in turn, for each token."""
        return 2 * self.layers, self.length, self.width

    @property
    def cross(self) -> tuple[int, int, int]:
        """The shape of the keys and values of the cross-attention."""
        return 2 * self.layers, self.places, self.width


# --- the recording -------------------------------------------------------------------------------------------


def samples_of(path: Path | None) -> np.ndarray:
    """The samples of a .wav file, from -1 to 1; without one, a tone that rises for two seconds."""
    if path is None:
        seconds = np.arange(2 * RATE) / RATE
        return 0.5 * np.sin(2 * np.pi * (200 + 300 * seconds) * seconds)
    with wave.open(str(path)) as file:
        if file.getframerate() != RATE or file.getsampwidth() != 2:
            raise SystemExit(f"{path} must have {RATE} Hz and 16 bits")
        levels = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
    return levels.mean(axis=1) / 32768


def mel_filters(bins: int) -> np.ndarray:
    """Triangles [frequencies of the transform, bins], evenly spaced on the mel scale."""
    mels = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), bins + 2)
    edges = 700 * (10 ** (mels / 2595) - 1)
    frequencies = np.fft.rfftfreq(WINDOW, 1 / RATE)[:, np.newaxis]
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(rising, falling))


def log_mel(samples: np.ndarray, sizes: Sizes) -> np.ndarray:
    """The logarithms of the energies [1, bins, frames], as Whisper scales them; silence behind the recording."""
    wanted = (sizes.frames - 1) * HOP + WINDOW
    padded = np.pad(samples[:wanted], (0, max(0, wanted - len(samples))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP] * np.hanning(WINDOW)
    energies = np.abs(np.fft.rfft(frames)) ** 2 @ mel_filters(sizes.bins)
    logs = np.log10(np.maximum(energies, 1e-10))
    scaled = (np.maximum(logs, logs.max() - 8) + 4) / 4
    return np.ascontiguousarray(scaled.T[np.newaxis], np.float32)


# --- the networks --------------------------------------------------------------------------------------------


def normalised(net: Network, x: str) -> str:
    """Layer normalisation of rows."""
    ones, zeros = np.ones(net.width, np.float32), np.zeros(net.width, np.float32)
    return net.op("LayerNormalization", x, ones, zeros, axis=-1)


def feed_forward(net: Network, x: str) -> str:
    """The sum of rows and what two layers make of them."""
    inner = net.op("Gelu", net.projected(normalised(net, x), net.width, 4 * net.width))
    return net.op("Add", x, net.projected(inner, 4 * net.width, net.width))


def waves(places: int, width: int) -> np.ndarray:
    """Sines and cosines that tell places apart."""
    angles = np.arange(places)[:, np.newaxis] * np.exp(-np.log(10_000) * np.arange(width // 2) / (width // 2 - 1))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def encoder(sizes: Sizes, seed: int) -> onnx.ModelProto:
    """Input: the logarithms of energies. Output: keys and values of the cross-attention of each layer in turn."""
    net, width, places = Network(sizes.width, sizes.heads, seed), sizes.width, sizes.places
    x = "energies"
    for channels, stride in ((sizes.bins, 1), (width, 2)):
        filters = np.moveaxis(net.matrix(channels, 3, width), 2, 0)
        x = net.op("Gelu", net.op("Conv", x, filters, kernel_shape=[3], pads=[1, 1], strides=[stride]))
    x = net.op("Reshape", net.op("Transpose", x, perm=[0, 2, 1]), np.int64([places, width]))
    x = net.op("Add", x, waves(places, width))
    for _ in range(sizes.layers):
        y = normalised(net, x)
        keys, values = (net.heads(net.projected(y, width, width), places) for _ in range(2))
        x = net.op("Add", x, net.attention(net.queries(y, places), places, keys, values))
        x = feed_forward(net, x)
    x = normalised(net, x)
    both = [net.op("Unsqueeze", net.projected(x, width, width), np.int64([0])) for _ in range(2 * sizes.layers)]
    net.op("Concat", *both, out="cross", axis=0)
    return net.model({"energies": [1, sizes.bins, sizes.frames]}, {"cross": sizes.cross})


def decoder(sizes: Sizes, seed: int) -> onnx.ModelProto:
    """One step. Inputs: a token, its place, the cache, the keys and values of the cross-attention.

    Outputs: the scores, the best token, the next cache.
    """
    net = Network(sizes.width, sizes.heads, seed)
    x, mask = net.embedded(sizes.length)
    written = []
    for layer in range(sizes.layers):
        mixed, *own = net.cached_attention(normalised(net, x), layer, sizes.length, mask)
        written += own
        x = net.op("Add", x, mixed)
        keys, values = (net.heads(net.part("cross", 0, at, at + 1), sizes.places) for at in (2 * layer, 2 * layer + 1))
        x = net.op("Add", x, net.attention(net.queries(normalised(net, x), 1), 1, keys, values))
        x = feed_forward(net, x)
    net.chosen(normalised(net, x))
    net.written(written)
    return net.model(
        {"token": [1], "position": [1], "cache": sizes.cache, "cross": sizes.cross},
        {"scores": [VOCABULARY], "best": [1], "next_cache": sizes.cache},
    )


# --- recognition ---------------------------------------------------------------------------------------------


class Recognizer:
    """Both networks on one device."""

    def __init__(self, sizes: Sizes, seed: int, device: str | None = None) -> None:
        self.sizes = sizes
        with tempfile.TemporaryDirectory() as folder:
            loaded = []
            for name, model in (("encoder", encoder(sizes, seed)), ("decoder", decoder(sizes, seed + 1))):
                onnx.save(model, Path(folder) / f"{name}.onnx")
                loaded.append(nnvk.load(Path(folder) / f"{name}.onnx", device=device))
        compilations = [each.compilation for each in loaded]
        self.cross = memory_for(inputs=[(compilations[1], 3)], outputs=[(compilations[0], 0)])
        """The keys and values of the cross-attention, which the encoder writes and the decoder reads."""
        self._energies = np.zeros((1, sizes.bins, sizes.frames), np.float32)
        self._encode = nnvk.Execution(compilations[0])
        self._encode.set_reusable(True)
        self._encode.set_input(0, self._energies)
        self._encode.set_output_from_memory(0, self.cross)
        self.decoder = Decoder(loaded[1], {3: self.cross})

    def hear(self, samples: np.ndarray) -> None:
        """Encode a recording. The next token is the first one of its text."""
        self._energies[:] = log_mel(samples, self.sizes)
        self._encode.compute()
        self.decoder.reset()


def main() -> None:
    """Print the text and the times of the encoder and of a token."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path, nargs="?", help="default: a tone that rises")
    parser.add_argument("--tokens", type=int, default=40, help="the most to write")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the best token; default: 0")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--weights-seed", type=int, default=0)
    parser.add_argument("--device", help="one that `nnvk devices` shows; default: the preferred one")
    arguments = parser.parse_args()
    samples = samples_of(arguments.recording)
    recognizer = Recognizer(Sizes(), arguments.weights_seed, arguments.device)
    if not 1 <= arguments.tokens <= recognizer.decoder.length:
        raise SystemExit(f"--tokens must be from 1 to {recognizer.decoder.length}, got {arguments.tokens}")
    print(recognizer.decoder.compilation.plan.summary)
    recognizer.hear(samples)  # compiles
    recognizer.decoder(START)
    begun = time.perf_counter()
    recognizer.hear(samples)
    heard = time.perf_counter()
    tokens = list(generated(recognizer.decoder, [START], arguments.tokens, arguments.temperature, arguments.seed, END))
    seconds, steps = time.perf_counter() - heard, recognizer.decoder.place
    print("The weights are random, so the text is noise.")
    print(shown(tokens))
    print(f"{(heard - begun) * 1e3:.1f} ms to encode {recognizer.sizes.frames * HOP / RATE:.1f} s")
    print(f"{steps / seconds:.0f} tokens a second, {seconds / steps * 1e3:.2f} ms each")


if __name__ == "__main__":
    main()
