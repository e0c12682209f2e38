"""Small files that describe much: an import takes no more memory than the file's size warrants, and little time."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tflite_net import Net, T, write

from nnvk.importers import budget
from nnvk.importers.tflite import TfliteImportError, load

BASE = 2 << 20
MOST = 4 * BASE
"""Peak of an import beyond the file's factor: NumPy's operations have copies on the way."""
SECONDS = 10.0
"""An import takes less time of the processor than this."""


@pytest.fixture(autouse=True)
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that would take gigabytes with the real budget take megabytes with this one."""
    monkeypatch.setattr(budget, "BASE", BASE)


def floats(*shape: int) -> T:
    return T("FLOAT32", shape)


def ints(*numbers: int) -> T:
    return T("INT32", data=list(numbers))


def measured(data: bytes) -> str:
    """Import; the refusal, or "". It must take no more memory than the budget, a few times, and not long."""
    tracemalloc.start()
    began = time.process_time()
    try:
        load(data)
        refusal = ""
    except TfliteImportError as error:
        refusal = error.reason
    took = time.process_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST + 2 * budget.FACTOR * len(data), f"{len(data)} bytes made {peak} of {refusal}"
    assert took < SECONDS, f"{len(data)} bytes took {took:.1f} s"
    assert len(refusal) < 25_000
    return refusal


def single(name: str, inputs: list[T], table: str | None = None, result: T | None = None, **options: object) -> bytes:
    """A file of one operator, with an input that it need not have."""
    spare = floats(2)
    net = Net([tensor for tensor in inputs if tensor.is_free] or [spare], [result or T()])
    net.op(name, inputs, net.outputs[0], table, **options)
    return write(net)


def many(
    count: int,
    name: str,
    inputs: Callable[[], list[T | None]],
    table: str | None = None,
    result: tuple[str, float | None] = ("FLOAT32", None),
    **options: object,
) -> bytes:
    """A file of ``count`` operators, which read its input where ``inputs`` has None; it is added to all they give."""
    type_, scale = result
    source = T(type_, (1, 1), scale=scale)
    net = Net([source], [])
    for _ in range(count):
        given = [source if one is None else one for one in inputs()]
        made = net.op(name, given, T(type_, scale=scale), table, **options)
        net.outputs.append(net.op("ADD", [made, source], T(type_, scale=scale)))
    return write(net)


def sharing(
    count: int, constant: T, name: str, beside: T | None = None, *, result: str = "FLOAT32", swapped: bool = False
) -> bytes:
    """A file of ``count`` operators, each of which reads a tensor of its own on the same buffer, and an input."""
    tensors = [constant]
    for _ in range(count):
        like = replace(constant, data=None, raw=None, buffer_of=constant)
        tensors.append(like)
    net = Net([beside or floats(1)], [])
    for tensor in tensors:
        inputs = [tensor] if beside is None else [beside, tensor] if swapped else [tensor, beside]
        net.outputs.append(net.op(name, inputs, T(result)))
    return write(net)


MILLION = 10**6
BILLION = 10**9
LARGE = (4, 1 << 10, 1 << 10, 8)
"""A shape of 128 MiB of floats."""
ONE = T(data=[1.0])
ZERO = T(data=[0.0])
LONG = T("INT32", data=np.arange(20_000))
PER_CHANNEL = T("INT8", data=np.ones((5000, 1)), scale=[0.1] * 5000)

