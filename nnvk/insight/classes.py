"""The classes of a classifier's first output, ranked by their scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnvk.base.files import read_text
from nnvk.base.text import dimensions, plural
from nnvk.importers.mixed import Described
from nnvk.importers.ports import ImportedModel

SOFTMAX_NOTE = "score: softmax of the output, which has logits"
"""The remark beside scores that are not the output's numbers."""
_HANDING_ON = frozenset({"CAST", "DEQUANTIZE", "EXPAND_DIMS", "QUANTIZE", "RESHAPE", "SQUEEZE", "TRANSPOSE"})
"""Operations whose outputs have the real numbers of their first inputs."""
_OF_LOGITS = frozenset({"ADD", "BATCH_MATMUL", "CONV_2D", "FULLY_CONNECTED", "LOG_SOFTMAX"})
"""Operations whose results are logits where a classifier ends with them."""
_NEAR = 1e-3
"""How far probabilities may be below 0, above 1, or from the sum of 1."""


@dataclass(frozen=True, slots=True)
class Class:
    """A class of a classifier's output."""

    score: float
    """Its probability: the softmax of the output where that has logits, else the output's number."""
    number: int
    label: str | None
    output: float
    """The real number in the output."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best classes of an input, the best one first."""

    classes: tuple[Class, ...]
    is_softmax: bool
    """Whether scores are the softmax of the output."""


class Ranker:
    """Ranks the classes of a model's first output. Threads may share it."""

    def __init__(self, file: Described, labels: Sequence[str] | None = None) -> None:
        """``labels`` name the classes; without them, those in the file do, if they are as many as the classes.

        ValueError: the model's first output is known to have no row of classes, or not so many as there are labels.
        """
        ports = file.outputs
        if not ports:
            raise ValueError("the model has no output whose classes could be ranked")
        self.port = ports[0]
        if not self.port.has_numbers:
            raise ValueError(f"output {self.port.name!r} is {self.port.file_type}, not numbers: they can't be ranked")
        if self.port.dtype.kind == "c":
            raise ValueError(f"output {self.port.name!r} has complex numbers: they can't be ranked")
        self.labels = own_labels(file) if labels is None else list(labels)
        self._is_linear = isinstance(file, ImportedModel) and file.rest is None and _ends_with_logits(file)
        if self.port.type.is_fully_specified:
            self._check(self.port.shape)

    @property
    def count(self) -> int:
        """The number of classes; 0 if data decide it."""
        return math.prod(self.port.shape) if self.port.type.is_fully_specified else 0

    def scores(self, result: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """The output's real numbers, the scores, and whether these are its softmax: float64, one for each class."""
        self._check(result.shape)
        outputs = self.port.dequantize(result).reshape(-1).astype(np.float64)
        is_softmax = self._are_logits(outputs)
        return outputs, _softmax(outputs) if is_softmax else outputs, is_softmax

    def best(self, result: np.ndarray, top: int) -> Ranking:
        """The ``top`` classes with the largest numbers. ValueError: it is no row of classes."""
        outputs, scores, is_softmax = self.scores(result)
        best = [int(place) for place in np.argsort(-outputs, kind="stable")[:top]]
        classes = (Class(float(scores[one]), one, self.name(one), float(outputs[one])) for one in best)
        return Ranking(tuple(classes), is_softmax)

    def name(self, number: int) -> str | None:
        """The label of a class."""
        return self.labels[number] if self.labels else None

    def _are_logits(self, outputs: np.ndarray) -> bool:
        """Whether these are logits: their operation says so, or one is no probability."""
        if not np.isfinite(outputs).all() or not outputs.size:
            return False
        is_inside = outputs.min() >= -_NEAR and outputs.max() <= 1 + _NEAR
        if is_inside and abs(outputs.sum() - 1) <= _NEAR:
            return False
        return self._is_linear or not is_inside

    def _check(self, shape: Sequence[int]) -> None:
        """ValueError: it is no row, such as 1x1000 or 1x1000x1x1, or there are not so many labels."""
        count, name = math.prod(shape), self.port.name
        if not shape or count != max(shape):
            raise ValueError(f"output {name!r} is {dimensions(shape)}, not one row of classes: they can't be ranked")
        if self.labels is not None and len(self.labels) != count:
            there_are = "there is" if len(self.labels) == 1 else "there are"
            classes = f"{count} class" if count == 1 else f"{count} classes"
            raise ValueError(f"{there_are} {plural(len(self.labels), 'label')}, output {name!r} has {classes}")


def own_labels(file: Described) -> list[str] | None:
    """The labels in the file, where they are those of the classes of the first output; else None."""
    if not file.outputs or not file.metadata.outputs or file.outputs[0].dtype.kind == "c":
        return None
    labels, shape = file.metadata.outputs[0].labels, file.outputs[0].shape
    return list(labels) if shape and labels and math.prod(shape) == max(shape) == len(labels) else None


def read_labels(path: Path) -> list[str]:
    """The lines of a file of labels. ValueError: it is no text in UTF-8. OSError."""
    try:
        return read_text(path).rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"not a text in UTF-8: {path} ({error})") from error


def _ends_with_logits(imported: ImportedModel) -> bool:
    """Whether a linear operation computes the first output, perhaps with changes of shape or type behind it."""
    model = imported.model.frozen
    writers = {index: operation for operation in model.operations for index in operation.outputs}
    operation = writers.get(model.outputs[0])
    while operation is not None and operation.code.name in _HANDING_ON:
        operation = writers.get(operation.inputs[0])
    return operation is not None and operation.code.name in _OF_LOGITS


def _softmax(outputs: np.ndarray) -> np.ndarray:
    powers: np.ndarray = np.exp(outputs - outputs.max())
    return powers / powers.sum()
