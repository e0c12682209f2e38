"""Android's Neural Networks API, feature level 8, on Vulkan devices.

`load` makes a model of a ``.tflite`` or ``.onnx`` file that is called with inputs and returns outputs. The other names
are the specification's in PEP 8 form: ``ANeuralNetworksModel_addOperand`` is `Model.add_operand`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nnvk.api import *  # noqa: F403 - api.__all__ is the list of public names
from nnvk.api import __all__ as _api

if TYPE_CHECKING:
    from nnvk.loading import ImageOptions, LoadedModel, Normalization, load

__version__ = "0.1.0"
_LATE = ("ImageOptions", "LoadedModel", "Normalization", "load")
"""Names of `nnvk.loading`, which is imported when one of them is used first: servers and drivers need none."""
__all__ = [*_api, "ImageOptions", "LoadedModel", "Normalization", "load"]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module("nnvk.loading"), name)
    raise AttributeError(f"module 'nnvk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
