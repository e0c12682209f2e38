"""Attributes of attention that are left out, as in test_onnx_defaults."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_case import I64, MICROSOFT, x
from onnx_defaults import Default, check_default, drawn, parameters, small

INT, U8, I8 = np.int32, np.uint8, np.int8
HEADS = {"num_heads": 2}
QKV = {name: x(1, 5, 8) for name in "qkv"}
GROUPED = {
    "q": x(1, 2, 16),
    "k": x(1, 2, 8),
    "v": x(1, 2, 8),
    "pk": None,
    "pv": None,
    "last": np.array([1], INT),
    "all": np.array(2, INT),
    "cos": small(2, 2),
    "sin": small(2, 2, seed=2),
}

DEFAULTS = [
    # --- attention
    Default(
        "SkipLayerNormalization",
        {"a": x(1, 2, 4), "b": x(1, 2, 4), "g": small(4)},
        {"epsilon": (1e-12, 1.0)},
        domain=MICROSOFT,
    ),
    Default(
        "SkipSimplifiedLayerNormalization",
        {"a": x(1, 2, 4), "b": x(1, 2, 4), "g": small(4)},
        {"epsilon": (1e-12, 1.0)},
        domain=MICROSOFT,
    ),
    Default(
        "EmbedLayerNormalization",
        {
            "i": x(1, 3, dtype=INT),
            "s": None,
            "w": drawn(5, 4),
            "p": drawn(3, 4),
            "q": None,
            "g": small(4),
            "b": small(4),
        },
        {"epsilon": (1e-12, 1.0)},
        outputs="y l",
        domain=MICROSOFT,
    ),
    Default(
        "Attention",
        {"a": x(1, 3, 8), "w": drawn(8, 24), "b": small(24), "m": x(1, 3, dtype=INT)},
        {
            "unidirectional": (0, 1),
            "scale": (0.5, 1.5),
            "mask_filter_value": (-10000.0, -1.0),
            "qkv_hidden_sizes": ([8, 8, 8],),
        },
        HEADS,
        domain=MICROSOFT,
    ),
    Default(
        "MultiHeadAttention",
        {**QKV, "b": None, "m": x(1, 5, dtype=INT)},
        {"scale": (0.5, 1.5), "mask_filter_value": (-10000.0, -1.0), "unidirectional": (0,)},
        HEADS,
        domain=MICROSOFT,
    ),
    Default(
        "RotaryEmbedding",
        {"a": x(2, 5, 12), "p": x(2, 5, dtype=I64), "c": small(8, 3), "s": small(8, 3, seed=2)},
        {"interleaved": (0, 1), "is_packed_batching": (0,), "scale": (1.0,), "num_heads": (2, 1)},
        domain=MICROSOFT,
    ),
    Default(
        "GroupQueryAttention",
        GROUPED,
        {
            "do_rotary": (0, 1),
            "softcap": (0.0, 1.0),
            "scale": (0.5, 1.5),
            "local_window_size": (-1, 1),
            "smooth_softmax": (0,),
        },
        {"num_heads": 4, "kv_num_heads": 2},
        outputs="y z w",
        domain=MICROSOFT,
    ),
    Default(
        "GroupQueryAttention",
        GROUPED,
        {"rotary_interleaved": (0, 1)},
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        outputs="y z w",
        domain=MICROSOFT,
    ),
]


@pytest.mark.parametrize(("default", "name"), parameters(DEFAULTS))
def test_default(default: Default, name: str) -> None:
    check_default(default, name)
