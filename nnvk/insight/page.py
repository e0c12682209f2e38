"""A report as one HTML file: tables and charts, nothing from elsewhere, no script, readable light and dark.

It is a tree of elements until it is written, so that names out of files, which may hold anything, are only ever text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, tostring

from nnvk import __version__
from nnvk.api import Device
from nnvk.base.text import dimensions, megabytes, milliseconds, plural, printable
from nnvk.importers.graph_builder import Source
from nnvk.insight.comparison import Comparison, Difference
from nnvk.insight.drawing import Bar, Chart
from nnvk.insight.profiling import Profile
from nnvk.insight.report import ModelReport, OnDevice

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem;
  background: light-dark(#ffffff, #16181c); color: light-dark(#1b1d21, #e4e6ea); }
h1, h2, h3 { line-height: 1.2; margin: 1.6em 0 .5em; }
h1, h2, h3, p { overflow-wrap: anywhere; }
a { color: light-dark(#1a5a96, #8ab8e6); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0 1.2rem; font-size: 13.5px; }
caption { text-align: left; font-weight: 600; padding: .2rem 0; }
th, td { text-align: left; padding: .22rem .8rem .22rem 0; vertical-align: top;
  border-bottom: 1px solid light-dark(#dddfe3, #33373e); overflow-wrap: anywhere; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.off { color: light-dark(#b3261e, #ff8a80); font-weight: 600; }
details { margin: .4rem 0; }
summary { cursor: pointer; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_LONGEST = 120
"""Characters of a name."""
_LONGEST_REASON = 1000
_MOST_BARS = 40
"""The most bars of a chart; tables have all rows."""
_LEAST_SHARE = 1e-9
"""The part of the range at which charts of differences begin."""

Cell = str | Element


def page(devices: Sequence[Device], models: Sequence[ModelReport], failures: Sequence[tuple[str, str]]) -> str:
    """The file's text. ``failures`` are names of models, with devices perhaps, and what was wrong."""
    body = _tag("body", _tag("h1", "nnvk report"), _tag("p", f"nnvk {__version__}, {plural(len(models), 'model')}"))
    body.append(_devices(devices))
    if models:
        body.append(_summary(models))
    if failures:
        body.append(_table("failures", "What could not be done", ["what", "why"], failures, longest=_LONGEST_REASON))
    for number, model in enumerate(models):
        body.extend(_model(number, model))
    head = _tag(
        "head",
        _tag("meta", charset="utf-8"),
        _tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        _tag("meta", content=_POLICY, **{"http-equiv": "Content-Security-Policy"}),
        _tag("title", "nnvk report"),
        _tag("style", _STYLE),
    )
    text = tostring(_tag("html", head, body, lang="en"), encoding="unicode", method="html")
    return f"<!DOCTYPE html>\n{text}\n"


def _devices(devices: Sequence[Device]) -> Element:
    rows = [(device.name, device.type.name, device.version) for device in devices]
    return _table("devices", "Devices", ["device", "type", "driver and version"], rows)


def _summary(models: Sequence[ModelReport]) -> Element:
    columns = [
        "model",
        "device",
        "ops on it",
        "partitions",
        "compile ms",
        "median ms",
        "90 % ms",
        "MB",
        "of range",
        "agrees",
    ]
    rows = [
        (
            _tag("a", printable(model.title, _LONGEST), href=f"#model-{number}"),
            one.measurement.device,
            f"{one.measurement.operations_on_device}/{one.measurement.operations}",
            str(one.partitions),
            milliseconds(one.measurement.compile_ns),
            milliseconds(one.measurement.median_ns),
            milliseconds(one.measurement.p90_ns),
            megabytes(sum(one.memory.values())) if one.memory else "-",
            *_agreement(one.comparison),
        )
        for number, model in enumerate(models)
        for one in model.devices
    ]
    return _table("summary", "All models", columns, rows, numbers=range(2, 9))


def _agreement(comparison: Comparison | None) -> tuple[str, Cell]:
    """The largest difference of an output, and whether everything is within the tolerance."""
    if comparison is None:
        return "-", "reference"
    worst = max((each.of_range for each in comparison.outputs), default=0.0)
    return f"{worst:.2g}", _tag("span", "no", **{"class": "off"}) if comparison.is_off else "yes"


def _model(number: int, model: ModelReport) -> Iterator[Element]:
    title = printable(model.title, _LONGEST)
    yield _tag("h2", title, id=f"model-{number}")
    counts = ", ".join(f"{name} {count}" for name, count in Counter(model.operations).most_common())
    yield _tag("p", f"{megabytes(model.nbytes)} MB, {plural(len(model.operations), 'operation')}: {counts}.")
    ports = [("input", each) for each in model.inputs] + [("output", each) for each in model.outputs]
    yield _table(f"ports-{number}", "Inputs and outputs", ["which", "name and type"], ports)
    bars = [
        Bar(one.measurement.device, one.measurement.median_ns, f"{milliseconds(one.measurement.median_ns)} ms")
        for one in model.devices
    ]
    if bars:
        yield _figure(Chart("Latency, the median", bars))
    for place, one in enumerate(model.devices):
        yield from _on_device(f"{number}-{place}", one)


