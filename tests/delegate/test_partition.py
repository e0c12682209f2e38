"""Graphs that the delegate hands over: how they are read, what can be taken, and the model of a partition."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tflite
from handed_over import CONSTANT, DECLARED, SPARSE, STATIC, VARIABLE, Graph, Node, Tensor

from nnvk.api import ResultCode
from nnvk.base.lanes import Session
from nnvk.base.packets import Descriptors, Malformed, Reader, Writer
from nnvk.importers import budget
from nnvk.importers.tflite import TfliteImportError, partition
from nnvk.importers.tflite.c_options import SIZES
from nnvk.importers.tflite.delegate import HANDLERS
from nnvk.importers.tflite.partition import Loaded
from nnvk.serve.protocol import Request

ADD, CUSTOM, FULLY_CONNECTED, NEG, RESHAPE, RNN, SUM, VAR_HANDLE, WHERE = (
    getattr(tflite.BuiltinOperator, name)
    for name in ("ADD", "CUSTOM", "FULLY_CONNECTED", "NEG", "RESHAPE", "RNN", "SUM", "VAR_HANDLE", "WHERE")
)
C_TYPES = (
    *("NOTYPE", "FLOAT32", "INT32", "UINT8", "INT64", "STRING", "BOOL", "INT16", "COMPLEX64", "INT8", "FLOAT16"),
    *("FLOAT64", "COMPLEX128", "UINT64", "RESOURCE", "VARIANT", "UINT32", "UINT16", "INT4", "BFLOAT16"),
)
"""TfLiteType of TensorFlow Lite's c_api_types.h."""
DOUBLE = 11
"""The type FLOAT64, which NNAPI does not have."""
TWICE = Node(ADD, (4, 4), (7,), struct.pack("i", 0))


def packet(graph: Graph, writer: Writer | None = None) -> bytes:
    return b"".join(graph.put(writer or Writer()).parts)


def read(graph: Graph) -> Loaded:
    return partition.read(Reader(memoryview(packet(graph))))


def of(*tensors: Tensor, nodes: tuple[Node, ...] = ()) -> Graph:
    """A graph from its first tensor to its last."""
    return Graph(tensors, nodes, [tensors[0].number], [tensors[-1].number])


def unary(code: int, source: Tensor, result: Tensor, options: bytes = b"") -> Graph:
    """A graph of one node."""
    return of(source, result, nodes=(Node(code, (source.number,), (result.number,), options),))


# --- reading -------------------------------------------------------------------------------------------------


def test_a_tensor_has_all_that_is_handed_over() -> None:
    given = Tensor(7, (2, 3), "INT8", bytes(6), STATIC | DECLARED, (-1, 3), (0.5, 0.25), (-1, 3), 1, name="wörter")
    loaded = read(of(Tensor(4, (5,)), given))
    (_, tensor), graph = loaded.graph.tensors, loaded.graph
    assert (tensor.index, tensor.name, tensor.type, tensor.shape) == (1, "wörter", "INT8", (2, 3))
    assert (tensor.signature, tensor.channel_dim, tensor.sparsity) == ((-1, 3), 1, None)
    assert (tensor.scales.tolist(), tensor.scales.dtype) == ([0.5, 0.25], np.float32)
    assert (tensor.zero_points.tolist(), tensor.zero_points.dtype) == ([-1, 3], np.int64)
    assert tensor.data is not None and tensor.data.tolist() == [0] * 6
    assert (loaded.numbers, loaded.nbytes, loaded.declared) == ((4, 7), 6, {1})
    assert (graph.index, graph.name, graph.inputs, graph.outputs) == (0, "", (0,), (1,))
    assert (loaded.data, loaded.description, loaded.metadata, loaded.signatures) == (b"", "", None, [])


@pytest.mark.parametrize("flag", [0, STATIC, VARIABLE, SPARSE, DECLARED, CONSTANT])
def test_each_flag_means_one_thing(flag: int) -> None:
    loaded = read(of(Tensor(0, flags=flag & ~CONSTANT, data=b"" if flag == CONSTANT else None)))
    (tensor,) = loaded.graph.tensors
    assert (tensor.is_static, tensor.is_variable) == (flag == STATIC, flag == VARIABLE)
    assert tensor.type == ("sparse FLOAT32" if flag == SPARSE else "FLOAT32")
    assert loaded.declared == ({0} if flag == DECLARED else set())
    assert tensor.data is None, "a constant without bytes has no buffer, as in a file"


