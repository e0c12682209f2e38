"""Parts of graphs: connected, as large as can be, and without cycles between them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import nnvk
from nnvk.importers.choosing import Choice
from nnvk.importers.cutting import Node, connected_parts, scheduled
from nnvk.importers.onnx.file import OnnxFile
from nnvk.importers.onnx.importer import Import
from nnvk.importers.onnx.partition import examine, fixed_shapes
from nnvk.importers.onnx.parts import part_of

CPU = [nnvk.get_device("nnapi-reference")]
TYPE = TensorProto.FLOAT


def node(name: str, reads: str) -> Node[str]:
    """An operator that gives a tensor of its own name."""
    return Node(reads, name)


def successors(nodes: list[Node[str]]) -> list[set[int]]:
    writers = {one.writes[0]: at for at, one in enumerate(nodes)}
    after: list[set[int]] = [set() for _ in nodes]
    for at, one in enumerate(nodes):
        for name in one.reads:
            if name in writers:
                after[writers[name]].add(at)
    return after


def has_cycle(nodes: list[Node[str]], parts: list[list[int]]) -> bool:
    """Whether the graph has a cycle once each part is one node."""
    group = {at: at for at in range(len(nodes))}
    for part in parts:
        group.update(dict.fromkeys(part, part[0]))
    after: dict[int, set[int]] = {one: set() for one in group.values()}
    for at, others in enumerate(successors(nodes)):
        after[group[at]] |= {group[other] for other in others} - {group[at]}
    while after:
        ends = [one for one, others in after.items() if not others]
        if not ends:
            return True
        for end in ends:
            del after[end]
        for others in after.values():
            others.difference_update(ends)
    return False


def is_connected(nodes: list[Node[str]], part: list[int]) -> bool:
    after = successors(nodes)
    seen, pending = {part[0]}, [part[0]]
    while pending:
        at = pending.pop()
        near = (after[at] | {other for other in part if at in after[other]}) & set(part)
        pending += near - seen
        seen |= near
    return seen == set(part)


def test_a_refused_node_between_two_divides_them() -> None:
    nodes = [node("a", "x"), node("b", "a"), node("c", "b"), node("d", "ac")]
    assert connected_parts(nodes, [True, False, True, True]) == [[0], [2, 3]]


def test_parts_that_a_path_through_others_does_not_connect_are_one() -> None:
    """The level of d is that of r's readers, yet nothing leads from a through r."""
    nodes = [node("p", "x"), node("r", "p"), node("a", "x"), node("d", "ar")]
    assert connected_parts(nodes, [True, False, True, True]) == [[0], [2, 3]]


def test_unconnected_nodes_are_parts_of_their_own() -> None:
    assert connected_parts([node("a", "x"), node("b", "x")], [True, True]) == [[0], [1]]


def test_steps_in_an_order_in_which_they_can_be_computed() -> None:
    """The operators beside the parts are as few steps as possible, and parts wait for what they read alone."""
    nodes = [node("a", "x"), node("b", "x"), node("c", "a"), node("d", "bc"), node("e", "x"), node("f", "de")]
    assert list(scheduled(nodes, [[0], [3]])) == [(False, [1, 4]), (True, [0]), (False, [2]), (True, [3]), (False, [5])]
    assert list(scheduled(nodes, [])) == [(False, [0, 1, 2, 3, 4, 5])]
    assert list(scheduled(nodes, [[0, 1, 2, 3, 4, 5]])) == [(True, [0, 1, 2, 3, 4, 5])]


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    drawn = random.Random(seed)
    names = [chr(ord("A") + at) for at in range(24)]
    nodes = [node(name, "".join(drawn.sample([*names[:at], "x"], min(at + 1, 2)))) for at, name in enumerate(names)]
    taken = [drawn.random() < 0.7 for _ in nodes]
    parts = connected_parts(nodes, taken)
    assert sorted(at for part in parts for at in part) == [at for at, one in enumerate(taken) if one]
    assert all(is_connected(nodes, part) for part in parts)
    assert not has_cycle(nodes, parts)
    for at, part in enumerate(parts):  # no two that an edge connects can be one
        for other in parts[:at]:
            joined = sorted(part + other)
            if is_connected(nodes, joined):
                rest = [one for one in parts if one not in (part, other)]
                assert has_cycle(nodes, [joined, *rest])


def graph(nodes: list[NodeProto], constants: dict[str, np.ndarray] | None = None) -> bytes:
    """A model from x to y, which are of shape [2, n]."""
    edges = [helper.make_tensor_value_info(name, TYPE, [2, "n"]) for name in "xy"]
    values = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    made = helper.make_model(
        helper.make_graph(nodes, "graph", edges[:1], edges[1:], values),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("other", 1)],
        ir_version=9,
    )
    return made.SerializeToString()


