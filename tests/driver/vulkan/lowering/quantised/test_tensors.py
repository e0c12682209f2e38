"""Quantised tensors as shaders see them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnvk.driver.vulkan.lowering.dtypes import dtype, moved
from nnvk.driver.vulkan.lowering.quantised.tensors import clamp, lookup_table, offset, sign_mask, table_of, zero_point
from nnvk.ops.call import Call, Tensor
from nnvk.types.codes import FuseCode, OperandCode, OperationCode
from nnvk.types.operand import OperandType

UNSIGNED = Tensor("u", 0, OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (1,), 0.5, 10))
SIGNED = Tensor("s", 1, OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (1,), 0.5, -118))
FLOAT = Tensor("f", 2, OperandType(OperandCode.TENSOR_FLOAT32, (1,)))
SHORT = Tensor("s", 3, OperandType(OperandCode.TENSOR_QUANT16_SYMM, (1,), 0.5))


@pytest.mark.parametrize(
    ("code", "name", "bits"),
    [
        (OperandCode.TENSOR_FLOAT32, "f32", "b32"),
        (OperandCode.TENSOR_FLOAT16, "f16", "b16"),
        (OperandCode.TENSOR_INT32, "i32", "b32"),
        (OperandCode.TENSOR_BOOL8, "bool", "b8"),
        (OperandCode.TENSOR_QUANT8_SYMM, "q8", "b8"),
        (OperandCode.TENSOR_QUANT16_ASYMM, "q16", "b16"),
    ],
)
def test_every_type_has_one_row(code: OperandCode, name: str, bits: str) -> None:
    tensor = Tensor("x", 0, OperandType(code, (1,)))
    assert (dtype(tensor), moved(tensor)) == (name, bits)


def test_what_is_no_tensor_has_no_type() -> None:
    with pytest.raises(TypeError, match="x is MODEL, which has no data type in shaders"):
        dtype(Tensor("x", 0, OperandType(OperandCode.MODEL)))


def test_signed_tensors_move_to_the_unsigned_range() -> None:
    assert [offset(tensor) for tensor in (UNSIGNED, SIGNED, SHORT, FLOAT)] == [0, 128, 32768, 0]
    assert [sign_mask(tensor) for tensor in (UNSIGNED, SIGNED, SHORT)] == [0, 0x80808080, 0x80008000]
    assert zero_point(UNSIGNED) == zero_point(SIGNED) == 10


@pytest.mark.parametrize(
    ("activation", "steps", "reals"),
    [
        (FuseCode.NONE, (0, 255), (-math.inf, math.inf)),
        (FuseCode.RELU, (10, 255), (0.0, math.inf)),
        (FuseCode.RELU1, (8, 12), (-1.0, 1.0)),
        (FuseCode.RELU6, (10, 22), (0.0, 6.0)),
    ],
)
def test_activations_clamp_alike(activation: FuseCode, steps: tuple[int, int], reals: tuple[float, float]) -> None:
    def limits(output: Tensor) -> tuple[float, float]:
        push = clamp(Call(OperationCode.ADD, {"activation": activation, "output": output}, [output]))
        return push["low"], push["high"]

    assert limits(UNSIGNED) == limits(SIGNED) == steps
    assert limits(FLOAT) == reals


@pytest.mark.parametrize("source", [UNSIGNED, SIGNED], ids=lambda tensor: tensor.name)
@pytest.mark.parametrize("result", [UNSIGNED, SIGNED], ids=lambda tensor: tensor.name)
def test_lookup_tables_are_indexed_by_bytes(source: Tensor, result: Tensor) -> None:
    def in_float16(every: Tensor) -> np.ndarray:
        assert every.type == source.type
        assert every.data.dtype == source.dtype
        return np.asarray(every.data.astype(int) // 2).clip(0, 127)

    table = lookup_table(source, result, in_float16)
    assert table.dtype == np.uint8
    for value in np.arange(256).astype(np.uint8).view(source.dtype):
        byte = int(np.array(value).view(np.uint8))
        assert table[byte : byte + 1].view(result.dtype)[0] == np.clip(int(value) // 2, 0, 127)


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_a_table_is_made_with_the_values_of_other_parameters(alpha: float) -> None:
    """ELU has no quantised type in NNAPI, but its reference takes one."""
    call = Call(OperationCode.ELU, {"input": UNSIGNED, "alpha": alpha, "output": UNSIGNED}, [UNSIGNED])
    values = (np.arange(256) - 10) * 0.5
    expected = np.where(values >= 0, values, alpha * np.expm1(np.minimum(values, 0)))
    assert table_of(call).tolist() == np.round(expected / 0.5 + 10).clip(0, 255).tolist()
