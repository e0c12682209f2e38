"""RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN."""

import math

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

F32 = OperandType(OperandCode.TENSOR_FLOAT32)
F16 = OperandType(OperandCode.TENSOR_FLOAT16)
TANH = 4

ACTIVATIONS = [
    pytest.param(0, lambda x: x, id="none"),
    pytest.param(1, lambda x: max(x, 0.0), id="relu"),
    pytest.param(2, lambda x: max(-1.0, min(x, 1.0)), id="relu1"),
    pytest.param(3, lambda x: max(0.0, min(x, 6.0)), id="relu6"),
    pytest.param(4, math.tanh, id="tanh"),
    pytest.param(6, lambda x: 1 / (1 + math.exp(-x)), id="sigmoid"),
]


def cell(*, inputs=5, units=7, batches=3, seed=1, dtype=np.float32):
    """Weights, recurrent weights, bias, hidden state."""
    rng = np.random.default_rng(seed)
    shapes = [(units, inputs), (units, units), (units,), (batches, units)]
    return [(rng.standard_normal(shape) * 0.5).astype(dtype) for shape in shapes]


def sequence(time=4, batches=3, inputs=5, seed=2, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal((time, batches, inputs)).astype(dtype)


def naive(x, operands, activate):
    """Outputs of a time-major sequence, element by element."""
    weights, recurrent, bias, state = (operand.astype(float) for operand in operands)
    outputs = []
    for step in x.astype(float):
        state = np.array(
            [
                [activate(weights[unit] @ vector + recurrent[unit] @ old + bias[unit]) for unit in range(len(bias))]
                for vector, old in zip(step, state, strict=True)
            ]
        )
        outputs.append(state)
    return np.array(outputs)


def unidirectional(ops, x, operands, *, time_major=1, outputs=2, type_=F32):
    return ops.run(OperationCode.UNIDIRECTIONAL_SEQUENCE_RNN, x, *operands, TANH, time_major, outputs=[type_] * outputs)


def bidirectional(ops, x, forward, backward, aux=(None, None, None), *, time_major=True, merge=False, outputs=4):
    return ops.run(
        OperationCode.BIDIRECTIONAL_SEQUENCE_RNN,
        x,
        *forward,
        *backward,
        *aux,
        TANH,
        time_major,
        merge,
        outputs=[F32] * outputs,
    )


@pytest.mark.parametrize(("activation", "function"), ACTIVATIONS)
def test_step_is_the_equation(ops, activation, function):
    operands = cell()
    x = sequence(time=1)
    state, output = ops.run(OperationCode.RNN, x[0], *operands, activation, outputs=[F32, F32])
    np.testing.assert_allclose(output, naive(x, operands, function)[0], rtol=1e-5, atol=1e-6)
    assert np.array_equal(state, output)


def test_sequence_is_the_equation(ops):
    operands = cell()
    x = sequence()
    outputs, state = unidirectional(ops, x, operands)
    np.testing.assert_allclose(outputs, naive(x, operands, math.tanh), rtol=1e-5, atol=1e-6)
    assert np.array_equal(state, outputs[-1])


def test_batch_major_is_transposed(ops):
    operands = cell()
    x = sequence()
    time_major, state = unidirectional(ops, x, operands)
    batch_major, same = unidirectional(ops, np.ascontiguousarray(x.swapaxes(0, 1)), operands, time_major=0)
    assert np.array_equal(batch_major, time_major.swapaxes(0, 1)) and np.array_equal(state, same)
    assert len(unidirectional(ops, x, operands, outputs=1)) == 1


def test_float16_rounds_once(ops):
    operands, x = cell(dtype=np.float16), sequence(dtype=np.float16)
    results = unidirectional(ops, x, operands, type_=F16)
    expected = unidirectional(ops, x.astype(np.float32), [operand.astype(np.float32) for operand in operands])
    for result, wanted in zip(results, expected, strict=True):
        assert np.array_equal(result, wanted.astype(np.float16))


@pytest.mark.parametrize("shape", [(21,), (21, 1), (1, 3, 7), (7, 3)])
def test_the_state_of_a_step_may_have_any_shape(ops, shape):
    """As with Android's CPU, which asks for matrices only where there are sequences."""
    operands, x = cell(), sequence(time=1)
    expected = ops.run(OperationCode.RNN, x[0], *operands, TANH, outputs=[F32, F32])
    operands[3] = operands[3].reshape(shape)
    results = ops.run(OperationCode.RNN, x[0], *operands, TANH, outputs=[F32, F32])
    assert np.array_equal(results, expected)
    with pytest.raises(NnapiError, match="hidden_state_in must have"):
        unidirectional(ops, x, operands)
    with pytest.raises(NnapiError, match="fw_hidden_state_in must have"):
        bidirectional(ops, x, operands, cell())


@pytest.mark.parametrize(("time", "batches"), [(0, 3), (4, 0)])
def test_nothing_to_do(ops, time, batches):
    operands = cell(batches=batches)
    outputs, state = unidirectional(ops, sequence(time, batches), operands)
    assert outputs.shape == (time, batches, 7) and state.shape == (batches, 7)
    if not time:
        assert np.array_equal(state, operands[3])


@pytest.mark.parametrize("time_major", [True, False])
def test_bidirectional_is_two_sequences(ops, time_major):
    forward, backward = cell(seed=3), cell(units=11, seed=4)
    x = sequence()
    given = x if time_major else np.ascontiguousarray(x.swapaxes(0, 1))
    results = bidirectional(ops, given, forward, backward, time_major=time_major)
    one, other = unidirectional(ops, x, forward), unidirectional(ops, x[::-1].copy(), backward)
    sequences = [one[0], other[0][::-1]]
    for result, wanted in zip(results[:2], sequences, strict=True):
        assert np.array_equal(result if time_major else result.swapaxes(0, 1), wanted)
    assert np.array_equal(results[2], one[1]) and np.array_equal(results[3], other[1])
    merged = bidirectional(ops, given, forward, backward, time_major=time_major, merge=True, outputs=3)
    assert np.array_equal(merged[0], np.concatenate(results[:2], axis=2))
    assert np.array_equal(merged[1], one[1]) and np.array_equal(merged[2], other[1])


def test_parallel_linking_feeds_the_backward_cell(ops):
    forward, backward = cell(seed=3), cell(inputs=2, seed=4)
    x, aux = sequence(), sequence(inputs=2, seed=5)
    results = bidirectional(ops, x, forward, backward, (aux, None, None), outputs=2)
    assert np.array_equal(results[0], unidirectional(ops, x, forward)[0])
    assert np.array_equal(results[1], unidirectional(ops, aux[::-1].copy(), backward)[0][::-1])


def test_cross_linking_widens_both_inputs(ops):
    forward, backward = cell(seed=3), cell(seed=4)
    x, aux = sequence(), sequence(inputs=2, seed=5)
    aux_weights = [cell(inputs=2, seed=seed)[0] for seed in (6, 7)]
    results = bidirectional(ops, x, forward, backward, (aux, *aux_weights), outputs=2)
    both = np.concatenate((x, aux), axis=2)
    wide = [
        [np.concatenate((operands[0], more), axis=1), *operands[1:]]
        for operands, more in zip((forward, backward), aux_weights, strict=True)
    ]
    np.testing.assert_allclose(results[0], unidirectional(ops, both, wide[0])[0], rtol=1e-5, atol=1e-6)
    backwards = unidirectional(ops, both[::-1].copy(), wide[1])[0][::-1]
    np.testing.assert_allclose(results[1], backwards, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("position", "shape", "words"),
    [
        (0, (7, 4), "weights must have 5 columns as the input has, got 4"),
        (1, (7, 6), "recurrent_weights must have shape [7, 7], got [7, 6]"),
        (2, (1, 7), "bias must have rank 1, got shape [1, 7]"),
        (3, (2, 7), "hidden_state_in must have "),
    ],
)
def test_operands_that_do_not_fit(ops, position, shape, words):
    operands = cell()
    operands[position] = np.zeros(shape, np.float32)
    got = "21 elements, as [3, 7] has, got shape [2, 7]", "shape [3, 7], got [2, 7]"
    for any_shape, run in (
        (True, lambda: ops.run(OperationCode.RNN, sequence()[0], *operands, 0, outputs=[F32, F32])),
        (False, lambda: unidirectional(ops, sequence(), operands)),
        (False, lambda: bidirectional(ops, sequence(), operands, cell())),
        (False, lambda: bidirectional(ops, sequence(), cell(), operands)),
    ):
        with pytest.raises(NnapiError) as error:
            run()
        expected = words + got[not any_shape] if position == 3 else words
        assert error.value.code == ResultCode.BAD_DATA and expected in error.value.reason


def test_options_out_of_range(ops):
    with pytest.raises(NnapiError, match=r"time_major must be 0 or 1, got 2"):
        unidirectional(ops, sequence(), cell(), time_major=2)
    with pytest.raises(NnapiError, match=r"activation must be one of .*, got 7"):
        ops.run(OperationCode.RNN, sequence()[0], *cell(), 7, outputs=[F32, F32])
    with pytest.raises(NnapiError, match=r"expected 2 or 4 outputs \(not merged\), got 3"):
        bidirectional(ops, sequence(), cell(), cell(), outputs=3)
    with pytest.raises(NnapiError, match=r"fw_aux_weights and bw_aux_weights must not be given without aux_input"):
        bidirectional(ops, sequence(), cell(), cell(), (None, cell()[0], cell()[0]))
    with pytest.raises(NnapiError, match=r"must be given together or not at all, got only bw_aux_weights"):
        bidirectional(ops, sequence(), cell(), cell(), (sequence(), None, cell()[0]))
    with pytest.raises(NnapiError, match=r"input must have rank 3, got shape \[3, 5\]"):
        unidirectional(ops, sequence()[0], cell())
