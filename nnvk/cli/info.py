"""``nnvk info``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from nnvk.api import OperandType, get_devices
from nnvk.base.progress import compiling
from nnvk.base.text import dimensions, plural
from nnvk.cli.importing import DEFAULT, Importing, takes_options
from nnvk.cli.lines import CHECK_FAILED, print_line
from nnvk.cli.output import check_writable, deliver, print_table
from nnvk.cli.usage import JsonFile
from nnvk.driver.vulkan import outline
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.hal import MemoryUse
from nnvk.importers.ports import ImportedModel, Port
from nnvk.insight.placement import (
    Placed,
    compile_model,
    device_of_operations,
    memory_of_partitions,
    placed_operations,
    refusals,
    strategies_of_operations,
)
from nnvk.loading import LoadedModel
from nnvk.loading.devices import find_device, find_vulkan_device, is_auto
from nnvk.types.operand import Shape

NOWHERE = "none"
"""In the place of a device that runs an operation."""


@takes_options
def command(
    path: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="A .tflite or .onnx file. --passes needs none.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Say what this device runs, without the others' help, or auto."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with 1 where the device, or else the preferred one, doesn't run it whole."),
    ] = False,
    passes: Annotated[
        bool,
        typer.Option("--passes", help="List the Vulkan driver's passes, and how often each one rewrites the model."),
    ] = False,
    importing: Importing = DEFAULT,
    json_file: JsonFile = None,
) -> None:
    """Show what a model consists of, and where each part runs.

    Without --device the operations are shared out as `nnvk run` does it. Reasons come last: why an operation does
    not run on a device that comes before the one it runs on; then the strategies by which products are computed, and
    the memory that a Vulkan device needs for the activations of an execution.
    """
    check_writable(json_file)
    if passes:
        if check:
            raise ValueError("--passes lists passes alone: don't give --check with it")
        _show_passes(path, device, importing, json_file)
        return
    if path is None:
        raise ValueError("MODEL is missing; only --passes needs none")
    is_shared = device is None or is_auto(device)
    devices = get_devices() if device is None or is_auto(device) else [find_device(device)]
    model = importing.open(path, device if is_shared else devices[0].name)
    if model.is_mixed or (is_auto(device) and model.whole_library):
        is_whole = _show_mixed(path, model, devices[0].name, json_file)
        if check and not is_whole:
            raise typer.Exit(CHECK_FAILED)
        return
    imported = model.imported
    reasons = refusals(imported.model, devices)
    first = devices[0].name
    if is_shared:
        with compiling(path.name):
            compilation = compile_model(imported.model, None)
            places, ways = device_of_operations(compilation), strategies_of_operations(compilation)
            memory = memory_of_partitions(compilation)
    else:
        ways, memory = [""] * len(reasons), []
        if not any(reasons):
            ways = devices[0].driver.describe_operations(imported.model.frozen)
            use = devices[0].driver.describe_memory(imported.model.frozen)
            memory = [] if use is None else [(first, use)]
        places = [NOWHERE if why else first for why in reasons]
    placed = placed_operations(imported.model, places, reasons, ways, imported.sources)
    is_whole = all(one.device == first for one in placed)
    content = {
        "model": str(path),
        "device": first,
        "runs_whole": is_whole,
        "is_first_part": imported.rest is not None,
        "inputs": [_port(port) for port in imported.inputs],
        "outputs": [_port(port) for port in imported.outputs],
        "states": [_port(state.input) for state in imported.states],
        "memory": [
            {"device": name, "arena_bytes": use.arena, "most_alive_bytes": use.most_alive} for name, use in memory
        ],
        "operations": [_operation(one) for one in placed],
    }
    deliver(json_file, content, lambda: _print(path, imported, placed, memory))
    if check and not is_whole:
        raise typer.Exit(CHECK_FAILED)


def _show_mixed(path: Path, model: LoadedModel, first: str, json_file: Path | None) -> bool:
    """Show a model of which a library computes some operators, or all. Returns whether the device runs all."""
    placed = model.where()
    is_whole = all(one.device == first for one in placed)
    content = {
        "model": str(path),
        "device": first,
        "runs_whole": is_whole,
        "is_first_part": False,
        "inputs": [_port(port) for port in model.inputs],
        "outputs": [_port(port) for port in model.outputs],
        "states": [],
        "memory": [],
        "operations": [_operation(one) for one in placed],
    }

    def show() -> None:
        _print_counts(path, placed)
        _print_ports("Inputs", model.inputs)
        _print_ports("Outputs", model.outputs)
        _print_operations(placed)

    deliver(json_file, content, show)
    return is_whole


def _operation(placed: Placed) -> dict[str, Any]:
    return {
        "operation": placed.operation,
        "layer": None if placed.layer is None else asdict(placed.layer),
        "outputs": [_type(type_) for type_ in placed.outputs],
        "device": None if placed.device == NOWHERE else placed.device,
        "reason": placed.reason,
        "strategy": placed.strategy,
    }


def _show_passes(path: Path | None, device: str | None, importing: Importing, json_file: Path | None) -> None:
    """List the passes of the Vulkan driver, and how often each one rewrites a model if one is given."""
    applied: Mapping[str, int] = {}
    if path is not None:
        driver = find_vulkan_device(device)
        model = importing.load(path).model.frozen
        applied = outline(model, driver.profile, driver.planner.library, driver.planner.autotune_results.known)[
            "passes"
        ]
    content = [
        {"name": each.value, "description": each.description, "applied": applied.get(each.value)} for each in Pass
    ]
    rows = [[each.value, str(applied.get(each.value, "")), each.description] for each in Pass]
    deliver(
        json_file,
        {"model": None if path is None else str(path), "passes": content},
        lambda: print_table(["pass", "rewrites", "what it does"], rows, title="Passes", right="rewrites"),
    )


def _print(
    path: Path, imported: ImportedModel, placed: Sequence[Placed], memory: Sequence[tuple[str, MemoryUse]]
) -> None:
    _print_counts(path, placed)
    if imported.rest is not None:
        print_line("Data decide sizes behind these operations: the rest of the model is imported when they are known.")
    _print_ports("Inputs", imported.inputs)
    _print_ports("Outputs", imported.outputs)
    if imported.states:
        _print_ports("States", [state.input for state in imported.states])
    _print_operations(placed)
    if memory:
        print_line("Memory of activations")
    for device, use in memory:
        print_line(f"{device}: {use.arena:,} bytes, of which at most {use.most_alive:,} are needed at once")


def _print_counts(path: Path, placed: Sequence[Placed]) -> None:
    counts = Counter(one.device for one in placed)
    where = ", ".join(f"{count} on {name}" for name, count in counts.most_common())
    print_line(f"{path.name}: {plural(len(placed), 'operation')}{': ' if where else ''}{where}")


def _print_operations(placed: Sequence[Placed]) -> None:
    rows = [
        [str(number), one.operation, ", ".join(type_.brief for type_ in one.outputs), one.device]
        for number, one in enumerate(placed)
    ]
    print_table(["#", "operation", "output", "device"], rows, title="Operations", right="#", optional="output")
    _print_alike("Reasons", [(one.operation, one.reason) for one in placed])
    _print_alike("Strategies", [(one.operation, one.strategy) for one in placed])


def _print_alike(title: str, said: Sequence[tuple[str, str]]) -> None:
    """Print the remarks on operations; operations with the same remark share a line."""
    alike: dict[tuple[str, str], list[int]] = {}
    for number, (operation, text) in enumerate(said):
        if text:
            alike.setdefault((operation, text), []).append(number)
    if alike:
        print_line(title)
    for (operation, text), numbers in alike.items():
        print_line(f"{operation} (# {', '.join(map(str, numbers))}): {text}")


def _print_ports(title: str, ports: Sequence[Port]) -> None:
    rows = [
        [
            str(index),
            port.name,
            f"{port.elements} {_sizes(port)}",
            port.real_number,
            port.open_sizes,
        ]
        for index, port in enumerate(ports)
    ]
    columns = ["#", "name", "type", "real number", "open"]
    print_table(columns, rows, title=title, right="#", optional="real_number open")


def _sizes(port: Port) -> str:
    if -1 not in port.shape:
        return dimensions(_elements(port))
    return port.pattern if port.is_open else dimensions(_elements(port), unknown=0)


def _elements(port: Port) -> Shape:
    """The operand's dimensions, without that of the words of a number."""
    if port.has_texts:
        return port.shape
    if not port.has_numbers or not port.has_rank:
        return ()
    return port.type.dimensions[:-1] if port.in_words else port.type.dimensions


def _port(port: Port) -> dict[str, Any]:
    open_ = {"open": port.pattern} if port.is_open else {}
    return {"name": port.name, **_type(port.type.with_dimensions(_elements(port))), "type": port.elements, **open_}


def _type(type: OperandType) -> dict[str, Any]:
    quantised = {"scale": type.scale, "zero_point": type.zero_point} if type.scale else {}
    return {"type": type.brief.partition(" ")[0], "dimensions": list(type.dimensions), **quantised}
