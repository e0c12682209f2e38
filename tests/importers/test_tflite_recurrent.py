"""Recurrent operators and control flow against TFLite's reference kernels, over several invocations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tflite
from tflite_cells import BATCH, LSTM_OPTIONS, SIZE, TIME, UNITS, lstm_inputs, state
from tflite_net import Net, T, write
from tflite_oracle import check, compare, f32, f32c, i32c, out, q8, q8c, scalar

from nnvk.api import OperationCode as Op
from nnvk.importers.tflite import TfliteImportError, load

ACTIVATIONS = tflite.ActivationFunctionType


@pytest.mark.parametrize("kind", ["NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH"])
def test_rnn_carries_its_state(kind: str) -> None:
    """Numbers are so large that each activation gives others."""
    weights = f32c(UNITS, SIZE, scale=4.0), f32c(UNITS, UNITS, scale=0.5), f32c(UNITS, scale=8.0)
    inputs = [f32(BATCH, SIZE), *weights, state(BATCH, UNITS)]
    fused = getattr(ACTIVATIONS, kind)
    imported = check("RNN", inputs, (), "RNNOptions", FusedActivationFunction=fused, repeats=3)
    assert [s.input.shape for s in imported.states] == [(BATCH, UNITS)]
    assert len(imported.inputs) == len(imported.outputs) == 1


@pytest.mark.parametrize("time_major", [False, True])
def test_sequence_rnn(time_major: bool) -> None:
    source = f32(*((TIME, BATCH) if time_major else (BATCH, TIME)), SIZE)
    inputs = [source, f32c(UNITS, SIZE), f32c(UNITS, UNITS), f32c(UNITS), state(BATCH, UNITS)]
    options = {"TimeMajor": time_major, "FusedActivationFunction": ACTIVATIONS.TANH}
    check("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, (), "SequenceRNNOptions", **options, repeats=2)


@pytest.mark.parametrize("merge", [False, True])
def test_bidirectional_rnn(merge: bool) -> None:
    cell = [f32c(UNITS, SIZE), f32c(UNITS, UNITS), f32c(UNITS), state(BATCH, UNITS)]
    other = [f32c(UNITS, SIZE), f32c(UNITS, UNITS), f32c(UNITS), state(BATCH, UNITS)]
    inputs = [f32(BATCH, TIME, SIZE), *cell, *other, None, None, None]
    options = {"MergeOutputs": merge, "FusedActivationFunction": ACTIVATIONS.TANH}
    results = [T()] if merge else [T(), T()]
    check("BIDIRECTIONAL_SEQUENCE_RNN", inputs, results, "BidirectionalSequenceRNNOptions", **options, repeats=2)


@pytest.mark.parametrize("rank", [1, 2])
def test_svdf(rank: int) -> None:
    filters = UNITS * rank
    inputs = [f32(BATCH, SIZE), f32c(filters, SIZE), f32c(filters, 7), f32c(UNITS), state(BATCH, 7 * filters)]
    check("SVDF", inputs, (), "SVDFOptions", Rank=rank, FusedActivationFunction=ACTIVATIONS.RELU, repeats=4)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("scale", [0.4, 0.02])
def test_svdf_of_8_bits(rank: int, has_bias: bool, scale: float) -> None:
    """Also with a scale of the output at which results saturate."""
    filters, memory = UNITS * rank, 7
    times = np.random.default_rng(3).integers(-32767, 32768, (filters, memory))
    before = T("INT16", (BATCH, memory * filters), scale=0.001, variable=True)
    bias = T("INT32", data=np.arange(UNITS) * 100000 - 200000) if has_bias else None
    weights = q8c(filters, SIZE), T("INT16", data=times, scale=0.00003)
    inputs = [q8(BATCH, SIZE), *weights, bias, before]
    options = {"Rank": rank, "FusedActivationFunction": ACTIVATIONS.RELU}
    check("SVDF", inputs, q8(scale=scale, zero_point=-5), "SVDFOptions", **options, repeats=10, steps=0)


CELLS = ["", "c", "p", "pj", "cpj", "n", "cn"]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell or "plain")
def test_lstm(cell: str) -> None:
    imported = check("LSTM", lstm_inputs(f32(BATCH, SIZE), cell), (), "LSTMOptions", **LSTM_OPTIONS, repeats=3)
    assert len(imported.states) == 2


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell or "plain")
@pytest.mark.parametrize("time_major", [False, True])
def test_sequence_lstm(cell: str, time_major: bool) -> None:
    source = f32(*((TIME, BATCH) if time_major else (BATCH, TIME)), SIZE)
    options = {**LSTM_OPTIONS, "TimeMajor": time_major}
    check(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        lstm_inputs(source, cell),
        (),
        "UnidirectionalSequenceLSTMOptions",
        **options,
        repeats=2,
    )


@pytest.mark.parametrize("merge", [False, True])
def test_bidirectional_lstm(merge: bool) -> None:
    source = f32(*((TIME, BATCH) if merge else (BATCH, TIME)), SIZE)
    forward, backward = lstm_inputs(source), lstm_inputs(source)
    inputs = [*forward[:18], *backward[1:18], *forward[18:20], *backward[18:20], *[None] * 9]
    # Batch-major and merged, TFLite's kernel reads memory that it has not written.
    options = {**LSTM_OPTIONS, "MergeOutputs": merge, "TimeMajor": merge}
    results = [T()] if merge else [T(), T()]
    check("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, results, "BidirectionalSequenceLSTMOptions", **options, repeats=2)


@pytest.mark.parametrize("cell", ["", "c", "j", "n", "p", "cpj", "cnj"], ids=lambda cell: cell or "plain")
@pytest.mark.parametrize("shape", [(BATCH,), (BATCH, TIME), (TIME, BATCH), (BATCH, 1)], ids=str)
def test_lstm_8bit(cell: str, shape: tuple[int, ...]) -> None:
    """The kernel of 8-bit activations and a 16-bit cell state, whose intermediate scales are in tensors."""
    rng = np.random.default_rng(2)
    width = 3 if "j" in cell else UNITS
    first = 1 if "c" in cell else 0
    norm, peephole = "n" in cell, "p" in cell

    def gates(make, present: bool = True, begin: int = first) -> list[T | None]:
        return [make() if present and gate >= begin else None for gate in range(4)]

    def wide(scale: float, low: int = -20000) -> T:
        return T("INT16", data=rng.integers(low, 20000, UNITS), scale=scale)

    inputs = [
        q8(*shape, SIZE, scale=0.008, zero_point=5),
        *gates(lambda: q8c(UNITS, SIZE, scale=0.008)),
        *gates(lambda: q8c(UNITS, width, scale=0.008)),
        *gates(lambda: wide(1e-5), peephole)[:3],
        *gates(lambda: T("INT32", data=rng.integers(-500, 500, UNITS), scale=1e-4)),
        *(
            [q8c(width, UNITS, scale=0.005), T("INT32", data=rng.integers(-500, 500, width))]
            if "j" in cell
            else [None, None]
        ),
        T("INT8", (BATCH, width), scale=0.0078, zero_point=2, variable=True),
        T("INT16", (BATCH, UNITS), scale=1 / 2048, variable=True),
        *gates(lambda: wide(3e-5, 1000), norm),
    ]
    intermediates = [T("INT16", (), scale=2**-12) for _ in range(4)]
    intermediates.append(
        T("INT8", (), scale=0.007, zero_point=-6) if "j" in cell else T("INT8", (), scale=0.0078, zero_point=2)
    )
    options = {"FusedActivationFunction": ACTIVATIONS.TANH, "CellClip": 5.0}
    result = q8(scale=0.0078, zero_point=2)
    name, table = "LSTM", "LSTMOptions"
    if len(shape) > 1:
        name, table = "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions"
        options["TimeMajor"] = shape[0] == TIME
    # One step off in a state may be more after nine.
    steps = 1 if len(shape) == 1 else 3
    imported = check(name, inputs, result, table, intermediates=intermediates, steps=steps, repeats=3, **options)
    codes = [operation.code for operation in imported.model.frozen.operations]
    assert codes.count(Op.QUANTIZED_LSTM) == (TIME if TIME in shape else 1)


@pytest.mark.parametrize("zero_point", [-40, 0, 40])
def test_lstm_8bit_whose_hidden_state_saturates(zero_point: int) -> None:
    """TFLite counts the zero point of what is projected from the other side."""
    rng = np.random.default_rng(3)

    def bias(size: int, numbers: object = 0) -> T:
        return T("INT32", data=np.broadcast_to(numbers, size), scale=1e-4)

    gates = [bias(UNITS, 300000), bias(UNITS, 300000), bias(UNITS, rng.choice((-300000, 300000), UNITS))]
    inputs = [
        q8(BATCH, SIZE, scale=0.008, zero_point=5),
        *[q8c(UNITS, SIZE, scale=0.002) for _ in range(4)],
        *[q8c(UNITS, 3, scale=0.002) for _ in range(4)],
        *[None] * 3,
        *gates,
        bias(UNITS, 300000),
        q8c(3, UNITS, scale=0.008),
        bias(3),
        T("INT8", (BATCH, 3), scale=0.0078, zero_point=2, variable=True),
        T("INT16", (BATCH, UNITS), scale=1 / 2048, variable=True),
        *[None] * 4,
    ]
    intermediates = [*[T("INT16", (), scale=2**-12)] * 4, T("INT8", (), scale=0.004, zero_point=zero_point)]
    options = {"FusedActivationFunction": ACTIVATIONS.TANH, "intermediates": intermediates, "steps": 1, "repeats": 2}
    check("LSTM", inputs, q8(scale=0.0078, zero_point=2), "LSTMOptions", **options)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"count": 4}, "the 8-bit kernel has 5 intermediate tensors, got 4"),
        ({"count": 6}, "the 8-bit kernel has 5 intermediate tensors, got 6"),
        ({"activation": ACTIVATIONS.RELU}, "NNAPI's QUANTIZED_LSTM has no activation but TANH"),
        ({"zero_point": 1}, "input 1 must be a constant with zero point 0"),
        ({"is_known": False}, "input 1 must be a constant with zero point 0"),
        ({"shape": (BATCH, SIZE, 1, 1)}, "the input must have rank 3"),
        ({"shape": (BATCH, 257, SIZE)}, "one time step, and 257 are too many to unroll"),
        ({}, ""),
    ],
    ids=str,
)
def test_lstm_8bit_that_is_refused(change: dict[str, Any], reason: str) -> None:
    weights = q8c(UNITS, SIZE, scale=0.002, zero_point=change.get("zero_point", 0))
    if not change.get("is_known", True):
        weights = q8(UNITS, SIZE, scale=0.002, zero_point=0)
    inputs: list[T | None] = [
        q8(*change.get("shape", (BATCH, TIME, SIZE)), scale=0.008),
        weights,
        *[q8c(UNITS, SIZE, scale=0.002) for _ in range(3)],
        *[q8c(UNITS, UNITS, scale=0.002) for _ in range(4)],
        *[None] * 3,
        *[T("INT32", data=np.zeros(UNITS), scale=1e-4) for _ in range(4)],
        *[None] * 2,
        T("INT8", (BATCH, UNITS), scale=0.0078, zero_point=2, variable=True),
        T("INT16", (BATCH, UNITS), scale=1 / 2048, variable=True),
        *[None] * 4,
    ]
    scales = [*[T("INT16", (), scale=2**-12)] * 4, T("INT8", (), scale=0.0078, zero_point=2)]
    net = Net([one for one in inputs if one is not None and one.is_free], [q8(scale=0.0078, zero_point=2)])
    net.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        net.outputs,
        "UnidirectionalSequenceLSTMOptions",
        intermediates=(scales * 2)[: change.get("count", 5)],
        FusedActivationFunction=change.get("activation", ACTIVATIONS.TANH),
    )
    if not reason:
        load(write(net))
        return
    with pytest.raises(TfliteImportError) as raised:
        load(write(net))
    assert reason in str(raised.value)


def test_lstm_16bit_gates() -> None:
    """The basic kernel: UINT8 activations, one matrix for all gates."""
    rng = np.random.default_rng(2)
    weights = T("UINT8", data=rng.integers(0, 256, (4 * UNITS, SIZE + UNITS)), scale=0.008, zero_point=120)
    biases = T("INT32", data=rng.integers(-2000, 2000, 4 * UNITS), scale=0.008 / 128)
    source = q8(BATCH, SIZE, type="UINT8", scale=1 / 128, zero_point=128)
    previous = q8(BATCH, UNITS, type="UINT8", scale=1 / 128, zero_point=128)
    cell = T("INT16", (BATCH, UNITS), scale=16 / 32768)
    results = [
        q8(type="UINT8", scale=1 / 128, zero_point=128),
        T("INT16", None, scale=16 / 32768),
        q8(type="UINT8", scale=1 / 128, zero_point=128),
        T("INT16", None, scale=8 / 32768),
    ]
    graph = Net([source, previous, cell], results[:2])
    graph.op(
        "LSTM",
        [source, previous, weights, biases, cell],
        results,
        "LSTMOptions",
        KernelType=1,
        FusedActivationFunction=4,
    )
    feed = [rng.integers(0, 256, (BATCH, n), dtype=np.uint8) for n in (SIZE, UNITS)]
    feed.append(rng.integers(-5000, 5000, (BATCH, UNITS)).astype(np.int16))
    compare(write(graph), feed)


def test_lstm_basic() -> None:
    """The basic kernel on reals, unrolled."""
    rng = np.random.default_rng(3)
    weights, biases = f32c(4 * UNITS, SIZE + UNITS), f32c(4 * UNITS)
    parts = [f32(BATCH, SIZE) for _ in range(3)]
    state, cell = f32(BATCH, UNITS), f32(BATCH, UNITS)
    graph = Net([*parts, state, cell])
    for part in parts:
        results = [T("FLOAT32", None) for _ in range(4)]
        options = {"KernelType": 1, "FusedActivationFunction": ACTIVATIONS.TANH}
        graph.op("LSTM", [part, state, weights, biases, cell], results, "LSTMOptions", **options)
        state, cell, *_ = results
    graph.outputs = [state, cell]
    compare(write(graph), [rng.standard_normal(tensor.shape, np.float32) for tensor in graph.inputs])


# --- control flow --------------------------------------------------------------------------------------------


def branch(name: str, table: str, constant: float) -> Net:
    source, result = f32(2, 3), T("FLOAT32", (2, 3))
    net = Net([source], [result])
    net.op(name, [source, T("FLOAT32", data=constant)], result, table)
    return net


@pytest.mark.parametrize("condition", [False, True])
def test_if(condition: bool) -> None:
    given, source, result = T("BOOL", ()), f32(2, 3), T("FLOAT32", (2, 3))
    net = Net([given, source], [result])
    net.op("IF", [given, source], result, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    data = write(net, branch("ADD", "AddOptions", 1.5), branch("MUL", "MulOptions", 3.0))
    compare(data, [np.array(condition), np.ones((2, 3), np.float32)])


def test_while() -> None:
    counter, total = T("INT32", ()), f32(3)
    net = Net([counter, total], [T("INT32", ()), T("FLOAT32", (3,))])
    net.op("WHILE", [counter, total], net.outputs, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)

    condition = Net([T("INT32", ()), f32(3)], [T("BOOL", ())])
    condition.op("LESS", [condition.inputs[0], scalar(5)], condition.outputs[0], "LessOptions")

    body = Net([T("INT32", ()), f32(3)], [T("INT32", ()), T("FLOAT32", (3,))])
    body.op("ADD", [body.inputs[0], scalar(1)], body.outputs[0], "AddOptions")
    body.op("ADD", [body.inputs[1], body.inputs[1]], body.outputs[1], "AddOptions")
    compare(write(net, condition, body), [np.int32(0), np.float32([1, 2, 3])])


def test_a_subgraph_that_contains_itself_is_refused() -> None:
    given, source, result = T("BOOL", ()), f32(2, 3), T("FLOAT32", (2, 3))
    net = Net([given, source], [result])
    net.op("IF", [given, source], result, "IfOptions", ThenSubgraphIndex=0, ElseSubgraphIndex=0)
    with pytest.raises(TfliteImportError, match="subgraph 0 contains itself"):
        load(write(net))


def test_a_branch_that_is_not_there_is_refused() -> None:
    given, source, result = T("BOOL", ()), f32(2, 3), T("FLOAT32", (2, 3))
    net = Net([given, source], [result])
    net.op("IF", [given, source], result, "IfOptions", ThenSubgraphIndex=7, ElseSubgraphIndex=1)
    with pytest.raises(TfliteImportError, match="subgraph 7 does not exist, there are 2"):
        load(write(net, branch("ADD", "AddOptions", 1.5)))


def test_problems_inside_a_branch_are_named() -> None:
    given, source, result = T("BOOL", ()), f32(2, 3), T("FLOAT32", (2, 3))
    net = Net([given, source], [result])
    net.op("IF", [given, source], result, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    bad = Net([f32(2, 3)], [T("FLOAT32", (2, 3))])
    bad.op("CONCAT_EMBEDDINGS", [bad.inputs[0], i32c(0, 0)], bad.outputs[0])
    with pytest.raises(TfliteImportError) as caught:
        load(write(net, branch("ADD", "AddOptions", 1.5), bad))
    assert [(p.operation, p.index, p.subgraph) for p in caught.value.problems] == [
        ("CONCAT_EMBEDDINGS", 0, 2),
        ("IF", 0, 0),
    ]


def test_outputs_that_nothing_reads_may_be_missing() -> None:
    source = f32(2, 3)
    net = Net([source], [T()])
    values, indices = T(), out("INT32")
    net.op("TOPK_V2", [source, scalar(2)], [values, indices], "TopKV2Options")
    net.outputs[:] = [indices]
    compare(write(net), [np.float32([[1, 3, 2], [6, 5, 4]])])
