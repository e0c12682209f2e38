"""Models of which a part waits for sizes and parameters that the part before it computes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_turn import devices

pytest.importorskip("onnx")

from onnx import NodeProto, helper
from onnx_net import model, op, subgraph

import nnvk
from nnvk import NnapiError
from nnvk.importers import onnx as importer
from nnvk.importers.onnx import OnnxImportError, backend
from nnvk.importers.onnx.reader import parse
from nnvk.insight.comparison import compare

onnxruntime = pytest.importorskip("onnxruntime")
F, I64 = np.float32, np.int64
X = {"x": (F, [2, 5])}
COUNT = [op("ReduceSum", "x", "s", keepdims=0), op("Cast", "s", "n", to=7)]
"""n is the sum of x as a whole number."""
COUNTS = [*COUNT, op("Reshape", "n one", "ns")]
RNG = np.random.default_rng(7)
TABLE = RNG.random((40, 5)).astype(F)
WEIGHTS = RNG.random((5, 3)).astype(F)
CONSTANTS = {
    **{"one": np.array([1]), "zero": np.array([0]), "zeros": np.array([0, 1]), "minus": np.array([-1])},
    **{"nought": np.array(0), "step": np.array(1), "half": F(0.5), "table": TABLE, "w": WEIGHTS},
    **{"filters": RNG.random((4, 2, 3)).astype(F), "line": RNG.random((2, 1, 3)).astype(F)},
}


def given(total: float) -> np.ndarray:
    """Numbers from 0 to 1 with a sum that is well inside a whole number's range."""
    array = np.random.default_rng(3).random((2, 5))
    return (array * total / array.sum()).astype(F)


@dataclass
class Case:
    """Nodes that wait, and the names of the model's outputs."""

    nodes: Sequence[NodeProto]
    outputs: Sequence[str] = ("y",)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    inputs: Mapping[str, tuple[Any, Sequence[int]]] = field(default_factory=lambda: X)

    @property
    def data(self) -> bytes:
        read = {*self.outputs, *(name for node in self.nodes for name in node.input)}
        for node in self.nodes:
            for graph in (one.g for one in node.attribute if one.HasField("g")):
                read.update(name for inner in graph.node for name in inner.input)
        known = {**CONSTANTS, **self.constants}
        made = model(self.nodes, self.inputs, self.outputs, {name: known[name] for name in known if name in read})
        for port in made.graph.output:
            if not port.type.tensor_type.elem_type:
                port.type.tensor_type.elem_type = 1
        return made.SerializeToString()


def body(*, scans: bool) -> Any:
    """A loop's body that adds to its state, and may give a number each time."""
    nodes = [op("Add", "a half", "b"), op("Identity", "ci", "co"), op("ReduceSum", "b", "q", keepdims=0)]
    types = {"it": (I64, []), "ci": (np.bool_, []), "a": (F, [2, 5])}
    return subgraph(nodes if scans else nodes[:2], ["co", "b", "q"][: 2 + scans], types, {"co": (np.bool_, [])})


