"""The parts of ``nnvk demo``: list the devices, classify the pictures, report, draw the contact sheet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import nnvk
from nnvk.base.text import dimensions
from nnvk.demo.assets import MODELS, Picture, labels, pictures
from nnvk.demo.classify import Result, classify
from nnvk.demo.sheet import Cell, Guess, draw_sheet

LEAST_ACCURACY = 0.9
"""Below this share of right answers a device computes something else than the network."""


class PrintTable(Protocol):
    """A function that shows a table, as the command line does."""

    def __call__(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", right: str = ""
    ) -> None:
        """Print rows in columns; those whose names are in ``right``, with "_" for " ", are aligned right."""


@dataclass(frozen=True, slots=True)
class Demo:
    """The results of a demo."""

    device: nnvk.Device
    pictures: Sequence[Picture]
    results: Sequence[Result]

    @property
    def is_right(self) -> bool:
        """Whether both models recognise at least `LEAST_ACCURACY` of the digits."""
        return all(accuracy(result, self.pictures) >= LEAST_ACCURACY for result in self.results)

    def figures(self) -> dict[str, Any]:
        """Each model's accuracy, its times in nanoseconds, and where it ran, for programs."""
        return {
            "device": self.device.name,
            "models": [
                {
                    "model": result.model.title,
                    "pictures": len(self.pictures),
                    "right": _right(result, self.pictures),
                    "compile_ns": round(result.compile_ms * 1e6),
                    "median_ns": round(result.median_ms * 1e6),
                    "min_ns": round(result.fastest_ms * 1e6),
                    "operations": [
                        {"operation": one.operation, "dimensions": list(one.shape), "device": one.device}
                        for one in result.placements
                    ],
                }
                for result in self.results
            ],
        }

    def show(self, print_table: PrintTable, print_line: Callable[[str], object]) -> None:
        """Print the accuracy first, then devices, times, and where each operation ran."""
        for result in self.results:
            print_line(_summary(result, self.pictures))
        _print_devices(print_table, self.device)
        for reason in nnvk.unavailable():
            print_line(f"not available: {reason}")
        _print_results(print_table, self.results, self.pictures, self.device)
        _print_operations(print_table, self.results)
        for picture, wrong in _mistakes(self.results, self.pictures):
            print_line(f"digit {picture.place} is {labels()[picture.label]}: {wrong}")


def run_demo(output: Path, device: str | None) -> Demo:
    """Run the demo on one device and write the contact sheet, a PNG, to ``output``.

    ``device`` is the device's name; None takes the device that nnvk prefers, a GPU where there is one.
    Raises `nnvk.NnapiError`: BAD_DATA where no device has the name.
    """
    chosen = nnvk.get_devices()[0] if device is None else nnvk.get_device(device)
    shipped = pictures()
    demo = Demo(chosen, shipped, [classify(model, chosen, shipped) for model in MODELS])
    lines = [chosen.version, *(_summary(result, shipped) for result in demo.results)]
    sheet = draw_sheet(f"Handwritten digits on {chosen.name}", lines, _cells(demo.results, shipped))
    sheet.save(output, "PNG")
    return demo


def accuracy(result: Result, shipped: Sequence[Picture]) -> float:
    """The share of right answers, in [0, 1]."""
    return _right(result, shipped) / len(shipped)


def _right(result: Result, shipped: Sequence[Picture]) -> int:
    return int(np.sum(result.answers == [picture.label for picture in shipped]))


def _print_devices(print_table: PrintTable, chosen: nnvk.Device) -> None:
    rows = [
        ["*" if device.name == chosen.name else "", device.name, device.type.name, device.version]
        for device in nnvk.get_devices()
    ]
    print_table(["", "device", "type", "version"], rows, title="Devices")


def _print_results(
    print_table: PrintTable, results: Sequence[Result], shipped: Sequence[Picture], device: nnvk.Device
) -> None:
    rows = [
        [
            result.model.title,
            f"{_right(result, shipped)} ({accuracy(result, shipped):.1%})",
            f"{result.compile_ms:.0f}",
            f"{result.median_ms:.3f}",
            f"{result.fastest_ms:.3f}",
        ]
        for result in results
    ]
    numbers = ["right", "compile ms", "median ms", "min ms"]
    title = f"{len(shipped)} held-out digits on {device.name}"
    print_table(["model", *numbers], rows, title=title, right="right compile_ms median_ms min_ms")


def _print_operations(print_table: PrintTable, results: Sequence[Result]) -> None:
    rows = [
        [placed[0].operation, dimensions(placed[0].shape, unknown=0), *(one.device for one in placed)]
        for placed in zip(*(result.placements for result in results), strict=True)
    ]
    columns = ["operation", "output", *(result.model.title for result in results)]
    print_table(columns, rows, title="Where each operation ran")


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
