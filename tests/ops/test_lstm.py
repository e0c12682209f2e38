"""LSTM, UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM."""

import math

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

F32 = OperandType(OperandCode.TENSOR_FLOAT32)
F16 = OperandType(OperandCode.TENSOR_FLOAT16)
GATES = ("input", "forget", "cell", "output")
TANH = 4

OPTIONS = [
    pytest.param({}, id="plain"),
    pytest.param({"cifg"}, id="cifg"),
    pytest.param({"peephole"}, id="peephole"),
    pytest.param({"cifg", "peephole"}, id="cifg_peephole"),
    pytest.param({"projection"}, id="projection"),
    pytest.param({"projection", "projection_bias"}, id="projection_bias"),
    pytest.param({"norm"}, id="layer_norm"),
    pytest.param({"cifg", "norm", "peephole", "projection", "projection_bias"}, id="everything_cifg"),
    pytest.param({"norm", "peephole", "projection", "projection_bias"}, id="everything"),
]


def cell(options, *, inputs=5, units=7, outputs=3, batches=2, aux=0, seed=1):
    """Operands of one random cell by name; those that the options leave out are None."""
    rng = np.random.default_rng(seed)
    outputs = outputs if "projection" in options else units
    gates = GATES[1:] if "cifg" in options else GATES

    def real(given, *shape):
        return (rng.standard_normal(shape) * 0.6).astype(np.float32) if given else None

    operands = {}
    for gate in GATES:
        here = gate in gates
        operands[f"input_to_{gate}_weights"] = real(here, units, inputs)
        operands[f"recurrent_to_{gate}_weights"] = real(here, units, outputs)
        operands[f"cell_to_{gate}_weights"] = real(here and "peephole" in options and gate != "cell", units)
        operands[f"{gate}_gate_bias"] = real(here, units)
        operands[f"{gate}_layer_norm_weights"] = real(here and "norm" in options, units)
        operands[f"aux_input_to_{gate}_weights"] = real(here and aux, units, aux)
    operands["projection_weights"] = real("projection" in options, outputs, units)
    operands["projection_bias"] = real("projection_bias" in options, outputs)
    operands["output_state_in"] = real(True, batches, outputs)
    operands["cell_state_in"] = real(True, batches, units)
    return operands


def named(operands, template, gates=GATES):
    return [operands[template.format(gate)] for gate in gates]


def weights(operands):
    return [
        *named(operands, "input_to_{}_weights"),
        *named(operands, "recurrent_to_{}_weights"),
        *named(operands, "cell_to_{}_weights", ("input", "forget", "output")),
        *named(operands, "{}_gate_bias"),
        operands["projection_weights"],
        operands["projection_bias"],
    ]


def states(operands):
    return [operands["output_state_in"], operands["cell_state_in"]]


def norms(operands):
    return named(operands, "{}_layer_norm_weights")


def naive_step(x, h, c, operands, *, cell_clip=0.0, proj_clip=0.0, g=math.tanh):
    """One batch element, one step, from the equations of the specification, in double precision."""
    units = len(operands["forget_gate_bias"])

    def dot(row, vector):
        return sum(float(a) * float(b) for a, b in zip(row, vector, strict=True))

    def gate(name, peek):
        raw = []
        for unit in range(units):
            total = dot(operands[f"input_to_{name}_weights"][unit], x)
            total += dot(operands[f"recurrent_to_{name}_weights"][unit], h)
            if operands[f"cell_to_{name}_weights"] is not None:
                total += float(operands[f"cell_to_{name}_weights"][unit]) * peek[unit]
            raw.append(total)
        norm = operands[f"{name}_layer_norm_weights"]
        if norm is not None:
            mean = sum(raw) / units
            deviation = math.sqrt(sum((value - mean) ** 2 for value in raw) / units)
            raw = [(value - mean) / deviation * float(factor) for value, factor in zip(raw, norm, strict=True)]
        return [value + float(bias) for value, bias in zip(raw, operands[f"{name}_gate_bias"], strict=True)]

    def sigmoid(values):
        return [1 / (1 + math.exp(-value)) for value in values]

    def clip(value, threshold):
        return max(-threshold, min(threshold, value)) if threshold else value

    forget = sigmoid(gate("forget", c))
    write = [1 - f for f in forget] if operands["input_gate_bias"] is None else sigmoid(gate("input", c))
    candidate = [g(value) for value in gate("cell", c)]
    c = [clip(f * old + i * new, cell_clip) for f, old, i, new in zip(forget, c, write, candidate, strict=True)]
    h = [o * g(value) for o, value in zip(sigmoid(gate("output", c)), c, strict=True)]
    if operands["projection_weights"] is not None:
        bias = operands["projection_bias"]
        h = [
            clip(dot(row, h) + (0 if bias is None else float(bias[unit])), proj_clip)
            for unit, row in enumerate(operands["projection_weights"])
        ]
    return h, c


