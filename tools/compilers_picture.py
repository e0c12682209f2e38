"""Draw a picture of the instructions that compilers of GPUs make, from ``benchmarks/results/compilers.md``.

``python tools/compilers_picture.py docs/images/compilers.svg`` draws, for each device and network of the tables whose
columns are ``now`` and ``ncnn``, the instructions for each multiply-add of nnvk and of ncnn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nnvk.insight.drawing import Bar, Chart, save

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results" / "compilers.md"
TITLE = "Compilers of Mesa 25.0.7, without the GPUs"
AXIS = "instructions for each multiply-add in convolutions; less is better"


def rows(text: str) -> list[dict[str, str]]:
    """The rows of tables with columns ``device``, ``network``, ``now`` and ``ncnn``, by the names of columns.

    The last one counts if there are several rows for a network on a device.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    columns: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            columns = []
        elif {"device", "network", "now", "ncnn"} <= set(cells):
            columns = cells
        elif columns and not cells[0].startswith("---"):
            # The first column of a name counts: later ones are of all dispatches.
            row = dict(reversed(list(zip(columns, cells, strict=True))))
            found[row["device"], row["network"]] = row
    return list(found.values())


def picture(text: str) -> Chart:
    """The chart of the table, without rows for which ncnn's number is not known."""
    bars = []
    for row in rows(text):
        if row["ncnn"]:
            name = f"{row['device']}, {row['network']}"
            bars.append(Bar(name, float(row["now"]), f"{row['now']} nnvk"))
            bars.append(Bar("", float(row["ncnn"]), f"{row['ncnn']} ncnn", is_other=True))
    return Chart(TITLE, AXIS, bars)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the .svg or .png to write")
    save(picture(RESULTS.read_text(encoding="utf-8")), parser.parse_args().out)


if __name__ == "__main__":
    main()