def _on_device(key: str, one: OnDevice) -> Iterator[Element]:
    yield _tag("h3", f"On {one.measurement.device}")
    rows = [("operations", ", ".join(f"{count} on {name}" for name, count in one.placement.items()))]
    rows += [("memory", f"{kind} {megabytes(nbytes)} MB") for kind, nbytes in one.memory.items()]
    yield _table(f"placement-{key}", "Placement and memory", ["what", "how much"], rows)
    yield from _times(key, one.profile)
    if one.comparison is not None:
        yield from _accuracy(key, one.comparison)


def _times(key: str, profile: Profile) -> Iterator[Element]:
    layers = profile.by_layer()
    bars = [Bar(_layer(layer), time, f"{share:.1%}") for layer, time, share in layers[:_MOST_BARS]]
    yield _figure(Chart("Time by layer", bars))
    by_operation: Counter[str] = Counter()
    for part in profile.parts:
        by_operation[part.operation] += part.mean_ns
    total = sum(by_operation.values()) or 1
    rows = [(name, milliseconds(time), f"{time / total:.1%}") for name, time in by_operation.most_common()]
    columns = ["operation", "ms", "share"]
    yield _table(f"operations-{key}", "Time by operation", columns, rows, numbers=(1, 2))
    rows = [(_layer(layer), milliseconds(time), f"{share:.1%}") for layer, time, share in layers]
    table = _table(f"layers-{key}", "Time by layer", ["layer", "ms", "share"], rows, numbers=(1, 2))
    yield _tag("details", _tag("summary", plural(len(layers), "layer")), table)
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
        columns = ["partition", "device", "ops", "ms", "share"]
        yield _table(f"partitions-{key}", "Partitions, by the host's clock", columns, partitions, numbers=(0, 2, 3, 4))


def _accuracy(key: str, comparison: Comparison) -> Iterator[Element]:
    kinds = {True: "off", False: "plain"}
    bars = [
        Bar(f"{each.number} {each.operation}", each.of_range, f"{each.of_range:.2g}", kinds[each.is_off])
        for each in comparison.inside[:_MOST_BARS]
    ]
    yield _figure(Chart(f"Largest difference from {comparison.reference}, share of the range", bars, _LEAST_SHARE))
    begins = comparison.begins
    if begins is not None:
        said = f"Differences begin at operation {begins.number}, {begins.operation} ({_layer(begins.layer)})."
        yield _tag("p", printable(said, 2 * _LONGEST), **{"class": "off"})
    outputs = [(f"output {each.output}", *_numbers(each)) for each in comparison.outputs]
    inside = [(f"{each.number} {each.operation}", *_numbers(each)) for each in comparison.inside]
    columns = ["what", "layer", "output", "largest", "of range", "steps"]
    title = f"Differences from {comparison.reference}"
    yield _table(f"outputs-{key}", title, columns, outputs, numbers=(3, 4, 5))
    table = _table(f"inside-{key}", "Of all operations", columns, inside, numbers=(3, 4, 5))
    yield _tag("details", _tag("summary", f"{plural(len(inside), 'result')} inside"), table)


def _numbers(difference: Difference) -> tuple[Cell, ...]:
    largest = f"{difference.largest:.3g}"
    return (
        _layer(difference.layer) if difference.layer else "",
        dimensions(difference.dimensions),
        _tag("span", largest, **{"class": "off"}) if difference.is_off else largest,
        f"{difference.of_range:.2g}",
        "" if difference.steps is None else str(difference.steps),
    )


def _layer(layer: Source | None) -> str:
    return "(none)" if layer is None else f"{layer.operator} {layer.name}"


# --- elements ---------------------------------------------------------------------------------------------------------


def _tag(tag: str, *children: Cell, **attributes: str) -> Element:
    """An element whose children are text, in which what is not seen is escaped, and elements."""
    element = Element(tag, attributes)
    for child in children:
        if isinstance(child, Element):
            element.append(child)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + child
        else:
            element.text = (element.text or "") + child
    return element


def _table(
    key: str,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    numbers: Sequence[int] = (),
    longest: int = _LONGEST,
) -> Element:
    def cell(tag: str, place: int, content: Cell) -> Element:
        shown = printable(content, longest) if isinstance(content, str) else content
        return _tag(tag, shown, **({"class": "n"} if place in numbers else {}))

    head = _tag("tr", *(cell("th", place, name) for place, name in enumerate(columns)))
    body = [_tag("tr", *(cell("td", place, content) for place, content in enumerate(row))) for row in rows]
    table = _tag("table", _tag("caption", title), _tag("thead", head), _tag("tbody", *body), id=key)
    return _tag("div", table, **{"class": "wide"})


def _figure(chart: Chart) -> Element:
    return _tag("div", chart.svg(), **{"class": "wide"})
