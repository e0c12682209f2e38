"""CONCATENATION, PACK, SPLIT."""

import math

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

rng = np.random.default_rng(7)
F32 = OperandType(OperandCode.TENSOR_FLOAT32)
AXIS = OperandType(OperandCode.INT32)
"""An axis that comes with the execution."""


def real(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        pytest.param([(3, 5), (3, 7)], 1, id="last_axis"),
        pytest.param([(3, 5), (1, 5), (7, 5)], 0, id="three_first_axis"),
        pytest.param([(2, 1, 3, 5), (2, 4, 3, 5)], 1, id="rank_4"),
        pytest.param([(3, 0), (3, 7)], 1, id="one_empty"),
        pytest.param([(11,)], 0, id="alone"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_concatenation(ops, shapes, axis, dtype):
    parts = [real(*shape, dtype=dtype) for shape in shapes]
    (result,) = ops.run(OperationCode.CONCATENATION, *parts, axis)
    start = 0
    for part in parts:
        stop = start + part.shape[axis]
        assert np.array_equal(result.take(range(start, stop), axis), part)
        start = stop


def rescaled(step, scale, zero_point, out_scale, out_zero_point):
    """TFLite's ConcatenationWithScaling for one unsigned step, in float32."""
    factor = np.float32(scale) * (np.float32(1) / np.float32(out_scale))
    value = np.float32(step) * factor + np.float32(-zero_point) * factor
    rounded = int(math.copysign(math.floor(abs(value) + 0.5), value))
    return min(max(rounded + out_zero_point, 0), 255)


@pytest.mark.parametrize(
    ("scale", "zero_point", "out_scale", "out_zero_point"),
    [(0.5, 128, 0.25, 3), (0.25, 0, 0.5, 128), (0.1, 17, 0.7, 255), (1.0, 100, 1.0, 90)],
)
def test_concatenation_rescales_all_steps_and_signed_is_unsigned(ops, scale, zero_point, out_scale, out_zero_point):
    steps = np.arange(256, dtype=np.uint8)
    kept = np.arange(5, dtype=np.uint8)
    (result,) = ops.run(
        OperationCode.CONCATENATION,
        (steps, scale, zero_point),
        (kept, out_scale, out_zero_point),
        0,
        outputs=[OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), out_scale, out_zero_point)],
    )
    expected = [rescaled(int(step), scale, zero_point, out_scale, out_zero_point) for step in steps]
    assert result.tolist() == expected + kept.tolist()

    (signed,) = ops.run(
        OperationCode.CONCATENATION,
        ((steps.astype(int) - 128).astype(np.int8), scale, zero_point - 128),
        ((kept.astype(int) - 128).astype(np.int8), out_scale, out_zero_point - 128),
        0,
        outputs=[OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (), out_scale, out_zero_point - 128)],
    )
    assert (signed.astype(int) + 128).tolist() == result.tolist()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_pack(ops, axis, count):
    parts = [real(3, 5) for _ in range(count)]
    (result,) = ops.run(OperationCode.PACK, axis, *parts)
    for number, part in enumerate(parts):
        assert np.array_equal(result.take(number, axis), part)


RANKS = [
    pytest.param(
        [(4, 5, 6), (4, 5, 6)], (2, 4, 5), r"output must have rank 4, 1 more than inputs, \[4, 5, 6\]", id="lo"
    ),
    pytest.param([(4, 5, 6), (4, 5, 6)], (2, 4, 5, 6, 7), r"output must have rank 4, .* got shape \[2, 4, 5", id="hi"),
    pytest.param([(4, 5, 6), (4, 5)], (2, 4, 5, 6), r"inputs\[1\] must have the shape \[4, 5, 6\] of", id="input_lo"),
    pytest.param(
        [(4, 5, 6, 7), (4, 5, 6)], (2, 4, 5, 6), r"inputs\[1\] must have the shape \[4, 5, 6, 7\]", id="input_hi"
    ),
    pytest.param([(0, 5, 6), (4, 0)], (), r"inputs\[1\] must have the shape \[0, 5, 6\] .* got \[4, 0\]", id="open"),
    pytest.param([(), (4, 5)], (2, 0), r"output must have rank 3, 1 more than inputs, \[4, 5\]", id="no_rank"),
]


