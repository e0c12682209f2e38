"""A report on models as one HTML file: charts, and beside each a table with its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nnvk.api import Device
from nnvk.base.text import dimensions, megabytes, milliseconds, plural, printable
from nnvk.importers.graph_builder import Source
from nnvk.insight.comparison import Comparison
from nnvk.insight.difference import HALF, Difference, Tolerance
from nnvk.insight.drawing import Bar, Chart, differences_chart, inline_svg
from nnvk.insight.evaluation import Evaluation
from nnvk.insight.evaluation_page import accuracy_values, page_facts
from nnvk.insight.html import LONGEST, Cell, Marked, Table, markup, render, script
from nnvk.insight.measuring import WARM_UP
from nnvk.insight.profiling import Profile
from nnvk.insight.report import ModelReport, OnDevice

_LONGEST_REASON = 1000
_MOST_BARS = 40
"""The most bars of a chart; tables have all rows."""


def page(
    devices: Sequence[Device],
    reference: Device,
    models: Sequence[ModelReport],
    failures: Sequence[tuple[str, str]],
    evaluation: Evaluation | None = None,
) -> str:
    """The file's text. ``failures`` are names of models, with devices perhaps, or of inputs, and the reasons."""
    return render(
        "report.html",
        [script("sort.js")],
        has_pictures=evaluation is not None,
        evaluation=None if evaluation is None else accuracy_values(evaluation),
        facts=_facts(models),
        terms=_terms(reference.name),
        devices=Table(
            "devices",
            "Devices",
            ["device", "type", "driver and version"],
            [(device.name, device.type.name, device.version) for device in devices],
        ),
        summary=_summary(models, reference.name) if models else None,
        failures=Table("failures", "Failures", ["task", "reason"], failures, longest=_LONGEST_REASON)
        if failures
        else None,
        models=[_model(number, model, reference.name) for number, model in enumerate(models)],
    )


def _facts(models: Sequence[ModelReport]) -> list[tuple[str, str]]:
    runs = sorted({one.measurement.runs for model in models for one in model.devices})
    counted = f"{runs[0]} to {runs[-1]}" if len(runs) > 1 else "".join(map(str, runs))
    facts = [*page_facts(), ("models", f"{len(models)}")]
    if counted:
        facts.append(("runs", f"{counted} of each model on each device, after {WARM_UP} that are not counted"))
    return facts


def _terms(reference: str) -> list[tuple[str, str]]:
    tolerance = Tolerance()
    return [
        ("inputs", "Inputs are random numbers. The table of each model has their shapes."),
        ("median", "Half of the runs took at most this time, from inputs in host memory to outputs in host memory."),
        ("90 %", "90 % of the runs took at most this time."),
        ("speed", f"The speed is the median of {reference} divided by the median of the device."),
        (
            "of range",
            f"The largest difference between an output and that of {reference}, divided by the range of the output: "
            f"the largest number of {reference} minus its smallest.",
        ),
        (
            "agrees",
            f"A device agrees if no result of an operation and no output differs from that of {reference} by more than "
            f"is tolerated: {tolerance.of_range:g} of the range for floats ({HALF:g} for 16-bit floats and relaxed "
            f"models) or {tolerance.floor:g}, {plural(tolerance.steps, 'quantisation step')} for quantised numbers, "
            "and nothing for integers and flags.",
        ),
        ("sorting", "A click on the name of a column sorts a table."),
    ]


def _summary(models: Sequence[ModelReport], reference: str) -> Table:
    columns = [
        "model",
        "device",
        "median ms",
        "90 % ms",
        f"speed ({reference} = 1)",
        "runs",
        "agrees",
        "of range",
        "operations on it",
        "partitions",
        "compile ms",
        "MB",
    ]
    rows = [
        (
            Marked(model.title, f"#model-{number}"),
            one.measurement.device,
            milliseconds(one.measurement.median_ns),
            milliseconds(one.measurement.p90_ns),
            _speed(model, one),
            str(one.measurement.runs),
            *_agreement(one.comparison),
            f"{one.measurement.operations_on_device}/{one.measurement.operations}",
            str(one.partitions),
            milliseconds(one.measurement.compile_ns),
            megabytes(sum(one.memory.values())) if one.memory else "-",
        )
        for number, model in enumerate(models)
        for one in model.devices
    ]
    return Table("summary", "All models", columns, rows, numbers=(2, 3, 4, 5, 7, 8, 9, 10, 11))


def _speed(model: ModelReport, one: OnDevice) -> str:
    """How many times as fast as on the reference, where the report has that."""
    base = next((other.measurement.median_ns for other in model.devices if other.comparison is None), None)
    return "-" if base is None else f"{base / max(one.measurement.median_ns, 1):.3g}"


def _agreement(comparison: Comparison | None) -> tuple[Cell, str]:
    """Whether everything is within the tolerance, and the largest difference of an output."""
    if comparison is None:
        return "reference", "-"
    worst = max((each.of_range for each in comparison.outputs), default=0.0)
    return Marked("no", is_off=True) if comparison.is_off else "yes", f"{worst:.2g}"


