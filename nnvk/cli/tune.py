"""``nnvk tune``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nnvk.api import Compilation, PreferenceCode
from nnvk.base.progress import compiling
from nnvk.base.text import plural, title
from nnvk.cli.importing import DEFAULT, Importing, takes_options
from nnvk.cli.lines import print_line
from nnvk.cli.output import check_writable, deliver, print_table
from nnvk.cli.usage import JsonFile
from nnvk.insight.placement import strategies_of_operations
from nnvk.loading.devices import choose_devices


@takes_options
def command(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help=".tflite or .onnx files.")],
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Tune for this device; for the preferred one, if left out."),
    ] = None,
    importing: Importing = DEFAULT,
    json_file: JsonFile = None,
) -> None:
    """Measure which strategies are fastest, and keep that.

    The device runs the model once for each strategy of its operations, several times in turns with the first: some
    seconds for a small model, minutes for a large one. Later compilations choose by it. It is kept by device, driver,
    shaders and shapes, and not measured again.
    """
    check_writable(json_file)
    devices = choose_devices(device, fallback=True)
    tuned = []
    for path, options in zip(models, importing.for_each(models), strict=True):
        compilation = Compilation(options.load(path).model, devices)
        compilation.set_preference(PreferenceCode.SUSTAINED_SPEED)
        with compiling(path.name):
            compilation.finish()
        ways = strategies_of_operations(compilation)
        operations = [
            {"number": number, "operation": operation.code.name, "strategy": way}
            for number, (operation, way) in enumerate(zip(compilation.model.operations, ways, strict=True))
            if way
        ]
        tuned.append({"model": str(path), "operations": operations})
    deliver(json_file, {"models": tuned}, lambda: _print([title(path, models) for path in models], tuned))


def _print(titles: list[str], tuned: list[dict[str, Any]]) -> None:
    for name, model in zip(titles, tuned, strict=True):
        rows = [[str(each["number"]), each["operation"], each["strategy"]] for each in model["operations"]]
        print_table(["#", "operation", "strategy"], rows, title=name, right="#")
        print_line(f"{plural(len(rows), 'operation')} with a choice of strategies; later compilations use these")
