"""Tensors in another data type: quantised, dequantised, cast, or as 32-bit floats for shaders that know no others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.copies.arrange import dense
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, I32, Q8, Q16, DType, of
from nnvk.driver.vulkan.lowering.elementwise.fused import access_to_vec4s
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import offset, sign_mask, zero_point
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Tensor
from nnvk.ops.quant import limits
from nnvk.types.codes import OperandCode
from nnvk.types.constant import converted
from nnvk.types.operand import OperandType

_NAMES = tuple(dtype.name for dtype in (F32, F16, I32, Q8, Q16))


def _exists(choice: Mapping[str, str]) -> bool:
    """Scales by channel are those of weights, which are dequantised; no cast takes or gives 16-bit quantised values."""
    floats = (F32.name, F16.name)
    if choice["SCALES"] == "channel":
        return choice["SRC"] == Q8.name and choice["DST"] in floats
    if Q16.name in (choice["SRC"], choice["DST"]):
        return choice["SRC"] in floats or choice["DST"] in floats
    return choice["SRC"] != choice["DST"]


CONVERT = Shader("convert", where=_exists, SRC=_NAMES, DST=_NAMES, SCALES=("one", "channel"))
LOCAL = 64


def convert(
    g: Lowering,
    source: Tensor,
    target: Tensor,
    *,
    as_numbers: bool = False,
    saturate: bool = False,
    to_even: bool = False,
) -> None:
    """Fill ``target`` with the elements of ``source``: the same real numbers, rounded to nearest.

    ``as_numbers``: elements are numbers whatever their scale, and fractions are cut off, as CAST does it.
    ``saturate``: numbers beyond 16-bit floats become the largest of these, not infinity.
    ``to_even``: the even one is taken of two quantised values that are as near, and NaN is the lowest.
    """
    options = {"TRUNCATE": as_numbers, "SATURATE": saturate, "TO_EVEN": to_even}
    _convert(g, source, of(source), g.tensor(source), target, of(target), g.tensor(target), options)


def as_float32(g: Lowering, tensor: Tensor) -> TensorRef:
    """The real numbers of a tensor as 32-bit floats: itself, or a dense copy."""
    if of(tensor) is F32:
        return g.tensor(tensor)
    target = g.scratch(4 * tensor.size)
    _convert(g, tensor, of(tensor), dense(g, tensor), tensor, F32, target)
    return target


def widened(g: Lowering, tensor: Tensor) -> Tensor:
    """A tensor whose 16-bit floats are 32-bit ones, converted now and once if it is constant; another one as it is."""
    if of(tensor) is not F16:
        return tensor
    type_ = OperandType(OperandCode.TENSOR_FLOAT32, tensor.shape)
    if tensor.is_constant:
        form = (tensor.index, "widened")
        wide = converted(tensor.constant, tensor.shape, np.dtype(np.float32))
        return g.once(form, lambda: g.intermediate(tensor.name, type_, wide))
    copy = g.intermediate(tensor.name, type_)
    convert(g, tensor, copy)
    return copy


def float32_result(g: Lowering, tensor: Tensor) -> TensorRef:
    """Where a shader writes a tensor as 32-bit floats; `finish_float32` makes the tensor of it."""
    return g.tensor(tensor) if of(tensor) is F32 else g.scratch(4 * tensor.size)


def finish_float32(g: Lowering, written: TensorRef, tensor: Tensor) -> None:
    """Make the tensor of what was written where `float32_result` said."""
    if of(tensor) is not F32:
        _convert(g, tensor, F32, written, tensor, of(tensor), g.tensor(tensor))


def _convert(
    g: Lowering,
    source: Tensor,
    from_: DType,
    read: TensorRef,
    target: Tensor,
    to: DType,
    written: TensorRef,
    options: Mapping[str, bool] | None = None,
) -> None:
    as_numbers, count = bool(options and options["TRUNCATE"]), -(-source.size // 4)
    tensors = {"src": read, "dst": written}
    push: dict[str, int | float] = {"count": count, "src_zero": 0}
    quantised = from_ in (Q8, Q16)
    if quantised:
        push |= {"src_zero": offset(source) if as_numbers else zero_point(source), "sign_mask": sign_mask(source)}
    channels = source.type.channel_quant if quantised and not as_numbers else None
    if channels is not None:
        tensors["scales"] = g.constant(np.array(channels.scales, np.float32))
        inner = int(np.prod(source.shape[channels.channel_dim + 1 :]))
        push |= {"channels": source.shape[channels.channel_dim], "inner": inner}
    else:
        push["src_scale"] = source.scale if quantised and not as_numbers else 1.0
    if to in (Q8, Q16):
        low, high = limits(target.code)
        push |= {
            "dst_scale": 1.0 if as_numbers else target.scale,
            "dst_zero": offset(target) if as_numbers else zero_point(target),
            "dst_mask": sign_mask(target),
            "low": low + offset(target),
            "high": high + offset(target),
        }
    elif to is I32:
        push |= {"dst_scale": 1.0, "dst_zero": 0}
    arguments = Arguments({"local_x": LOCAL, **(options or {})}, tensors, push, access_to_vec4s(from_.size, to.size))
    scales = "one" if channels is None else "channel"
    arguments.dispatch(g, CONVERT.variant(SRC=from_.name, DST=to.name, SCALES=scales), g.flat(count, LOCAL))
