"""Operations on single elements: floats by formula, quantised tensors by a table that the reference computes."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.dtypes import I32, SIZES, dtype
from nnvk.driver.vulkan.lowering.elementwise.fused import FUSED_ELEMENTWISE, access_to_vec4s, operations_on, types_of
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import table_of
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.fused import REAL_RANGES
from nnvk.ops.quant import is_quantised
from nnvk.types.codes import FuseCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode

_TRAITS = operations_on(1)
_KINDS = {trait.kind for trait in _TRAITS.values()}
_APPROXIMATE = {trait.approximate[0] for trait in _TRAITS.values() if trait.approximate is not None}
_ON_INTEGERS = {trait.kind for code, trait in _TRAITS.items() if I32.name in types_of(code)}

UNARY = Shader(
    "unary",
    where=lambda choice: choice["DTYPE"] != I32.name or choice["KIND"] in _ON_INTEGERS,
    KIND=sorted(_KINDS | _APPROXIMATE),
    DTYPE=("f32", "f16", "i32"),
)
LOOKUP = Shader("lookup")
LOOKUP_16 = Shader("lookup_16")
LOCAL = 64


@kernel(*_TRAITS, shaders=(UNARY, LOOKUP, LOOKUP_16, FUSED_ELEMENTWISE))
def lower(call: Call, g: Lowering) -> None:
    """Lower a unary operation: each invocation computes four elements."""
    if is_quantised(call.input.code):
        lower_quantised(call, g)
        return
    trait = _TRAITS[call.code]
    kind = trait.kind
    if trait.approximate is not None and call.approximate:
        kind, _ = trait.approximate
    numbers = [float(getattr(call, name)) for name in trait.numbers]
    low, high = [*numbers, 0.0, 0.0][:2] if trait.clip is FuseCode.NONE else REAL_RANGES[trait.clip]
    count, type_ = -(-call.input.size // 4), dtype(call.input)
    arguments = Arguments(
        {"local_x": LOCAL},
        {"src": g.tensor(call.input), "dst": g.tensor(call.output)},
        {"count": count, "low": low, "high": high},
        access_to_vec4s(SIZES[type_], SIZES[type_]),
    )
    arguments.dispatch(g, UNARY.variant(KIND=kind, DTYPE=type_), g.flat(count, LOCAL))


@kernel(OperationCode.LOGICAL_NOT, shaders=(LOOKUP,))
def lower_quantised(call: Call, g: Lowering) -> None:
    """Lower an operation on a quantised tensor by a table: each invocation looks up four quantised values."""
    look_up(g, g.tensor(call.input), table_of(call), g.tensor(call.output), call.input.size)


@kernel(ExtendedOperationCode.TABLE_LOOKUP, shaders=(LOOKUP, LOOKUP_16))
def lower_table_lookup(call: Call, g: Lowering) -> None:
    """Arrange the table's entries for the shaders."""
    size = call.input.dtype.itemsize
    _look_up(g, g.tensor(call.input), g.tensor(call.table), g.tensor(call.output), call.input.size, size)


def look_up(g: Lowering, source: TensorRef, table: np.ndarray, target: TensorRef, elements: int) -> None:
    """Map every byte of ``source`` by a table of 256, or every 16 bits by one of 65,536."""
    _look_up(g, source, g.constant(table), target, elements, table.itemsize)


def _look_up(g: Lowering, source: TensorRef, table: TensorRef, target: TensorRef, elements: int, itemsize: int) -> None:
    count = -(-elements // 4)
    tensors = {"src": source, "table": table, "dst": target}
    arguments = Arguments({"local_x": LOCAL}, tensors, {"count": count}, access_to_vec4s(itemsize, itemsize))
    arguments.dispatch(g, (LOOKUP if itemsize == 1 else LOOKUP_16).variant(), g.flat(count, LOCAL))
