"""The task for each row: a model and how its inputs are read; it can be sent to other processes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nnvk.api import Device, NnapiError, ResultCode
from nnvk.base.files import open_regular
from nnvk.batch.input_rows import Reader, Row
from nnvk.importers.shapes import Shapes
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.inputs.reader import Say
from nnvk.insight.difference import Tolerance, difference
from nnvk.loading import LoadedModel, LoadOptions, open_model
from nnvk.loading.devices import AUTO

_OF_DATA = frozenset({ResultCode.BAD_DATA, ResultCode.OP_FAILED})
"""Errors that may be a row's own fault."""
_ALIKE = Tolerance(of_range=1e-2, steps=1)
"""Between a row by itself and in a batch."""

Answer = list[np.ndarray] | str
"""The outputs for a row, or why there are none."""


@dataclass(frozen=True)
class Once:
    """Says a remark once, although each of several readers makes it."""

    say: Say
    said: set[str] = field(default_factory=set)

    def __call__(self, remark: str) -> None:
        """Say it, unless it has been said in this process."""
        if remark not in self.said:
            self.said.add(remark)
            self.say(remark)


@dataclass(frozen=True)
class Task:
    """A model, and how it is run."""

    model: Path | str
    batch: int = 1
    """Rows of one execution."""
    shapes: Shapes = field(default_factory=dict)
    """The shapes of inputs for one row, if they differ from the file's, and sizes by their names in the file."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Inputs of an ONNX file that have a value for good."""
    round_hybrid: bool = True
    """As in the importer's ``load``."""
    relaxed: bool = False
    """Whether devices may compute FLOAT32 as FLOAT16."""
    images: ImageOptions = AS_IS
    """How images become inputs."""
    auto: bool = False
    """Whether the preferred device, or onnxruntime or LiteRT where that is faster, computes (``device="auto"``)."""
    say: Say | None = None
    """Takes remarks on images; without it they are warnings. Other processes need a function of a module."""
    tell: Say | None = None
    """Takes remarks on what a library beside nnvk computes, likewise."""

    def load(self, device: Device | None = None) -> LoadedModel:
        """The model for one row, not compiled yet. Raises what the importer does."""
        return self._loaded(self.shapes, device)

    def _loaded(self, shapes: Shapes, device: Device | None) -> LoadedModel:
        options = LoadOptions(
            device=AUTO if self.auto else device,
            shapes=dict(shapes),
            constants=dict(self.constants),
            round_hybrid=self.round_hybrid,
            relaxed=self.relaxed,
            images=self.images,
        )
        return open_model(self.model, options, self.say, self.tell)

    def load_batched(self, one: LoadedModel, device: Device) -> LoadedModel:
        """The model for ``batch`` rows; ``one`` is that for one.

        ValueError where it can't have several: an input's first dimension is not 1, or an output does not grow with it.
        """
        if self.batch == 1:
            return one
        for port in one.inputs:
            if len(port.shape) < 2 or port.shape[0] != 1:
                raise ValueError(f"batches need inputs whose first dimension is 1, {port} is {list(port.shape)}")
        shapes = {port.name: (self.batch, *port.shape[1:]) for port in one.inputs}
        batched = self._loaded(shapes, device)
        for single, several in zip(one.outputs, batched.outputs, strict=True):
            if several.shape != (self.batch, *single.shape[1:]) or single.shape[:1] != (1,):
                raise ValueError(
                    f"the model can't take batches: of one row output {single} is {list(single.shape)}, "
                    f"of {self.batch} it is {list(several.shape)}"
                )
        return batched

    def about(self) -> dict[str, Any]:
        """Everything that results depend on, so that more of the same can be added."""
        with open_regular(self.model) as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        normal = self.images.normalization
        return {
            "model": digest,
            "shapes": {
                name: shape if isinstance(shape, int) else list(shape) for name, shape in sorted(self.shapes.items())
            },
            "constants": dict(sorted(self.constants.items())),
            "round_hybrid": self.round_hybrid,
            "relaxed": self.relaxed,
            "normalization": None if normal is None else [list(numbers) for numbers in normal.of_pixels],
            # Folders of results from before have neither.
            **({} if self.images.layout is None else {"layout": self.images.layout}),
            **({} if self.images.resize == AS_IS.resize else {"resize": self.images.resize}),
        }


class Worker:
    """A task on a device. Several threads may use it at once."""

    def __init__(self, task: Task, device: Device) -> None:
        one = task.load(device)
        self.device = device
        self._batch = task.batch
        self._model = task.load_batched(one, device)
        self._reader = Reader(one.reader)
        self._model.prepare()
        if task.auto:
            with suppress(ValueError, NnapiError):  # the model may want other numbers than random ones
                self._model.settle()  # before several rows are computed at once
        if task.batch > 1:
            self._check_independent(one)

    def run(self, rows: Sequence[Row]) -> list[Answer]:
        """The answer for each row, of at most as many as are in a batch.

        Raises `NnapiError` for what is the device's fault, and MemoryError.
        """
        inputs: list[list[np.ndarray] | str] = [self._read(row) for row in rows]
        good = [each for each in inputs if not isinstance(each, str)]
        results = iter(self._computed(good))
        return [each if isinstance(each, str) else next(results) for each in inputs]

    def _read(self, row: Row) -> list[np.ndarray] | str:
        try:
            return self._reader.read(row)
        except OSError as error:
            return f"{(error.strerror or str(error)).lower()}: {row.path}"
        except ValueError as error:
            return str(error)

    def _computed(self, inputs: Sequence[list[np.ndarray]]) -> list[Answer]:
        """Return the results of rows, computed together, or one by one if that fails."""
        if not inputs:
            return []
        try:
            return list(self._executed(inputs))
        except NnapiError as error:
            if error.code not in _OF_DATA:
                raise
            if len(inputs) == 1:
                return [error.reason]
        return [answer for each in inputs for answer in self._computed([each])]

    def _executed(self, inputs: Sequence[list[np.ndarray]]) -> list[list[np.ndarray]]:
        """Return the results of one execution for each row; the last row fills up the batch."""
        full = [*inputs, *[inputs[-1]] * (self._batch - len(inputs))]
        joined = [np.concatenate(arrays) if self._batch > 1 else arrays[0] for arrays in zip(*full, strict=True)]
        outputs = self._model.compute(joined)
        if self._batch > 1:
            return [[output[place].copy() for output in outputs] for place in range(len(inputs))]
        return [[output[0] if output.ndim > 1 and len(output) == 1 else output for output in outputs]]

    def _check_independent(self, one: LoadedModel) -> None:
        """Raise ValueError where a row's results in a batch are not its own, for models that mix rows."""
        rows = [one.random(seed) for seed in range(self._batch)]
        for place, together in enumerate(self._executed(rows)):
            if place not in (0, self._batch - 1):
                continue
            outputs = one.compute(rows[place])
            for port, got, want in zip(one.outputs, together, outputs, strict=True):
                if difference((None, "", None, "", 0), port.type, got, want, _ALIKE).is_off:
                    raise ValueError(f"the model can't take batches: rows depend on each other in output {port}")
