"""Random graphs for the fuzzer, against the reference: every operation by itself, on what the device gave it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from execution import LOOP_NS, devices_for
from random_graph import random_graph

from nnvk.api import Compilation, Device, NnapiError, OperationCode, run
from nnvk.driver.cpu import executor
from nnvk.ops import registry
from nnvk.ops.flow import Clock
from nnvk.types.extract import extract
from nnvk.types.model import Model

_CODES = [code for code in registry.definitions() if code is not OperationCode.RANDOM_MULTINOMIAL]


class Difference(AssertionError):
    """A device gave something else than the reference."""


def execute(data: bytes, device: Device) -> str:
    """Compute the graph of a seed, all of whose results are outputs. Raises `Difference` where they are wrong."""
    rng = np.random.default_rng(list(data))
    graph = random_graph(int(rng.integers(2**32)), int(rng.integers(1, 9)), _CODES)
    whole = graph.model.with_all_outputs()
    compilation = Compilation(whole, devices_for(device))
    compilation.finish()
    model = whole.frozen
    results = run(compilation, graph.inputs)
    values = dict(zip((*model.inputs, *model.outputs), (*graph.inputs, *results), strict=True))
    for number, operation in enumerate(model.operations):
        part = extract(model, [number])
        inputs = [values[index] for index in part.inputs]
        try:
            with np.errstate(all="ignore"):
                expected = executor.run(part.model, inputs, Clock(None, LOOP_NS))
        except NnapiError as error:  # what is an answer to the drawn inputs may not be one to results nearby
            return f"refused by the reference: {error}"
        for index, want in zip(part.outputs, expected, strict=True):
            _compare(f"{operation} (operation {number})", part.model, inputs, want, values[index])
    return f"agrees: {' '.join(sorted({str(operation) for operation in model.operations}))}"


def _compare(what: str, model: Model, inputs: Sequence[np.ndarray], want: np.ndarray, got: np.ndarray) -> None:
    """Floats as closely as sums of products of their inputs allow, all else exactly."""
    if want.shape != got.shape:
        raise Difference(f"{what} gives {got.shape}, not {want.shape}")
    if want.dtype.kind != "f":
        close = want == got
    else:
        constants = [operand.value for operand in model.operands if operand.value is not None]
        magnitudes = sorted(_largest(array) for array in (*inputs, *constants) if array.dtype.kind == "f")
        scale = 1 + _largest(want) + float(np.prod([max(1.0, size) for size in magnitudes[-2:]]))
        wide, near = want.astype(np.float64), got.astype(np.float64)
        allowed = (2e-5 if want.dtype == np.float32 else 1e-2) * scale
        with np.errstate(invalid="ignore"):
            close = (wide == near) | (np.isnan(wide) & np.isnan(near)) | (np.abs(wide - near) <= allowed)
    if not close.all():
        where = tuple(np.argwhere(~close)[0])
        raise Difference(f"{what} gives {got[where]} at {where}, not {want[where]}; {(~close).sum()} of {want.size}")


def _largest(array: np.ndarray) -> float:
    """The largest finite magnitude."""
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(finite.max(initial=0.0))