def naive(sequence, operands, **options):
    """Outputs [time, batch, size] and final states of a time-major sequence."""
    h, c = (state.astype(float).tolist() for state in states(operands))
    outputs = []
    for step in sequence:
        pairs = [naive_step(x, *state, operands, **options) for x, *state in zip(step, h, c, strict=True)]
        h, c = ([pair[part] for pair in pairs] for part in (0, 1))
        outputs.append(h)
    return outputs, h, c


def sequence(time=4, batches=2, inputs=5, seed=2):
    return np.random.default_rng(seed).standard_normal((time, batches, inputs)).astype(np.float32)


def lstm(ops, x, operands, *, activation=TANH, cell_clip=0.0, proj_clip=0.0, outputs=(F32,) * 4, with_norms=True):
    last = norms(operands) if with_norms else []
    return ops.run(
        OperationCode.LSTM,
        x,
        *weights(operands),
        *states(operands),
        activation,
        cell_clip,
        proj_clip,
        *last,
        outputs=outputs,
    )


def unidirectional(ops, x, operands, *, time_major=True, outputs=3, clip=0.0, type_=F32):
    clip = type_.dtype.type(clip)
    return ops.run(
        OperationCode.UNIDIRECTIONAL_SEQUENCE_LSTM,
        x,
        *weights(operands),
        *states(operands),
        TANH,
        clip,
        clip,
        time_major,
        *norms(operands),
        outputs=[type_] * outputs,
    )


def bidirectional(ops, x, forward, backward, aux=None, *, merge=False, time_major=True, outputs=6):
    return ops.run(
        OperationCode.BIDIRECTIONAL_SEQUENCE_LSTM,
        x,
        *weights(forward),
        *weights(backward),
        *states(forward),
        *states(backward),
        aux,
        *named(forward, "aux_input_to_{}_weights"),
        *named(backward, "aux_input_to_{}_weights"),
        TANH,
        0.0,
        0.0,
        merge,
        time_major,
        *norms(forward),
        *norms(backward),
        outputs=[F32] * outputs,
    )


def with_states(operands, *shapes):
    """The cell with its output state and its cell state in other shapes."""
    given = zip(("output_state_in", "cell_state_in"), shapes, strict=True)
    return {**operands, **{name: operands[name].reshape(shape) for name, shape in given}}


# --- one step ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS)
def test_step_is_the_equations(ops, options):
    operands = cell(options)
    x = sequence(time=1)
    scratch, output_state, cell_state, output = lstm(ops, x[0], operands)
    _, expected_output, expected_cell = naive(x, operands)
    np.testing.assert_allclose(output, expected_output, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(cell_state, expected_cell, rtol=1e-5, atol=1e-6)
    assert np.array_equal(output, output_state)
    assert scratch.shape == (2, 7 * (3 if "cifg" in options else 4))


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        pytest.param(0, lambda x: x, id="none"),
        pytest.param(1, lambda x: max(x, 0.0), id="relu"),
        pytest.param(3, lambda x: min(max(x, 0.0), 6.0), id="relu6"),
        pytest.param(4, math.tanh, id="tanh"),
        pytest.param(6, lambda x: 1 / (1 + math.exp(-x)), id="sigmoid"),
    ],
)
def test_activations(ops, activation, function):
    operands = cell(set())
    x = sequence(time=1)
    result = lstm(ops, x[0], operands, activation=activation)
    np.testing.assert_allclose(result[3], naive(x, operands, g=function)[1], rtol=1e-5, atol=1e-6)


