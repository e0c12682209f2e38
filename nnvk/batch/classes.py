"""The best classes of each row in a folder of results, as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from nnvk.base.files import replacing
from nnvk.batch.results import read_results
from nnvk.insight.classes import Ranker, Ranking

CLASSES = "classes.csv"
"""The file, in the folder of results."""
KEPT = 1000
"""Rows that are kept in memory."""
_COLUMNS = ("row", "rank", "score", "class", "label", "output")


def write_classes(folder: Path, ranker: Ranker, top: int) -> list[tuple[str, Ranking]]:
    """Write ``classes.csv`` with the ``top`` classes of each row, and return the first thousand rows.

    The columns are the row, the rank from 1 on, the score, the class, its label, and the output's number. Raises
    ValueError where an output is no row of classes, and OSError.
    """
    ranked = ((name, ranker.best(outputs[0], top)) for name, outputs in read_results(folder))
    with replacing(folder / CLASSES, 0o666) as file:
        file.write(_line(*_COLUMNS))
        kept: list[tuple[str, Ranking]] = []
        for name, ranking in ranked:
            file.writelines(_lines(name, ranking))
            if len(kept) < KEPT:
                kept.append((name, ranking))
    return kept


def _lines(name: str, ranking: Ranking) -> Iterator[bytes]:
    for rank, one in enumerate(ranking.classes, 1):
        yield _line(name, rank, f"{one.score:.9g}", one.number, one.label or "", f"{one.output:.9g}")


def _line(*cells: object) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode("utf-8", "surrogateescape")
