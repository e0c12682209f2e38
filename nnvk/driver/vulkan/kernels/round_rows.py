"""ROUND_ROWS and DYNAMIC_QUANTIZE: rows of floats rounded to 8 bits, each with a scale of its own."""

from __future__ import annotations

from collections.abc import Mapping

from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call
from nnvk.types.extension import ExtendedOperationCode

ROUND_ROWS = Shader(
    "round_rows", DTYPE=("f32",), KIND=("symmetric", "asymmetric", "levels"), PASS=("extremes", "round")
)
_LOADS = 4
"""The loads that an invocation does at once."""
_MOST_LOADS = 64
"""The most loads of an invocation of a GPU for a part of a row: a second dispatch takes as long as they do."""
_CPU_PART = 4096
"""The elements of a row that a workgroup of a CPU rounds."""


@kernel(ExtendedOperationCode.ROUND_ROWS, shaders=(ROUND_ROWS,))
def lower(call: Call, g: Lowering) -> None:
    """Lower ROUND_ROWS to one dispatch, or to two if rows are long."""
    _round(call, g, "asymmetric" if call.asymmetric else "symmetric", call.rows, {"dst": g.tensor(call.output)})


@kernel(ExtendedOperationCode.DYNAMIC_QUANTIZE, shaders=(ROUND_ROWS,))
def lower_dynamic_quantize(call: Call, g: Lowering) -> None:
    """Lower DYNAMIC_QUANTIZE, whose tensor is one row."""
    outputs = {"dst": call.output, "scale": call.scale, "zero": call.zero_point}
    _round(call, g, "levels", 1, {name: g.tensor(operand) for name, operand in outputs.items()})


def _round(call: Call, g: Lowering, kind: str, rows: int, targets: Mapping[str, TensorRef]) -> None:
    source = g.tensor(call.input)
    length = call.input.size // rows
    in_vec4s = length % 4 == 0
    width = 4 if in_vec4s else 1
    length //= width
    local, part = _shares(g.device, rows, length, width)
    parts = -(-length // part)
    extremes = g.scratch(8 * rows * parts) if parts > 1 else source
    for pass_ in ("extremes", "round") if parts > 1 else ("round",):
        g.dispatch(
            ROUND_ROWS.variant(DTYPE="f32", KIND=kind, PASS=pass_),
            groups=g.flat(rows * parts, 1),
            spec={"local_x": local, "LOCAL": local, "ALONE": parts == 1, "VECTORS": in_vec4s},
            tensors={"src": source, "extremes": extremes, **(targets if pass_ == "round" else {})},
            rows=rows,
            length=length,
            parts=parts,
            part=part,
        )


def _shares(device: DeviceProfile, rows: int, length: int, width: int) -> tuple[int, int]:
    """The invocations of a workgroup, and the length of the part of a row that it rounds.

    Lengths are counted in loads of ``width`` elements. Long rows have as many parts as keep the device busy.
    """
    if device.is_cpu:
        return device.team, _CPU_PART // width
    local = device.team
    while local < device.large_team and 2 * _LOADS * local <= length:
        local *= 2
    if length <= local * _MOST_LOADS:
        return local, length
    loads = -(-length * rows // (device.units * local))
    return local, local * min(max(loads, _LOADS), _MOST_LOADS)
