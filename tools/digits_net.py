"""A small convolutional network in NumPy: its layers, their gradients and the training loop.

Everything is NHWC and float32. Convolutions have stride 1 and SAME padding, pools a stride of their
kernel and VALID padding. A layer is a row of `NETWORK`; the exporter reads the same table, so the trained
and the written network are one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Parameters = dict[str, tuple[Array, Array]]
"""Weights and bias by layer name."""

IMAGE_SIZE = 16
CLASSES = 10


@dataclass(frozen=True, slots=True)
class Layer:
    """One row: ``kind`` is conv, depthwise, max_pool, average_pool, add, flatten or dense.

    ``sources`` are rows counted back from this one (1: the row before). ``activation`` is None, "relu" or
    "relu6".
    """

    name: str
    kind: str
    channels: int = 0
    kernel: int = 1
    activation: str | None = None
    sources: tuple[int, ...] = (1,)


NETWORK = (
    Layer("stem", "conv", channels=16, kernel=3, activation="relu"),
    Layer("block1_spatial", "depthwise", channels=16, kernel=3, activation="relu6"),
    Layer("block1_mix", "conv", channels=32, activation="relu"),
    Layer("shrink1", "max_pool", kernel=2),
    Layer("block2_spatial", "depthwise", channels=32, kernel=3, activation="relu6"),
    Layer("block2_mix", "conv", channels=32),
    Layer("block2_skip", "add", activation="relu", sources=(1, 3)),
    Layer("shrink2", "average_pool", kernel=2),
    Layer("flatten", "flatten"),
    Layer("scores", "dense", channels=CLASSES),
)
"""The network up to its scores (logits); softmax follows."""

_CEILING = {None: np.inf, "relu": np.inf, "relu6": 6.0}


def initial_parameters(rng: np.random.Generator) -> Parameters:
    """He initialisation; weights as [kh, kw, in, out], depthwise [kh, kw, channels], dense [in, out]."""
    parameters: Parameters = {}
    size, channels = IMAGE_SIZE, 1
    for layer in NETWORK:
        shape: tuple[int, ...] | None = None
        match layer.kind:
            case "conv":
                shape = (layer.kernel, layer.kernel, channels, layer.channels)
                channels = layer.channels
            case "depthwise":
                shape = (layer.kernel, layer.kernel, channels)
            case "max_pool" | "average_pool":
                size //= layer.kernel
            case "dense":
                shape = (size * size * channels, layer.channels)
        if shape is not None:
            fan_in = layer.kernel**2 if layer.kind == "depthwise" else int(np.prod(shape[:-1]))
            weights = rng.normal(0.0, np.sqrt(2.0 / fan_in), shape).astype(np.float32)
            parameters[layer.name] = (weights, np.zeros(shape[-1], np.float32))
    return parameters


def forward(parameters: Parameters, images: Array) -> list[Array]:
    """Return ``[images, output of row 0, output of row 1, ...]``; the last are the scores."""
    values = [images]
    for layer in NETWORK:
        x = values[-layer.sources[0]]
        match layer.kind:
            case "conv":
                y = _convolve(x, *parameters[layer.name], np.matmul)
            case "depthwise":
                y = _convolve(x, *parameters[layer.name], np.multiply)
            case "max_pool":
                y = _windows(x, layer.kernel).max(axis=(2, 4))
            case "average_pool":
                y = _windows(x, layer.kernel).mean(axis=(2, 4))
            case "add":
                y = x + values[-layer.sources[1]]
            case "flatten":
                y = x.reshape(len(x), -1)
            case "dense":
                weights, bias = parameters[layer.name]
                y = x @ weights + bias
            case kind:
                raise ValueError(f"{layer.name}: unknown kind of layer {kind!r}")
        if layer.activation is not None:
            y = np.clip(y, 0.0, _CEILING[layer.activation])
        values.append(y)
    return values


def backward(parameters: Parameters, values: list[Array], scores_gradient: Array) -> Parameters:
    """Gradients of the weights and biases, given :func:`forward`'s values and the scores' gradient."""
    gradients: Parameters = {}
    pending: dict[int, Array] = {len(NETWORK): scores_gradient}
    for row in reversed(range(len(NETWORK))):
        layer = NETWORK[row]
        dy, y = pending.pop(row + 1), values[row + 1]
        sources = [row + 1 - back for back in layer.sources]
        x = values[sources[0]]
        if layer.activation is not None:
            dy = dy * ((y > 0.0) & (y < _CEILING[layer.activation]))
        match layer.kind:
            case "conv" | "depthwise":
                dx, dweights = _convolve_backward(x, parameters[layer.name][0], dy, layer.kind == "depthwise")
                gradients[layer.name] = (dweights, dy.sum(axis=(0, 1, 2)))
            case "max_pool":
                windows = _windows(x, layer.kernel)
                winners = windows == y[:, :, None, :, None]
                share = winners / winners.sum(axis=(2, 4), keepdims=True)
                dx = (share * dy[:, :, None, :, None]).reshape(x.shape)
            case "average_pool":
                spread = np.repeat(np.repeat(dy, layer.kernel, axis=1), layer.kernel, axis=2)
                dx = spread / layer.kernel**2
            case "add":
                dx = dy
            case "flatten":
                dx = dy.reshape(x.shape)
            case "dense":
                gradients[layer.name] = (x.T @ dy, dy.sum(axis=0))
                dx = dy @ parameters[layer.name][0].T
        for source in sources:
            pending[source] = pending[source] + dx if source in pending else dx
    return gradients


def softmax(scores: Array) -> Array:
    """Probabilities along the last axis."""
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def train(
    images: Array,
    labels: NDArray[np.int64],
    rng: np.random.Generator,
    epochs: int,
    batch: int = 48,
    peak_rate: float = 3e-3,
) -> Parameters:
    """Fit the network with Adam and a cosine learning rate, on shifted, dimmed and noisy images."""
    parameters = initial_parameters(rng)
    moments = {name: [np.zeros_like(p) for p in (*pair, *pair)] for name, pair in parameters.items()}
    iteration, iterations = 0, epochs * (len(images) // batch)
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(images) - batch + 1, batch):
            chosen = order[start : start + batch]
            values = forward(parameters, _augment(images[chosen], rng))
            gradient = softmax(values[-1])
            gradient[np.arange(batch), labels[chosen]] -= 1.0
            gradients = backward(parameters, values, gradient / batch)
            rate = peak_rate * 0.5 * (1.0 + np.cos(np.pi * iteration / iterations))
            iteration += 1
            _adam(parameters, gradients, moments, iteration, rate)
    return parameters


def _adam(
    parameters: Parameters,
    gradients: Parameters,
    moments: dict[str, list[Array]],
    iteration: int,
    rate: float,
) -> None:
    """One Adam iteration in place, with a little weight decay."""
    decay, beta1, beta2 = 1e-4, 0.9, 0.999
    correction = np.sqrt(1.0 - beta2**iteration) / (1.0 - beta1**iteration)
    for name, pair in parameters.items():
        for index, (value, gradient) in enumerate(zip(pair, gradients[name], strict=True)):
            first, second = moments[name][index], moments[name][index + 2]
            first += (1.0 - beta1) * (gradient - first)
            second += (1.0 - beta2) * (gradient * gradient - second)
            value -= rate * (correction * first / (np.sqrt(second) + 1e-8) + decay * value)


def _augment(images: Array, rng: np.random.Generator) -> Array:
    """Shift each image by up to two pixels, dim it and add noise; stays within [0, 1]."""
    reach = 2
    padded = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
    shifts = rng.integers(0, 2 * reach + 1, (len(images), 2))
    moved = np.stack(
        [image[y : y + IMAGE_SIZE, x : x + IMAGE_SIZE] for image, (y, x) in zip(padded, shifts, strict=True)]
    )
    dim = rng.uniform(0.7, 1.0, (len(images), 1, 1, 1)).astype(np.float32)
    noise = rng.normal(0.0, 0.03, moved.shape).astype(np.float32)
    return np.clip(moved * dim + noise, 0.0, 1.0)


def _convolve(x: Array, weights: Array, bias: Array, product: np.ufunc) -> Array:
    """Sum over the taps of ``product(shifted x, tap)``: matmul for CONV_2D, multiply for a depthwise one."""
    kernel, size = len(weights), x.shape[1]
    padded = _pad(x, kernel)
    y = np.broadcast_to(bias, (*x.shape[:3], len(bias))).copy()
    for i, j in np.ndindex(kernel, kernel):
        y += product(padded[:, i : i + size, j : j + size], weights[i, j])
    return y


def _convolve_backward(x: Array, weights: Array, dy: Array, depthwise: bool) -> tuple[Array, Array]:
    """Gradients of the input and of the weights."""
    kernel, size = len(weights), x.shape[1]
    padded = _pad(x, kernel)
    dpadded, dweights = np.zeros_like(padded), np.zeros_like(weights)
    for i, j in np.ndindex(kernel, kernel):
        tap = padded[:, i : i + size, j : j + size]
        if depthwise:
            dweights[i, j] = (tap * dy).sum(axis=(0, 1, 2))
            dpadded[:, i : i + size, j : j + size] += dy * weights[i, j]
        else:
            dweights[i, j] = tap.reshape(-1, x.shape[3]).T @ dy.reshape(-1, dy.shape[3])
            dpadded[:, i : i + size, j : j + size] += dy @ weights[i, j].T
    edge = kernel // 2
    return dpadded[:, edge : edge + size, edge : edge + size], dweights


def _pad(x: Array, kernel: int) -> Array:
    edge = kernel // 2
    return np.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)))


def _windows(x: Array, kernel: int) -> Array:
    """View ``[N, H, W, C]`` as ``[N, H/k, k, W/k, k, C]``."""
    n, height, width, channels = x.shape
    return x.reshape(n, height // kernel, kernel, width // kernel, kernel, channels)
