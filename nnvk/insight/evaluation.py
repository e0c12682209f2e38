"""How well classifiers recognise inputs whose classes are known, and how far they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnvk.base.text import plural

TOP = 5
"""The classes of each input that are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The classes that a model gives for all inputs."""

    model: str
    best: np.ndarray
    """int64 ``[inputs, up to 5]``: the best classes, the best one first."""
    score: np.ndarray
    """float64 ``[inputs]``: the score of the best class."""
    score_of_truth: np.ndarray
    """float64 ``[inputs]``: the score of the right class."""
    is_softmax: bool
    """Whether scores are the softmax of the output."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a model gives the same class as a base, and which of the two is right where they differ."""

    model: str
    base: str
    inputs: int
    same: int
    gained: int
    """Inputs that the model recognises and the base does not."""
    lost: int
    """Inputs that the base recognises and the model does not."""

    @property
    def line(self) -> str:
        """Both in one line: ``int8.tflite against float.tflite: the same class for 59 of 60 inputs (98.3 %), ...``."""
        change = 100 * (self.gained - self.lost) / max(self.inputs, 1)
        return (
            f"{self.model} against {self.base}: the same class for {self.same} of {plural(self.inputs, 'input')} "
            f"({percent(self.same, self.inputs)}), top-1 {change:+.1f} points ({self.gained} gained, {self.lost} lost)"
        )


@dataclass(frozen=True, slots=True)
class Confusion:
    """Two classes, and how many inputs of one a model takes for the other."""

    truth: int
    answer: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The answers of models for inputs whose classes are known."""

    names: Sequence[str]
    """The names of the inputs, relative to their folder."""
    paths: Sequence[Path]
    """The inputs' files."""
    truth: np.ndarray
    """int64 ``[inputs]``: the right classes."""
    labels: Sequence[str]
    """The names of all classes; numbers where nothing names them."""
    models: Sequence[Answers]

    def right(self, answers: Answers, top: int) -> int:
        """How many inputs have their class among a model's ``top`` best ones."""
        return int((answers.best[:, :top] == self.truth[:, np.newaxis]).any(axis=1).sum())

    @property
    def tops(self) -> list[int]:
        """The numbers of best classes that are counted: 1, and 5 where there are more classes."""
        return [1, TOP] if len(self.labels) > TOP else [1]

    def agreements(self) -> list[Agreement]:
        """Each model but the first, against the first."""
        if not self.models:
            return []
        base, *others = self.models
        was_right = base.best[:, 0] == self.truth
        found = []
        for other in others:
            is_right = other.best[:, 0] == self.truth
            same = int((other.best[:, 0] == base.best[:, 0]).sum())
            gained, lost = int((is_right & ~was_right).sum()), int((was_right & ~is_right).sum())
            found.append(Agreement(other.model, base.model, len(self.names), same, gained, lost))
        return found

    def matrix(self, answers: Answers) -> np.ndarray:
        """int64 ``[classes, classes]``: how many inputs of each class (row) have each answer (column)."""
        counts = np.zeros((len(self.labels), len(self.labels)), np.int64)
        np.add.at(counts, (self.truth, answers.best[:, 0]), 1)
        return counts

    def confusions(self, answers: Answers) -> list[Confusion]:
        """The pairs of classes that a model confuses, the most frequent one first."""
        pairs = Counter(
            (int(truth), int(answer))
            for truth, answer in zip(self.truth, answers.best[:, 0], strict=True)
            if truth != answer
        )
        return [Confusion(truth, answer, count) for (truth, answer), count in pairs.most_common()]

    def worst(self, answers: Answers, most: int) -> list[int]:
        """The positions of inputs with a wrong answer, those first whose score is furthest above that of the truth."""
        wrong = np.flatnonzero(answers.best[:, 0] != self.truth)
        distance = (answers.score - answers.score_of_truth)[wrong]
        return [int(place) for place in wrong[np.argsort(-distance, kind="stable")][:most]]

    def label_of(self, number: int) -> str:
        """A class for people: its number, and its name if that is another text."""
        name = self.labels[number]
        return name if name == str(number) else f"{number} {name}"


def percent(count: int, of: int) -> str:
    """A share of inputs: ``98.3 %``."""
    return f"{100 * count / of:.1f} %" if of else "-"
