"""BATCH_MATMUL."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.linear import centred, finish, matrix_product, products
from nnvk.ops.registry import define
from nnvk.ops.signature import F16, F32, I32, Q8S, Signature, boolean, tensor
from nnvk.ops.traits import Fp16, Gemm, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _infer(call: Call) -> list[Shape]:
    first, second = call.input0, call.input1
    if second.rank != first.rank or second.shape[:-2] != first.shape[:-2]:
        raise bad_data(
            f"input1 must have the batch dimensions {list(first.shape[:-2])} of input0, got shape {list(second.shape)}"
        )
    rows, inner = first.shape[:-3:-1] if call.adj_x else first.shape[-2:]
    inner1, columns = second.shape[:-3:-1] if call.adj_y else second.shape[-2:]
    if inner1 != inner:
        raise bad_data(
            f"input0 and input1 must agree along the summed dimension, got {inner} and {inner1} "
            f"(adj_x {call.adj_x}, adj_y {call.adj_y})"
        )
    return [(*first.shape[:-2], rows, columns)]


def _adjoint(values: np.ndarray, adjoint: bool) -> np.ndarray:
    return values.swapaxes(-1, -2) if adjoint else values


def _reference(call: Call) -> np.ndarray:
    if call.output.code == I32:  # wraps round, as on a device
        product: np.ndarray = np.matmul(_adjoint(call.input0.data, call.adj_x), _adjoint(call.input1.data, call.adj_y))
        return product
    first, second = _adjoint(centred(call.input0), call.adj_x), _adjoint(centred(call.input1), call.adj_y)
    summed = products(call.input0, second, -2)
    with np.errstate(all="ignore"):
        sums = matrix_product(first.astype(summed.dtype, copy=False), second.astype(summed.dtype, copy=False))
        return finish(call, summed, sums, call.input0, call.input1)


define(
    OperationCode.BATCH_MATMUL,
    traits=Traits(foldable=False, fp16=Fp16.STARTS, gemm=Gemm("input0", "input1", None, summed=slice(-2, -1))),
    types=dict.fromkeys((F16, F32, I32, Q8S), 6),
    signatures=Signature(
        tensor("input0", rank=(2, 4)), tensor("input1", rank=(2, 4)), boolean("adj_x", False), boolean("adj_y", False)
    ),
    infer=_infer,
    reference=_reference,
)