@pytest.mark.parametrize(("inputs", "output", "message"), RANKS)
def test_ranks_of_pack_are_checked_before_its_axis_is_known(ops, inputs, output, message):
    """As Android does at finish: the ranks follow from each other."""
    types = [F32.with_dimensions(shape) for shape in inputs]
    with pytest.raises(NnapiError, match=f"PACK: {message}") as error:
        ops.infer(OperationCode.PACK, AXIS, *types, outputs=[F32.with_dimensions(output)])
    assert error.value.code is ResultCode.BAD_DATA


@pytest.mark.parametrize("inputs", [[(4, 5)] * 2, [(), ()], [(), (4, 0)], [(0, 5), ()]])
@pytest.mark.parametrize("output", [(), (2, 4, 5), (0, 0, 0)])
def test_pack_of_unknown_shapes(ops, inputs, output):
    types = [F32.with_dimensions(shape) for shape in inputs]
    assert ops.infer(OperationCode.PACK, AXIS, *types, outputs=[F32.with_dimensions(output)]) is None


@pytest.mark.parametrize(
    ("shape", "axis", "count"), [((6, 5), 0, 3), ((3, 10), -1, 2), ((7,), 0, 7), ((2, 3), 1, 1), ((0, 4), 1, 2)]
)
def test_split(ops, shape, axis, count):
    source = real(*shape)
    results = ops.run(OperationCode.SPLIT, source, axis, count, outputs=[F32] * count)
    assert np.array_equal(np.concatenate(results, axis), source)
    assert len({result.shape for result in results}) == 1


@pytest.mark.parametrize(
    ("code", "inputs", "outputs", "message"),
    [
        pytest.param(
            OperationCode.CONCATENATION,
            (real(3, 5), real(2, 5), 1),
            [F32],
            r"inputs\[1\] must have the shape \[3, 5\] of inputs\[0\] except along axis 1, got \[2, 5\]",
            id="concatenation_shape",
        ),
        pytest.param(
            OperationCode.CONCATENATION,
            (real(3, 5), real(3), 0),
            [F32],
            r"inputs\[1\] must have the shape \[3, 5\] .* got \[3\]",
            id="concatenation_rank",
        ),
        pytest.param(
            OperationCode.CONCATENATION, (real(3), real(3), 1), [F32], r"axis must be in \[0, 1\), got 1", id="axis"
        ),
        pytest.param(
            OperationCode.CONCATENATION,
            (real(1, 1, 1, 1, 2), 4),
            [F32],
            r"inputs must have rank 1 to 4, got shape \[1, 1, 1, 1, 2\]",
            id="concatenation_rank_5",
        ),
        pytest.param(
            OperationCode.CONCATENATION,
            (real(3), 0),
            [F32.with_dimensions((4,))],
            r"output output is declared as \[4\], but the inputs give \[3\]",
            id="declared",
        ),
        pytest.param(OperationCode.PACK, (2, real(3)), [F32], r"axis must be in \[0, 2\), got 2", id="pack_axis"),
        pytest.param(
            OperationCode.PACK,
            (0, real(3), real(4)),
            [F32],
            r"inputs\[1\] must have the shape \[3\] of inputs\[0\], got \[4\]",
            id="pack_shape",
        ),
        pytest.param(
            OperationCode.SPLIT,
            (real(7), 0, 2),
            [F32] * 2,
            "num_splits must divide the 7 elements along axis 0, got 2",
            id="split_uneven",
        ),
        pytest.param(
            OperationCode.SPLIT,
            (real(6), 0, 3),
            [F32] * 2,
            "num_splits must be the number of outputs, 2, got 3",
            id="split_outputs",
        ),
    ],
)
def test_errors(ops, code, inputs, outputs, message):
    with pytest.raises(NnapiError, match=f"{code.name}: {message}") as error:
        ops.infer(code, *inputs, outputs=outputs)
    assert error.value.code is ResultCode.BAD_DATA


def test_pack_does_not_rescale(ops):
    part = np.zeros(3, np.uint8)
    with pytest.raises(NnapiError, match="PACK: output must have the scale and zero point of inputs"):
        ops.infer(OperationCode.PACK, 0, (part, 0.5, 3), (part, 0.5, 4))
