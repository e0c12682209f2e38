"""Runs a model with onnxruntime and, imported, with nnvk's devices, and compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import in_turn
import numpy as np
import onnx
import pytest

from nnvk import Compilation, get_device, run
from nnvk.importers.onnx import ImportedModel, load

ort = pytest.importorskip("onnxruntime")
LARGEST_SIGNED = 64
"""Signed weights of tests that multiply them by unsigned bytes. Where processors lack VNNI, onnxruntime adds two such
products in 16 bits, which larger weights saturate. ``session.x64quantprecision`` changes only graphs that it optimises.
"""
DEVICES = ("vulkan-0", "nnapi-reference")
TOLERANCE = 1e-5
"""Real numbers may differ by this share of their range, unless a test says otherwise."""


def expected(
    model: onnx.ModelProto | str,
    feeds: Mapping[str, np.ndarray],
    *,
    exact: bool = True,
    optimised: bool = True,
) -> list[np.ndarray]:
    """Return onnxruntime's outputs. If not ``exact``, its sums of byte products may saturate on some processors.

    If not ``optimised``, it computes node by node.
    """
    options = ort.SessionOptions()
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    # Without VNNI it adds pairs of products up in 16 bits, unless all bytes are to be unsigned.
    options.add_session_config_entry("session.x64quantprecision", str(int(exact)))
    source = model if isinstance(model, str) else model.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"]).run(None, dict(feeds))


def actual(imported: ImportedModel, feeds: Mapping[str, np.ndarray], device: str) -> list[np.ndarray]:
    """Return the outputs of one device, which runs the whole model."""
    compilation = Compilation(imported.model, [get_device(device)])
    compilation.finish()
    given = {port.name: feeds[port.name] for port in imported.inputs}
    return imported.decode(run(compilation, imported.encode(given)))[0]


def check(
    model: onnx.ModelProto | str,
    feeds: Mapping[str, np.ndarray],
    *,
    tolerance: float = TOLERANCE,
    steps: int = 0,
    devices: Sequence[str] | None = None,
    exact: bool = True,
    optimised: bool = True,
    **options: Any,
) -> ImportedModel:
    """Both must agree: real numbers within ``tolerance`` of the range, whole ones within so many ``steps``.

    Without ``devices``, those of `in_turn` run the model.
    """
    imported = load(model if isinstance(model, str) else model.SerializeToString(), **options)
    wanted = expected(model, feeds, exact=exact, optimised=optimised)
    for device in in_turn.devices() if devices is None else devices:
        for port, one, other in zip(imported.outputs, actual(imported, feeds, device), wanted, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), port
            if other.dtype.kind == "f":
                extent = (float(np.ptp(other)) if other.size else 0.0) or 1.0
                assert np.abs(one.astype(np.float64) - other).max(initial=0) <= tolerance * extent, (device, port)
            else:
                assert np.abs(one.astype(np.int64) - other.astype(np.int64)).max(initial=0) <= steps, (device, port)
    return imported


def operations(imported: ImportedModel) -> list[str]:
    """The names of the operations."""
    return [operation.code.name for operation in imported.model.frozen.operations]
