"""``nnvk report``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from nnvk.api import get_devices
from nnvk.base.errors import Guard
from nnvk.base.files import writing
from nnvk.base.text import megabytes, milliseconds, title
from nnvk.cli.compare import as_json
from nnvk.cli.evaluate import TruthFiles, check_inputs, evaluated, evaluation_json, print_accuracy
from nnvk.cli.importing import DEFAULT, Importing, note_open_sizes, takes_options
from nnvk.cli.lines import FAILURE, REPORTED_ERRORS, Failures, print_line
from nnvk.cli.models import find_models
from nnvk.cli.modes import has_modes
from nnvk.cli.output import PAGES, check_suffix, check_writable, deliver, print_table, progress
from nnvk.cli.usage import JsonFile, Runs, Seconds
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.insight.evaluation import Evaluation
from nnvk.insight.limits import Limits
from nnvk.insight.page import page
from nnvk.insight.report import ModelReport, OnDevice, examine, joined_findings, model_report
from nnvk.loading.devices import find_device


@has_modes
@takes_options
def command(
    ctx: typer.Context,
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help="Models, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The page to write.")] = Path("report.html"),
    devices: Annotated[
        list[str] | None, typer.Option("--device", metavar="NAME", help="Report on this device.", show_default="all")
    ] = None,
    runs: Runs = None,
    seconds: Seconds = None,
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", metavar="FOLDER", help="Also measure how many of these classifiers recognise."),
    ] = None,
    labels: TruthFiles = None,
    images: ImageOptions = AS_IS,
    importing: Importing = DEFAULT,
    json_file: JsonFile = None,
) -> None:
    """Write a page on models: latency, memory and accuracy.

    The page compares all devices, and shows where operations run and where the time goes. It is one file that needs no
    network. Results are compared with those of the CPU device, on random inputs. With --inputs it also has what
    nnvk evaluate says of them. Where a model can't be examined, the others are; the page says so, and the exit code
    is 2. The page leaves out the operators that onnxruntime or LiteRT computes.
    """
    check_suffix("--out", out, PAGES)
    check_writable(out, json_file)
    if inputs is not None:
        check_inputs(inputs)
    elif labels or images != AS_IS:
        raise ValueError("--labels and the options for images are for the files of --inputs FOLDER, which is not given")
    chosen = list(dict.fromkeys(map(find_device, devices))) if devices else get_devices()
    reference = get_devices()[-1]
    limits = Limits.of(runs, seconds)
    paths = find_models(models)
    failures = Failures(ctx.find_root().params["traceback"])
    reports: list[ModelReport] = []
    own = importing.for_each(paths)
    evaluation = None
    if inputs is not None:
        # First, so that a wrong label is an error before the long work.
        opened = [each.open(path, chosen[0].name, images=images) for path, each in zip(paths, own, strict=True)]
        evaluation, left_out = evaluated(opened, inputs, labels or (), [title(path, paths) for path in paths])
        failures.lines += [(failure.name, failure.reason) for failure in left_out]
    with progress("Examining", len(paths) * len(chosen)) as advance:
        for path, options in zip(paths, own, strict=True):
            name = title(path, paths)
            try:
                model = options.open(path)
                parts = [each for each, _ in model.own_parts(model.random())] if model.is_mixed else [model.imported]
                nbytes = path.stat().st_size
                note_open_sizes(name, model)
            except REPORTED_ERRORS as error:
                failures.add(error, what=name)
                continue
            found: list[OnDevice] = []
            for device in chosen:
                what = f"{name} on {device.name}"
                try:
                    with Guard(what):
                        findings = [examine(name, each, device, reference, limits) for each in parts]
                        found.append(joined_findings(findings))
                except REPORTED_ERRORS as error:
                    failures.add(error, what)
                advance(what)
            reports.append(model_report(name, nbytes, model, parts, found))
    with writing(out), out.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(page(chosen, reference, reports, failures.lines, evaluation))
    failed = [{"what": what, "why": why} for what, why in failures.lines]
    content = {"models": [_as_json(report) for report in reports], "failures": failed}
    if evaluation is not None:
        content["evaluation"] = evaluation_json(evaluation)
    deliver(json_file, content, lambda: _print(reports, evaluation), out)
    if failures.count:
        raise typer.Exit(FAILURE)


def _as_json(report: ModelReport) -> Mapping[str, Any]:
    return {
        "model": report.title,
        "bytes": report.nbytes,
        "operations": list(report.operations),
        "inputs": list(report.inputs),
        "outputs": list(report.outputs),
        "devices": [
            {
                **asdict(one.measurement),
                "placement": dict(one.placement),
                "partitions": one.partitions,
                "memory": dict(one.memory),
                "profile": asdict(one.profile),
                "comparison": None if one.comparison is None else as_json(one.comparison),
            }
            for one in report.devices
        ],
    }


def _print(reports: list[ModelReport], evaluation: Evaluation | None) -> None:
    rows = [
        [
            report.title,
            one.measurement.device,
            f"{one.measurement.operations_on_device}/{one.measurement.operations}",
            str(one.partitions),
            milliseconds(one.measurement.median_ns),
            megabytes(sum(one.memory.values())) if one.memory else "-",
            "-" if one.comparison is None else "no" if one.comparison.is_off else "yes",
        ]
        for report in reports
        for one in report.devices
    ]
    columns = ["model", "device", "ops", "partitions", "median", "MB", "agrees"]
    if rows:
        print_table(columns, rows, right="ops partitions median MB")
        print_line("Times in ms. agrees: with the CPU device's results, inside too.")
    if evaluation is not None:
        print_accuracy(evaluation)
