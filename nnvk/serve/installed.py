"""Where the C library and its headers are installed."""

from __future__ import annotations

import sys
from pathlib import Path

# An editable installation has two folders for a package: one for what was built, and the source tree.
_PLACES = [Path(place) for place in sys.modules["nnvk"].__path__]
_PACKAGE = next((place for place in _PLACES if (place / "lib" / "libneuralnetworks.so").exists()), _PLACES[0])
INCLUDES = _PACKAGE / "include"
"""The folder of android/NeuralNetworks.h."""
LIBRARY = _PACKAGE / "lib" / "libneuralnetworks.so"
DELEGATE = _PACKAGE / "lib" / "libnnvk_delegate.so"
"""The delegate for TensorFlow Lite."""
PROVIDER = _PACKAGE / "lib" / "libnnvk_onnxruntime.so"
"""The execution provider for onnxruntime."""
VECTORS = _PACKAGE / "lib" / "nnvk-vectors"
"""A program that runs models through the library."""
PKG_CONFIG = LIBRARY.parent / "pkgconfig"
"""The folder of neuralnetworks.pc."""


def require_library() -> None:
    """FileNotFoundError where the library was not built."""
    if not LIBRARY.exists():
        raise FileNotFoundError(f"the C library was not built: there is no {LIBRARY}")
