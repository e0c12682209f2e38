"""Rows of floats rounded to 8 bits with scales of their own, as `shaders/round_rows.comp` does it."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader

ROUND_ROWS = Shader("round_rows", DTYPE=("f32",), KIND=("symmetric", "asymmetric"), PASS=("extremes", "round"))
LOCAL = 64
PART = 4096
"""Elements of a row that a workgroup takes."""


def round_rows(
    g: Lowering, kind: str, source: TensorRef, target: TensorRef, rows: int, operation: int
) -> list[Dispatch]:
    """The dispatches that round a tensor of equally long rows."""
    length = source.nbytes // 4 // rows
    parts = -(-length // PART)
    local = g.device.team
    extremes = g.scratch(8 * rows * parts) if parts > 1 else source
    made: list[Dispatch | None] = []
    passes = ("extremes", "round") if parts > 1 else ("round",)
    for pass_ in passes:
        made.append(
            g.made(
                ROUND_ROWS.variant(DTYPE="f32", KIND=kind, PASS=pass_),
                groups=g.flat(rows * parts, 1),
                spec={"local_x": local, "LOCAL": local, "ALONE": parts == 1},
                tensors={"src": source, "extremes": extremes} | ({"dst": target} if pass_ == "round" else {}),
                push={"rows": rows, "length": length, "parts": parts},
                operation=operation,
            )
        )
    return [dispatch for dispatch in made if dispatch is not None]
