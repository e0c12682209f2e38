"""``nnvk evaluate``."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from PIL import Image

from nnvk.api import NnapiError
from nnvk.base.files import writing
from nnvk.base.text import plural, title
from nnvk.batch.evaluation import evaluate
from nnvk.batch.failures import Failure
from nnvk.cli.importing import DEFAULT, Importing, note, takes_options
from nnvk.cli.lines import FAILURE, complain, print_line
from nnvk.cli.models import find_models
from nnvk.cli.modes import has_modes
from nnvk.cli.output import check_writable, counted, deliver, print_table
from nnvk.cli.ranking import for_json
from nnvk.cli.usage import JsonFile
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.insight.classes import SOFTMAX_NOTE
from nnvk.insight.evaluation import Answers, Evaluation, percent
from nnvk.loading import LoadedModel
from nnvk.loading.devices import choose_devices

SHOWN = 10
"""Confusions, worst examples and failures that are printed."""

TruthFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="The class of each input, in lines FILE,CLASS; or the names of the classes, one a line. Give both if "
        "the former has names that the model does not know.",
        show_default="the folders' names, and the labels in the model",
    ),
]


@has_modes
@takes_options
def command(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help="Classifiers, or folders of them.")],
    inputs: Annotated[
        Path, typer.Option("--inputs", metavar="FOLDER", help="Images or arrays, perhaps in folders named by class.")
    ],
    labels: TruthFiles = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Run on this device, or auto.", show_default="the preferred one"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="Write a page with pictures of the worst answers.")
    ] = None,
    images: ImageOptions = AS_IS,
    importing: Importing = DEFAULT,
    json_file: JsonFile = None,
) -> None:
    """Measure how often classifiers are right on labelled photos.

    Prints top-1 and top-5, how often each model gives the same class as the first one, the classes that are confused
    most often, and the wrong answers with the highest scores. Inputs that can't be read are left out; the exit code is
    2 then.
    """
    check_writable(out, json_file)
    page = None if out is None else import_module("nnvk.insight.evaluation_page")  # which needs Jinja2
    check_inputs(inputs)
    choose_devices(device, True)  # a wrong name is an error before any file is read
    paths = find_models(models)
    own = importing.for_each(paths)
    loaded = [options.open(path, device, images=images) for path, options in zip(paths, own, strict=True)]
    titles = [title(path, paths) for path in paths]
    evaluation, failures = evaluated(loaded, inputs, labels or (), titles)
    places = [model.placement if evaluation.names else "" for model in loaded]
    if page is not None and out is not None:
        with writing(out):
            out.write_text(page.evaluation_page(evaluation, places, len(failures)), encoding="utf-8")
    content = {**evaluation_json(evaluation), "failed": [asdict(failure) for failure in failures]}
    deliver(json_file, content, lambda: _print(evaluation, failures, titles, places), out)
    if failures:
        raise typer.Exit(FAILURE)


def check_inputs(inputs: Path) -> None:
    """Raise OSError where ``--inputs`` is no folder."""
    if not inputs.exists():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(inputs))
    if not inputs.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "--inputs must be a folder", str(inputs))


def evaluated(
    models: Sequence[LoadedModel], inputs: Path, labels: Sequence[Path], titles: Sequence[str]
) -> tuple[Evaluation, list[Failure]]:
    """`evaluate`, with a progress bar; the first inputs that fail are reported."""
    with counted("Reading", "Evaluating") as begin:

        def begin_inputs(total: int) -> Callable[[str], None]:
            advance = begin(total)
            return lambda name: advance(1)

        evaluation, failures = evaluate(models, inputs, labels, titles=titles, say=note, begin=begin_inputs)
    _note_pixels(models, titles)
    for failure in failures[:SHOWN]:
        complain(f"{failure.name}: {failure.reason}")
    if len(failures) > SHOWN:
        complain(f"{len(failures) - SHOWN} more inputs failed")
    return evaluation, failures


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation for programs."""
    return {
        "inputs": len(evaluation.names),
        "labels": list(evaluation.labels),
        "models": [
            {
                "model": answers.model,
                "top": {str(top): evaluation.right(answers, top) for top in evaluation.tops},
                "scores": "softmax" if answers.is_softmax else "output",
                "confusions": [asdict(one) for one in evaluation.confusions(answers)],
                "wrong": [
                    _answer(evaluation, answers, place) for place in evaluation.worst(answers, len(evaluation.names))
                ],
            }
            for answers in evaluation.models
        ],
        "agreements": [asdict(one) for one in evaluation.agreements()],
    }


