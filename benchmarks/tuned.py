"""Compare whole models with the strategies of the cost model and with those of tuning, in turns.

    python benchmarks/tuned.py FOLDER_OR_MODEL ... [--device NAME] [--seconds S] [--save]

Models are found as in `models.py`. Each model is tuned for a device without earlier measurements, and the results are
not kept. On a device that is the CPU itself, the script compares CPU time, because other load on the machine hardly
affects it. On other devices it compares the time from inputs to outputs.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from engines import NnvkModel, random_input
from harness import Effort, Section, Table, Times, device_of, driver_of, effort_of, options, report
from models import arrays, parse_with_models

import nnvk
from nnvk.base.settings import override
from nnvk.base.text import milliseconds
from nnvk.cli.output import progress
from nnvk.driver.vulkan import find_devices
from nnvk.importers import tflite

UNTUNED, TUNED = "untuned", "tuned"
TURN_SECONDS = 0.15
"""The seconds of a turn: CPU time is counted in ticks of some milliseconds."""
MOST_UNTUNED = 1.15
"""The limit of the time of unmeasured strategies, relative to the measured ones."""
MOST_TUNED = 1.05
"""The limit of the time of measured strategies, relative to the unmeasured ones: noise."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One model."""

    times: Mapping[str, Times]
    tuning_ns: int
    changed: int
    """Operations that are computed in another way than without measuring."""
    choices: int
    """Operations with a choice."""

    @property
    def untuned(self) -> float:
        """The time without measuring over that with: what is in the middle, turn by turn."""
        return float(np.median(self.times[UNTUNED].runs / np.maximum(self.times[TUNED].runs, 1.0)))


def measure(path: Path, device: nnvk.Device, effort: Effort) -> Measured:
    """One model, untuned and tuned."""
    imported = tflite.load(path)
    inputs = arrays(path.with_name("input.npz")) or [random_input(port.type) for port in imported.inputs]
    encoded = [port.encode(array) for port, array in zip(imported.inputs, inputs, strict=True)]
    with override(cache_dir="0"):
        devices, _ = find_devices()
    ignorant = nnvk.Device(next(each for each in devices if each.name == device.name))
    models: dict[str, NnvkModel] = {}
    ways: dict[str, list[str]] = {}
    for name, preference in (
        (UNTUNED, nnvk.PreferenceCode.FAST_SINGLE_ANSWER),
        (TUNED, nnvk.PreferenceCode.SUSTAINED_SPEED),
    ):
        models[name] = NnvkModel(imported.model, ignorant, encoded, preference)
        described = driver_of(ignorant).describe_operations(imported.model.frozen)
        ways[name] = [re.sub(r" \((measured|by its cost)\)", "", each) for each in described]
    clock = time.process_time_ns if driver_of(ignorant).profile.is_cpu else time.perf_counter_ns
    times = in_turns({name: model.run for name, model in models.items()}, effort, clock)
    changed = sum(before != after for before, after in zip(*ways.values(), strict=True))
    return Measured(times, models[TUNED].prepare_ns, changed, sum(map(bool, ways[UNTUNED])))


def in_turns(
    contenders: Mapping[str, Callable[[], object]], effort: Effort, clock: Callable[[], int]
) -> dict[str, Times]:
    """Time contenders in turns, by a clock that is only good for many runs together: a time for each turn."""
    turns: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    began = time.perf_counter()
    while min(map(len, turns.values())) < effort.most:
        for name, run in contenders.items():
            run()  # finds the caches full of another's data
            runs, start = 0, clock()
            while not runs or clock() - start < effort.turn_seconds * 1e9:
                run()
                runs += 1
            turns[name].append((clock() - start) / runs)
        enough = time.perf_counter() - began >= effort.seconds * len(contenders)
        if enough and min(map(len, turns.values())) >= effort.least:
            break
    return {name: Times(np.array(values)) for name, values in turns.items()}


def table(results: Mapping[str, Measured], device: nnvk.Device) -> Table:
    """Times, ratios, and how much was changed."""
    rows = [
        [
            model,
            *(milliseconds(one.times[name].median) for name in (UNTUNED, TUNED)),
            *(milliseconds(one.times[name].minimum) for name in (UNTUNED, TUNED)),
            f"{one.untuned:.2f}",
            f"{one.changed} of {one.choices}",
            f"{one.tuning_ns / 1e9:.1f}",
        ]
        for model, one in results.items()
    ]
    what = "Processor time" if driver_of(device).profile.is_cpu else "Time from inputs to outputs"
    return Table(
        f"{what} in ms, untuned and tuned",
        ["model", UNTUNED, TUNED, "untuned min", "tuned min", "untuned / tuned", "changed", "tuning in s"],
        rows,
        note="Medians of turns, minima, and the median of the ratios turn by turn. Changed: operations that are "
        "computed in another way, of those with a choice; with none what differs is noise. At most "
        f"{MOST_UNTUNED} is wanted, and tuning shall make nothing slower.",
    )


def failures(results: Mapping[str, Measured]) -> list[str]:
    """The limits that are not kept."""
    return [
        f"{model}: untuned takes {one.untuned:.2f} of the tuned time"
        for model, one in results.items()
        if one.changed and not 1 / MOST_TUNED <= one.untuned <= MOST_UNTUNED
    ]


def figures(results: Mapping[str, Measured]) -> dict[str, Any]:
    """The numbers."""
    return {
        model: {**{name: times.figures() for name, times in one.times.items()}, "changed": one.changed}
        for model, one in results.items()
    }


def main() -> int:
    """Measure the models of the command line."""
    parser = options("Whole models by strategies that were not measured, beside those that were.")
    arguments, models = parse_with_models(parser)
    device = device_of(arguments)
    effort = effort_of(arguments, Effort(seconds=3.0, least=5, turn_seconds=TURN_SECONDS))
    results = {}
    with progress("Measuring", len(models)) as advance:
        for name, path in models:
            results[name] = measure(path, device, effort)
            advance(name)
    found = Section(
        "tuned", "Strategies, untuned and tuned", [table(results, device)], figures(results), failures(results)
    )
    return report(found, device, arguments)


if __name__ == "__main__":
    sys.exit(main())
