"""Sums, extremes and means of many elements, in the order in which reproducible models add up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nnvk.ops.call import Call
from nnvk.ops.pool import pool_axes
from nnvk.ops.quant import is_quantised, quantize
from nnvk.ops.reduce import reduced_axes
from nnvk.ops.reproducible import functions
from nnvk.ops.reproducible.functions import activated
from nnvk.ops.window import from_nhwc, to_nhwc, windows
from nnvk.types.codes import OperationCode

PART = 1 << 14
"""The elements that means, normalisations and SOFTMAX add up first."""
_RUN = 64
"""The elements of a part that are added up first, but by SOFTMAX."""
_REDUCE_PART, _REDUCE_RUN = 64, 8
"""The same of the REDUCE operations."""
Fold = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _folded_once(terms: np.ndarray, fold: Fold, part: int, run: int) -> np.ndarray:
    """The folds of the parts of the first axis: those of runs, one after the other, and in each run likewise."""
    results = []
    for start in range(0, len(terms), part):
        result: np.ndarray | None = None
        for first in range(start, min(start + part, len(terms)), run):
            block = terms[first]
            for term in terms[first + 1 : min(first + run, start + part)]:
                block = fold(block, term)
            result = block if result is None else fold(result, block)
        results.append(result)
    return np.array(results)


def _neighbours(axes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Ranges of axes that follow each other, from the last."""
    remaining = list(axes)
    while remaining:
        last = first = remaining.pop()
        while remaining and remaining[-1] == first - 1:
            first = remaining.pop()
        yield first, last


def reduction(fold: Fold, nothing: float) -> Callable[[Call], np.ndarray]:
    """The reference of a REDUCE operation: axes are reduced from the last, neighbours together, by parts of parts."""

    def run(call: Call) -> np.ndarray:
        values = call.input.data
        if not values.size:
            return np.full(call.output.shape, nothing, np.float32)
        sizes = list(values.shape)
        for first, last in _neighbours(reduced_axes(call)):
            terms = values.reshape(math.prod(sizes[:first]), -1, math.prod(sizes[last + 1 :])).swapaxes(0, 1)
            while len(terms) > 1:
                terms = _folded_once(terms, fold, _REDUCE_PART, _REDUCE_RUN)
            values = terms[0]
            sizes[first : last + 1] = [1] * (last + 1 - first)
        return values.reshape(call.output.shape)

    return run


def mean(call: Call) -> np.ndarray:
    """The sums of runs of parts, and of these, divided by the number of elements."""
    axes = reduced_axes(call)
    terms = np.moveaxis(call.input.data, axes, range(len(axes)))
    terms = terms.reshape(math.prod(terms.shape[: len(axes)]), -1)
    sums = ordered_sum([sum_of_part(part) for part in parts_of(terms)])
    return functions.quotient(sums, np.float32(len(terms))).reshape(call.output.shape)


def parts_of(terms: np.ndarray) -> list[np.ndarray]:
    """The parts of the first axis that are added up first."""
    return [terms[first : first + PART] for first in range(0, len(terms), PART)]


def sum_of_part(terms: np.ndarray) -> np.ndarray:
    """The sums of runs, added up."""
    return ordered_sum([ordered_sum(terms[first : first + _RUN]) for first in range(0, len(terms), _RUN)])


def ordered_sum(terms: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Arrays added up one after the other, from 0 on."""
    total = np.zeros_like(terms[0])
    for term in terms:
        total += term
    return total


def pool(call: Call) -> np.ndarray:
    """The sums of the lines of windows, and of these; padding counts neither as a summand nor in the area."""
    source, axes = to_nhwc(call.input.data, call.nchw), pool_axes(call)
    is_root = call.code is OperationCode.L2_POOL_2D
    views = windows(source * source if is_root else source, *axes, 0)
    sums = np.zeros((*views.shape[:3], views.shape[5]), np.float32)
    for row in range(views.shape[3]):
        line = np.zeros_like(sums)
        for column in range(views.shape[4]):
            line += views[:, :, :, row, column]
        sums += line
    areas = windows(np.ones((1, *source.shape[1:3], 1)), *axes, 0).sum(axis=(3, 4)).astype(np.float32)
    means = functions.quotient(sums, areas)
    return from_nhwc(activated(functions.square_root(means) if is_root else means, call.activation), call.nchw)


def largest_of_windows(call: Call) -> np.ndarray:
    """The largest elements; one that is zero is +0."""
    source = to_nhwc(call.input.data, call.nchw)
    largest = windows(source, *pool_axes(call), -np.inf, unordered=True).max(axis=(3, 4)) + np.float32(0)
    return from_nhwc(activated(largest, call.activation), call.nchw)


def _exponentials(call: Call) -> tuple[np.ndarray, np.ndarray]:
    """The logits times beta, less the largest, and the sums of their exponentials, with the axis first."""
    logits = np.moveaxis(call.input.data, call.axis, 0).astype(np.float32)
    logits, beta = (-logits, -call.beta) if call.beta < 0 else (logits, call.beta)
    factor = np.float32(beta * call.input.scale if is_quantised(call.input.code) else beta)
    parts = parts_of(logits)
    tops = [part.max(axis=0) for part in parts]
    sums = [ordered_sum(functions.exp((part - _finite(top)) * factor)) for part, top in zip(parts, tops, strict=True)]
    largest = np.max(tops, axis=0)
    if len(parts) > 1:
        weights = functions.exp((np.array(tops) - _finite(largest)) * factor)
        sums = [weight * part for weight, part in zip(weights, sums, strict=True)]
    return (logits - largest) * factor, sums[0] if len(sums) == 1 else ordered_sum(sums)


def _finite(largest: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(largest), np.float32(0), largest)


def softmax(call: Call) -> np.ndarray:
    """The exponentials divided by their sum; quantised ones times the quotient of 1 and the sum."""
    shifted, sums = _exponentials(call)
    powers = functions.exp(shifted)
    if is_quantised(call.input.code):
        levels = quantize((powers * functions.quotient(np.float32(1), sums)).astype(np.float64), call.output)
        return np.ascontiguousarray(np.moveaxis(levels, 0, call.axis))
    return np.ascontiguousarray(np.moveaxis(functions.quotient(powers, sums), 0, call.axis))


def log_softmax(call: Call) -> np.ndarray:
    """The logits less the largest, less the logarithm of the sum."""
    shifted, sums = _exponentials(call)
    return np.ascontiguousarray(np.moveaxis(shifted - functions.log(sums), 0, call.axis))
