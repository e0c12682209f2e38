"""The table of ``nnvk bench --profile``: where a model's time goes, by operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from nnvk.api import Compilation
from nnvk.api import run as run_compilation
from nnvk.base import tracing
from nnvk.cli.output import milliseconds, print_table

PARTS = ("gpu", "cpuexe")
"""Categories of spans that are the work on an operation."""


def print_profile(title: str, compilation: Compilation, inputs: Sequence[np.ndarray], runs: int) -> None:
    """Execute ``runs`` times with every dispatch timed, and print the mean time of each."""
    run_compilation(compilation, inputs)
    with tracing.record() as trace:
        for _ in range(runs):
            run_compilation(compilation, inputs)
    spent: Counter[tuple[int, str, str]] = Counter()
    for span in trace.spans:
        if span.category in PARTS:
            spent[span.details.get("operation", -1), span.name, span.lane if span.category == "gpu" else "cpu"] += (
                span.duration_ns
            )
    total = sum(spent.values()) or 1
    rows = [
        ["" if number < 0 else str(number), name, lane, milliseconds(time // runs), f"{100 * time / total:.1f}"]
        for (number, name, lane), time in sorted(spent.items(), key=lambda row: -row[1])
    ]
    columns = ["#", "dispatch", "device", "mean ms", "%"]
    print_table(columns, rows, title=f"{title}: {milliseconds(total // runs)} ms of work", right="# mean_ms %")