def test_reasons_and_parts() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Unknown", ["a"], ["b"], domain="other"),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Neg", ["c"], ["y"]),
    ]
    model = onnx.load_from_string(graph(nodes))
    model.graph.value_info.extend(helper.make_tensor_value_info(name, TYPE, [2, "n"]) for name in "ab")
    choice = examine(OnnxFile(model.SerializeToString(), memoryview(b"")), CPU, relaxed=False, takes_all=True)
    assert choice.parts == [[0], [2, 3]]
    assert [bool(reason) for reason in choice.reasons] == [False, True, False, False]
    choice = examine(OnnxFile(model.SerializeToString(), memoryview(b"")), CPU, relaxed=False)
    assert choice.parts == [[2, 3]]
    assert "costs less" in choice.reasons[0]


@pytest.mark.parametrize(
    ("nodes", "parts"),
    [
        ([("Relu", "x", "y")], [[0]]),  # beside nothing that stays
        ([("Unknown", "x", "a"), ("Relu", "a", "y")], []),
        ([("Unknown", "x", "a"), ("Softmax", "a", "y")], [[1]]),
        ([("Relu", "x", "y"), ("Unknown", "x", "a")], [[0]]),
        ([("Relu", "x", "a"), ("Unknown", "a", "y")], []),
        ([("Relu", "x", "a"), ("Neg", "a", "b"), ("Unknown", "b", "y")], [[0, 1]]),
    ],
)
def test_a_cheap_node_beside_nodes_that_stay(nodes: list[tuple[str, str, str]], parts: list[list[int]]) -> None:
    made = [
        helper.make_node(kind, [source], [result], domain="other" if kind == "Unknown" else "")
        for kind, source, result in nodes
    ]
    model = onnx.load_from_string(graph(made))
    model.graph.value_info.extend(helper.make_tensor_value_info(name, TYPE, [2, "n"]) for name in "ab")
    choice = examine(OnnxFile(model.SerializeToString(), memoryview(b"")), CPU, relaxed=False)
    assert choice.parts == parts


def test_open_sizes_of_a_batch_of_images() -> None:
    """A batch of 224 images would be too large for a buffer of the device."""
    edges = [helper.make_tensor_value_info(name, TYPE, [None, 3, None, None]) for name in "xy"]
    nodes = [
        helper.make_node("AveragePool", ["x"], ["a"], kernel_shape=[48, 40]),
        helper.make_node("Abs", ["a"], ["y"]),
    ]
    made = helper.make_model(
        helper.make_graph(nodes, "graph", edges[:1], edges[1:]), opset_imports=[helper.make_opsetid("", 17)]
    )
    made.graph.value_info.append(helper.make_tensor_value_info("a", TYPE, [None, 3, None, None]))
    file = OnnxFile(made.SerializeToString(), memoryview(b""))
    for device in nnvk.get_devices():
        assert examine(file, [device], relaxed=False).parts == [[0, 1]]


def test_the_reasons_of_a_device() -> None:
    edges = [helper.make_tensor_value_info(name, TYPE, [1 << 14, 1 << 13, 4]) for name in "xy"]
    node = helper.make_node("Softmax", ["x"], ["y"])
    made = helper.make_model(
        helper.make_graph([node], "graph", edges[:1], edges[1:]), opset_imports=[helper.make_opsetid("", 17)]
    )
    file = OnnxFile(made.SerializeToString(), memoryview(b""))
    gpus = [device for device in nnvk.get_devices() if device.name != CPU[0].name]
    for gpu in gpus:
        choice = examine(file, [gpu], relaxed=False)
        assert choice.parts == []
        assert choice.reasons[0].startswith(f"the device does not run it: {gpu.name}: ")
        assert len(choice.reasons[0]) > len(f"the device does not run it: {gpu.name}: ") + 10


