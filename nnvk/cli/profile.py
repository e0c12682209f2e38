"""``nnvk bench --profile``: where a model's time goes, by operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.api import Compilation, Device
from nnvk.api import run as run_compilation
from nnvk.base import tracing
from nnvk.base.text import dimensions
from nnvk.cli.limits import Limits
from nnvk.cli.lines import print_line
from nnvk.cli.output import milliseconds, print_table

PARTS = ("gpu", "cpuexe")
"""Categories of spans that are the work on an operation."""


@dataclass(frozen=True, slots=True)
class Part:
    """What some of the time went to: a shader of an operation, or an operation of the CPU device."""

    number: int | None
    """The position of the operation in the part of the model that the device runs."""
    operation: str
    dimensions: tuple[int, ...]
    """Of the operation's first output."""
    shader: str
    """Empty on the CPU."""
    device: str
    mean_ns: int
    share: float
    """Of the time of all parts, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a model goes on a device."""

    model: str
    device: str
    runs: int
    mean_ns: int
    """Work on operations in one execution."""
    parts: tuple[Part, ...]
    """Those that take longest first."""


def take_profile(
    title: str, device: Device, compilation: Compilation, inputs: Sequence[np.ndarray], limits: Limits
) -> Profile:
    """Execute with every dispatch timed."""
    run_compilation(compilation, inputs)
    with tracing.record() as trace:
        runs = len(limits.repeat(lambda: run_compilation(compilation, inputs)))
    cpus = {step.device.name for step in compilation.steps} - {span.lane for span in trace.spans}
    spent: Counter[tuple[int | None, str, tuple[int, ...], str, str]] = Counter()
    for span in trace.spans:
        if span.category not in PARTS:
            continue
        operation = span.details.get("code", span.name)
        on_gpu = span.category == "gpu"
        shader, place = (span.name, span.lane) if on_gpu else ("", ", ".join(sorted(cpus)) or "cpu")
        key = span.details.get("operation"), operation, tuple(span.details.get("dimensions", ())), shader, place
        spent[key] += span.duration_ns
    total = sum(spent.values()) or 1
    parts = tuple(
        Part(*key, time // runs, time / total) for key, time in sorted(spent.items(), key=lambda item: -item[1])
    )
    return Profile(title, device.name, runs, total // runs, parts)


def print_profiles(profiles: Sequence[Profile]) -> None:
    """A table for each, below one line that says what it is of."""
    for profile in profiles:
        about = f"{profile.model} on {profile.device}"
        print_line(f"{about}: {milliseconds(profile.mean_ns)} ms of work, the mean of {profile.runs} runs")
        rows = [
            [
                "" if part.number is None else str(part.number),
                part.operation,
                dimensions(part.dimensions) if part.number is not None else "",
                part.shader,
                part.device,
                milliseconds(part.mean_ns),
                f"{part.share:.1%}",
            ]
            for part in profile.parts
        ]
        places = {part.device for part in profile.parts}
        columns = ["#", "operation", "output", "shader", "device", "ms", "share"]
        left_out = {"device"} if len(places) == 1 else set()
        if not any(part.shader for part in profile.parts):
            left_out.add("shader")
        kept = [index for index, column in enumerate(columns) if column not in left_out]
        cut = [[row[index] for index in kept] for row in rows]
        print_table([columns[index] for index in kept], cut, right="# ms share")