def _answer(evaluation: Evaluation, answers: Answers, place: int) -> dict[str, Any]:
    scores = {"score": float(answers.score[place]), "score_of_truth": float(answers.score_of_truth[place])}
    numbers = {"truth": int(evaluation.truth[place]), "answer": int(answers.best[place, 0])}
    return {"input": evaluation.names[place], **numbers, **for_json(scores)}


def _note_pixels(models: Sequence[LoadedModel], titles: Sequence[str]) -> None:
    """Note which models get other numbers for a pixel than the first one, as where the normalisation is a guess."""
    pixels = [Image.new("RGB", (8, 8), colour) for colour in ("black", "white")]
    found: list[list[float]] = []
    for model, name in zip(models, titles, strict=True):
        with suppress(ValueError, NnapiError):  # an input that takes no image
            found.append([float(model.inputs[0].dequantize(model.read([each])[0]).mean()) for each in pixels])
            if not np.allclose(found[-1], found[0], atol=abs(found[0][1] - found[0][0]) / 50):
                numbers = [f"{one:.3g} to {other:.3g}" for one, other in (found[-1], found[0])]
                note(f"{name} gets pixels as {numbers[0]}, {titles[0]} as {numbers[1]}; --mean and --std are for both")


def _print(evaluation: Evaluation, failures: Sequence[Failure], titles: Sequence[str], places: Sequence[str]) -> None:
    failed = f", {len(failures)} failed" if failures else ""
    print_line(f"{plural(len(evaluation.names), 'input')} of {len(evaluation.labels)} classes{failed}")
    for name, place in zip(titles, places, strict=True):
        print_line(f"{name}: {place}")
    print_accuracy(evaluation)


def print_accuracy(evaluation: Evaluation) -> None:
    """Print the tables of an evaluation."""
    total = len(evaluation.names)
    rows = [
        [answers.model, *(_share(evaluation.right(answers, top), total) for top in evaluation.tops)]
        for answers in evaluation.models
    ]
    columns = [f"top-{top}" for top in evaluation.tops]
    print_table(["model", *columns], rows, title="Right answers", right=" ".join(columns))
    for agreement in evaluation.agreements():
        print_line(agreement.line, fold=True)
    confusions = [
        [answers.model, evaluation.label_of(one.truth), evaluation.label_of(one.answer), str(one.count)]
        for answers in evaluation.models
        for one in evaluation.confusions(answers)[:SHOWN]
    ]
    if confusions:
        print_table(["model", "is", "taken for", "inputs"], confusions, title="Confusions", right="inputs")
    worst = [
        [
            answers.model,
            evaluation.names[place],
            evaluation.label_of(int(evaluation.truth[place])),
            f"{answers.score_of_truth[place]:.3g}",
            evaluation.label_of(int(answers.best[place, 0])),
            f"{answers.score[place]:.3g}",
        ]
        for answers in evaluation.models
        for place in evaluation.worst(answers, SHOWN)
    ]
    if worst:
        columns = ["model", "input", "is", "its score", "taken for", "score"]
        print_table(columns, worst, title="Worst answers", right="its_score score")
        if any(answers.is_softmax for answers in evaluation.models):
            print_line(SOFTMAX_NOTE)


def _share(count: int, total: int) -> str:
    return f"{count} ({percent(count, total)})"
