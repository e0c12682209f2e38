"""Where the C library and its headers are installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shutil import which
from typing import NamedTuple

# An editable installation has two folders for a package: one for what was built, and the source tree.
_PLACES = [Path(place) for place in sys.modules["nnvk"].__path__]
_PACKAGE = next((place for place in _PLACES if (place / "lib" / "libneuralnetworks.so").exists()), _PLACES[0])
INCLUDES = _PACKAGE / "include"
"""The folder of android/NeuralNetworks.h."""
LIBRARY = _PACKAGE / "lib" / "libneuralnetworks.so"
DELEGATE = _PACKAGE / "lib" / "libnnvk_delegate.so"
"""The delegate for TensorFlow Lite."""
ACCELERATOR = _PACKAGE / "lib" / "libLiteRtGpuAccelerator.so"
"""The delegate as LiteRT's GPU accelerator."""
PROVIDER = _PACKAGE / "lib" / "libnnvk_onnxruntime.so"
"""The execution provider for onnxruntime."""
VECTORS = _PACKAGE / "lib" / "nnvk-vectors"
"""A program that runs models through the library."""
_SERVER = "NNVK_SERVER"
PKG_CONFIG = LIBRARY.parent / "pkgconfig"
"""The folder of neuralnetworks.pc."""


class LibraryPaths(NamedTuple):
    """Where the C libraries and their headers are, as text, which ``ctypes.CDLL`` and other loaders take."""

    includes: str
    """The folder of android/NeuralNetworks.h."""
    library: str
    """libneuralnetworks.so."""
    delegate: str
    """The delegate for LiteRT and TensorFlow Lite."""
    pkg_config: str
    """The folder of neuralnetworks.pc."""
    onnxruntime: str
    """The execution provider for onnxruntime."""
    accelerator: str
    """The folder of LiteRT's GPU accelerator, for `runtime_path` of LiteRT's environments."""


def library_paths() -> LibraryPaths:
    """The paths of the C libraries and their headers. Raises FileNotFoundError if the libraries were not built."""
    if not LIBRARY.exists():
        raise FileNotFoundError(f"the C library was not built: there is no {LIBRARY}")
    return LibraryPaths(*map(str, (INCLUDES, LIBRARY, DELEGATE, PKG_CONFIG, PROVIDER, ACCELERATOR.parent)))


def name_server() -> None:
    """Let libraries that this process loads find the server of this Python, unless the user names another one.

    They look beside themselves and in ``PATH``, which do not have it in an editable installation whose environment is
    not activated.
    """
    command = Path(sys.executable).with_name("nnvk")
    if _SERVER not in os.environ and which("nnvk") is None and command.exists():
        os.environ[_SERVER] = os.fspath(command)
