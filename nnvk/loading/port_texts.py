"""Inputs and outputs of a loaded model, as texts."""

from __future__ import annotations

import html

from nnvk.base.text import dimensions, plural, printable
from nnvk.importers.errors import NAME_SHOWN
from nnvk.importers.ports import Port


def brief(port: Port) -> str:
    """The name, type and shape."""
    return f"{printable(port.name, NAME_SHOWN)} {port.dtype} {_shape(port)}"


def expected_shape(port: Port) -> str:
    """The shape that an input must have: names or ``?`` for sizes that may differ from call to call."""
    symbols = port.symbols or ("",) * len(port.shape)
    rows = zip(port.shape, symbols, strict=True)
    return "x".join(str(size) if size != -1 else printable(symbol, NAME_SHOWN) or "?" for size, symbol in rows)


def html_row(kind: str, port: Port) -> str:
    """The row of a table; ``kind`` is input or output."""
    labels = plural(len(port.metadata.labels), "label") if port.metadata.labels else ""
    said = "; ".join(text for text in (port.metadata.description, labels) if text)
    cells = (kind, port.name, str(port.dtype), _shape(port), port.real_number, said)
    return "<tr>" + "".join(f"<td>{html.escape(printable(cell))}</td>" for cell in cells) + "</tr>"


def _shape(port: Port) -> str:
    return port.pattern if port.is_open else dimensions(port.shape)
