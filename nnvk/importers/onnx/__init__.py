"""Imports ``.onnx`` models: `load` gives a finished NNAPI model and its edge in ONNX's terms.

The ``onnx`` package reads the file, which ``pip install onnx ml_dtypes`` brings. Tensors keep ONNX's layout, NCHW,
which NNAPI's operations have as an option; weights are laid anew at import.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("onnx") is None:
    raise ModuleNotFoundError("models in ONNX need the onnx package: pip install onnx ml_dtypes")

from nnvk.importers.errors import Problem
from nnvk.importers.graph_builder import Source
from nnvk.importers.metadata import Metadata
from nnvk.importers.onnx import backend
from nnvk.importers.onnx.errors import OnnxImportError
from nnvk.importers.onnx.file import OnnxFile, load
from nnvk.importers.onnx.registry import supported_operators
from nnvk.importers.ports import ImportedModel, Port

__all__ = [
    "ImportedModel",
    "Metadata",
    "OnnxFile",
    "OnnxImportError",
    "Port",
    "Problem",
    "Source",
    "backend",
    "load",
    "supported_operators",
]
