"""Small ONNX files that describe endless work or memory: each ends in a model or an error, soon, in little memory."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import FunctionProto, GraphProto, ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx_net import OPSET, element, op, subgraph
from test_onnx_errors import beside

import nnvk
from nnvk.importers.onnx import OnnxImportError, load
from nnvk.importers.onnx.file import bytes_beside
from nnvk.importers.onnx.inference import inferred

F = np.float32
SECONDS, MEBIBYTES = 10, 1024
LOAD = """
import json, os, signal, sys, traceback
from nnvk.importers.onnx import OnnxImportError, load
for path in map(str.strip, sys.stdin):
    if os.fork():
        print("", os.wait()[1], flush=True)
        continue
    signal.setitimer(signal.ITIMER_PROF, int(sys.argv[1]))  # processor time, whatever else the machine does
    try:
        try:
            load(path)
            said = "a model"
        except OnnxImportError as error:
            said = error.reason
        # Not ru_maxrss, which begins with what the process took that this one was forked from.
        peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
        print(json.dumps([said, int(peak) >> 10]), end="", flush=True)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
"""
"""This script loads each file in a process of its own, since the import of nnvk takes longer than most of them."""
BOMBS: dict[str, Callable[[], ModelProto]] = {}


def bomb(make: Callable[[], ModelProto]) -> Callable[[], ModelProto]:
    BOMBS[make.__name__] = make
    return make


def file(
    nodes: Sequence[Any],
    inputs: dict[str, tuple[Any, Sequence[int]]],
    constants: dict[str, np.ndarray] | None = None,
    functions: Sequence[FunctionProto] = (),
    output: str = "y",
) -> ModelProto:
    """A model that nothing has looked at: the onnx package's own checks fall to some of these."""
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(name, element(dtype), shape) for name, (dtype, shape) in inputs.items()],
        [ValueInfoProto(name=output)],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("f", 1)]
    made = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    made.ir_version = 8
    return made


def function(name: str, nodes: Sequence[Any]) -> FunctionProto:
    return helper.make_function(
        "f", name, ["x"], ["y"], list(nodes), [helper.make_opsetid("", OPSET), helper.make_opsetid("f", 1)]
    )


def doubling(depth: int) -> list[FunctionProto]:
    """Functions that call the next one twice each."""
    names = [f"F{number}" for number in range(depth)]
    calls = [*((name, "f") for name in names[1:]), ("Neg", "")]
    return [
        function(name, [op(kind, "x", "t", domain=domain), op(kind, "t", "y", domain=domain)])
        for name, (kind, domain) in zip(names, calls, strict=True)
    ]


def with_constants(nodes: Sequence[Any], **constants: np.ndarray) -> ModelProto:
    """A model that adds to an input what nodes make of constants, in ``e``."""
    return file([*nodes, op("Add", "e x", "y")], {"x": (F, [1])}, constants)


LARGE = {"one": np.zeros(1, F), "zero": np.array([0]), "n": np.array([1 << 22])}


@bomb
def a_chain_in_which_each_tensor_comes_twice() -> ModelProto:
    names = ["x", *(f"t{number}" for number in range(40))]
    nodes = [op("Identity", one, two) for one, two in itertools.pairwise(names) for _ in range(2)]
    return file(nodes, {"x": (np.int8, [1])}, output=names[-1])


@bomb
def a_cycle_of_8_bits() -> ModelProto:
    return file([op("Identity", "x", "y"), op("Identity", "y", "x")], {"x": (np.int8, [1])})


@bomb
def functions_that_double_behind_a_problem() -> ModelProto:
    nodes = [op("Unknown", "x", "q"), op("F0", "q", "y", domain="f")]
    return file(nodes, {"x": (F, [2])}, functions=doubling(30))


@bomb
def functions_that_double() -> ModelProto:
    return file([op("F0", "x", "y", domain="f")], {"x": (F, [2])}, functions=doubling(20))


@bomb
def a_function_that_calls_itself() -> ModelProto:
    nodes = [op("Unknown", "x", "q"), op("F", "q", "y", domain="f")]
    return file(nodes, {"x": (F, [2])}, functions=[function("F", [op("F", "x", "y", domain="f")])])


@bomb
def loops_without_nodes() -> ModelProto:
    def body(depth: int) -> GraphProto:
        inner = [op("Loop", "n yes", "", body=body(depth - 1))] if depth else []
        ports = [helper.make_tensor_value_info("k", TensorProto.BOOL, [])]
        counter = helper.make_tensor_value_info("i", TensorProto.INT64, [])
        return helper.make_graph(inner, "inside", [counter, *ports], ports)

    nodes = [op("Loop", "n yes", "", body=body(5)), op("Neg", "x", "y")]
    return file(nodes, {"x": (F, [2])}, {"n": np.array(1000), "yes": np.array(True)})


@bomb
def loops_that_fold_constants() -> ModelProto:
    body = subgraph(
        [op("Add", "s c", "t"), op("Identity", "k", "more")],
        ["more", "t"],
        {"i": (np.int64, []), "k": (np.bool_, []), "s": (F, [2])},
        {"more": (np.bool_, [])},
    )
    names = ["c", *(f"t{number}" for number in range(50)), "e"]
    nodes = [op("Loop", f"n yes {one}", two, body=body) for one, two in itertools.pairwise(names)]
    return with_constants(nodes, c=np.ones(2, F), n=np.array(1024), yes=np.array(True))


