"""Imports ``.tflite`` models: `load` gives a finished NNAPI model and its edge in TFLite's terms.

Operators are mapped as Android's NNAPI delegate does: INT8 is TENSOR_QUANT8_ASYMM_SIGNED, UINT8
TENSOR_QUANT8_ASYMM, weights with a scale per channel TENSOR_QUANT8_SYMM_PER_CHANNEL. nnvk also decomposes
operators that the delegate would leave to TFLite's own kernels. The error lists the operators that nnvk cannot map.
"""

from __future__ import annotations

from nnvk.importers.errors import Problem
from nnvk.importers.graph_builder import Source
from nnvk.importers.metadata import Metadata, TensorMetadata
from nnvk.importers.ports import ImportedModel, Port, Signature, State
from nnvk.importers.tflite.errors import TfliteImportError
from nnvk.importers.tflite.importer import TfliteFile, load
from nnvk.importers.tflite.registry import supported_operators

__all__ = [
    "ImportedModel",
    "Metadata",
    "Port",
    "Problem",
    "Signature",
    "Source",
    "State",
    "TensorMetadata",
    "TfliteFile",
    "TfliteImportError",
    "load",
    "supported_operators",
]
