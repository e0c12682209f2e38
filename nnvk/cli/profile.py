"""``nnvk bench --profile``: where a model's time goes, printed."""

from __future__ import annotations

from collections.abc import Sequence

from nnvk.base.text import dimensions, milliseconds, plural
from nnvk.cli.lines import print_line
from nnvk.cli.output import print_table
from nnvk.importers.graph_builder import Source
from nnvk.insight.profiling import Part, Profile

LONGEST_LAYER = 24
"""Characters of a layer's name, whose end says more than its beginning."""


def print_profiles(profiles: Sequence[Profile]) -> None:
    """Tables for each, below one line that says what they are of."""
    for profile in profiles:
        about = f"{profile.model} on {profile.device}"
        print_line(f"{about}: {milliseconds(profile.mean_ns)} ms of work, the mean of {plural(profile.runs, 'run')}")
        _print_parts(profile.parts)
        if len(profile.partitions) > 1:
            rows = [
                [
                    str(place),
                    partition.device,
                    str(len(partition.operations)),
                    milliseconds(partition.mean_ns),
                    f"{partition.share:.1%}",
                ]
                for place, partition in enumerate(profile.partitions)
            ]
            columns = ["partition", "device", "ops", "ms", "share"]
            print_table(columns, rows, title="Partitions, by the host's clock", right="partition ops ms share")


def layer_name(layer: Source | None) -> str:
    """The end of a layer's name; empty where there is none."""
    name = "" if layer is None else layer.name
    return name if len(name) <= LONGEST_LAYER else f"..{name[2 - LONGEST_LAYER :]}"


def _print_parts(parts: Sequence[Part]) -> None:
    has_partitions, has_devices = len({part.partition for part in parts}) > 1, len({part.device for part in parts}) > 1
    rows = [
        [
            "" if part.number is None else str(part.number),
            part.operation,
            layer_name(part.layer),
            dimensions(part.dimensions, unknown=0) if part.number is not None else "",
            part.shader,
            str(part.partition) if has_partitions else "",
            part.device if has_devices else "",
            milliseconds(part.mean_ns),
            f"{part.share:.1%}",
        ]
        for part in parts
    ]
    columns = ["#", "operation", "layer", "output", "shader", "partition", "device", "ms", "share"]
    print_table(columns, rows, right="# partition ms share", optional="layer shader partition device")
