"""Loads through texel buffers return what lies in the storage buffer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

TYPES = ("uint", "int", "float", "uvec2", "vec2", "uvec4", "ivec4", "vec4")


@pytest.mark.parametrize("texels", [False, True], ids=["storage", "texels"])
@pytest.mark.parametrize("type_", TYPES)
def test_every_word_is_found(evaluate: Callable[..., np.ndarray], type_: str, texels: bool) -> None:
    """A float represents each word exactly, and the buffer is no whole number of texels long."""
    words = np.random.default_rng(6).integers(0, 1 << 24, 1000 - 1000 % 8 + 6)
    width = int(type_[-1]) if type_[-1].isdigit() else 1
    words = words[: words.size // width * width]
    found = evaluate("texels.glsl", "src_at(i)", words, type_, type_, texels=texels)
    np.testing.assert_array_equal(found.reshape(-1), words)