@pytest.mark.parametrize(("number", "name"), list(enumerate(C_TYPES)))
def test_types_by_the_numbers_of_the_c_interface(number: int, name: str) -> None:
    assert read(of(Tensor(0, type=number))).graph.tensors[0].type == name


def test_types_that_are_not_known() -> None:
    assert read(of(Tensor(0, type=20))).graph.tensors[0].type == "type 20"


@pytest.mark.parametrize("signature", [(), (-1,), (-1, 3, 4)])
def test_a_signature_of_another_rank_is_none(signature: tuple[int, ...]) -> None:
    assert read(of(Tensor(0, (2, 3), signature=signature))).graph.tensors[0].signature == (2, 3)


def test_constants_are_counted() -> None:
    assert read(of(Tensor(0), Tensor(1, data=bytes(24)), Tensor(2, (2,), data=bytes(8)))).nbytes == 32


def test_nodes_have_all_that_is_handed_over() -> None:
    tensors = [Tensor(number) for number in (9, 4, 7)]
    nodes = (
        Node(ADD, (9, -1, 4), (7,), b"abcd", version=3, intermediates=(4, 9)),
        Node(CUSTOM, (7,), (4,), b"xyz", custom="Mine"),
        Node(9999, (), ()),
    )
    found = read(of(*tensors, nodes=nodes)).graph.operators
    assert [(node.index, node.name, node.is_custom, node.version) for node in found] == [
        *((0, "ADD", False, 3), (1, "Mine", True, 1), (2, "builtin 9999", False, 1)),
    ]
    assert [(node.inputs, node.outputs, node.intermediates) for node in found] == [
        *(((0, -1, 1), (2,), (1, 0)), ((2,), (1,), ()), ((), (), ())),
    ]
    assert [node.raw for node in found] == [b"abcd", b"xyz", b""]
    assert found[1].custom_options() == b"xyz"


