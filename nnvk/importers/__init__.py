"""Importers: from other formats to NNAPI models."""

from importlib import import_module
from typing import Any

from nnvk.importers.user_functions import operator

__all__ = ["operator"]


def __getattr__(name: str) -> Any:
    if name in ("onnx", "tflite"):  # imported when they are used first: each may need a package that is not installed
        return import_module(f"nnvk.importers.{name}")
    raise AttributeError(f"module 'nnvk.importers' has no attribute {name!r}")