TOO_MUCH: dict[str, Callable[[], bytes]] = {
    "one_hot": lambda: single("ONE_HOT", [T("INT32", (2,)), ints(BILLION), ONE, ZERO], "OneHotOptions", Axis=-1),
    "one_hot of constants": lambda: single("ONE_HOT", [ints(1, 2), ints(MILLION), ONE, ZERO], "OneHotOptions", Axis=0),
    "range": lambda: single("RANGE", [ints(0), ints(BILLION), ints(1)], result=T("INT32")),
    "range of floats": lambda: single("RANGE", [ZERO, T(data=[1e9]), T(data=[1e-3])]),
    "range backwards": lambda: single("RANGE", [ints(0), ints(-BILLION), ints(-1)], result=T("INT32")),
    "fill": lambda: single("FILL", [ints(1 << 14, 1 << 14), ONE]),
    "fill of booleans": lambda: single("FILL", [ints(1 << 14, 1 << 14), T("BOOL", (1,))], result=T("BOOL")),
    "broadcast": lambda: single("BROADCAST_TO", [ONE, ints(1 << 14, 1 << 14)]),
    "zeros_like": lambda: single("ZEROS_LIKE", [floats(*LARGE)]),
    "sign": lambda: single("SIGN", [floats(*LARGE)]),
    "round": lambda: single("ROUND", [floats(*LARGE)]),
    "booleans as numbers": lambda: single("CAST", [T("BOOL", LARGE)]),
    "booleans reshaped": lambda: single("RESHAPE", [T("BOOL", LARGE), ints(-1)], result=T("BOOL")),
    "select": lambda: single("SELECT_V2", [T("BOOL", (1 << 13, 1)), ONE, T(data=np.ones((1, 1 << 13)))]),
    "select of booleans": lambda: single(
        "SELECT_V2", [T("BOOL", (1 << 13, 1)), T("BOOL", (1, 1 << 13)), T("BOOL", (1, 1))]
    ),
    "batch_matmul": lambda: single(
        "BATCH_MATMUL", [floats(MILLION, 1, 1), T(data=np.ones((1, 1, 64)))], "BatchMatMulOptions"
    ),
    "a bias that is left out": lambda: single(
        "TRANSPOSE_CONV",
        [ints(1, 1, 1, 10**8), floats(10**8, 1, 1, 1), floats(1, 1, 1, 1)],
        "TransposeConvOptions",
        StrideH=1,
        StrideW=1,
    ),
    "pads of constants": lambda: many(40, "PAD", lambda: [ONE, T("INT32", data=[[0, MILLION]])]),
    "tiles of constants": lambda: many(40, "TILE", lambda: [ONE, ints(MILLION)]),
    "broadcasts of constants": lambda: many(40, "BROADCAST_TO", lambda: [ONE, ints(MILLION)]),
    "integers joined with themselves": lambda: single(
        "CONCATENATION", [LONG] * 10_000, "ConcatenationOptions", T("INT32"), Axis=0
    ),
    "a constant packed with itself": lambda: single("PACK", [LONG] * 200, "PackOptions", Axis=0, result=T("INT32")),
    "joined constants": lambda: many(
        60, "CONCATENATION", lambda: [T(data=np.ones(100))] * 1000, "ConcatenationOptions", Axis=0
    ),
    "a state": lambda: single(
        "SVDF", [floats(1, 2), floats(4, 2), floats(4, 9), ONE, T(shape=(1, 1 << 26), variable=True)]
    ),
    "int64 that is shared": lambda: sharing(
        800, T("INT64", data=np.arange(8000)), "ADD", T("INT32", (1,)), result="INT32"
    ),
    "booleans that are shared": lambda: sharing(
        800, T("BOOL", data=np.ones(32_000, bool)), "LOGICAL_OR", T("BOOL", (1,)), result="BOOL"
    ),
    "floats that are shared": lambda: sharing(800, T(data=np.arange(8000)), "ADD", floats(1)),
    "steps made real": lambda: sharing(500, T("INT8", data=np.ones(10_000), scale=0.1), "DEQUANTIZE"),
    "halves made whole": lambda: sharing(500, T("FLOAT16", data=np.ones(10_000)), "DEQUANTIZE"),
    "weights made real": lambda: sharing(
        200, T("INT8", data=np.ones((100, 200)), scale=0.1), "FULLY_CONNECTED", floats(1, 200), swapped=True
    ),
    "four bits": lambda: sharing(500, T("INT4", (20_000,), raw=bytes(10_000), scale=0.1), "DEQUANTIZE"),
}
REFUSED: dict[str, Callable[[], bytes]] = {
    "many axes": lambda: single("REVERSE_V2", [floats(2, 3), T("INT32", data=np.zeros(100_000))]),
    "a long shape": lambda: single("RESHAPE", [floats(2, 3), T("INT32", data=np.ones(100_000))]),
    "a long permutation": lambda: single("TRANSPOSE", [floats(2, 3), T("INT32", data=np.ones(100_000))]),
    "many begins": lambda: single("STRIDED_SLICE", [floats(2, 3)] + [T("INT32", data=np.ones(100_000))] * 3),
    "a negative shape": lambda: single("RESHAPE", [floats(2, 3), ints(-2, -3)]),
    "sparse": lambda: single("ADD", [floats(1), T("FLOAT32", (1 << 28,), raw=bytes(4), sparse=True)]),
}
ACCEPTED: dict[str, Callable[[], bytes]] = {
    "an input": lambda: single("NEG", [floats(*LARGE)]),
    "a reshape": lambda: single("RESHAPE", [floats(*LARGE), ints(-1)]),
    "a broadcast to a shape that the file declares": lambda: single(
        "FILL", [T("INT32", (2,)), ONE], result=floats(100, 100)
    ),
    "weights with scales of channels that all read": lambda: many(
        40, "FULLY_CONNECTED", lambda: [None, PER_CHANNEL], "FullyConnectedOptions", result=("INT8", 0.1)
    ),
}
"""Only what the caller gives, and what is made of it, is large: devices say what they can hold."""
TOO_LARGE: dict[str, Callable[[], bytes]] = {
    "a resize": lambda: single(
        "RESIZE_BILINEAR", [floats(1, 2, 2, 1), ints(1 << 14, 1 << 14)], "ResizeBilinearOptions"
    ),
    "a pad": lambda: single("PAD", [floats(2), T("INT32", data=[[0, 1 << 28]])]),
    "a tile": lambda: single("TILE", [floats(2), ints(1 << 28)]),
    "a broadcast": lambda: single("BROADCAST_TO", [floats(1), ints(1 << 14, 1 << 14)]),
    "a tile of a constant": lambda: single("TILE", [T(data=[1.0, 2.0]), ints(1 << 28)]),
    "floats joined with themselves": lambda: single(
        "CONCATENATION", [T(data=np.ones(10_000))] * 5000, "ConcatenationOptions", Axis=0
    ),
}
"""Results are large, and nothing that they are made of is."""