def test_a_node_behind_an_unknown_shape_stays() -> None:
    nodes = [
        helper.make_node("Unknown", ["x"], ["b"], domain="other"),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    model = onnx.load_from_string(graph(nodes))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    choice = examine(OnnxFile(model.SerializeToString(), memoryview(b"")), CPU, relaxed=False)
    assert choice.parts == []
    assert "known when it runs" in choice.reasons[1]


def test_weights_in_memory() -> None:
    weights = np.arange(6, dtype=np.float32)
    model = onnx.load_from_string(graph([helper.make_node("Add", ["x", "w"], ["y"])]))
    tensor = model.graph.initializer.add(name="w", data_type=TYPE, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "0"), ("offset", "64"), ("length", "24")):
        tensor.external_data.add(key=key, value=value)
    data = bytes(64) + weights.tobytes()
    imported = OnnxFile(model.SerializeToString(), memoryview(data)).load(shapes={"x": (2, 3)})
    x = np.ones((2, 3), np.float32)
    compilation = nnvk.Compilation(imported.model, CPU)
    compilation.finish()
    outputs = nnvk.run(compilation, imported.encode([x]))
    np.testing.assert_array_equal(imported.decode(outputs)[0][0], x + weights.reshape(2, 3))
    with pytest.raises(nnvk.NnapiError, match=r"ends at byte 88 of 80"):
        OnnxFile(model.SerializeToString(), memoryview(data[:80])).load(shapes={"x": (2, 3)})


def test_a_part_has_what_it_reads() -> None:
    nodes = [helper.make_node("Add", ["x", "k"], ["a"]), helper.make_node("Mul", ["a", "m"], ["y"])]
    values = {"k": np.ones(1, np.float32), "m": np.ones(1, np.float32)}
    model = onnx.shape_inference.infer_shapes(onnx.load_from_string(graph(nodes, values)))
    part = part_of(model, [1]).graph
    assert [one.name for one in part.input] == ["a"]
    assert [one.name for one in part.initializer] == ["m"]
    assert [one.name for one in part.output] == ["y"]


# --- nodes that stay, and why ----------------------------------------------------------------------------------------


def net(
    nodes: list[NodeProto],
    inputs: dict[str, tuple[int, list[int | str | None] | None]],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
) -> OnnxFile:
    """A graph of version 17 as onnxruntime gives it, with the shapes that inference finds."""
    made = helper.make_model(
        helper.make_graph(
            nodes,
            "graph",
            [helper.make_tensor_value_info(name, *given) for name, given in inputs.items()],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
        ),
        opset_imports=[
            helper.make_opsetid("", 17),
            *(helper.make_opsetid(name, 1) for name in ("other", "com.microsoft")),
        ],
        ir_version=9,
    )
    return OnnxFile(onnx.shape_inference.infer_shapes(made).SerializeToString(), memoryview(b""))


def chosen(file: OnnxFile, **options: bool) -> Choice:
    return examine(file, CPU, False, **{"takes_all": True, **options})


