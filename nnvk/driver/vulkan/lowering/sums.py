"""Sums of products of bytes in 32 bits: what the gates of the quantised LSTMs are made of."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.filters import FILTER_SHADERS, filters_of, packed
from nnvk.driver.vulkan.lowering.gates import GATES_SHADERS
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import fill
from nnvk.driver.vulkan.lowering.quantised import sign_mask, zero_point
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Tensor

SUMS = Shader("quantized_sums")
SUMS_SHADERS = (SUMS, *FILTER_SHADERS, *GATES_SHADERS)
"""All that this module may dispatch."""

_LANES = 8
_LOCAL = {"local_x": _LANES, "local_y": 16}


def add_up(g: Lowering, weights: Tensor, source: Tensor, behind: Tensor | None = None) -> TensorRef:
    """Rows of ``source`` [rows, ...], those of ``behind`` after them, times weights [columns, K], less zero points.

    Columns are padded to fours; sums wrap round.
    """
    rows, split = source.shape
    columns, length = weights.shape
    second = source if behind is None or not behind.size else behind
    target = g.scratch(4 * rows * columns)
    if not length:
        fill(g, target, np.zeros(1, np.int32))
        return target
    quads = columns // 4
    g.dispatch(
        SUMS.variant(),
        groups=(-(-quads // _LANES), rows, 1),
        spec={**_LOCAL, "ALIGNED": split % 4 == 0 and length % 4 == 0},
        tensors={
            "src": g.tensor(source if source.size else second),
            "behind": g.tensor(second),
            "weights": packed(g, filters_of(weights)),
            "dst": target,
        },
        length=length,
        split=split,
        quads=quads,
        sign_mask=sign_mask(source),
        zero=_wrapped(zero_point(source)),
        weight_zero=zero_point(weights),
    )
    return target


def _wrapped(number: int) -> int:
    """A number in 32 bits, as sums have them."""
    return (number + 2**31) % 2**32 - 2**31
