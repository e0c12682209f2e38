"""``nnvk serve``."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from nnvk.serve.server import serve


def command(
    descriptor: Annotated[int, typer.Option("--socket", metavar="FD", help="The socket to the application.")],
) -> None:
    """Serve one application of the C library, until it ends.

    libneuralnetworks.so starts this; it is of no use by hand.
    """
    with socket.socket(fileno=descriptor) as control:
        serve(control)