def _model(number: int, model: ModelReport, reference: str) -> Mapping[str, Any]:
    counts = ", ".join(f"{name} {count}" for name, count in Counter(model.operations).most_common())
    ports = [("input", each) for each in model.inputs] + [("output", each) for each in model.outputs]
    bars = [
        Bar(one.measurement.device, one.measurement.median_ns / 1e6, milliseconds(one.measurement.median_ns))
        for one in model.devices
    ]
    rows = [
        (
            one.measurement.device,
            milliseconds(one.measurement.median_ns),
            milliseconds(one.measurement.min_ns),
            milliseconds(one.measurement.p90_ns),
            milliseconds(one.measurement.hardware_ns),
            _speed(model, one),
        )
        for one in model.devices
    ]
    columns = ["device", "median ms", "least ms", "90 % ms", "hardware ms", f"speed ({reference} = 1)"]
    return {
        "key": f"model-{number}",
        "title": model.title,
        "description": f"{megabytes(model.nbytes)} MB, {plural(len(model.operations), 'operation')}: {counts}.",
        "ports": Table(f"ports-{number}", "Inputs and outputs", ["kind", "name, type and shape"], ports),
        "latency": _figure(Chart("Latency, the median", "milliseconds", bars)) if bars else None,
        "times": Table(f"times-{number}", "Latency", columns, rows, numbers=range(1, 6)),
        "devices": [_on_device(f"{number}-{place}", one) for place, one in enumerate(model.devices)],
    }


def _on_device(key: str, one: OnDevice) -> Mapping[str, Any]:
    rows = [("operations", f"{count} on {name}") for name, count in one.placement.items()]
    rows += [("memory", f"{kind} {megabytes(nbytes)} MB") for kind, nbytes in one.memory.items()]
    layers = one.profile.by_layer()
    bars = [Bar(_layer(layer), time / 1e6, f"{share:.1%}") for layer, time, share in layers[:_MOST_BARS]]
    by_layer = [(_layer(layer), milliseconds(time), f"{share:.1%}") for layer, time, share in layers]
    columns = ["layer", "ms", "share"]
    title = "Time by layer" if len(layers) <= _MOST_BARS else f"Time by layer, the {_MOST_BARS} slowest"
    return {
        "name": one.measurement.device,
        "placement": Table(f"placement-{key}", "Placement and memory", ["kind", "amount"], rows),
        "layers_chart": _figure(Chart(title, "milliseconds", bars)),
        "layers": Table(f"layers-{key}", "Time by layer", columns, by_layer, numbers=(1, 2)),
        "tables": list(_times(key, one.profile)),
        **_differences(key, one.comparison),
    }


def _times(key: str, profile: Profile) -> Iterator[Table]:
    by_operation: Counter[str] = Counter()
    for part in profile.parts:
        by_operation[part.operation] += part.mean_ns
    total = sum(by_operation.values()) or 1
    rows = [(name, milliseconds(time), f"{time / total:.1%}") for name, time in by_operation.most_common()]
    yield Table(f"operations-{key}", "Time by operation", ["operation", "ms", "share"], rows, numbers=(1, 2))
    if len(profile.partitions) > 1:
        partitions = [
            (
                str(place),
                partition.device,
                str(len(partition.operations)),
                milliseconds(partition.mean_ns),
                f"{partition.share:.1%}",
            )
            for place, partition in enumerate(profile.partitions)
        ]
        columns = ["partition", "device", "operations", "ms", "share"]
        title = "Partitions, by the host's clock"
        yield Table(f"partitions-{key}", title, columns, partitions, numbers=(0, 2, 3, 4))


def _differences(key: str, comparison: Comparison | None) -> Mapping[str, Any]:
    if comparison is None:
        return {"differences": None}
    outputs = [(f"output {each.output}", *_numbers(each)) for each in comparison.outputs]
    inside = [(f"{each.number} {each.operation}", *_numbers(each)) for each in comparison.inside]
    columns = ["result", "layer", "output", "largest", "of range", "tolerated", "steps"]
    title = f"Differences from {comparison.reference}"
    begins = comparison.begins
    chart = differences_chart(f"{title}, operation by operation", comparison, _MOST_BARS)
    return {
        "begins": begins
        and printable(
            f"Differences begin at operation {begins.number}, {begins.operation} ({_layer(begins.layer)}).", 2 * LONGEST
        ),
        "differences_chart": _figure(chart),
        "differences": Table(f"inside-{key}", f"{title}, all operations", columns, inside, numbers=(3, 4, 5, 6)),
        "outputs": Table(f"outputs-{key}", f"{title}, outputs", columns, outputs, numbers=(3, 4, 5, 6)),
    }


def _numbers(difference: Difference) -> tuple[Cell, ...]:
    largest = f"{difference.largest:.3g}"
    return (
        _layer(difference.layer) if difference.layer else "",
        dimensions(difference.dimensions, unknown=0),
        Marked(largest, is_off=True) if difference.is_off else largest,
        f"{difference.of_range:.2g}",
        f"{difference.tolerated:.2g}",
        "" if difference.steps is None else str(difference.steps),
    )


def _layer(layer: Source | None) -> str:
    return "(none)" if layer is None else f"{layer.operator} {layer.name}"


def _figure(chart: Chart) -> Mapping[str, Any]:
    return {"chart": chart, "svg": markup(inline_svg(chart))}
