"""QUANTIZED_LSTM and QUANTIZED_16BIT_LSTM."""

import math

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Operand
from nnvk.types.operand import OperandType

GATES = ("input", "forget", "cell", "output")
Q8 = OperandCode.TENSOR_QUANT8_ASYMM
Q8S = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
Q8_SYMM = OperandCode.TENSOR_QUANT8_SYMM
Q16 = OperandCode.TENSOR_QUANT16_SYMM
I32 = OperandCode.TENSOR_INT32


def operand(code, data, scale=0.0, zero_point=0):
    data = np.asarray(data, OperandType(code).dtype)
    return Operand(OperandType(code, data.shape, scale, zero_point), Lifetime.CONSTANT, data)


def changed(given, *, data=None, scale=None, zero_point=None):
    type_ = given.type
    return operand(
        type_.code,
        given.value if data is None else data,
        type_.scale if scale is None else scale,
        type_.zero_point if zero_point is None else zero_point,
    )


def real(given):
    return (given.value.astype(float) - given.type.zero_point) * given.type.scale


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# --- QUANTIZED_LSTM ------------------------------------------------------------------------------------------


def cell(options=frozenset(), *, batches=3, inputs=5, units=7, outputs=4, seed=1):
    """Random operands by name, those that the options leave out None."""
    rng = np.random.default_rng(seed)
    outputs = outputs if "projection" in options else units
    gates = GATES[1:] if "cifg" in options else GATES

    def steps(code, *shape, scale, zero_point=0, spread=100):
        return operand(code, rng.integers(-spread, spread + 1, shape), scale, zero_point)

    operands = {"input": steps(Q8S, batches, inputs, scale=1 / 64, zero_point=-11)}
    for gate in GATES:
        here = gate in gates
        norm, peephole = here and "norm" in options, here and "peephole" in options and gate != "cell"
        operands[f"input_to_{gate}_weights"] = steps(Q8_SYMM, units, inputs, scale=0.008) if here else None
        operands[f"recurrent_to_{gate}_weights"] = steps(Q8_SYMM, units, outputs, scale=0.006) if here else None
        operands[f"cell_to_{gate}_weights"] = steps(Q16, units, scale=2e-4, spread=5000) if peephole else None
        # With layer normalisation the bias has 2^-10 of the normalisation weights' scale.
        bias_scale = 2e-4 / 1024 if norm else 0.008 / 64
        bias = operand(I32, rng.integers(-int(0.5 / bias_scale), int(0.5 / bias_scale), units)) if here else None
        operands[f"{gate}_gate_bias"] = bias
        operands[f"{gate}_layer_norm_weights"] = steps(Q16, units, scale=2e-4, spread=5000) if norm else None
    projection = "projection" in options
    hidden_scale = 1 / 128
    operands["projection_weights"] = steps(Q8_SYMM, outputs, units, scale=0.005) if projection else None
    bias = operand(I32, rng.integers(-5000, 5000, outputs)) if "projection_bias" in options else None
    operands["projection_bias"] = bias
    state_scale = 1 / 100 if projection else hidden_scale
    operands["output_state_in"] = steps(Q8S, batches, outputs, scale=state_scale, zero_point=9 if projection else 0)
    operands["cell_state_in"] = steps(Q16, batches, units, scale=2.0**-11, spread=3000)
    operands["cell_clip"] = operands["projection_clip"] = 0.0
    # Without layer normalisation 2^-12 is what the activations take; before it the scale is free.
    operands |= {f"{gate}_intermediate_scale": 0.001 if "norm" in options else 2.0**-12 for gate in GATES}
    operands |= {"hidden_state_zero_point": 0, "hidden_state_scale": hidden_scale}
    return operands


ORDER = [
    "input",
    *(f"input_to_{gate}_weights" for gate in GATES),
    *(f"recurrent_to_{gate}_weights" for gate in GATES),
    *(f"cell_to_{gate}_weights" for gate in GATES if gate != "cell"),
    *(f"{gate}_gate_bias" for gate in GATES),
    *("projection_weights", "projection_bias", "output_state_in", "cell_state_in"),
    *(f"{gate}_layer_norm_weights" for gate in GATES),
    *("cell_clip", "projection_clip"),
    *(f"{gate}_intermediate_scale" for gate in GATES),
    *("hidden_state_zero_point", "hidden_state_scale"),
]


def run(ops, operands, outputs=None):
    output, state = operands["output_state_in"].type, operands["cell_state_in"].type
    types = outputs or [type_.with_dimensions(()) for type_ in (output, state, output)]
    return ops.run(OperationCode.QUANTIZED_LSTM, *(operands[name] for name in ORDER), outputs=types)


