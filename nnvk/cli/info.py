"""``nnvk info``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from nnvk.api import Device, Model, get_devices
from nnvk.cli.lines import print_line
from nnvk.cli.models import compile_model, device_of_operations, find_device, load_model
from nnvk.cli.output import check_writable, plural, print_table, working, writing
from nnvk.importers.tflite import Port
from nnvk.runtime.graphviz import to_dot


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.")],
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Say what this device supports, without fallback."),
    ] = None,
    dot: Annotated[
        Path | None,
        typer.Option("--dot", metavar="FILE", help="Write the model as a Graphviz graph, coloured by device."),
    ] = None,
) -> None:
    """Show what a model consists of, and where each part would run.

    Prints inputs, outputs and operations; for each operation its device, and why it is no other one. Without
    --device the operations are shared out as `nnvk run` does it.
    """
    check_writable(dot)
    devices = get_devices() if device is None else [find_device(device)]
    imported = load_model(model)
    _print_ports("Inputs", imported.inputs)
    _print_ports("Outputs", imported.outputs)
    if imported.states:
        _print_ports("States, zero at first", [state.input for state in imported.states])
    reasons = _reasons(imported.model, devices)
    if device is None:
        with working("Compiling"):
            places = device_of_operations(compile_model(imported.model, None))
    else:
        places = ["none" if why else devices[0].name for why in reasons]
    frozen = imported.model.frozen
    if dot is not None:
        graph = to_dot(frozen, dict(enumerate(places)), model.stem)
        with writing(dot):
            dot.write_text(graph, encoding="utf-8")
        print_line(f"wrote {dot}")
    rows = [
        [
            str(number),
            operation.code.name,
            ", ".join(str(frozen.operands[index].type) for index in operation.outputs),
            place,
            why or "supported",
        ]
        for number, (operation, place, why) in enumerate(zip(frozen.operations, places, reasons, strict=True))
    ]
    print_table(["#", "operation", "output", "device", "why"], rows, title="Operations", right="#")
    counts = Counter(places)
    summary = ", ".join(f"{count} on {name}" for name, count in counts.most_common())
    print_line(f"{plural(len(rows), 'operation')}: {summary}")


def _print_ports(title: str, ports: Sequence[Port]) -> None:
    rows = [
        [
            str(index),
            port.name,
            port.type.code.name,
            "x".join(map(str, port.type.dimensions)),
            f"{port.type.scale:g}" if port.type.scale else "",
            str(port.type.zero_point) if port.type.scale else "",
        ]
        for index, port in enumerate(ports)
    ]
    columns = ["#", "name", "type", "dimensions", "scale", "zero point"]
    print_table(columns, rows, title=title, right="# scale zero_point")


def _reasons(model: Model, devices: Sequence[Device]) -> list[str]:
    """For each operation, in the order of execution, why the devices before the first that supports it don't."""
    reasons = []
    for answers in zip(*(device.driver.get_supported_operations(model.frozen) for device in devices), strict=True):
        before = []
        for device, answer in zip(devices, answers, strict=True):
            if answer.supported:
                break
            before.append(f"{device.name}: {answer.reason}")
        reasons.append("; ".join(before))
    return reasons