def test_clipping(ops):
    operands = cell({"projection"})
    x = sequence(time=1)
    _, _, cell_state, output = lstm(ops, x[0], operands, cell_clip=0.25, proj_clip=0.125)
    _, expected_output, expected_cell = naive(x, operands, cell_clip=0.25, proj_clip=0.125)
    np.testing.assert_allclose(output, expected_output, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(cell_state, expected_cell, rtol=1e-5, atol=1e-6)
    assert np.abs(cell_state).max() == 0.25 and np.abs(output).max() == 0.125


def test_23_inputs_have_no_layer_norm(ops):
    operands = cell({"peephole"})
    x = sequence(time=1)[0]
    assert np.array_equal(lstm(ops, x, operands)[3], lstm(ops, x, operands, with_norms=False)[3])


@pytest.mark.parametrize("shapes", [((6,), (14,)), ((6, 1), (2, 1, 7)), ((3, 1, 2), (7, 2))])
def test_states_of_a_step_may_have_any_shape(ops, shapes):
    """Android's CPU only reads their elements; in a sequence of one direction they are matrices there, too."""
    operands, x = cell({"projection"}), sequence(time=1)
    expected = lstm(ops, x[0], operands)
    for result, wanted in zip(lstm(ops, x[0], with_states(operands, *shapes)), expected, strict=True):
        assert np.array_equal(result, wanted)
    with pytest.raises(NnapiError, match="_state_in must have rank 2"):
        unidirectional(ops, x, with_states(operands, *shapes))


@pytest.mark.parametrize("omitted", ["no_value", "empty"])
def test_ways_to_omit(ops, omitted):
    operands = cell({"cifg"})
    x = sequence(time=1)[0]
    expected = lstm(ops, x, operands)
    empty = {"no_value": None, "empty": np.zeros(0, np.float32)}[omitted]
    left_out = {name: empty if value is None else value for name, value in operands.items()}
    for result, wanted in zip(lstm(ops, x, left_out), expected, strict=True):
        assert np.array_equal(result, wanted)


def test_shapes_wait_for_an_optional_model_input(ops):
    operands = cell({"peephole"})
    operands["cell_to_input_weights"] = F32.with_dimensions((7,))
    shapes = ops.infer(
        OperationCode.LSTM,
        F32.with_dimensions((2, 5)),
        *weights(operands),
        *states(operands),
        TANH,
        0.0,
        0.0,
        outputs=[F32] * 4,
    )
    assert shapes is None


# --- one direction -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS)
def test_sequence_is_the_equations(ops, options):
    operands = cell(options)
    x = sequence()
    results = unidirectional(ops, x, operands)
    for result, expected in zip(results, naive(x, operands), strict=True):
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)


def test_batch_major_is_transposed(ops):
    operands = cell({"projection", "norm"})
    x = sequence()
    time_major = unidirectional(ops, x, operands)
    batch_major = unidirectional(ops, np.ascontiguousarray(x.swapaxes(0, 1)), operands, time_major=False)
    assert np.array_equal(batch_major[0], time_major[0].swapaxes(0, 1))
    assert np.array_equal(batch_major[1], time_major[1]) and np.array_equal(batch_major[2], time_major[2])


def test_states_carry_over(ops):
    operands = cell({"peephole"})
    x = sequence(time=5)
    whole = unidirectional(ops, x, operands)
    first = unidirectional(ops, x[:2], operands)
    second = unidirectional(ops, x[2:], {**operands, "output_state_in": first[1], "cell_state_in": first[2]})
    np.testing.assert_allclose(np.concatenate((first[0], second[0])), whole[0], rtol=1e-6)
    np.testing.assert_allclose(second[2], whole[2], rtol=1e-6)
    assert len(unidirectional(ops, x, operands, outputs=1)) == 1


def test_float16_rounds_once(ops):
    operands = cell({"projection", "projection_bias"})
    half = {name: None if value is None else value.astype(np.float16) for name, value in operands.items()}
    wide = {name: None if value is None else value.astype(np.float32) for name, value in half.items()}
    x = sequence().astype(np.float16)
    results = unidirectional(ops, x, half, type_=F16, clip=np.float16(2))
    expected = unidirectional(ops, x.astype(np.float32), wide, clip=2.0)
    for result, wanted in zip(results, expected, strict=True):
        assert np.array_equal(result, wanted.astype(np.float16))