@bomb
def elements_from_far_away() -> ModelProto:
    return with_constants([op("GatherElements", "c i", "e", axis=0)], c=np.zeros(2, F), i=np.array([1 << 40, 0]))


@bomb
def elements_from_far_before() -> ModelProto:
    return with_constants([op("GatherElements", "c i", "e", axis=0)], c=np.zeros(2, F), i=np.array([-(1 << 62), 0]))


@bomb
def large_sorts() -> ModelProto:
    nodes = [op("Expand", "one n", "l"), *(op("TopK", "l k", f"v{i} p{i}", axis=0) for i in range(100))]
    return with_constants([*nodes, op("Identity", "v0", "e")], k=np.array([1]), **LARGE)


@bomb
def large_scatters() -> ModelProto:
    nodes = [op("Expand", "one n", "l"), op("Expand", "zero n", "i")]
    return with_constants([*nodes, op("ScatterElements", "l i l", "e")], **LARGE)


@bomb
def texts_of_numbers() -> ModelProto:
    return with_constants([op("Expand", "one n", "l"), op("Cast", "l", "e", to=TensorProto.STRING)], **LARGE)


@bomb
def a_long_window() -> ModelProto:
    return with_constants([op("HannWindow", "n", "e")], n=np.array(250_000_000))


@bomb
def a_split_into_many() -> ModelProto:
    split = op("Split", "c", "e", axis=0)
    split.attribute.append(helper.make_attribute("num_outputs", 1 << 40))
    made = with_constants([split], c=np.zeros(2, F))
    made.opset_import[0].version = 18
    return made


@pytest.fixture(scope="module")
def loader() -> Iterator[subprocess.Popen[str]]:
    """A process with `LOAD`."""
    roots, command = {"PYTHONPATH": str(Path(nnvk.__file__).parents[1])}, [sys.executable, "-c", LOAD]
    with subprocess.Popen(
        [*command, str(3 * SECONDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=roots, cwd="/"
    ) as process:
        yield process


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(loader: subprocess.Popen[str], name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(BOMBS[name]().SerializeToString())
    assert path.stat().st_size < 10_000
    assert loader.stdin and loader.stdout
    print(path, file=loader.stdin, flush=True)
    found, status = loader.stdout.readline().rsplit(maxsplit=1)
    assert status == "0"
    _, mebibytes = json.loads(found)
    assert mebibytes < MEBIBYTES


@pytest.mark.parametrize("shape", [[0, 1 << 62], [1 << 31], [1 << 62, 1 << 62], [0, 1 << 62, 1 << 62]], ids=str)
@pytest.mark.parametrize("dtype", [F, np.int8])
def test_sizes_that_no_tensor_has(dtype: Any, shape: list[int]) -> None:
    with pytest.raises(OnnxImportError):
        load(file([op("Cast", "x", "y", to=TensorProto.FLOAT)], {"x": (dtype, shape)}).SerializeToString())


def test_picking_from_a_large_constant_costs_what_is_picked() -> None:
    """Exported models look up rows of a table of positions in each of their layers."""
    nodes = [op("Gather", "table places", f"row{number}") for number in range(40)]
    made = with_constants(
        [*nodes, op("Slice", "row0 zero one", "e")],
        table=np.zeros(1 << 20, F),
        places=np.arange(8),
        zero=np.array([0]),
        one=np.array([1]),
    )
    assert load(made.SerializeToString()).model.frozen.operations


def test_inference_takes_no_modules_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may lie beside files of whoever made it."""
    for name in ("onnx", "resource", "subprocess"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    net = file([op("Neg", "x", "y")], {"x": (F, [2, 3])})
    assert inferred(net, {"x": (5, 3)})["y"].shape == (5, 3)
    assert not (tmp_path / "ran").exists()


def test_indices_out_of_range_are_an_error() -> None:
    made = with_constants([op("GatherElements", "c i", "e", axis=0)], c=np.zeros(3, F), i=np.array([3]))
    with pytest.raises(OnnxImportError, match="its indices must lie between -3 and 2, got 3 to 3"):
        load(made.SerializeToString())


def test_files_elsewhere_do_not_raise_the_budget(tmp_path: Path) -> None:
    """The budget counts the bytes of files in the model's folder, and of no others."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for place in (tmp_path / "large.bin", folder / "own.bin"):
        place.write_bytes(bytes(1 << 20))
    (folder / "link.bin").symlink_to(tmp_path / "large.bin")
    for location in ("../large.bin", str(tmp_path / "large.bin"), "link.bin", "absent.bin", "", "."):
        assert bytes_beside(beside(location), folder) == 0
    assert bytes_beside(beside("own.bin"), folder) == 1 << 20


@pytest.mark.parametrize("values", [[5, -7], [127, -128]])
def test_8_bits_that_only_a_branch_reads(values: list[int]) -> None:
    branches = [subgraph([op("DequantizeLinear", "x scale", name)], [name]) for name in ("one", "other")]
    nodes = [op("If", "c", "y", then_branch=branches[0], else_branch=branches[1])]
    made = file(nodes, {"x": (np.int8, [2]), "c": (np.bool_, [1])}, {"scale": np.array(0.5, F)})
    imported = load(made.SerializeToString())
    compilation = nnvk.Compilation(imported.model, [nnvk.get_device("nnapi-reference")])
    compilation.finish()
    given = [np.array(values, np.int8), np.array([True])]
    outputs, _ = imported.decode(nnvk.run(compilation, imported.encode(given)))
    np.testing.assert_array_equal(outputs[0], np.array(values) * 0.5)
