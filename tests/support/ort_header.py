"""onnxruntime's own header, where this machine has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_PLACES = ("/usr/include/onnxruntime", "/usr/include/onnxruntime/core/session", "/usr/include")


def header_folder() -> Path:
    """The folder of onnxruntime_c_api.h: that of NNVK_ONNXRUNTIME_INCLUDE, or of Debian's package. Else a skip."""
    places = [os.environ.get("NNVK_ONNXRUNTIME_INCLUDE", ""), *_PLACES]
    found = next((Path(one) for one in places if one and Path(one, "onnxruntime_c_api.h").exists()), None)
    if found is None:
        pytest.skip("needs onnxruntime's header: NNVK_ONNXRUNTIME_INCLUDE names its folder")
    return found