@pytest.mark.parametrize("count", [64, 65])
@pytest.mark.parametrize("takes_values", [True, False])
def test_nodes_that_must_know_small_inputs(count: int, takes_values: bool) -> None:
    """Up to 64 elements, a node is a part by itself, behind the others."""
    nodes = [
        helper.make_node("ReverseSequence", ["x", "l"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Exp", ["x"], ["c"]),
    ]
    file = net(nodes, {"x": (TYPE, [3, count]), "l": (TensorProto.INT64, [count])}, ["b", "c"])
    choice = chosen(file, takes_values=takes_values)
    is_taken = takes_values and count == 64
    assert choice.parts == ([[1], [2], [0]] if is_taken else [[1], [2]])
    reason = "the lengths (input 1) must be a constant"
    assert choice.reasons == ["" if is_taken else reason, "", ""]


def test_nodes_that_must_know_inputs_of_open_size() -> None:
    nodes = [helper.make_node("ReverseSequence", ["x", "l"], ["y"])]
    file = net(nodes, {"x": (TYPE, [3, "n"]), "l": (TensorProto.INT64, ["n"])}, ["y"])
    assert chosen(file, takes_values=True).parts == []


def test_nodes_that_wait_for_values_and_can_not_be_mapped_with_them() -> None:
    """Another reason than the value is the last word."""
    nodes = [helper.make_node("Tile", ["x", "r"], ["y"]), helper.make_node("NoSuch", ["r"], ["z"])]
    file = net(nodes, {"x": (TYPE, [3, 2]), "r": (TensorProto.INT64, [2])}, ["y", "z"])
    choice = chosen(file, takes_values=True)
    assert choice.parts == [[0]]
    assert choice.reasons == ["", "NNAPI has no counterpart of this operator"]


def test_graphs_in_nodes_do_not_wait_for_values() -> None:
    body = helper.make_graph(
        [helper.make_node("Tile", ["x", "r"], ["o"])], "body", [], [helper.make_tensor_value_info("o", TYPE, None)]
    )
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    inputs = {"x": (TYPE, [3, 2]), "r": (TensorProto.INT64, [2]), "c": (TensorProto.BOOL, [])}
    choice = chosen(net(nodes, inputs, ["y"]), takes_values=True)
    assert choice.parts == []
    assert choice.reasons[0].startswith("in it, Tile: the repetitions (input 1) must be a constant")


@pytest.mark.parametrize("given", [(TensorProto.STRING, [2, 3]), (TYPE, None)], ids=["texts", "any rank"])
def test_inputs_that_are_no_tensors_of_numbers(given: tuple[int, list[int | str | None] | None]) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Neg", ["z"], ["y"])]
    choice = chosen(net(nodes, {"x": given, "z": (TYPE, [2])}, ["a", "y"]))
    assert choice.parts == [[1]]
    assert choice.reasons == ["it reads texts or a list, or a tensor whose type or shape is known when it runs", ""]


def test_graphs_that_take_too_much() -> None:
    """Nothing of them is taken."""
    nodes = [
        helper.make_node("Neg", ["x"], ["y"]),
        helper.make_node("Transpose", ["x"], ["z"]),  # which picks integers one by one
    ]
    file = net(nodes, {"x": (TensorProto.INT32, [1 << 13, 1 << 13])}, ["y", "z"])
    choice = chosen(file)
    assert choice.parts == []
    assert len(set(choice.reasons)) == 1
    assert choice.reasons[0].startswith("constants, states and operations take more than the ")


def test_sizes_with_which_graphs_take_too_much() -> None:
    """Nodes are taken with the others that are tried."""
    nodes = [helper.make_node("Transpose", ["x"], ["z"]), helper.make_node("NoSuch", ["x"], ["y"])]
    file = net(nodes, {"x": (TensorProto.INT32, ["n", "m", 1 << 13])}, ["y", "z"])
    assert chosen(file).reasons == ["", "NNAPI has no counterpart of this operator"]


def test_sizes_with_which_arrays_of_a_node_take_too_much() -> None:
    """A Resize makes a matrix of [300 n, n], which has 572 GiB for one of the sizes that are tried."""
    nodes = [
        helper.make_node("Resize", ["x", "", "scales"], ["z"], mode="linear"),
        helper.make_node("NoSuch", ["x"], ["y"]),
    ]
    scales = {"scales": np.array([1, 1, 300], np.float32)}
    file = net(nodes, {"x": (TYPE, [1, 1, "n"])}, ["y", "z"], scales)
    assert chosen(file).reasons == ["", "NNAPI has no counterpart of this operator"]


@pytest.mark.parametrize(
    ("shape", "behind", "mapped"),
    [
        ([2, 3], [2, 3], [2]),  # which no sizes change
        (["n", 3], ["n", 3], [2, 1, 1]),  # sizes of 1, 32 and 224: no better ones go on behind a node that fails
        ([2, "n"], [2, "n"], [2, 1, 1, 1, 1]),
        (["n", "n"], ["n", "n"], [2, 1, 1, 1, 1, 1, 1]),
        ([2, 3], ["n", 3], [2, 1]),  # nothing has an open size before the first node fails again
    ],
)
def test_each_size_is_tried_once(
    shape: list[int | str | None], behind: list[int | str | None], mapped: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only sizes that give other shapes may have another result."""
    nodes = [helper.make_node("NoSuch", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    model = net(nodes, {"x": (TYPE, shape)}, ["y"]).proto()
    model.graph.value_info.append(helper.make_tensor_value_info("a", TYPE, behind))
    file = OnnxFile(model.SerializeToString(), memoryview(b""))
    counts: list[int] = []
    whole, one = OnnxFile.shared, Import.map
    monkeypatch.setattr(OnnxFile, "shared", lambda *given: (counts.append(0), whole(*given))[1])

    def map_one(*given: Any) -> None:
        counts[-1] += 1
        one(*given)

    monkeypatch.setattr(Import, "map", map_one)
    choice = chosen(file)
    assert choice.parts == [[1]]
    assert counts == [*mapped, 1]  # the last of them is the part


@pytest.mark.parametrize(
    ("domain", "kinds", "parts"),
    [
        ("", ["Relu"], []),
        ("", ["Relu", "Neg"], [[1, 2]]),
        ("", ["Softmax"], [[1]]),
        ("com.microsoft", ["Gelu"], [[1]]),
    ],
)
@pytest.mark.parametrize("is_before", [True, False])
def test_which_nodes_are_cheap(domain: str, kinds: list[str], parts: list[list[int]], is_before: bool) -> None:
    """A single one of ONNX's own, next to a node that stays, behind it or before it."""
    nodes = [
        helper.make_node(kind, [f"t{at}"], [f"t{at + 1}"], domain=domain)
        for at, kind in enumerate(kinds, int(is_before))
    ]
    first, last = "t0", f"t{len(kinds) + 1}"
    if is_before:
        nodes.insert(0, helper.make_node("Unknown", ["t0"], ["t1"], domain="other"))
    else:
        nodes.append(helper.make_node("Unknown", [f"t{len(kinds)}"], [last], domain="other"))
        parts = [[at - 1 for at in part] for part in parts]
    made = net(nodes, {first: (TYPE, [2, 3])}, [last]).proto()
    known = {one.name for one in made.graph.value_info}
    names = [f"t{at}" for at in range(1, len(kinds) + 1) if f"t{at}" not in known]
    made.graph.value_info.extend(helper.make_tensor_value_info(name, TYPE, [2, 3]) for name in names)
    file = OnnxFile(made.SerializeToString(), memoryview(b""))
    assert examine(file, CPU, False).parts == parts
    reasons = examine(file, CPU, False).reasons
    cheap = "it costs less than the way to the device and back, between nodes that stay"
    assert (cheap in reasons) == (not parts)


@pytest.mark.parametrize(
    ("sizes", "fixed"),
    [
        ([2, 3], {"x": (2, 3)}),
        ([2, "n"], None),
        ([2, None], None),
        ([0, 3], None),
        ([], {"x": ()}),
        ([1, 1], {"x": (1, 1)}),
    ],
    ids=str,
)
def test_fixed_shapes(sizes: list[int | str | None], fixed: dict[str, tuple[int, ...]] | None) -> None:
    file = net([helper.make_node("Neg", ["x"], ["y"])], {"x": (TYPE, sizes)}, ["y"])
    assert fixed_shapes(file) == fixed


def test_sizes_that_are_tried_for_open_ones() -> None:
    """The first axis is 1 where others are the sizes of images and speech, unless the only ones that fit are larger."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    for kernel, is_taken in (((1, 1), True), ((1, 200), True), ((1, 400), True), ((1, 16001), False)):
        weights = {"w": np.zeros((1, 1, *kernel), np.float32)}
        file = net(nodes, {"x": (TYPE, ["n", 1, 3, "w"])}, ["y"], weights)
        assert bool(chosen(file).parts) == is_taken
    weights = {"w": np.zeros((224, 1), np.float32)}
    product = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    assert chosen(net(product, {"x": (TYPE, ["n", "m"])}, ["y"], weights)).parts == [[0]]
    turned = [helper.make_node("MatMul", ["w", "x"], ["y"])]
    for rows, is_taken in ((32, True), (224, True), (48, False)):
        weights = {"w": np.zeros((3, rows), np.float32)}
        assert bool(chosen(net(turned, {"x": (TYPE, ["n", "m"])}, ["y"], weights)).parts) == is_taken


def test_a_size_that_is_the_sum_of_another_and_one() -> None:
    """A mask has a size for each token in the cache and for the one behind it."""
    nodes = [
        helper.make_node("Concat", ["cache", "token"], ["all"], axis=0),
        helper.make_node("MatMul", ["mask", "all"], ["y"]),
    ]
    inputs = {"cache": (TYPE, ["past", 3]), "token": (TYPE, [1, 3]), "mask": (TYPE, [1, "total"])}
    assert chosen(net(nodes, inputs, ["y"])).parts == [[0, 1]]


def test_a_part_of_graphs_in_nodes() -> None:
    """A node reads the tensors that graphs in it read; outputs are the tensors that other nodes read."""
    body = helper.make_graph(
        [helper.make_node("Add", ["a", "k"], ["o"])], "body", [], [helper.make_tensor_value_info("o", TYPE, [2])]
    )
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("If", ["c"], ["b"], then_branch=body, else_branch=body),
        helper.make_node("Abs", ["b"], ["y"]),
    ]
    inputs = {"x": (TYPE, [2]), "c": (TensorProto.BOOL, [])}
    model = net(nodes, inputs, ["y", "b"], {"k": np.ones(2, np.float32), "unread": np.ones(2, np.float32)}).proto()
    first, middle, last = (part_of(model, [at]).graph for at in range(3))
    assert [[one.name for one in part.input] for part in (first, middle, last)] == [["x"], ["c", "a"], ["b"]]
    assert [[one.name for one in part.output] for part in (first, middle, last)] == [["a"], ["b"], ["y"]]
    assert [[one.name for one in part.initializer] for part in (first, middle, last)] == [[], ["k"], []]
    whole = part_of(model, [0, 1, 2]).graph
    assert [one.name for one in whole.output] == ["b", "y"]
    assert [one.name for one in whole.value_info] == ["a"]
    assert [one.name for one in whole.input] == ["x", "c"]
    assert whole.input[0].type.tensor_type.shape.dim[0].dim_value == 2