def in_real_numbers(operands):
    """Output and cell state of the floating-point equations on what the steps stand for."""
    x, h, c = (real(operands[name]) for name in ("input", "output_state_in", "cell_state_in"))

    def gate(name, peek):
        weights, recurrent = (operands[f"{source}_to_{name}_weights"] for source in ("input", "recurrent"))
        total = x @ real(weights).T + h @ real(recurrent).T
        if operands[f"cell_to_{name}_weights"] is not None:
            total = total + real(operands[f"cell_to_{name}_weights"]) * peek
        norm, bias = operands[f"{name}_layer_norm_weights"], operands[f"{name}_gate_bias"].value.astype(float)
        if norm is None:
            return total + bias * weights.type.scale * operands["input"].type.scale
        total = (total - total.mean(axis=1, keepdims=True)) / total.std(axis=1, keepdims=True)
        return total * real(norm) + bias * norm.type.scale / 1024

    forget = sigmoid(gate("forget", c))
    write = 1 - forget if operands["input_gate_bias"] is None else sigmoid(gate("input", c))
    c = forget * c + write * np.tanh(gate("cell", c))
    if operands["cell_clip"]:
        c = np.clip(c, -operands["cell_clip"], operands["cell_clip"])
    h = sigmoid(gate("output", c)) * np.tanh(c)
    if operands["projection_weights"] is not None:
        weights, bias = operands["projection_weights"], operands["projection_bias"]
        h = h @ real(weights).T
        if bias is not None:
            h = h + bias.value * weights.type.scale * operands["hidden_state_scale"]
    return h, c


OPTIONS = [
    pytest.param(frozenset(), id="plain"),
    pytest.param(frozenset({"cifg"}), id="cifg"),
    pytest.param(frozenset({"peephole"}), id="peephole"),
    pytest.param(frozenset({"norm"}), id="layer_norm"),
    pytest.param(frozenset({"projection"}), id="projection"),
    pytest.param(frozenset({"projection", "projection_bias", "cifg", "norm", "peephole"}), id="everything_cifg"),
    pytest.param(frozenset({"projection", "projection_bias", "norm", "peephole"}), id="everything"),
]


@pytest.mark.parametrize("options", OPTIONS)
def test_close_to_real_numbers(ops, options):
    operands = cell(options)
    state, cell_state, output = run(ops, operands)
    expected, expected_cell = in_real_numbers(operands)
    quantisation = operands["output_state_in"].type
    steps = np.clip(expected / quantisation.scale + quantisation.zero_point, -128, 127)
    assert np.abs(output - steps).max() <= 1.5
    np.testing.assert_allclose(cell_state * 2.0**-11, expected_cell, atol=5e-3)
    assert np.array_equal(state, output)


def test_zero_points_only_shift(ops):
    operands = cell(frozenset({"projection", "norm"}))
    given = operands["input"]
    # Steps and their zero point move together; the results don't.
    moved = changed(given, data=given.value // 2, zero_point=given.type.zero_point)
    further = changed(given, data=given.value // 2 + 20, zero_point=given.type.zero_point + 20)
    for one, other in zip(
        run(ops, {**operands, "input": moved}), run(ops, {**operands, "input": further}), strict=True
    ):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("zero_point", [-20, 20])
def test_hidden_state_zero_point_cancels_in_the_projection(ops, zero_point):
    operands = cell(frozenset({"projection"}))
    shifted = {**operands, "hidden_state_zero_point": zero_point}
    for one, other in zip(run(ops, operands), run(ops, shifted), strict=True):
        assert np.array_equal(one, other)


def test_clipping(ops):
    operands = {**cell(frozenset({"projection"})), "cell_clip": 0.3, "projection_clip": 0.1}
    _, cell_state, output = run(ops, operands)
    assert np.abs(cell_state).max() == int(np.float32(0.3) * 2**11)
    assert np.abs(output).max() == 10
    np.testing.assert_allclose(cell_state * 2.0**-11, in_real_numbers(operands)[1], atol=5e-3)


def test_flat_rows_have_no_variance(ops):
    """Layer normalisation of equal numbers gives the bias."""
    operands = cell(frozenset({"norm"}))
    for gate in GATES:
        for source in ("input", "recurrent"):
            name = f"{source}_to_{gate}_weights"
            operands[name] = changed(operands[name], data=np.zeros_like(operands[name].value))
    _, cell_state, _ = run(ops, operands)
    bias = {gate: operands[f"{gate}_gate_bias"].value * 2e-4 / 1024 for gate in GATES}
    c = real(operands["cell_state_in"])
    expected = sigmoid(bias["forget"]) * c + sigmoid(bias["input"]) * np.tanh(bias["cell"])
    np.testing.assert_allclose(cell_state * 2.0**-11, expected, atol=2e-3)


def test_no_batches(ops):
    state, cell_state, output = run(ops, cell(frozenset({"norm", "projection"}), batches=0))
    assert state.shape == output.shape == (0, 4) and cell_state.shape == (0, 7)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cell_state_in": operand(Q16, np.zeros((3, 7)), 0.0003)}, "must have a power of two from 2^-15 to 2^-9"),
        ({"cell_state_in": operand(Q16, np.zeros((3, 7)), 2.0**-8)}, "power of two"),
        ({"cell_clip": -1.0}, "cell_clip must be 0 (no clipping) or more, got -1"),
        ({"forget_intermediate_scale": 0.0}, "forget_intermediate_scale must be more than 0, got 0"),
        ({"hidden_state_scale": math.nan}, "hidden_state_scale must be more than 0, got nan"),
        ({"input_gate_bias": None}, "must be given together or not at all"),
        ({"forget_gate_bias": operand(I32, np.zeros(6))}, "forget_gate_bias must have shape [7], got [6]"),
    ],
)
def test_operands_that_do_not_fit(ops, changes, words):
    with pytest.raises(NnapiError) as error:
        run(ops, {**cell(), **changes})
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason


