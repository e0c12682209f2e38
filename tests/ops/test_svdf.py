"""SVDF."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

F32 = OperandType(OperandCode.TENSOR_FLOAT32)
F16 = OperandType(OperandCode.TENSOR_FLOAT16)


def operands(*, batches=3, inputs=5, units=7, rank=2, memory=11, bias=True, dtype=np.float32):
    """Input, feature weights, time weights, bias, state."""
    rng = np.random.default_rng(1)
    filters = units * rank
    shapes = [(batches, inputs), (filters, inputs), (filters, memory), (units,), (batches, filters * memory)]
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    return arrays if bias else [*arrays[:3], None, arrays[4]]


def run(ops, given, rank=2, activation=0, type_=F32):
    return ops.run(OperationCode.SVDF, *given, rank, activation, outputs=[type_, type_])


def naive(given, rank, activate):
    x, feature, time, bias, state = given
    batches, filters, memory = len(x), *time.shape
    state = state.reshape(batches, filters, memory).astype(float)
    outputs, states = np.zeros((batches, filters // rank)), np.zeros_like(state)
    for batch in range(batches):
        for number in range(filters):
            window = [*state[batch, number, :-1], float(feature[number].astype(float) @ x[batch].astype(float))]
            outputs[batch, number // rank] += sum(a * float(b) for a, b in zip(window, time[number], strict=True))
            states[batch, number] = [*window[1:], 0]
    if bias is not None:
        outputs += bias
    return states.reshape(batches, filters * memory), activate(outputs)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("activation", "function"), [(0, lambda x: x), (1, lambda x: np.maximum(x, 0)), (3, lambda x: np.clip(x, 0, 6))]
)
def test_is_its_definition(ops, rank, bias, activation, function):
    given = operands(rank=rank, bias=bias)
    state, output = run(ops, given, rank, activation)
    expected_state, expected_output = naive(given, rank, function)
    np.testing.assert_allclose(output, expected_output, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state, expected_state, rtol=1e-5, atol=1e-6)


def test_memory_is_a_window_of_past_inputs(ops):
    """An impulse comes out with the time weights in reverse, one a step."""
    _, _, time, _, state = operands(batches=1, inputs=1, units=1, rank=1, memory=4, bias=False)
    feature, state = np.ones((1, 1), np.float32), np.zeros_like(state)
    response = []
    for value in (1, 0, 0, 0, 0):
        x = np.full((1, 1), value, np.float32)
        state, output = run(ops, [x, feature, time, None, state], 1)
        response.append(output.item())
    np.testing.assert_allclose(response, [*time[0, ::-1], 0], rtol=1e-6)


@pytest.mark.parametrize("shape", [(462,), (3, 14, 11), (462, 1), (154, 3)])
def test_a_state_may_have_any_shape(ops, shape):
    given = operands()
    expected = run(ops, given)
    given[4] = given[4].reshape(shape)
    for result, wanted in zip(run(ops, given), expected, strict=True):
        assert np.array_equal(result, wanted)


def test_float16_rounds_once(ops):
    given = operands(dtype=np.float16)
    results = run(ops, given, type_=F16)
    expected = run(ops, [array.astype(np.float32) for array in given])
    for result, wanted in zip(results, expected, strict=True):
        assert np.array_equal(result, wanted.astype(np.float16))


@pytest.mark.parametrize("sizes", [{"batches": 0}, {"memory": 1}, {"units": 1, "inputs": 1}])
def test_small_sizes(ops, sizes):
    given = operands(**sizes)
    for result, expected in zip(run(ops, given), naive(given, 2, lambda x: x), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("position", "shape", "words"),
    [
        (0, (3, 4), "weights_feature must have 4 columns as the input has, got 5"),
        (2, (13, 11), "weights_time must have shape [14, 11], got [13, 11]"),
        (2, (14, 0), "weights_time must have at least 1 column"),
        (3, (14,), "bias must have shape [7], got [14]"),
        (4, (3, 140), "state_in must have 462 elements, as [3, 154] has, got shape [3, 140]"),
    ],
)
def test_operands_that_do_not_fit(ops, position, shape, words):
    given = operands()
    given[position] = np.zeros(shape, np.float32)
    with pytest.raises(NnapiError) as error:
        run(ops, given)
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason


@pytest.mark.parametrize("rank", [0, -1, 3])
def test_rank_that_does_not_divide(ops, rank):
    with pytest.raises(NnapiError, match=f"rank must be a divisor of the 14 rows of weights_feature, got {rank}"):
        run(ops, operands(), rank)