@pytest.mark.parametrize(("time", "batches"), [(0, 2), (3, 0)])
def test_nothing_to_do(ops, time, batches):
    operands = cell({"norm"}, batches=batches)
    outputs, output_state, cell_state = unidirectional(ops, sequence(time, batches), operands)
    assert outputs.shape == (time, batches, 7)
    if not time:
        assert np.array_equal(output_state, operands["output_state_in"])
        assert np.array_equal(cell_state, operands["cell_state_in"])


# --- both directions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [pytest.param({}, id="plain"), *OPTIONS[-2:]])
def test_bidirectional_is_two_sequences(ops, options):
    forward, backward = cell(options, seed=3), cell(options, units=11, seed=4)
    x = sequence()
    results = bidirectional(ops, x, forward, backward)
    one = unidirectional(ops, x, forward)
    other = unidirectional(ops, x[::-1].copy(), backward)
    expected = [one[0], other[0][::-1], one[1], one[2], other[1], other[2]]
    for result, wanted in zip(results, expected, strict=True):
        assert np.array_equal(result, wanted)


def test_directions_may_differ_in_kind(ops):
    forward, backward = cell({"cifg"}, seed=3), cell({"projection", "peephole"}, seed=4)
    x = sequence()
    results = bidirectional(ops, x, forward, backward, outputs=2)
    assert np.array_equal(results[0], unidirectional(ops, x, forward)[0])
    assert np.array_equal(results[1], unidirectional(ops, x[::-1].copy(), backward)[0][::-1])


@pytest.mark.parametrize("time_major", [True, False])
def test_merged_outputs(ops, time_major):
    forward, backward = cell({}, seed=3), cell({}, units=3, seed=4)
    x = sequence() if time_major else np.ascontiguousarray(sequence().swapaxes(0, 1))
    apart = bidirectional(ops, x, forward, backward, time_major=time_major)
    merged = bidirectional(ops, x, forward, backward, time_major=time_major, merge=True, outputs=5)
    assert np.array_equal(merged[0], np.concatenate(apart[:2], axis=2))
    for state, wanted in zip(merged[1:], apart[2:], strict=True):
        assert np.array_equal(state, wanted)
    alone = bidirectional(ops, x, forward, backward, time_major=time_major, merge=True, outputs=1)
    assert np.array_equal(alone[0], merged[0])


def test_parallel_linking_feeds_the_backward_cell(ops):
    forward, backward = cell({}, seed=3), cell({}, inputs=2, seed=4)
    x, aux = sequence(), sequence(inputs=2, seed=5)
    results = bidirectional(ops, x, forward, backward, aux, outputs=2)
    assert np.array_equal(results[0], unidirectional(ops, x, forward)[0])
    assert np.array_equal(results[1], unidirectional(ops, aux[::-1].copy(), backward)[0][::-1])


