"""Models in three lines: `load` gives an object that is called with inputs and returns outputs."""

from nnvk.inputs.images import ImageOptions, Normalization
from nnvk.loading.beside import CpuLibraryWarning
from nnvk.loading.events import ModelEvent
from nnvk.loading.loader import ImageNormalizationWarning, LoadOptions, load, open_model
from nnvk.loading.model import LoadedModel
from nnvk.loading.signature import LoadedSignature

__all__ = [
    "CpuLibraryWarning",
    "ImageNormalizationWarning",
    "ImageOptions",
    "LoadOptions",
    "LoadedModel",
    "LoadedSignature",
    "ModelEvent",
    "Normalization",
    "load",
    "open_model",
]
