"""SOFTMAX of rows in one pass, as `shaders/softmax_rows.comp` does it."""

from __future__ import annotations

from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.dtypes import F16, F32, DType
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.row_sharing import own_vec4s, shared_out
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader

FLOATS = {dtype.name: dtype for dtype in (F32, F16)}
"""The types of rows, by the axis DTYPE."""
SOFTMAX_ROWS = Shader("softmax_rows", DTYPE=tuple(FLOATS))


@dataclass(frozen=True, slots=True)
class Mask:
    """The term of the input: a tensor that is broadcast to four dimensions."""

    tensor: TensorRef
    sizes: tuple[int, int]
    """The sizes of dimensions 1 and 2; dimension 3 is the row."""
    strides: tuple[int, int, int, int]

    @property
    def has_vec4s(self) -> bool:
        """Whether four elements of a row have one element here, or a whole four."""
        *outer, inner = self.strides
        return inner == 0 or (inner == 1 and all(stride % 4 == 0 for stride in outer))


@dataclass(frozen=True, slots=True)
class RowSoftmax:
    """The softmax of each row."""

    dtype: DType
    source: TensorRef
    length: int
    """Elements of a row."""
    beta: float
    scale: float | None = None
    """The factor of the input."""
    mask: Mask | None = None


def softmax_rows(g: Lowering, rows: RowSoftmax, target: TensorRef, operation: int) -> Dispatch | None:
    """The dispatch that fills a tensor."""
    count = target.nbytes // rows.dtype.size // rows.length
    groups, shares = shared_out(g, count, rows.length)
    mask = rows.mask or Mask(rows.source, (1, count), (0, 0, 0, 0))
    vec4s = rows.length % 4 == 0 and mask.has_vec4s
    return g.made(
        SOFTMAX_ROWS.variant(DTYPE=rows.dtype.name),
        groups=groups,
        spec={
            **shares,
            "SCALED": rows.scale is not None,
            "MASKED": rows.mask is not None,
            "SPREAD": mask.strides[3] == 0,
            "VEC4S": vec4s,
            "OWN_VEC4S": own_vec4s(shares, rows.length, in_vec4s=vec4s),
        },
        tensors={"src": rows.source, "mask": mask.tensor, "dst": target},
        push={
            "rows": count,
            "length": rows.length,
            "size_1": mask.sizes[0],
            "size_2": mask.sizes[1],
            **{f"mask_stride_{axis}": stride for axis, stride in enumerate(mask.strides)},
            "scale": 1.0 if rows.scale is None else rows.scale,
            "factor": rows.beta,
        },
        operation=operation,
    )
