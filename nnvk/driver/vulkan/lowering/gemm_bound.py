"""Products of floats that are verified by a bound on their rounding errors.

`gemm_bound.comp` computes each result of a product once more, by code that it shares with no other shader, and compares
it with the stored one. Both are rounded. A sum that is added up one term after the other is off by at most the unit
roundoff times the magnitudes of all its partial sums together (N. J. Higham, *Accuracy and Stability of Numerical
Algorithms*, 2002, section 4.2). These are no larger than the sums of the magnitudes of the terms, which the shader adds
up. This bound holds for every input, and for sums of slices of K as well. It is about half of the number of terms times
the sum of all magnitudes. `_STEPS` allows for another order of some terms.

An activation brings two values no further apart. The left matrix is a second result of another operation, and a copy of
the results becomes the second result, as with checksums.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnvk.driver.vulkan.lowering.lowering import Lowering, Subject
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Tensor

BOUND = Shader("gemm_bound")
_BLOCK = 32
"""Terms that the shader adds up by themselves."""
_STEPS = 40
"""Roundings that are allowed for besides: of products, of the sums of slices of K, and of terms in another order."""
_SMALLEST = 2.0**-124
"""The most that a term may lose if it, or its share in the bound, is too small for a normal number."""
_LOCAL = 64
_ROWS = 4


def verify(
    g: Lowering,
    target: Tensor,
    taps: int,
    depth: int,
    tensors: Mapping[str, TensorRef],
    spec: Mapping[str, int | bool],
    push: Mapping[str, int | float],
) -> None:
    """Verify a product of windows of so many taps and channels, and copy it.

    ``tensors`` are the left matrix, the filters in order, the biases, the results and the copy; ``spec`` and ``push``
    have the geometry and the range of the activation.
    """
    flag, number = g.compared(Subject(g.operation, target.name, target.dtype.name, target.shape))
    invocations = int(push["parts"] * -(-push["rows"] // _ROWS) * -(-push["out_channels"] // 4))
    local = 8 if g.device.is_cpu else _LOCAL
    g.dispatch(
        BOUND.variant(),
        groups=g.flat(invocations, local),
        spec={"local_x": local, **spec},
        tensors={**tensors, "flag": flag},
        pad_steps=float(_STEPS + _BLOCK + taps * -(-depth // _BLOCK)),
        underflow=(taps * depth + _STEPS) * _SMALLEST,
        number=number,
        **push,
    )
