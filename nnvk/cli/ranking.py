"""Ranked classes and limits of outputs, as commands print and write them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from nnvk.cli.lines import print_line
from nnvk.cli.output import print_table
from nnvk.insight.classes import SOFTMAX_NOTE, Class, Ranking


def print_ranking(ranking: Ranking) -> None:
    """Print the best classes of one input; the title says if scores are the softmax of the output."""
    has_labels = any(one.label is not None for one in ranking.classes)
    columns = _columns(has_labels, ranking.is_softmax)
    rows = [_cells(one, has_labels, ranking.is_softmax) for one in ranking.classes]
    title = f"Best classes ({SOFTMAX_NOTE})" if ranking.is_softmax else "Best classes"
    print_table(columns, rows, title=title, right="score output class")


def print_rankings(what: str, rankings: Sequence[tuple[str, Ranking]]) -> None:
    """Print the best classes of several inputs, which are called ``what``, in one table."""
    has_labels = any(one.label is not None for _, ranking in rankings for one in ranking.classes)
    is_softmax = any(ranking.is_softmax for _, ranking in rankings)
    rows = [
        ["" if place else name, *_cells(one, has_labels, is_softmax)]
        for name, ranking in rankings
        for place, one in enumerate(ranking.classes)
    ]
    print_table([what, *_columns(has_labels, is_softmax)], rows, right="score output class")
    if is_softmax:
        print_line(SOFTMAX_NOTE)


def _columns(has_labels: bool, is_softmax: bool) -> list[str]:
    """The columns of a table of classes."""
    return ["score", *(["output"] if is_softmax else []), "class", *(["label"] if has_labels else [])]


def _cells(one: Class, has_labels: bool, is_softmax: bool) -> list[str]:
    """A class in the columns of `_columns`."""
    output = [f"{one.output:.6g}"] if is_softmax else []
    return [f"{one.score:.6g}", *output, str(one.number), *([one.label or ""] if has_labels else [])]


def ranking_json(ranking: Ranking) -> dict[str, Any]:
    """The best classes of one input for programs."""
    classes = [{**asdict(one), **for_json({"score": one.score, "output": one.output})} for one in ranking.classes]
    return {"scores": "softmax" if ranking.is_softmax else "output", "classes": classes}


def described(output: Any) -> np.ndarray:
    """An output for a table: what is no array, such as a sequence, counts as one of objects."""
    if isinstance(output, np.ndarray):
        return output
    several = output if isinstance(output, list) else [output]
    return np.fromiter(several, object, len(several))


def limits_of(array: np.ndarray) -> dict[str, float]:
    """The least and the largest element, of complex numbers by magnitude; none where there are no numbers."""
    if array.dtype.hasobject:
        return {}
    array = np.abs(array) if np.iscomplexobj(array) else array
    return {"min": array.min().item(), "max": array.max().item()} if array.size else {}


def for_json(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no NaN and no infinities: they are null."""
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


def limits_cells(array: np.ndarray) -> Sequence[str]:
    """The least and the largest element for a table."""
    return [f"{value:.6g}" for value in limits_of(array).values()] or ["", ""]
