"""Files of some hundred bytes whose numbers become sizes: mappers allocate nothing before the budget has seen it."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx_net import op
from tflite_net import Net, T, write

import nnvk
from nnvk.api import NnapiError
from nnvk.importers import budget, formats

BASE = 2 << 20
MOST = 12 * BASE
"""Peak of an import: the file's own objects, and some arrays of a quarter of the budget each."""
SECONDS = 10.0
F, I64 = TensorProto.FLOAT, TensorProto.INT64
N = 1 << 20
"""A size whose arrays are larger than the budget."""


@pytest.fixture(autouse=True)
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "BASE", BASE)


def whole(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def onnx(node: NodeProto, inputs: dict[str, Any], *constants: tuple[str, np.ndarray], result: Any = None) -> bytes:
    """A model of one node that gives ``y``, declared of the type ``result``."""
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info(name, type_, shape) for name, (type_, shape) in inputs.items()],
        [ValueInfoProto(name="y") if result is None else helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18 if node.op_type != "Attention" else 23)])
    made.ir_version = 8
    data: bytes = made.SerializeToString()
    return data


def resize(mode: str, out: Sequence[int], source: Sequence[int], **attributes: Any) -> bytes:
    node = op("Resize", "x - - s", "y", mode=mode, **attributes)
    return onnx(node, {"x": (F, source)}, ("s", whole(*out)))


CASES = {
    "OneHot": onnx(
        op("OneHot", "i d v", "y"), {"i": (I64, [1])}, ("d", whole(1 << 30)), ("v", np.zeros(2, np.float32))
    ),
    "OneHot, a depth of 8 bytes": onnx(
        op("OneHot", "i d v", "y"), {"i": (I64, [1])}, ("d", np.float64(1 << 31)), ("v", np.zeros(2, np.float32))
    ),
    "Resize nearest": resize("nearest", (1, 1, N, 1), (1, 1, 2, 1)),
    "Resize linear": resize("linear", (1, 1, 3000, 1), (1, 1, 3000, 1000)),
    "Resize cubic": resize("cubic", (1, 1, 3000, 3), (1, 1, 2000, 3)),
    "Resize antialias": resize("linear", (1, 1, 3000, 3), (1, 1, N, 3), antialias=1),
    "Pad reflect": onnx(op("Pad", "x p", "y", mode="reflect"), {"x": (F, [2])}, ("p", whole(0, 1 << 40))),
    "Pad wrap": onnx(op("Pad", "x p", "y", mode="wrap"), {"x": (F, [2])}, ("p", whole(0, 1 << 40))),
    "Trilu": onnx(op("Trilu", "x", "y"), {"x": (F, [4000, 4000])}),
    "DFT": onnx(op("DFT", "x", "y", axis=1), {"x": (F, [1, 4099, 1])}),
    "DFT of a length": onnx(op("DFT", "x n", "y", axis=1), {"x": (F, [1, 7, 1])}, ("n", whole(1 << 40))),
    "DFT inverse": onnx(
        op("DFT", "x n", "y", axis=1, inverse=1, onesided=1), {"x": (F, [1, 4099, 2])}, ("n", whole(8192))
    ),
    "STFT": onnx(op("STFT", "x s - n", "y"), {"x": (F, [1, 5000, 1])}, ("s", whole(1)), ("n", whole(2500))),
    "ScatterElements": onnx(
        op("ScatterElements", "x i u", "y"), {"x": (F, [N, 4]), "i": (I64, [N, 4]), "u": (F, [N, 4])}
    ),
    "GatherElements": onnx(op("GatherElements", "x i", "y"), {"x": (F, [N, 4]), "i": (I64, [N, 4])}),
    "GridSample": onnx(op("GridSample", "x g", "y"), {"x": (F, [N, 1, 1, 1]), "g": (F, [N, 1, 1, 2])}),
    "ReverseSequence": onnx(op("ReverseSequence", "x n", "y"), {"x": (F, [N, 4])}, ("n", whole(1, 2, 3, 4))),
    "Attention": onnx(
        op("Attention", "q q q", "y", is_causal=1, q_num_heads=1, kv_num_heads=1), {"q": (F, [1, 5000, 8])}
    ),
}


def tflite(name: str, inputs: list[T], result: T, table: str | None = None, **options: Any) -> bytes:
    net = Net([one for one in inputs if one.is_free], [])
    net.outputs = [net.op(name, inputs, result, table, **options)]
    return write(net)


TFLITE = {
    "RFFT2D": tflite(
        "RFFT2D", [T("FLOAT32", (1, 4)), T("INT32", data=[32768, 32768])], T("COMPLEX64"), "Rfft2dOptions"
    ),
    "REVERSE_SEQUENCE": tflite(
        "REVERSE_SEQUENCE",
        [T("FLOAT32", (4, N)), T("INT32", (4,))],
        T(),
        "ReverseSequenceOptions",
        SeqDim=1,
        BatchDim=0,
    ),
}


@pytest.mark.parametrize("data", [*CASES.values(), *TFLITE.values()], ids=[*CASES, *TFLITE])
def test_a_size_takes_no_memory_before_the_budget_has_seen_it(data: bytes) -> None:
    tracemalloc.start()
    began = time.process_time()
    try:
        formats.load(data)
    except NnapiError as error:
        assert "makes no sense to nnvk" not in error.reason
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(data) < 1000
    assert time.process_time() - began < SECONDS
    assert peak < MOST


def test_a_depth_that_comes_with_a_call_is_charged_too() -> None:
    inputs = {"i": (I64, [1]), "d": (I64, [])}
    data = onnx(op("OneHot", "i d v", "y"), inputs, ("v", np.zeros(2, np.float32)), result=F)
    with nnvk.load(data) as loaded:
        assert loaded(whole(1), np.int64(3)).shape == (1, 3)
        with pytest.raises(NnapiError, match="that a file of this size may"):
            loaded(whole(1), np.int64(1 << 30))


def test_a_transform_beyond_the_budget_says_so() -> None:
    with pytest.raises(NnapiError, match=r"more than the 2.* bytes that a file of this size may"):
        formats.load(CASES["DFT"])
