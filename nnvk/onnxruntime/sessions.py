"""The execution provider in onnxruntime's own Python package."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state

from nnvk.api import get_devices
from nnvk.base.errors import bad_data, bad_state
from nnvk.serve.installed import PROVIDER, name_server

NAME = "nnvk"
"""The name of the provider, which sessions list."""
_OLDEST = (1, 24)
_OLDEST_EMPTY = (1, 28)
_RECORD = "session.record_ep_graph_assignment_info"
_DEVICE = "nnvk_device"
"""The key of the name of nnvk's device in the metadata of onnxruntime's."""
_REASONS = "nnvk.reasons"
"""The dynamic option whose value is the descriptor that the provider writes its reasons to."""
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
    reason: str = ""
    """The reason why nnvk does not run the node; empty where it does, and where onnxruntime has made the node later."""


def register() -> None:
    """Make the provider known to onnxruntime; a second call does nothing.

    It starts the server. Raises ImportError for an onnxruntime before 1.24, FileNotFoundError where the library was
    not built, and what onnxruntime raises where the server can't be started.
    """
    if _version() < _OLDEST:
        raise ImportError(f"onnxruntime must be 1.24 or later, got {onnxruntime.__version__}")
    if not PROVIDER.exists():
        raise FileNotFoundError(f"the provider was not built: there is no {PROVIDER}")
    with _lock:
        if not _registered():
            name_server()
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


def empty(shape: Sequence[int], dtype: Any, device: str | None = None) -> onnxruntime.OrtValue:
    """A tensor in memory that sessions of ``device`` share with the server, for `io_binding`; not initialised.

    ``device`` is the name that `devices` takes, and ``dtype`` what `OrtValue.ortvalue_from_shape_and_type` takes.
    Inputs and outputs that are bound to such tensors are not copied on the way to the server. `OrtValue.numpy` shares
    the memory. Raises BAD_STATE for an onnxruntime before 1.28 and before `register`, BAD_DATA if there is no such
    device, and what onnxruntime raises.
    """
    if _version() < _OLDEST_EMPTY:
        raise bad_state(
            f"onnxruntime must be 1.28 or later for tensors in shared memory, got {onnxruntime.__version__}"
        )
    (found,) = devices(device)
    memory = found.memory_info(onnxruntime_pybind11_state.OrtDeviceMemoryType.HOST_ACCESSIBLE)
    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, dtype, memory_info=memory)


def record_assignment(options: onnxruntime.SessionOptions) -> None:
    """Have a session of these options remember where its nodes run, which `assignment` tells."""
    with suppress(RuntimeError):  # there is no such entry
        if options.get_session_config_entry(_RECORD) == "1":
            return  # onnxruntime would warn of a second entry
    options.add_session_config_entry(_RECORD, "1")


def assignment(session: onnxruntime.InferenceSession) -> list[Placement]:
    """The provider of each node of a session, whose options were given to `record_assignment`, and why it is not nnvk.

    Reasons belong to nodes by operator and name; nodes without names get the reasons of their operator in their order.
    Raises onnxruntime's error where nothing was recorded.
    """
    reasons = _reasons(session) if NAME in session.get_providers() else {}
    placed = []
    for number, part in enumerate(session.get_provider_graph_assignment_info()):
        for node in part.get_nodes():
            operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            own = reasons.get((operator, node.name)) if part.ep_name != NAME else None
            placed.append(Placement(part.ep_name, operator, node.name, number, own.popleft() if own else ""))
    return placed


def _reasons(session: onnxruntime.InferenceSession) -> dict[tuple[str, str], deque[str]]:
    """Why nodes stay, by operator and name, as the session's provider writes it."""
    file = os.memfd_create("nnvk-reasons")
    with open(file, "rb") as written:
        session.set_ep_dynamic_options({_REASONS: str(file)})
        written.seek(0)
        fields = written.read().decode(errors="replace").split("\0")[:-1]
    found: dict[tuple[str, str], deque[str]] = {}
    for domain, operator, name, reason in zip(*(fields[at::4] for at in range(4)), strict=True):
        found.setdefault((f"{domain}.{operator}" if domain else operator, name), deque()).append(reason)
    return found


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])


def _registered() -> list[Any]:
    return [one for one in onnxruntime.get_ep_devices() if one.ep_name == NAME]
