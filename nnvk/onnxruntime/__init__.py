"""onnxruntime's sessions on nnvk's devices: `register` the execution provider, and add `devices` to the options.

options = onnxruntime.SessionOptions()
options.add_provider_for_devices(nnvk.onnxruntime.devices(), {"relaxed": "0"})
session = onnxruntime.InferenceSession("model.onnx", options)
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("onnxruntime") is None:
    raise ModuleNotFoundError("sessions of onnxruntime need the onnxruntime package: pip install onnxruntime")

from nnvk.onnxruntime.sessions import NAME, Placement, assignment, devices, empty, record_assignment, register

__all__ = ["NAME", "Placement", "assignment", "devices", "empty", "record_assignment", "register"]