MALFORMED: dict[str, tuple[Graph, str]] = {
    "a number below 0": (of(Tensor(-1)), "tensor -1 comes twice, or is none"),
    "a number far below 0": (of(Tensor(-2)), "tensor -2 comes twice, or is none"),
    "a number twice": (of(Tensor(3), Tensor(3)), "tensor 3 comes twice, or is none"),
    "a rank above 8": (of(Tensor(0), Tensor(1, (1,) * 9)), "tensor 1 has 9 dimensions, and 0 bytes"),
    "an input that is left out": (
        Graph([Tensor(0)], [], [0, -1], [0]),
        "the graph has an input or output that is left out",
    ),
    "an output that is left out": (
        Graph([Tensor(0)], [], [0], [-1]),
        "the graph has an input or output that is left out",
    ),
    "edges that don't come": (Graph([Tensor(0)], [], [0, 5, 6], [0]), r"the tensors \[5, 6\] don't come along"),
    "a node's tensor that does not come": (
        of(Tensor(0), nodes=(Node(NEG, (0,), (1,)),)),
        r"the tensors \[1\] don't come along",
    ),
    "a node's tensor below -1": (
        of(Tensor(0), nodes=(Node(NEG, (-2,), (0,)),)),
        r"the tensors \[-2\] don't come along",
    ),
    "an intermediate that does not come": (
        of(Tensor(0), nodes=(Node(NEG, (0,), (0,), intermediates=(8,)),)),
        r"the tensors \[8\] don't come along",
    ),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed(what: str) -> None:
    graph, message = MALFORMED[what]
    with pytest.raises(Malformed, match=message):
        read(graph)


def test_the_largest_rank() -> None:
    assert read(of(Tensor(0, (1,) * 8))).graph.tensors[0].shape == (1,) * 8


def test_bytes_of_what_is_no_constant() -> None:
    sizes = struct.pack("<Q", 0)
    given = packet(Graph([Tensor(0)], [], [], []))
    at = given.index(b"t" + sizes) + 1
    with pytest.raises(Malformed, match="tensor 0 has 2 dimensions, and 1 bytes"):
        partition.read(Reader(memoryview(given[:at] + struct.pack("<Q", 1) + given[at + 8 :])))


def test_bytes_behind_the_graph() -> None:
    with pytest.raises(Malformed, match="1 bytes too many"):
        partition.read(Reader(memoryview(packet(of(Tensor(0))) + b"\0")))


# --- what can be taken ---------------------------------------------------------------------------------------

TO_SIX = struct.pack("9i", 6, *[0] * 7, 1)
"""The options of a RESHAPE."""
LOST = "what it reads has a size that is known only when it runs"
BY_DATA = "a tensor of it has a size that is known only when it runs"
EXAMINED: dict[str, tuple[Graph, list[str]]] = {
    "all of it": (unary(NEG, Tensor(0), Tensor(1)), [""]),
    "a variable's handle": (
        of(Tensor(0), Tensor(1, (), "RESOURCE"), Tensor(2), nodes=(Node(NEG, (0,), (2,)), Node(VAR_HANDLE, (), (1,)))),
        ["", "expected options of type VarHandleOptions, got 0 bytes of others"],
    ),
    "four bits": (
        unary(RESHAPE, Tensor(0, (2, 3), "INT4", scales=[0.5]), Tensor(1, (6,), "INT8", scales=[0.5]), TO_SIX),
        ["tensors of 4 bits can't be handed over"],
    ),
    "four bits of a constant": (
        of(
            *(Tensor(0, (2, 6)), Tensor(1, (5, 6), "INT4", bytes(15), scales=[0.5]), Tensor(2, (2, 5))),
            nodes=(Node(FULLY_CONNECTED, (0, 1, -1), (2,), bytes(10)),),
        ),
        [""],
    ),
    "INT16 with a zero point": (
        unary(NEG, Tensor(0, (2,), "INT16", scales=[0.5], zero_points=[3]), Tensor(1, (2,), "INT16", scales=[0.5])),
        ["tensors of INT16 with a zero point can't be handed over"],
    ),
    "INT16 with a zero point as an output": (
        unary(NEG, Tensor(0, (2,), "INT16", scales=[0.5]), Tensor(1, (2,), "INT16", scales=[0.5], zero_points=[3])),
        ["tensors of INT16 with a zero point can't be handed over"],
    ),
    "a size that data decide": (
        of(
            *(Tensor(0, (4,), "BOOL"), Tensor(1, (), "INT64", flags=0), Tensor(2, (), "INT64", flags=0)),
            nodes=(Node(WHERE, (0,), (1,)), Node(NEG, (1,), (2,))),
        ),
        [BY_DATA, BY_DATA],
    ),
    "behind what can't be handed over": (
        of(
            *(Tensor(0), Tensor(1, type=DOUBLE), Tensor(2)),
            nodes=(Node(CUSTOM, (0,), (1,), custom="Mine"), Node(NEG, (1,), (2,))),
        ),
        ["NNAPI has no counterpart of this custom operator", LOST],
    ),
    "behind what can't be taken": (
        of(
            *(Tensor(0), Tensor(1), Tensor(2)),
            nodes=(Node(CUSTOM, (0,), (1,), custom="Mine"), Node(NEG, (1,), (2,))),
        ),
        ["NNAPI has no counterpart of this custom operator", ""],
    ),
    "a constant": (
        of(
            *(Tensor(0), Tensor(1, (2,), data=bytes(8)), Tensor(2, (2,)), Tensor(3)),
            nodes=(Node(NEG, (1,), (2,)), Node(NEG, (0,), (3,))),
        ),
        ["", ""],
    ),
    "the outputs of an operator of two": (
        of(
            *(Tensor(0), Tensor(1), Tensor(2), Tensor(3, type=DOUBLE), Tensor(4)),
            nodes=(Node(CUSTOM, (0,), (1, 3), custom="Mine"), Node(NEG, (1,), (2,)), Node(NEG, (3,), (4,))),
        ),
        ["NNAPI has no counterpart of this custom operator", "", LOST],
    ),
}


@pytest.mark.parametrize("what", EXAMINED)
def test_examine(what: str) -> None:
    graph, reasons = EXAMINED[what]
    assert partition.examine(read(graph)) == reasons


def test_control_flow_stays() -> None:
    tensors = Tensor(0, (1,), "BOOL"), Tensor(1), Tensor(2)
    node = Node(tflite.BuiltinOperator.IF, (0, 1), (2,), struct.pack("ii", 1, 2))
    reasons = partition.examine(read(Graph(tensors, [node], [0, 1], [2])))
    assert reasons == ["its subgraphs stay with TensorFlow Lite"]


def test_the_shapes_between_the_edges_are_believed_first() -> None:
    """The output's shape is the file's, and no other is known of a reshape to what only the model knows."""
    tensors = [Tensor(0), Tensor(1, (2,), "INT32"), Tensor(2, (3, 2), flags=0)]
    graph = Graph(tensors, [Node(RESHAPE, (0, 1), (2,), struct.pack("9i", *[0] * 9))], [0, 1], [2])
    assert partition.examine(read(graph)) != [""]
    tensors[2].flags = DECLARED
    assert partition.examine(read(graph)) == [""]


def test_the_shapes_between_the_edges_are_not_believed_where_others_do() -> None:
    """The input was resized since the file's shapes were true."""
    graph = unary(NEG, Tensor(0, (5, 3)), Tensor(1, (2, 3), flags=DECLARED))
    assert partition.examine(read(graph)) == [""]


def pooled(size: int, open_: int) -> Graph:
    """A pooling of windows of 20 x 20 of an image of this size."""
    image = Tensor(0, (1, size, size, 3), signature=(1, open_, open_, 3))
    options = struct.pack("6i", 2, 1, 1, 20, 20, 0)
    return unary(tflite.BuiltinOperator.MAX_POOL_2D, image, Tensor(1, (), flags=0), options)


@pytest.mark.parametrize(
    ("size", "open_", "is_taken"), [(1, 1, False), (1, -1, True), (20, 20, True), (19, 19, False), (19, -1, True)]
)
def test_sizes_that_are_left_open_are_tried(size: int, open_: int, is_taken: bool) -> None:
    assert (partition.examine(read(pooled(size, open_))) == [""]) is is_taken


def test_the_sizes_that_are_tried() -> None:
    loaded = read(pooled(1, -1))
    assert [one.graph.tensors[0].shape for one in loaded.opened()] == [(1, 32, 32, 3), (1, 224, 224, 3)]
    assert [one.numbers for one in loaded.opened()] == [loaded.numbers] * 2
    assert not list(read(pooled(1, 1)).opened())


def test_the_budget_is_that_of_the_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each constant is charged when it is read, and as an operand; the parts of the model are, too."""
    graph = of(
        *(Tensor(0, (1000,)), Tensor(1, (1000,), data=bytes(4000)), Tensor(2, (1000,))),
        nodes=(replace(TWICE, inputs=(0, 1), outputs=(2,)),),
    )
    parts = 5 * budget.PART_COST + 4  # four operands, one of them the activation, and the operation
    monkeypatch.setattr(budget, "FACTOR", 1)
    for room, is_taken in ((8000 + parts - 1, False), (8000 + parts, True)):
        monkeypatch.setattr(budget, "BASE", room - 4000)
        (reason,) = partition.examine(read(graph))
        assert (not reason) is is_taken, (room, reason)
        if is_taken:
            partition.model(read(graph), False)
        else:
            assert reason == f"constants, states and operations take more than the {room} bytes that " + (
                "a file of this size may; NNVK_IMPORT_MEMORY raises that"
            )
            with pytest.raises(TfliteImportError, match="constants, states and operations"):
                partition.model(read(graph), False)


# --- the model of a partition --------------------------------------------------------------------------------


def test_the_model_has_the_edges_of_the_graph() -> None:
    graph = unary(NEG, Tensor(4, (2, 3), name="x"), Tensor(7, (2, 3), name="y"))
    for relaxed in (False, True):
        built = partition.model(read(graph), relaxed)
        assert built.model.frozen.relaxed is relaxed
        assert [(port.name, port.shape) for port in built.inputs] == [("x", (2, 3))]
        assert [(port.name, port.shape) for port in built.outputs] == [("y", (2, 3))]
        assert built.states == ()


def test_activations_of_hybrid_operators_are_rounded() -> None:
    """TensorFlow Lite does so, which takes an operation more than the product."""
    weights = Tensor(1, (5, 6), "INT8", bytes(range(30)), scales=[0.5])
    graph = of(
        Tensor(0, (2, 6)), weights, Tensor(2, (2, 5)), nodes=(Node(FULLY_CONNECTED, (0, 1, -1), (2,), bytes(10)),)
    )
    codes = [operation.code.name for operation in partition.model(read(graph), False).model.frozen.operations]
    assert codes == ["ROUND_ROWS", "FULLY_CONNECTED"]


def rnn() -> Graph:
    """A cell whose state is tensor 30."""
    weights = [Tensor(number, (2, 2), data=bytes(16)) for number in (11, 12)]
    bias, state = Tensor(13, (2,), data=bytes(8)), Tensor(30, (1, 2), flags=STATIC | VARIABLE, name="state")
    tensors = [Tensor(10, (1, 2)), *weights, bias, state, Tensor(20, (1, 2))]
    return of(*tensors, nodes=(Node(RNN, (10, 11, 12, 13, 30), (20,), struct.pack("i?", 0, False)),))


def test_states_are_the_last_edges() -> None:
    built = partition.model(read(rnn()), False)
    assert built.states == (30,)
    assert [port.shape for port in built.inputs] == [(1, 2), (1, 2)]
    assert built.inputs[1].name == built.outputs[1].name == "state"


def test_a_model_is_built_of_the_shapes_that_inputs_have_now() -> None:
    graph = unary(NEG, Tensor(0, (5, 3)), Tensor(1, (2, 3), flags=DECLARED))
    assert partition.model(read(graph), False).outputs[0].shape == (5, 3)


def test_the_first_error_is_that_of_the_shapes_of_the_file() -> None:
    graph = unary(NEG, Tensor(0, (5, 3)), Tensor(1, (2, 3), "INT32", flags=DECLARED))
    with pytest.raises(TfliteImportError, match="NNAPI can't express this partition: the graph:") as caught:
        partition.model(read(graph), False)
    assert [(problem.operation, problem.index) for problem in caught.value.problems] == [("NEG", 0)]
    assert "is declared TENSOR_INT32, its inputs give TENSOR_FLOAT32" in caught.value.problems[0].reason


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_inputs_without_elements(shape: tuple[int, int]) -> None:
    built = partition.model(read(unary(NEG, Tensor(0, shape), Tensor(1, (), flags=0))), False)
    assert [port.shape for port in built.outputs] == [shape]


def test_outputs_that_grow_with_an_input_without_elements() -> None:
    """A reshape moves three times the open size to the front: three times none is none."""
    target = Tensor(5, (2,), "INT32", struct.pack("2i", -1, 2))
    tensors = [Tensor(0, (0, 6)), target, Tensor(1, (), flags=0)]
    graph = Graph(tensors, [Node(RESHAPE, (0, 5), (1,), struct.pack("9i", *[0] * 9))], [0], [1])
    assert [port.shape for port in partition.model(read(graph), False).outputs] == [(0, 2)]


@pytest.mark.parametrize("keeps", [False, True])
def test_a_sum_of_nothing(keeps: bool) -> None:
    axes = Tensor(5, (1,), "INT32", struct.pack("i", 0))
    graph = Graph(
        [Tensor(0, (0, 3)), axes, Tensor(1, (), flags=0)], [Node(SUM, (0, 5), (1,), bytes([keeps]))], [0], [1]
    )
    with pytest.raises(TfliteImportError, match="NNAPI can't compute anything out of inputs that have no elements"):
        partition.model(read(graph), False)
    assert partition.model(read(replace(graph, tensors=[Tensor(0, (2, 3)), *graph.tensors[1:]])), False)


def test_a_sum_of_nothing_beside_nothing() -> None:
    axes = Tensor(5, (1,), "INT32", struct.pack("i", 0))
    tensors = [Tensor(0, (0, 3)), axes, Tensor(1, (), flags=0), Tensor(2, (), flags=0)]
    nodes = [Node(NEG, (0,), (1,)), Node(SUM, (0, 5), (2,), b"\0")]
    assert partition.model(read(Graph(tensors, nodes, [0], [1])), False).outputs[0].shape == (0, 3)
    for outputs in ([1, 2], [2, 1]):
        with pytest.raises(TfliteImportError, match="NNAPI can't compute anything out of inputs that have no elements"):
            partition.model(read(Graph(tensors, nodes, [0], outputs)), False)


# --- requests ------------------------------------------------------------------------------------------------


def answered(content: bytes, session: Session | None = None) -> tuple[ResultCode, Reader]:
    """The result code, and what comes behind the reason."""
    reply = (session or Session(dict(HANDLERS))).answer(memoryview(content), Descriptors())
    reader = Reader(memoryview(reply.content))
    code, reason = ResultCode(reader.i32()), reader.string()
    assert bool(reason) is (code is not ResultCode.NO_ERROR)
    return code, reader


def asked(graph: Graph, number: int = 1, relaxed: int = 0, with_token: int = 1) -> bytes:
    return packet(graph, Writer(Request.TFLITE_MODEL).u64(number).u8(relaxed).u8(with_token))


def test_the_sizes_of_options() -> None:
    code, reader = answered(b"".join(Writer(Request.TFLITE_OPTIONS).parts))
    assert code is ResultCode.NO_ERROR
    assert {reader.i32(): reader.u32() for _ in range(reader.u32())} == SIZES
    reader.end()
    code, _ = answered(b"".join(Writer(Request.TFLITE_OPTIONS, 0).parts))
    assert code is ResultCode.BAD_DATA


def test_reasons_are_short() -> None:
    node = Node(CUSTOM, (0,), (1,), custom="\x1b" + "Long" * 200)
    graph = of(Tensor(0), Tensor(1), Tensor(2), nodes=(node, Node(NEG, (0,), (2,))))
    code, reader = answered(packet(graph, Writer(Request.TFLITE_EXAMINE)))
    assert code is ResultCode.NO_ERROR
    first, second = reader.string(), reader.string()
    assert (len(first), first[:12], second) == (600 + len(r"\x1b...") - 1, r"\x1bLongLong", "")
    reader.end()


def test_a_reason_names_the_operator() -> None:
    graph = unary(CUSTOM, Tensor(0), Tensor(1))
    graph.nodes[0].custom = "Mine"
    _, reader = answered(packet(graph, Writer(Request.TFLITE_EXAMINE)))
    assert reader.string() == "Mine: NNAPI has no counterpart of this custom operator"


def test_a_model_is_kept_and_its_edges_are_told() -> None:
    session = Session(dict(HANDLERS))
    code, reader = answered(asked(rnn(), 17, relaxed=1, with_token=0), session)
    assert code is ResultCode.NO_ERROR
    assert reader.u32s() == (30,)
    for _ in range(4):  # an input, an output, and those of the state
        assert (reader.u64(), reader.u32s()) == (8, (1, 2))
    reader.end()
    assert session.objects[17].frozen.relaxed


def token(graph: Graph, relaxed: int = 0) -> bytes:
    code, reader = answered(asked(graph, relaxed=relaxed))
    assert code is ResultCode.NO_ERROR
    reader.u32s()
    for _ in (*graph.inputs, *graph.outputs):
        reader.u64(), reader.u32s()
    return bytes(reader.rest())


def quantised() -> Graph:
    """A constant and an input are added."""
    source, result = (Tensor(number, (2, 3), "INT8", scales=[0.5], zero_points=[1]) for number in (4, 7))
    constant = Tensor(5, (2, 3), "INT8", bytes(range(6)), scales=[0.25], zero_points=[0])
    return of(source, constant, result, nodes=(Node(ADD, (4, 5), (7,), struct.pack("i", 0)),))


def on_tensor(place: int, **changes: object) -> Callable[[Graph], Graph]:
    def change(graph: Graph) -> Graph:
        tensors = [replace(tensor, **(changes if at == place else {})) for at, tensor in enumerate(graph.tensors)]
        return replace(graph, tensors=tensors)

    return change


def on_node(**changes: object) -> Callable[[Graph], Graph]:
    return lambda graph: replace(graph, nodes=[replace(graph.nodes[0], **changes)])


OTHER_MODELS = {
    "scale": on_tensor(0, scales=[0.75]),
    "zero point": on_tensor(0, zero_points=[2]),
    "elements": on_tensor(1, data=bytes(6)),
    "type": lambda graph: on_tensor(2, type="UINT8")(on_tensor(1, type="UINT8")(on_tensor(0, type="UINT8")(graph))),
    "shape": on_tensor(1, shape=(1, 3), data=bytes(3)),
    "known shape": on_tensor(2, flags=0),
    "declared shape": on_tensor(2, flags=DECLARED),
    "channel dim": on_tensor(1, channel_dim=1),
    "order": on_node(inputs=(5, 4)),
    "options": on_node(options=struct.pack("i", 1)),
    "version": on_node(version=2),
    "intermediates": on_node(intermediates=(5,)),
    "operator": on_node(code=tflite.BuiltinOperator.SUB),
    "outputs": lambda graph: replace(graph, outputs=[7, 7]),
    "inputs": lambda graph: replace(
        graph, inputs=[4, 5], tensors=[graph.tensors[0], replace(graph.tensors[1], data=None), graph.tensors[2]]
    ),
}


@pytest.mark.parametrize("what", OTHER_MODELS)
def test_tokens_of_other_models_differ(what: str) -> None:
    assert token(OTHER_MODELS[what](quantised())) != token(quantised())


def test_tokens() -> None:
    """They are the same for the same model, whatever its tensors are called."""
    first = token(quantised())
    assert len(first) == 32
    assert token(on_tensor(1, name="other")(quantised())) == first
    assert token(quantised(), relaxed=1) != first
