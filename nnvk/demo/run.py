"""What ``nnvk demo`` does: list the devices, classify the pictures, report, draw the contact sheet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import nnvk
from nnvk.demo.assets import MODELS, Picture, labels, pictures
from nnvk.demo.classify import Result, classify
from nnvk.demo.sheet import Cell, Guess, draw_sheet

LEAST_ACCURACY = 0.9
"""Below this share of right answers a device computes something else than the network."""


def run_demo(output: Path, device: str | None, console: Console) -> int:
    """Run the demo on one device and write the contact sheet, a PNG, to ``output``.

    ``device`` is a part of the device's name or version, in any case; None takes the device that nnvk prefers,
    a GPU where there is one. Returns the process's exit status: 0 where both models recognise at least
    `LEAST_ACCURACY` of the digits, otherwise 1. Raises `nnvk.NnapiError`: BAD_DATA where no device has the name.
    """
    devices = nnvk.get_devices()
    chosen = choose_device(devices, device)
    console.print(_devices_table(devices, chosen))
    for reason in nnvk.unavailable():
        console.print(f"not available: {reason}", markup=False)

    shipped = pictures()
    results = [classify(model, chosen, shipped) for model in MODELS]
    console.print(_results_table(results, shipped, chosen))
    console.print(_operations_table(results))
    for picture, wrong in _mistakes(results, shipped):
        console.print(f"digit {picture.place} is {labels()[picture.label]}: {wrong}")

    lines = [chosen.version, *(_summary(result, shipped) for result in results)]
    draw_sheet(f"Handwritten digits on {chosen.name}", lines, _cells(results, shipped)).save(output)
    console.print(f"contact sheet: {output}")
    return 0 if all(accuracy(result, shipped) >= LEAST_ACCURACY for result in results) else 1


def choose_device(devices: Sequence[nnvk.Device], name: str | None) -> nnvk.Device:
    """The device that ``name`` means: its name, or a part of its name or version; None means the first."""
    if name is None:
        return devices[0]
    similar = [device for device in devices if name.lower() in f"{device.name} {device.version}".lower()]
    exact = [device for device in similar if device.name == name]
    # get_device of an unknown name raises an error that says which there are.
    return next(iter(exact or similar), None) or nnvk.get_device(name)


def accuracy(result: Result, shipped: Sequence[Picture]) -> float:
    """The share of right answers, in [0, 1]."""
    return _right(result, shipped) / len(shipped)


def _right(result: Result, shipped: Sequence[Picture]) -> int:
    return int(np.sum(result.answers == [picture.label for picture in shipped]))


def _devices_table(devices: Sequence[nnvk.Device], chosen: nnvk.Device) -> Table:
    table = Table("", "device", "type", "version", title="Devices", title_justify="left")
    for device in devices:
        mark = "*" if device is chosen else ""
        table.add_row(mark, device.name, device.type.name, device.version)
    return table


def _results_table(results: Sequence[Result], shipped: Sequence[Picture], device: nnvk.Device) -> Table:
    title = f"{len(shipped)} held-out digits on {device.name}"
    table = Table("model", "right", "compiled in", "latency", "fastest", title=title, title_justify="left")
    for result in results:
        table.add_row(
            result.model.title,
            f"{_right(result, shipped)} ({accuracy(result, shipped):.1%})",
            f"{result.compile_ms:.0f} ms",
            f"{result.median_ms:.3f} ms",
            f"{result.fastest_ms:.3f} ms",
        )
    return table


def _operations_table(results: Sequence[Result]) -> Table:
    table = Table("operation", "output", title="Where each operation ran", title_justify="left")
    for result in results:
        table.add_column(result.model.title)
    for rows in zip(*(result.placements for result in results), strict=True):
        shape = "x".join(str(size) for size in rows[0].shape)
        table.add_row(rows[0].operation, shape, *(row.device for row in rows))
    return table


def _mistakes(results: Sequence[Result], shipped: Sequence[Picture]) -> list[tuple[Picture, str]]:
    """The pictures that a model took for another digit, and what it said."""
    found = []
    for index, picture in enumerate(shipped):
        wrong = [
            f"{result.model.title} says {labels()[result.answers[index]]}"
            for result in results
            if result.answers[index] != picture.label
        ]
        if wrong:
            found.append((picture, ", ".join(wrong)))
    return found


def _summary(result: Result, shipped: Sequence[Picture]) -> str:
    title, count = result.model.title, len(shipped)
    return f"{title}: {_right(result, shipped)} of {count} right, {result.median_ms:.2f} ms a picture (median)"


def _cells(results: Sequence[Result], shipped: Sequence[Picture]) -> list[Cell]:
    """The sheet's cells in reading order, with a column for every digit."""
    cells = [
        Cell(
            picture.pixels,
            picture.label,
            tuple(
                Guess(result.model.title, int(result.answers[index]), float(result.probabilities[index].max()))
                for result in results
            ),
        )
        for index, picture in enumerate(shipped)
    ]
    columns = [list(group) for _, group in groupby(cells, key=lambda cell: cell.label)]
    return [cell for row in zip(*columns, strict=True) for cell in row]