def test_states_keep_their_quantisation(ops):
    operands = cell()
    types = [OperandType(Q8S, (), 0.5, 0), operands["cell_state_in"].type, operands["output_state_in"].type]
    with pytest.raises(NnapiError, match="output_state_out must have the scale and zero point of output_state_in"):
        run(ops, operands, types)


def test_no_intermediate_scale_of_an_absent_gate(ops):
    operands = {**cell(frozenset({"cifg"})), "input_intermediate_scale": 0.0}
    assert run(ops, operands)[0].shape == (3, 7)


# --- QUANTIZED_16BIT_LSTM ------------------------------------------------------------------------------------

WEIGHTS = [f"{source}_to_{gate}_weights" for source in ("input", "recurrent") for gate in GATES]
BIASES = [f"{gate}_gate_bias" for gate in GATES]


def cell_16bit(*, batches=3, inputs=5, units=7, scale=0.004, zero_point=100):
    rng = np.random.default_rng(1)

    def steps(*shape, **quantisation):
        return operand(Q8, rng.integers(0, 256, shape), **quantisation)

    activation = {"scale": 1 / 128, "zero_point": 128}
    weights = {"scale": scale, "zero_point": zero_point}
    return {
        "input": steps(batches, inputs, **activation),
        **{f"input_to_{gate}_weights": steps(units, inputs, **weights) for gate in GATES},
        **{f"recurrent_to_{gate}_weights": steps(units, units, **weights) for gate in GATES},
        **{name: operand(I32, rng.integers(-20000, 20000, units), scale / 128) for name in BIASES},
        "cell_state_in": operand(Q16, rng.integers(-3000, 3000, (batches, units)), 2.0**-11),
        "output_state_in": steps(batches, units, **activation),
    }


def run_16bit(ops, operands, outputs=None):
    types = outputs or [operands[name].type.with_dimensions(()) for name in ("cell_state_in", "output_state_in")]
    return ops.run(OperationCode.QUANTIZED_16BIT_LSTM, *operands.values(), outputs=types)


@pytest.mark.parametrize("sizes", [{}, {"inputs": 1, "units": 13}, {"batches": 1, "inputs": 11, "units": 2}])
def test_16bit_close_to_real_numbers(ops, sizes):
    operands = cell_16bit(**sizes)
    cell_state, output = run_16bit(ops, operands)
    # As on Android, the recurrent weights' columns come first, the input's elements come first.
    vectors = np.concatenate((real(operands["input"]), real(operands["output_state_in"])), axis=1)
    gates = {}
    for gate in GATES:
        weights = [real(operands[f"{source}_to_{gate}_weights"]) for source in ("recurrent", "input")]
        gates[gate] = vectors @ np.concatenate(weights, axis=1).T + real(operands[f"{gate}_gate_bias"])
    c = sigmoid(gates["forget"]) * real(operands["cell_state_in"]) + sigmoid(gates["input"]) * np.tanh(gates["cell"])
    h = sigmoid(gates["output"]) * np.tanh(c)
    assert np.abs(cell_state - c * 2**11).max() <= 3
    assert np.abs(output - (h * 128 + 128)).max() <= 1