CASES = {
    "Range": Case(
        [
            *COUNT,
            op("Range", "nought n step", "r"),
            op("Cast", "r", "f", to=1),
            op("Unsqueeze", "f zeros", "u"),
            op("Conv", "u line", "y", kernel_shape=[3], pads=[1, 1]),
        ]
    ),
    "Range of real numbers": Case([*COUNT, op("Range", "half s half", "r"), op("CumSum", "r nought", "y")]),
    "two Ranges": Case(
        [
            *COUNT,
            op("Range", "nought n step", "r"),
            op("Cast", "r", "f", to=1),
            op("ReduceSum", "f", "total", keepdims=0),
            op("Cast", "total", "more", to=7),
            op("Range", "nought more step", "r2"),
            op("Cast", "r2", "y", to=1),
            op("Mul", "f half", "z"),
        ],
        ("y", "z", "n"),
    ),
    "TopK": Case([*COUNTS, op("TopK", "table ns", "y i", axis=0)], ("y", "i")),
    "Tile": Case([*COUNTS, op("Concat", "ns one", "r", axis=0), op("Tile", "x r", "t"), op("MatMul", "t w", "y")]),
    "Expand": Case(
        [*COUNTS, op("Concat", "ns c", "r", axis=0), op("Expand", "w r", "e"), op("Softmax", "e", "y", axis=0)],
        constants={"c": np.array([5, 3])},
    ),
    "Slice": Case([*COUNTS, op("Slice", "table zero ns zero", "t"), op("MatMul", "t w", "y")]),
    "Reshape": Case(
        [
            *COUNTS,
            op("Concat", "ns minus", "r", axis=0),
            op("Reshape", "wide r", "t"),
            op("ReduceMax", "t", "y", axes=[1]),
        ],
        constants={"wide": RNG.random((12, 5)).astype(F)},
    ),
    "Pad": Case(
        [*COUNTS, op("Concat", "ns zero zero zero", "p", axis=0), op("Pad", "x p", "t"), op("MatMul", "t w", "y")]
    ),
    "ConstantOfShape": Case(
        [*COUNTS, op("ConstantOfShape", "ns", "c"), op("Unsqueeze", "c one", "t"), op("Add", "t w0", "y")],
        constants={"w0": WEIGHTS[0]},
    ),
    "OneHot": Case(
        [*COUNTS, op("OneHot", "places ns values", "o"), op("Relu", "o", "y")],
        constants={"places": np.array([0, 2, 1]), "values": np.array([0, 1], F)},
    ),
    "Split": Case(
        [*COUNTS, op("Sub", "forty ns", "r"), op("Concat", "ns r", "c", axis=0), op("Split", "table c", "y z", axis=0)],
        ("y", "z"),
        {"forty": np.array([40])},
    ),
    "NonZero before Conv": Case(
        [
            op("Greater", "x half", "g"),
            op("NonZero", "g", "i"),
            op("Cast", "i", "f", to=1),
            op("Unsqueeze", "f zero", "u"),
            op("Conv", "u filters", "y", kernel_shape=[3], pads=[1, 1]),
        ]
    ),
    "Compress before AveragePool": Case(
        [
            op("Greater", "x half", "g"),
            op("Reshape", "g minus", "flags"),
            op("Compress", "x flags", "c"),
            op("Unsqueeze", "c zeros", "u"),
            op("AveragePool", "u", "y", kernel_shape=[2]),
        ]
    ),
    "If with branches of two shapes": Case(
        [
            *COUNT,
            op("Greater", "s half", "c"),
            op(
                "If",
                "c",
                "b",
                then_branch=subgraph([op("Transpose", "x", "t", perm=[1, 0])], ["t"]),
                else_branch=subgraph([op("Relu", "x", "e")], ["e"]),
            ),
            op("Exp", "b", "y"),
        ]
    ),
    "Loop": Case([*COUNT, op("Loop", "n - x", "y", body=body(scans=False))]),
    "Loop that scans": Case([*COUNT, op("Loop", "n - x", "y z", body=body(scans=True))], ("y", "z")),
    "types": Case(
        [
            *COUNTS,
            op("Concat", "ns one", "r", axis=0),
            *(op("Cast", "x", f"x{to}", to=to) for to in (10, 2, 9, 6, 7)),
            *(op("Tile", f"x{to} r", f"y{to}") for to in (10, 2, 9, 6, 7)),
        ],
        ("y10", "y2", "y9", "y6", "y7", "x10", "n"),
    ),
    "constants that are outputs": Case([*COUNTS, op("ConstantOfShape", "ns", "y")], ("y", "w", "x", "n")),
    "computed constants": Case(
        [
            *COUNTS,
            op("Concat", "ns one", "r", axis=0),
            op("Add", "w w", "v"),
            op("Tile", "v r", "y"),
            op("Relu", "v", "z"),
        ],
        ("y", "z"),
    ),
}


def check(loaded: nnvk.LoadedModel, data: bytes, arrays: Mapping[str, np.ndarray]) -> None:
    """Compare all outputs with those of onnxruntime."""
    wanted = onnxruntime.InferenceSession(data).run(None, dict(arrays))
    results = loaded.compute(list(arrays.values()))
    assert len(results) == len(wanted)
    for result, expected in zip(results, wanted, strict=True):
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(result.astype(F), expected.astype(F), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("number", "name"), enumerate(CASES), ids=CASES)
def test_sizes_differ_from_call_to_call(number: int, name: str) -> None:
    """With ``--in-turn``, a third of the cases runs on a Vulkan device, as of the importers' tests."""
    data = CASES[name].data
    with nnvk.load(data, device="cpu" if len(devices(number)) == 1 else None) as loaded:
        for total in (6.4, 5.3, 6.4):
            check(loaded, data, {"x": given(total)})


@pytest.mark.parametrize("name", ["Range", "NonZero before Conv", "If with branches of two shapes", "two Ranges"])
def test_on_the_reference(name: str) -> None:
    check(nnvk.load(CASES[name].data, device="cpu"), CASES[name].data, {"x": given(6.4)})


@pytest.mark.parametrize("name", ["Range", "Slice", "two Ranges", "types"])
def test_as_a_backend(name: str) -> None:
    prepared = backend.prepare(parse(CASES[name].data))
    with nnvk.load(CASES[name].data) as loaded:
        for total in (3.4, 5.4):
            for one, other in zip(prepared.run([given(total)]), loaded.compute([given(total)]), strict=True):
                np.testing.assert_array_equal(one, other)


def test_a_parameter_that_is_an_input() -> None:
    """The value decides on a plan, also through arithmetic; nobody must give it when the model is loaded."""
    nodes = [op("Add", "k k", "k2"), op("TopK", "x k2", "y i")]
    case = Case(nodes, ("y", "i"), inputs={**X, "k": (I64, [1])})
    with nnvk.load(case.data) as loaded:
        for k in (1, 2, 1):
            check(loaded, case.data, {"x": given(2.0), "k": np.array([k])})
        assert len(loaded.where()) > 2
    alone = nnvk.load(case.data, constants={"k": np.array([2])})
    assert [one.shape for one in alone.compute([given(2.0)])] == [(2, 4), (2, 4)]


def test_open_sizes_and_late_ones() -> None:
    case = Case(CASES["Range"].nodes, inputs={"x": (F, ["rows", 5])})
    with nnvk.load(case.data) as loaded:
        assert loaded.is_open
        assert loaded.outputs[0].shape == (1, 2, -1)
        for rows, total in ((2, 4.4), (3, 4.4), (3, 2.4)):
            x = np.tile(given(total)[:1], (rows, 1))
            check(loaded, case.data, {"x": x * F(total / x.sum())})


def test_equal_sizes_share_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = nnvk.load(CASES["Range"].data)
    loaded(given(3.4))
    before = loaded.compilations
    assert len(before) == 2
    loaded(given(3.6))
    assert loaded.compilations == before
    loaded(given(4.4))
    assert loaded.compilations[0] is before[0]
    assert loaded.compilations[1] is not before[1]
    bytes_of_three = loaded.nbytes
    loaded(given(3.4))
    assert loaded.compilations == before
    assert loaded.nbytes == bytes_of_three


def test_plans_for_late_sizes_are_dropped() -> None:
    loaded = nnvk.load(CASES["Range"].data, plan_bytes=1)
    loaded(given(3.4))
    before = loaded.compilations
    loaded(given(4.4))
    loaded(given(3.4))
    assert loaded.compilations[1] is not before[1]


def test_plans_of_all_parts_share_one_limit() -> None:
    loaded = nnvk.load(CASES["two Ranges"].data, plan_bytes=1)
    for total in (3.4, 4.4, 3.4):
        check(loaded, CASES["two Ranges"].data, {"x": given(total)})
        assert len(list(loaded._plans)) == 1
    roomy = nnvk.load(CASES["two Ranges"].data)
    for total in (3.4, 4.4, 3.4):
        check(roomy, CASES["two Ranges"].data, {"x": given(total)})
    assert len(list(roomy._plans)) == 1 + 2  # the first part, and the rest for each size


def test_plans_are_kept_in_a_folder(tmp_path: Path) -> None:
    for _ in range(2):
        with nnvk.load(CASES["two Ranges"].data, cache=tmp_path) as loaded:
            for total in (3.4, 4.4):
                check(loaded, CASES["two Ranges"].data, {"x": given(total)})
            kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {path.name for path in tmp_path.iterdir()}


def test_events_threads_and_streams() -> None:
    data = CASES["Range"].data
    with nnvk.load(data) as loaded:
        wanted = {total: loaded(given(total)) for total in (2.4, 3.4, 4.4)}
        events = {total: loaded.start(given(total)) for total in wanted}
        for total, event in events.items():
            np.testing.assert_array_equal(event.result(), wanted[total])
        for total, result in zip(wanted, loaded.stream(given(total) for total in wanted), strict=True):
            np.testing.assert_array_equal(result, wanted[total])
        wrong: list[float] = []

        def work(total: float) -> None:
            wrong.extend(total for _ in range(5) if not np.array_equal(loaded(given(total)), wanted[total]))

        threads = [threading.Thread(target=work, args=(total,)) for total in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_descriptions() -> None:
    with nnvk.load(CASES["Range"].data, device="cpu") as loaded:
        assert [port.shape for port in loaded.outputs] == [(1, 2, -1)]
        assert loaded.imported.rest is not None
        before = len(loaded.where())
        loaded(given(3.4))
        operations = [placed.operation for placed in loaded.where()]
        assert len(operations) > before
        assert "CONV_2D" in operations
        assert ", then " in repr(loaded)
        profile = loaded.profile(given(3.4))
        assert profile.mean_ns > 0
        assert sum(part.share for part in profile.parts) == pytest.approx(1, abs=1e-3)
        assert {part.partition for part in profile.parts} == {0, 1}
        layers = {placed.layer.name for placed in loaded.where() if placed.layer is not None}
        assert layers == {"s", "n", "y"}  # the numbers of a range are constants when they are known
        numbers = {placed.layer.number for placed in loaded.where() if placed.layer is not None}
        assert numbers == {0, 1, 5}


def test_one_model_is_asked_for() -> None:
    with pytest.raises(OnnxImportError, match=r"the limit .* must be a constant") as caught:
        importer.load(CASES["Range"].data)
    assert caught.value.waiting == (2,)
    imported = nnvk.load(CASES["Range"].data).imported
    with pytest.raises(NnapiError, match="a comparison takes one model; data decide sizes of this one"):
        compare(imported, nnvk.get_device("nnapi-reference"), nnvk.get_device("nnapi-reference"))


def test_operators_behind_late_sizes_that_are_missing_are_named_at_once() -> None:
    nodes = [*CASES["Range"].nodes, op("Nobody", "y", "z", domain="com.example")]
    with pytest.raises(OnnxImportError, match=r"com\.example\.Nobody"):
        nnvk.load(Case(nodes, ("z",)).data)


def test_other_faults_are_named_at_once() -> None:
    nodes = [*CASES["Range"].nodes, op("TopK", "x four", "z i")]
    with pytest.raises(OnnxImportError, match="TopK"):
        nnvk.load(Case(nodes, ("z", "y"), {"four": np.array([77])}).data)


@pytest.mark.parametrize(("total", "reason"), [(0.2, "has no elements"), (4e9, "")], ids=["nothing", "too much"])
def test_sizes_that_cannot_be(total: float, reason: str) -> None:
    loaded = nnvk.load(CASES["Range"].data)
    with pytest.raises(NnapiError, match=reason):
        loaded(given(total))
    check(loaded, CASES["Range"].data, {"x": given(3.4)})


def test_functions_of_the_model() -> None:
    """A function that needs one of its inputs, which another node computes."""
    inner = helper.make_function(
        "own",
        "Ranged",
        ["limit", "a"],
        ["b"],
        [op("Range", "a limit a", "r"), op("Neg", "r", "b")],
        [helper.make_opsetid("", 17)],
    )
    made = model(
        [*COUNT, op("Ranged", "n step", "r", domain="own"), op("Cast", "r", "y", to=1)],
        X,
        ["y"],
        {"step": np.array(1)},
        functions=[inner],
    )
    del made.graph.output[:]
    made.graph.output.append(helper.make_tensor_value_info("y", 1, ["n"]))
    np.testing.assert_array_equal(nnvk.load(made.SerializeToString())(given(4.4)), [-1, -2, -3])


@pytest.mark.parametrize("verified", [True, "all"])
def test_verified_and_relaxed(verified: Any) -> None:
    data = CASES["NonZero before Conv"].data
    check(nnvk.load(data, verified=verified), data, {"x": given(5.4)})
    relaxed = nnvk.load(data, relaxed=True)
    relaxed(given(5.4))
    assert all(one.model.relaxed for one in relaxed.compilations)
