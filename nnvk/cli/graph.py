"""``nnvk graph``."""

from __future__ import annotations

import webbrowser
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from nnvk.base.files import writing
from nnvk.base.progress import compiling
from nnvk.base.text import plural
from nnvk.cli.importing import DEFAULT, Importing, takes_options
from nnvk.cli.lines import print_line
from nnvk.cli.output import PAGES, check_dot, check_suffix, check_writable, deliver
from nnvk.cli.usage import JsonFile
from nnvk.insight.graph import graph_of
from nnvk.insight.graphviz import to_dot
from nnvk.insight.placement import Placed, compile_model, prepare, where
from nnvk.loading.devices import find_device


@takes_options
def command(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.")],
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with search and zoom: a .html.")
    ] = None,
    dot: Annotated[
        Path | None, typer.Option("--dot", metavar="FILE", help="Write the graph for Graphviz: a .dot.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Prefer this device.", show_default="as in run"),
    ] = None,
    importing: Importing = DEFAULT,
    json_file: JsonFile = None,
) -> None:
    """Draw the operations of a model, coloured by device.

    The page is one file that needs no network. Both drawings have the names of layers, and long models continue in
    further columns.
    """
    if html is None and dot is None and json_file is None:
        raise ValueError("give the file to write: --html FILE, --dot FILE or --json")
    if show and html is None:
        raise ValueError("--open opens the page: give --html FILE too")
    check_suffix("--html", html, PAGES)
    check_dot(dot)
    check_writable(html, dot, json_file)
    # It needs Jinja2, which --dot does without.
    pages = None if html is None else import_module("nnvk.insight.graph_page")
    chosen = None if device is None else find_device(device)
    imported = importing.load(path)
    with compiling(path.name):
        compilation = compile_model(imported.model, None) if chosen is None else prepare(imported.model, chosen)[0]
        placed = where(imported.model, compilation, imported.sources)
    graph = graph_of(imported.model.frozen, placed)
    if dot is not None:
        with writing(dot):
            dot.write_text(to_dot(graph, path.stem), encoding="utf-8")
    if html is not None and pages is not None:
        with writing(html):
            html.write_text(pages.graph_page(path.name, graph, placed), encoding="utf-8")
    content = {
        "model": str(path),
        "nodes": [asdict(node) for node in graph.nodes],
        "edges": [asdict(edge) for edge in graph.edges],
    }
    deliver(json_file, content, lambda: _print(path, placed), html, dot)
    if show and html is not None and not webbrowser.open(html.resolve().as_uri()):
        raise ValueError(f"there is no browser to open {html} in")


def _print(path: Path, placed: Sequence[Placed]) -> None:
    counts = ", ".join(f"{count} on {name}" for name, count in Counter(one.device for one in placed).items())
    print_line(f"{path.name}: {plural(len(placed), 'operation')}{': ' if counts else ''}{counts}")
