"""Android's Neural Networks API, feature level 8, on Vulkan devices.

`load` makes a model of a ``.tflite`` or ``.onnx`` file that is called with inputs and returns outputs. The other names
are the specification's in PEP 8 form: ``ANeuralNetworksModel_addOperand`` is `Model.add_operand`.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nnvk.api import *  # noqa: F403 - api.__all__ is the list of public names
from nnvk.api import __all__ as _api

if TYPE_CHECKING:
    from nnvk.loading import ImageOptions, LoadedModel, Normalization, load
    from nnvk.serve.installed import library_paths

__version__ = "0.2.0"
_LATE = {
    **dict.fromkeys(("ImageOptions", "LoadedModel", "Normalization", "load"), "nnvk.loading"),
    "library_paths": "nnvk.serve.installed",
}
"""Names of modules that are imported when one of them is used first: servers and drivers need none."""
_MODULES = ("batch", "importers", "litert", "onnxruntime")
"""Modules that are imported when they are used first."""
# onnxruntime reports its use to its maker unless this is set before it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
__all__ = [*_api, "ImageOptions", "LoadedModel", "Normalization", "library_paths", "load"]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    if name in _MODULES:
        return import_module(f"nnvk.{name}")
    raise AttributeError(f"module 'nnvk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE, *_MODULES})