def test_16bit_no_batches(ops):
    cell_state, output = run_16bit(ops, cell_16bit(batches=0))
    assert cell_state.shape == output.shape == (0, 7)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("input", {"scale": 0.01}, "input must have scale 0.0078125 and zero point 128"),
        ("output_state_in", {"zero_point": 0}, "output_state_in must have scale 0.0078125 and zero point 128"),
        ("cell_state_in", {"scale": 2.0**-12}, "cell_state_in must have scale 0.000488281 and zero point 0"),
        ("recurrent_to_cell_weights", {"zero_point": 99}, "must have scale 0.004 and zero point 100"),
        ("output_gate_bias", {"scale": 0.004}, "output_gate_bias must have scale 3.125e-05"),
        ("input_to_cell_weights", {"data": np.zeros((7, 4))}, "must have shape [7, 5], got [7, 4]"),
        ("forget_gate_bias", {"data": np.zeros(6)}, "forget_gate_bias must have shape [7], got [6]"),
        ("cell_state_in", {"data": np.zeros((2, 7))}, "cell_state_in must have shape [3, 7], got [2, 7]"),
    ],
)
def test_16bit_operands_that_do_not_fit(ops, name, change, words):
    operands = cell_16bit()
    types = [operands[key].type.with_dimensions(()) for key in ("cell_state_in", "output_state_in")]
    operands[name] = changed(operands[name], **change)
    with pytest.raises(NnapiError) as error:
        run_16bit(ops, operands, types)
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason


# --- accumulators ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
def test_accumulators_wrap_round(ops, sign):
    """As TFLite's, of 32 bits: what leaves them on one side comes back on the other, and the forget gate with it."""
    ends = np.iinfo(np.int32)
    bias = ends.max - 10 if sign > 0 else ends.min + 10
    forgotten = []
    for added in (0, sign):
        operands = cell()
        for source, vectors in (("input", "input"), ("recurrent", "output_state_in")):
            name, given = f"{source}_to_forget_weights", operands[vectors]
            operands[name] = changed(operands[name], data=np.full_like(operands[name].value, 100))
            operands[vectors] = changed(given, data=np.full_like(given.value, given.type.zero_point + added))
        operands["forget_gate_bias"] = operand(I32, np.full(7, bias))
        operands["input_gate_bias"] = operand(I32, np.full(7, -(2**30)))  # nothing is written
        operands["cell_state_in"] = changed(operands["cell_state_in"], data=np.full((3, 7), 16000))
        forgotten.append(np.abs(run(ops, operands)[1]).max() < 100)
    assert forgotten == ([False, True] if sign > 0 else [True, False])


@pytest.mark.parametrize("sign", [1, -1])
def test_16bit_accumulators_wrap_round(ops, sign):
    ends = np.iinfo(np.int32)
    forgotten = []
    for added in (0, sign):
        operands = cell_16bit(scale=2.0**-13, zero_point=100)  # multipliers that leave something of every sum
        for name in ("input", "output_state_in"):
            operands[name] = changed(operands[name], data=np.full_like(operands[name].value, 128 + added))
        for name in ("input_to_forget_weights", "recurrent_to_forget_weights"):
            operands[name] = changed(operands[name], data=np.full_like(operands[name].value, 200))
        for name, bias in (("forget", ends.max - 10 if sign > 0 else ends.min + 10), ("input", -(2**30))):
            name = f"{name}_gate_bias"
            operands[name] = changed(operands[name], data=np.full(7, bias))
        operands["cell_state_in"] = changed(operands["cell_state_in"], data=np.full((3, 7), 16000))
        forgotten.append(np.abs(run_16bit(ops, operands)[0]).max() < 100)
    assert forgotten == ([False, True] if sign > 0 else [True, False])


def test_normalised_gates_saturate(ops):
    """The weights have the largest scale that there is, so every value but 0 saturates."""
    operands = cell(frozenset({"norm"}))
    for gate in GATES:
        name = f"{gate}_layer_norm_weights"
        operands[name] = changed(operands[name], scale=3e38)
    _, cell_state, _ = run(ops, operands)
    state = operands["cell_state_in"].value.astype(int)
    # Gates are 0 or 1, the candidate is -1 or 1.
    distances = [np.abs(cell_state - forget * state - write * 2**11) for forget in (0, 1) for write in (-1, 0, 1)]
    assert np.min(distances, axis=0).max() <= 8
