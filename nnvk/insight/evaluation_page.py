"""The accuracy of classifiers as a part of a page: tables, and pictures of the worst answers."""

from __future__ import annotations

import platform
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from nnvk import __version__
from nnvk.base.machine import describe_machine
from nnvk.base.text import plural
from nnvk.insight.classes import SOFTMAX_NOTE
from nnvk.insight.evaluation import Answers, Evaluation, percent
from nnvk.insight.html import Marked, Table, markup, render, script

WORST = 12
"""Wrong answers of a model that are shown."""
_MOST_CONFUSIONS = 40
_LARGEST_MATRIX = 20
"""Classes up to which a table has all pairs of them."""
_SIDE = 112
"""Pixels along the longer side of a picture."""


def evaluation_page(evaluation: Evaluation, devices: Sequence[str], failed: int) -> str:
    """A page of its own. ``devices`` say where each model has run, ``failed`` how many inputs are left out."""
    facts = [*page_facts(), *zip((answers.model for answers in evaluation.models), devices, strict=True)]
    if failed:
        facts.append(("left out", f"{plural(failed, 'input')} that failed"))
    return render(
        "evaluation.html", [script("sort.js")], has_pictures=True, facts=facts, evaluation=accuracy_values(evaluation)
    )


def page_facts() -> list[tuple[str, str]]:
    """When and where a page was made."""
    return [
        ("date", f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"),
        ("machine", describe_machine()),
        ("software", f"nnvk {__version__}, Python {platform.python_version()}"),
    ]


def accuracy_values(evaluation: Evaluation) -> Mapping[str, Any]:
    """The values of the template ``accuracy.html``."""
    tops = evaluation.tops
    total = len(evaluation.names)
    rows = [
        (answers.model, *(cell for top in tops for cell in _share(evaluation.right(answers, top), total)))
        for answers in evaluation.models
    ]
    columns = ["model", *(name for top in tops for name in (f"top-{top}", f"top-{top} %"))]
    notes = f" {SOFTMAX_NOTE.capitalize()}." if any(answers.is_softmax for answers in evaluation.models) else ""
    return {
        "description": f"{plural(total, 'input')} of {len(evaluation.labels)} classes. top-1: the best class is right; "
        f"top-5: the right class is one of the five best.{notes}",
        "agreements": [agreement.line for agreement in evaluation.agreements()],
        "summary": Table("accuracies", "Right answers", columns, rows, numbers=range(1, len(columns))),
        "models": [_model(number, evaluation, answers) for number, answers in enumerate(evaluation.models)],
    }


def _share(count: int, total: int) -> tuple[str, str]:
    return str(count), percent(count, total).removesuffix(" %")


def _model(number: int, evaluation: Evaluation, answers: Answers) -> Mapping[str, Any]:
    confusions = evaluation.confusions(answers)
    rows = [
        (evaluation.label_of(one.truth), evaluation.label_of(one.answer), str(one.count))
        for one in confusions[:_MOST_CONFUSIONS]
    ]
    return {
        "title": answers.model,
        "confusions": Table(f"confusions-{number}", "Confusions", ["is", "taken for", "inputs"], rows, numbers=(2,))
        if rows
        else None,
        "matrix": _matrix(number, evaluation, answers) if len(evaluation.labels) <= _LARGEST_MATRIX else None,
        "worst": [_example(evaluation, answers, place) for place in evaluation.worst(answers, WORST)],
    }


def _matrix(number: int, evaluation: Evaluation, answers: Answers) -> Table:
    names = [evaluation.label_of(each) for each in range(len(evaluation.labels))]
    rows = [
        (
            names[truth],
            *(
                Marked(str(count), is_off=True) if count and truth != answer else str(count)
                for answer, count in enumerate(row)
            ),
        )
        for truth, row in enumerate(evaluation.matrix(answers))
    ]
    title = "Classes (rows) and answers (columns)"
    return Table(f"matrix-{number}", title, ["is", *names], rows, numbers=range(1, len(names) + 1))


def _example(evaluation: Evaluation, answers: Answers, place: int) -> Mapping[str, Any]:
    return {
        "name": evaluation.names[place],
        "picture": _picture(evaluation.paths[place]),
        "truth": evaluation.label_of(int(evaluation.truth[place])),
        "truth_score": f"{answers.score_of_truth[place]:.3g}",
        "answer": evaluation.label_of(int(answers.best[place, 0])),
        "score": f"{answers.score[place]:.3g}",
    }


def _picture(path: Path) -> Any:
    """A small PNG in base64, as markup, which a page does not cut; empty where the input is no image."""
    try:
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image).convert("RGB")
    except (OSError, ValueError):
        return ""
    upright.thumbnail((_SIDE, _SIDE))
    file = BytesIO()
    upright.save(file, "PNG")
    return markup(b64encode(file.getvalue()).decode())