@pytest.mark.parametrize("what", TOO_MUCH)
def test_too_much(what: str) -> None:
    assert "constants, states and operations take more than the" in measured(TOO_MUCH[what]())


@pytest.mark.parametrize("what", TOO_LARGE)
def test_too_large(what: str) -> None:
    assert "activations take" in measured(TOO_LARGE[what]())


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    assert measured(REFUSED[what]())


@pytest.mark.parametrize("what", ACCEPTED)
def test_accepted(what: str) -> None:
    assert not measured(ACCEPTED[what]())


def test_negative_sizes_pay_nothing_back() -> None:
    net = Net([floats(2)], [])
    for name, inputs in (
        ("FILL", [ints(-BILLION, 1), ONE]),
        ("BROADCAST_TO", [T(data=[1.0, 2.0]), ints(20 * MILLION, 2)]),
    ):
        net.outputs.append(net.op(name, inputs, T()))
    assert "operator 1 (BROADCAST_TO): constants, states" in measured(write(net))


# --- the parts of a model ------------------------------------------------------------------------------------


def test_operations_are_charged() -> None:
    """Each of these operators becomes eleven operations."""
    assert "states and operations take more than the" in measured(many(300, "ROUND", lambda: [None]))
    assert not measured(many(30, "ROUND", lambda: [None]))


def test_outputs_that_are_one_tensor() -> None:
    source, result = floats(4, 2), floats(1, 2)
    net = Net([source], [result])
    net.op("UNPACK", [source], [result] * 4, "UnpackOptions", Num=4)
    assert "operator 0 (UNPACK): a tensor is its output twice" in measured(write(net))


def test_subgraphs_that_refer_to_each_other_many_times_over() -> None:
    """One by one, the operators that take the place of these calls would be 8^14."""
    nets = []
    for depth in range(15):
        source = floats(2, 3)
        net = Net([source], [])
        last = source
        for _ in range(8):
            if depth == 14:
                last = net.op("RESHAPE", [last, ints(2, 3)], floats(2, 3), "ReshapeOptions")
            else:
                last = net.op("CALL", [last], floats(2, 3), "CallOptions", Subgraph=depth + 1)
        net.outputs.append(last)
        nets.append(net)
    assert "constants, states and operations take more" in measured(write(*nets))


HUGE = 1 << 28


def test_updates_of_large_boxes() -> None:
    places = ints(*np.zeros(2, int).tolist())
    assert "than" in measured(single("DYNAMIC_UPDATE_SLICE", [floats(3, HUGE), floats(2, HUGE - 1), places]))
