"""ROUND_ROWS: rows of floats rounded to 8 bits, each with a scale of its own."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.internal import InternalCode

ROUND_ROWS = Shader("round_rows", DTYPE=("f32",), KIND=("symmetric", "asymmetric"), PASS=("extremes", "round"))
PART = 4096
"""The elements of a row that a workgroup rounds."""


@kernel(InternalCode.ROUND_ROWS, shaders=(ROUND_ROWS,))
def lower(call: Call, g: Lowering) -> None:
    """Lower ROUND_ROWS to one dispatch, or to two if rows are long."""
    rows, source, target = call.rows, g.tensor(call.input), {"dst": g.tensor(call.output)}
    length = call.input.size // rows
    parts = -(-length // PART)
    extremes = g.scratch(8 * rows * parts) if parts > 1 else source
    for pass_ in ("extremes", "round") if parts > 1 else ("round",):
        g.dispatch(
            ROUND_ROWS.variant(DTYPE="f32", KIND="asymmetric" if call.asymmetric else "symmetric", PASS=pass_),
            groups=g.flat(rows * parts, 1),
            spec={"local_x": g.device.team, "LOCAL": g.device.team, "ALONE": parts == 1},
            tensors={"src": source, "extremes": extremes, **(target if pass_ == "round" else {})},
            rows=rows,
            length=length,
            parts=parts,
        )
