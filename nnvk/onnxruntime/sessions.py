"""The execution provider in onnxruntime's own Python package."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import onnxruntime

from nnvk.api import get_devices
from nnvk.base.errors import bad_data, bad_state
from nnvk.serve.installed import PROVIDER

NAME = "nnvk"
"""The name of the provider, which sessions list."""
_OLDEST = (1, 24)
_RECORD = "session.record_ep_graph_assignment_info"
_DEVICE = "nnvk_device"
"""The key of the name of nnvk's device in the metadata of onnxruntime's."""
_lock = Lock()


@dataclass(frozen=True, slots=True)
class Placement:
    """The provider that runs a node."""

    provider: str
    """The provider's name: `NAME`, or onnxruntime's own, such as "CPUExecutionProvider"."""
    operator: str
    """The node's operator, with its domain before it where that is not ONNX's own."""
    node: str
    """The node's name; empty where it has none."""
    part: int
    """The number of the part that the provider runs as a whole."""


def register() -> None:
    """Make the provider known to onnxruntime; a second call does nothing.

    It starts the server. Raises ImportError for an onnxruntime before 1.24, FileNotFoundError where the library was
    not built, and what onnxruntime raises where the server can't be started.
    """
    version = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if version < _OLDEST:
        raise ImportError(f"onnxruntime must be 1.24 or later, got {onnxruntime.__version__}")
    if not PROVIDER.exists():
        raise FileNotFoundError(f"the provider was not built: there is no {PROVIDER}")
    with _lock:
        if not _registered():
            onnxruntime.register_execution_provider_library(NAME, os.fspath(PROVIDER))


def devices(device: str | None = None) -> Sequence[Any]:
    """The device for a session's `add_provider_for_devices`, in a list: the one of this name, else the preferred one.

    Raises BAD_STATE before `register`, and BAD_DATA where there is no such device.
    """
    found = {one.ep_metadata[_DEVICE]: one for one in _registered()}
    if not found:
        raise bad_state("the provider is not registered: call nnvk.onnxruntime.register() first")
    name = device or next((one.name for one in get_devices() if one.name in found), "")
    if name not in found:
        raise bad_data(f"there is no device '{name}', there are {', '.join(found)}")
    return [found[name]]


def record_assignment(options: onnxruntime.SessionOptions) -> None:
    """Have a session of these options remember where its nodes run, which `assignment` tells."""
    options.add_session_config_entry(_RECORD, "1")


def assignment(session: onnxruntime.InferenceSession) -> list[Placement]:
    """The provider of each node of a session, whose options were given to `record_assignment`.

    The nodes are those that onnxruntime's optimisations left. Reasons for nodes that are not on nnvk are in
    onnxruntime's log, with ``log_severity_level = 1``. Raises onnxruntime's error where nothing was recorded.
    """
    return [
        Placement(
            provider=part.ep_name,
            operator=f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
            node=node.name,
            part=number,
        )
        for number, part in enumerate(session.get_provider_graph_assignment_info())
        for node in part.get_nodes()
    ]


def _registered() -> list[Any]:
    return [one for one in onnxruntime.get_ep_devices() if one.ep_name == NAME]
