"""``nnvk serve``."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from nnvk.driver.vulkan import longest_call_s
from nnvk.importers import late_provider
from nnvk.importers.tflite import delegate
from nnvk.serve.server import serve


def command(
    descriptor: Annotated[int, typer.Option("--socket", metavar="FD", help="The socket to the application.")],
) -> None:
    """Serve one application of the C libraries, until it ends.

    libneuralnetworks.so and the libraries for LiteRT and onnxruntime start this; it is of no use by hand.
    """
    with socket.socket(fileno=descriptor) as control:
        serve(control, {**delegate.HANDLERS, **late_provider.HANDLERS}, longest_call_s)
