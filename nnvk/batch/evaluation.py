"""Classifiers on a folder of inputs whose classes are known."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from nnvk.api import NnapiError
from nnvk.batch.failures import Failure
from nnvk.batch.input_rows import Reader, list_rows
from nnvk.batch.truth import classes_of, read_truth
from nnvk.inputs.images import UnfitInputError
from nnvk.inputs.reader import Say
from nnvk.insight.classes import Ranker
from nnvk.insight.evaluation import TOP, Answers, Evaluation
from nnvk.loading import LoadedModel

Advance = Callable[[str], object]
"""Is called with the name of each input that is done."""


def evaluate(
    models: Sequence[LoadedModel],
    folder: Path | str,
    labels: Sequence[Path | str] = (),
    *,
    titles: Sequence[str] | None = None,
    say: Say | None = None,
    begin: Callable[[int], Advance] | None = None,
) -> tuple[Evaluation, list[Failure]]:
    """Run classifiers on the images and arrays in a folder, and compare their answers with the right classes.

    ``labels`` are files with the names of the classes, one a line, or with the class of each input, in lines
    ``FILE,CLASS``. Without the latter, the inputs lie in folders that are named by class. ``titles`` name the models;
    without it, their files do. ``say`` takes a remark if the order of the classes is a guess. ``begin`` is called with
    the number of inputs.

    Returns the evaluation, and the inputs that a model could not be run on, which the evaluation leaves out. ValueError
    and OSError say what does not fit: a class that no model has, models with different numbers of classes.
    """
    folder = Path(folder)
    names_of_models = [model.name for model in models] if titles is None else list(titles)
    readers = [Reader(model.reader) for model in models]
    rows = [row for each in list_rows(models[0].reader, [folder]) for row in each]
    names = [os.path.relpath(row.name, folder) for row in rows]
    given = read_truth([Path(each) for each in labels], names)
    rankers = [Ranker(model.described, given.names) for model in models]
    count = _count(names_of_models, rankers)
    known = next((ranker.labels for ranker in rankers if ranker.labels is not None), None)
    truth, class_names = classes_of(names, given, known, count, say)
    recorders = [_Recorder(ranker) for ranker in rankers]
    done: list[int] = []
    failures: list[Failure] = []
    advance = (lambda name: None) if begin is None else begin(len(rows))
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        try:
            outputs = [model.compute(reader.read(row))[0] for model, reader in zip(models, readers, strict=True)]
        except UnfitInputError:
            raise
        except (ValueError, OSError, NnapiError) as error:
            failures.append(Failure(name, error.reason if isinstance(error, NnapiError) else str(error)))
        else:
            done.append(place)
            for recorder, output in zip(recorders, outputs, strict=True):
                recorder.add(output, truth[place])
        advance(name)
    answers = [recorder.answers(title) for recorder, title in zip(recorders, names_of_models, strict=True)]
    evaluation = Evaluation(
        [names[place] for place in done],
        [rows[place].path for place in done],
        np.array([truth[place] for place in done], np.int64),
        class_names,
        answers,
    )
    return evaluation, failures


def _count(titles: Sequence[str], rankers: Sequence[Ranker]) -> int:
    """The number of classes. ValueError: models differ in it, or data decide it."""
    counts = [ranker.count for ranker in rankers]
    if 0 in counts:
        raise ValueError(f"the number of classes of {titles[counts.index(0)]} is unknown")
    if len(set(counts)) > 1:
        each = ", ".join(f"{title} has {count}" for title, count in zip(titles, counts, strict=True))
        raise ValueError(f"models of different numbers of classes can't be compared: {each}")
    return counts[0]


class _Recorder:
    """Collects the answers of a model."""

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker
        self._best: list[np.ndarray] = []
        self._scores: list[tuple[float, float]] = []
        self._is_softmax = False

    def add(self, output: np.ndarray, truth: int) -> None:
        """Add the output for an input, and the class that it should have."""
        outputs, scores, is_softmax = self._ranker.scores(output)
        best = np.argsort(-outputs, kind="stable")[:TOP]
        self._best.append(best)
        self._scores.append((float(scores[best[0]]), float(scores[truth])))
        self._is_softmax |= is_softmax

    def answers(self, title: str) -> Answers:
        """All of them."""
        best = np.array(self._best, np.int64).reshape(len(self._best), min(TOP, self._ranker.count))
        scores = np.array(self._scores, np.float64).reshape(-1, 2)
        return Answers(title, best, scores[:, 0], scores[:, 1], self._is_softmax)