@pytest.mark.parametrize("options", [{}, {"cifg"}])
def test_cross_linking_widens_both_inputs(ops, options):
    forward, backward = cell(options, aux=3, seed=3), cell(options, aux=3, seed=4)
    x, aux = sequence(), sequence(inputs=3, seed=5)
    results = bidirectional(ops, x, forward, backward, aux, outputs=2)

    def widened(operands):
        pairs = {gate: (f"input_to_{gate}_weights", f"aux_input_to_{gate}_weights") for gate in GATES}
        wide = {
            name: np.concatenate((operands[name], operands[more]), axis=1)
            for name, more in pairs.values()
            if operands[name] is not None
        }
        return {**operands, **wide}

    both = np.concatenate((x, aux), axis=2)
    np.testing.assert_allclose(results[0], unidirectional(ops, both, widened(forward))[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        results[1], unidirectional(ops, both[::-1].copy(), widened(backward))[0][::-1], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("merge", [False, True])
def test_states_of_two_directions_may_have_any_shape(ops, merge):
    """They come out in the shape that they went in, as in Android."""
    shapes = [((6,), (14,)), ((3, 2), (1, 14))]
    cells = [cell({"projection"}, seed=seed) for seed in (3, 4)]
    x, count = sequence(), 5 if merge else 6
    expected = bidirectional(ops, x, *cells, merge=merge, outputs=count)
    others = [with_states(operands, *each) for operands, each in zip(cells, shapes, strict=True)]
    results = bidirectional(ops, x, *others, merge=merge, outputs=count)
    assert [result.shape for result in results[-4:]] == [(6,), (14,), (3, 2), (1, 14)]
    for result, wanted in zip(results, expected, strict=True):
        assert np.array_equal(result.reshape(-1), wanted.reshape(-1))


# --- errors --------------------------------------------------------------------------------------------------


def zeros(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("options", "changes", "words"),
    [
        pytest.param({}, {"input_to_input_weights": None}, "given together or not at all", id="half_cifg"),
        pytest.param({}, {"cell_to_output_weights": zeros(7)}, "given together", id="half_peephole"),
        pytest.param({}, {"cell_to_input_weights": zeros(7)}, "no peephole", id="input_peephole_alone"),
        pytest.param(
            {"peephole"}, {"cell_to_input_weights": None}, "cell_to_input_weights must be given", id="no_input_peephole"
        ),
        pytest.param({"norm"}, {"cell_layer_norm_weights": None}, "given together", id="half_norm"),
        pytest.param(
            {"norm"}, {"input_layer_norm_weights": None}, "input_layer_norm_weights must be given", id="no_input_norm"
        ),
        pytest.param({"cifg", "norm"}, {"input_layer_norm_weights": zeros(7)}, "CIFG", id="input_norm_with_cifg"),
        pytest.param(
            {}, {"projection_bias": zeros(7)}, "must not be given without projection_weights", id="bias_alone"
        ),
        pytest.param({}, {"input_to_output_weights": zeros(7, 4)}, "must have 5 columns", id="input_size"),
        pytest.param({}, {"recurrent_to_output_weights": zeros(7, 3)}, "without a projection", id="needs_projection"),
        pytest.param({}, {"forget_gate_bias": zeros(6)}, "forget_gate_bias must have shape [7], got [6]", id="bias"),
        pytest.param({}, {"cell_state_in": zeros(3, 7)}, "cell_state_in must have 14 elements, as [2, 7]", id="state"),
        pytest.param({}, {"input_to_output_weights": zeros(35)}, "must have rank 2, got shape [35]", id="rank"),
    ],
)
def test_operands_that_do_not_fit(ops, options, changes, words):
    with pytest.raises(NnapiError) as error:
        lstm(ops, sequence()[0], {**cell(options), **changes})
    assert error.value.code == ResultCode.BAD_DATA
    assert "LSTM: " in error.value.reason and words in error.value.reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"activation": 5}, "activation must be one of"),
        ({"cell_clip": -1.0}, "cell_clip must be 0 (no clipping) or more, got -1"),
        ({"proj_clip": math.nan}, "proj_clip must be 0"),
    ],
)
def test_options_out_of_range(ops, options, words):
    with pytest.raises(NnapiError) as error:
        lstm(ops, sequence()[0], cell({}), **options)
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason


@pytest.mark.parametrize(
    ("merge", "outputs", "words"),
    [(False, 1, "(not merged), got 1"), (True, 2, "expected 1 or 5 outputs (merged), got 2"), (False, 5, "got 5")],
)
def test_number_of_outputs(ops, merge, outputs, words):
    with pytest.raises(NnapiError) as error:
        bidirectional(ops, sequence(), cell({}), cell({}), merge=merge, outputs=outputs)
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason
    with pytest.raises(NnapiError, match="expected 1 output, or 3"):
        unidirectional(ops, sequence(), cell({}), outputs=2)


@pytest.mark.parametrize(
    ("aux_size", "aux", "words"),
    [
        (3, None, "must not be given without aux_input"),
        (0, sequence(time=3), "aux_input must have the time steps and batches of input"),
        (2, sequence(inputs=3), "must have shape [7, 3], got [7, 2]"),
    ],
)
def test_auxiliary_input_that_does_not_fit(ops, aux_size, aux, words):
    with pytest.raises(NnapiError) as error:
        bidirectional(ops, sequence(), cell({}, aux=aux_size), cell({}, aux=aux_size), aux)
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason
