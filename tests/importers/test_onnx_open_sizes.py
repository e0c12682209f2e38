"""Imports that are traced: models of other sizes are filled, and are those that an import gives (NNVK_VERIFY_SIZES)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import NodeProto
from onnx_net import model, op, subgraph

import nnvk
from nnvk.base.extents import has_extents, hint
from nnvk.base.settings import override
from nnvk.importers import budget
from nnvk.importers.onnx import OnnxFile
from nnvk.importers.ports import ImportedModel
from nnvk.importers.sized import SizedImports
from nnvk.types.constant import origin

F, I64 = np.float32, np.int64
CONSTANTS = {
    **{"zero": np.array(0), "one": np.array(1), "two": np.array(2), "three": np.array(3)},
    **{"zeros": np.array([0]), "ones": np.array([1]), "twos": np.array([2]), "four": np.array([4])},
    **{"five": np.array([5]), "minus": np.array([-1]), "minus_two": np.array([-2]), "minus_nine": np.array([-9])},
    **{"three_ones": np.ones(3, I64), "flat": np.array([1, -1]), "square": np.array([1, 1, 2, -1])},
    **{"half": F(0.5), "table": np.arange(320, dtype=F).reshape(80, 4), "places": np.arange(80).reshape(1, 80)},
    **{"row": np.arange(4), "divisor": np.array([4]), "twenty": np.array(20), "byte": np.int8(20)},
    **{"levels": np.arange(-128, 128).astype(np.int8).reshape(64, 4), "scale": F(0.25)},
}
SIZES = [3, 5, 8, 7, 13, 17]
RANGE = "Range: zero n one > r"
"""n whole numbers from 0 on."""
CASES: Mapping[str, Sequence[str]] = {
    "reshape": ["Concat axis=0: ones d four > t", "Reshape: x t > y"],
    "rest": ["Reshape: x flat > y"],
    "product": ["ReduceProd keepdims=1: s > p", "Concat axis=0: p ones > t", "Reshape: x t > y"],
    "sum": ["ReduceSum keepdims=0: s > p", "Add: p zero > q", "Cast to=1: q > f", "Mul: x f > y"],
    "slice": ["Slice: s ones twos > t", "Concat axis=0: ones t four > u", "Reshape: x u > y"],
    "backwards": ["Slice: s minus_two minus_nine zeros minus > u", "Concat axis=0: minus u > v", "Reshape: x v > y"],
    "size": ["Size: x > w", "Cast to=1: w > f", "Mul: x f > y"],
    "less": ["Sub: n one > m", "Unsqueeze: m zeros > e", "Slice: x zeros e ones > y"],
    "behind": ["Slice: x minus_two d ones > y"],
    "halves": ["Div: n two > m", "Unsqueeze: m zeros > e", "Slice: x zeros e ones > y"],
    "remainder": ["Mod: n two > m", "Cast to=1: m > f", "Add: x f > y"],
    "signs": ["Sub: n five > m", "Mod fmod=1: m divisor > q", "Cast to=1: q > f", "Add: x f > y"],
    "round": [
        *(RANGE, "Mul: r twenty > m", "Cast to=3: m > q", "Cast to=1: q > f"),
        *("Unsqueeze: f ones > g", "Add: x g > y"),
    ],
    "words": ["Cast to=3: n > m", "Mul: m byte > q", "Cast to=1: q > f", "Add: x f > y"],
    "largest": ["Max: d five > m", "Cast to=1: m > f", "Add: x f > y"],
    "root": ["Cast to=1: n > f", "Sqrt: f > g", "Div: x g > y"],
    "reciprocal": ["Cast to=1: n > f", "Reciprocal: f > g", "Mul: x g > y"],
    "ceil": [
        *("Cast to=1: n > f", "Mul: f half > g", "Ceil: g > h", "Cast to=7: h > m"),
        *("Unsqueeze: m zeros > e", "Slice: x zeros e ones > y"),
    ],
    "where": ["Equal: s minus > is", "Where: is three_ones s > t", "Reshape: x t > y"],
    "positions": [RANGE, "Gather: table r > p", "Add: x p > y"],
    "places": ["Slice: places zeros d ones > p", "Gather: table p > t", "Add: x t > y"],
    "mask": [RANGE, "Unsqueeze: r ones > c", "Less: c r > m", "Cast to=1: m > f", "MatMul: f x > y"],
    "causal": [
        *("Concat axis=0: d d > t", "ConstantOfShape: t > z", "Trilu: z > u"),
        *("Add: u half > v", "MatMul: v x > y"),
    ],
    "expand": ["Concat axis=0: d four > t", "Expand: half t > e", "Add: x e > y"],
    "tile": [
        *("Concat axis=0: d ones > t", "Unsqueeze: row zeros > q", "Tile: q t > e"),
        *("Cast to=1: e > f", "Add: x f > y"),
    ],
    "buckets": [
        *(RANGE, "Neg: r > m", "Abs: m > a", "Clip: a one three > b"),
        *("Gather: table b > t", "Add: x t > y"),
    ],
    "cumulated": [
        *("ConstantOfShape: d > z", "Cast to=7: z > i", "Add: i one > k", "CumSum: k zero > q"),
        *("Cast to=1: q > f", "Unsqueeze: f ones > g", "Mul: x g > y"),
    ],
    "slices": [RANGE, "Unsqueeze: r ones > c", "GatherND: table c > t", "Mul: x t > y"],
    "levels": [RANGE, "Gather: levels r > q", "DequantizeLinear: q scale > t", "Add: x t > y"],
    "joined": [RANGE, "Concat axis=0: r row > k", "Gather: table k > t", "Slice: t zeros d zeros > u", "Add: x u > y"],
    "indices": ["GatherElements axis=1: x ids > y"],
    "running": ["CumSum: ids one > q", "Cast to=1: q > f", "Add: x f > y"],
    "resized": [
        *("Mul: d four > w", "Concat axis=0: ones ones four w > sizes", "Reshape: x square > i"),
        *("Resize: i - - sizes > j", "Reshape: j flat > y"),
    ],
    "scalar": ["Cast to=6: n > i", "Add: whole i > y"],
}
"""Nodes of x [1, n, 4], its shape s, n, and d, which is [n]."""
SEVERAL = {"running": 4, "round": 2, "words": 2}
"""Imports of which more than one are traced: a running sum has as many steps as n has bits, and bytes come round."""


def nodes_of(lines: Sequence[str]) -> list[NodeProto]:
    found = []
    for line in lines:
        head, _, names = line.partition(": ")
        kind, *attributes = head.split()
        inputs, _, outputs = names.partition(" > ")
        given = {name: int(number) for name, number in (one.split("=") for one in attributes)}
        found.append(op(kind, inputs, outputs, **given))
    return found


def file_of(lines: Sequence[str]) -> OnnxFile:
    inputs: dict[str, Any] = {"x": (F, [1, "n", 4]), "ids": (I64, [1, "n", 4]), "whole": (np.int32, [1, 3])}
    nodes = nodes_of(["Shape: x > s", "Gather: s one > n", "Slice: s ones twos > d", *lines, "Identity: x > kept"])
    read = {name for node in nodes for name in node.input}
    given = {name: port for name, port in inputs.items() if name in read}
    return OnnxFile(model(nodes, given, ["y", "kept"], CONSTANTS).SerializeToString())


def shapes(file: OnnxFile, size: int) -> dict[str, tuple[int, ...]]:
    return {one.name: tuple(size if n == -1 else n for n in one.signature) for one in file.inputs()}


@pytest.mark.parametrize("name", CASES)
def test_one_import_serves_many_sizes(name: str) -> None:
    """Each filled model is compared with the one that is imported."""
    file = file_of(CASES[name])
    imports = SizedImports(lambda given: file.load(shapes=given))
    for size in SIZES:
        found = imports(shapes(file, size))
        assert [port.shape[1] for port in found.inputs if port.name == "x"] == [size]
    assert 1 <= len(imports) <= SEVERAL.get(name, 1)


def test_a_size_that_does_not_fit_is_imported() -> None:
    """There the error is the one of an import."""
    file = file_of(CASES["positions"])
    imports = SizedImports(lambda given: file.load(shapes=given))
    for size in (3, 5, 80):
        imports(shapes(file, size))
    assert len(imports) == 1
    with pytest.raises(ValueError, match="indices must lie between -80 and 79"):
        imports(shapes(file, 81))
    for size in (1, 9):
        imports(shapes(file, size))


def test_what_takes_too_much_memory_is_refused_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file must not fill the memory by a size that the traced one has not."""
    monkeypatch.setattr(budget, "BASE", 1 << 18)
    file = file_of(CASES["causal"])
    imports = SizedImports(lambda given: file.load(shapes=given))
    for size in (3, 5, 7):
        imports(shapes(file, size))
    assert len(imports) == 1
    with pytest.raises(ValueError, match="take more than the"):
        imports(shapes(file, 700))


def test_other_ranks_are_imported() -> None:
    seen: list[tuple[int, ...]] = []
    file = file_of(CASES["rest"])

    def load(given: Mapping[str, tuple[int, ...]]) -> ImportedModel:
        seen.append(tuple(map(hint, given["x"])))
        return file.load(shapes={"x": (1, given["x"][0], 4)})

    imports = SizedImports(load)
    for shape in ((3,), (5,), (7, 4), (9, 4), (6,)):
        imports({"x": shape})
    assert seen.count((7, 4)) == 1


def test_models_with_branches_are_imported_for_each_size() -> None:
    """Branches have shapes of their own."""
    branches = {name: subgraph([op(kind, "x", "r")], ["r"]) for name, kind in (("then", "Neg"), ("else", "Abs"))}
    choice = op("If", "c", "y", then_branch=branches["then"], else_branch=branches["else"])
    net = model([choice], {"c": (np.bool_, []), "x": (F, [1, "n", 4])}, ["y"])
    file = OnnxFile(net.SerializeToString())
    imports = SizedImports(lambda given: file.load(shapes=given))
    for size in SIZES:
        assert imports(shapes(file, size)).outputs[0].shape == (1, size, 4)
    assert len(imports) == 0


def test_results() -> None:
    file = file_of(CASES["mask"])
    imports = SizedImports(lambda given: file.load(shapes=given))
    with override(verify_sizes=False):
        for size in SIZES:
            x = np.random.default_rng(size).normal(size=(1, size, 4)).astype(F)
            found = imports(shapes(file, size))
            compilation = nnvk.Compilation(found.model)
            compilation.finish()
            (y, kept), _ = found.decode(nnvk.run(compilation, found.encode([x])))
            np.testing.assert_allclose(y, np.triu(np.ones((size, size), F), 1) @ x, rtol=1e-5, atol=1e-5)
            assert (kept == x).all()


def test_a_file_that_needs_its_sizes_is_imported_for_each() -> None:
    """It is not traced for ever."""
    file = file_of(["Cast to=1: n > f", "Erf: f > g", "Mul: x g > y"])
    seen: list[bool] = []

    def load(given: Mapping[str, tuple[int, ...]]) -> ImportedModel:
        seen.append(has_extents(given["x"]))
        return file.load(shapes=given)

    imports = SizedImports(load)
    for size in range(3, 9):
        imports(shapes(file, size))
    assert len(imports) == 0
    assert seen == [False, True, False, True, False, False, False, False]


@pytest.mark.parametrize("behind", [None, "BatchNormalization"])
@pytest.mark.parametrize("dtype", [F, np.float16])
def test_large_weights_are_made_of_the_file(behind: str | None, dtype: type) -> None:
    """So a device knows those that it has already, whatever sizes a plan is for."""
    nodes = [op("Conv", "x w", "c" if behind else "y")]
    constants = {"w": np.random.default_rng(1).standard_normal((64, 32, 3, 3)).astype(dtype)}
    if behind:
        nodes.append(op(behind, "c a a a a", "y"))
        constants["a"] = np.arange(1, 65).astype(dtype)
    file = OnnxFile(model(nodes, {"x": (dtype, (1, 32, "h", 7))}, ["y"], constants).SerializeToString())
    found = [file.load(shapes={"x": (1, 32, height, 7)}).model.frozen for height in (5, 9)]
    weights = [
        [one.constant for one in each.operands if one.constant is not None and one.constant.nbytes > 1 << 14]
        for each in found
    ]
    (first,), (other,) = ([origin(one) for one in each] for each in weights)
    assert first is not None
    assert other is not None
    assert first.key == other.key
