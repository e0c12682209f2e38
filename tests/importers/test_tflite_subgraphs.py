"""Subgraphs and the tensors between operators: what is refused of them, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from tflite_net import Net, T, write
from tflite_oracle import f32, f32c, i32, i32c, out

from nnvk.importers.tflite import TfliteImportError, load


def wide(*shape: int) -> T:
    return T("INT64", shape)


def one(name: str, inputs: Sequence[T], results: Sequence[T], edges: Sequence[T] | None = None) -> Net:
    net = Net([tensor for tensor in inputs if tensor.is_free] if edges is None else edges, results)
    net.op(name, inputs, results)
    return net


def calling(body: Net, *inputs: T) -> bytes:
    """A model that calls subgraph 1."""
    main = Net(inputs, [T()])
    main.op("CALL", inputs, main.outputs, "CallOptions", Subgraph=1)
    return write(main, body)


def with_variable() -> Net:
    body = Net([f32(2)], [f32(2)])
    handle = body.op("VAR_HANDLE", [], T("RESOURCE", ()), "VarHandleOptions", SharedName="x")
    body.op("ASSIGN_VARIABLE", [handle, body.inputs[0]], [None], "AssignVariableOptions")
    body.op("NEG", body.inputs, body.outputs)
    return body


def with_state() -> Net:
    body, eye, zero = Net([f32(1, 2)], [f32(1, 2)]), T(data=np.eye(2)), T(data=[0.0, 0.0])
    body.op("RNN", [*body.inputs, eye, eye, zero, T("FLOAT32", (1, 2), variable=True)], body.outputs, "RNNOptions")
    return body


def broken() -> Net:
    return one("SKIP_GRAM", [f32(2), f32(2)], [f32(2)])


CALLED: dict[str, tuple[bytes, str]] = {
    "too few inputs": (
        calling(one("ADD", [f32(2), f32(2)], [f32(2)]), f32(2)),
        r"operator 0 \(CALL\): subgraph 1 has 2 inputs, got 1$",
    ),
    "an input of another type": (
        calling(one("NEG", [i32(2)], [i32(2)]), f32(2)),
        r"operator 0 \(CALL\): tensor 0 't0' of subgraph 1 is given TENSOR_FLOAT32\[2\]$",
    ),
    "a variable": (calling(with_variable(), f32(2)), r"operator 0 \(CALL\): subgraph 1 has variables$"),
    "a variable tensor": (calling(with_state(), f32(1, 2)), r"operator 0 \(CALL\): subgraph 1 has variables$"),
    "a size that data decide": (
        calling(one("WHERE", [T("BOOL", (4,))], [T("INT64")]), T("BOOL", (4,))),
        r"operator 0 \(CALL\): data decide the size of an output of subgraph 1$",
    ),
    "what can't be mapped": (
        calling(broken(), f32(2), f32(2)),
        r"operator 0 \(CALL\): subgraph 1 has operators that can't be mapped$",
    ),
}


@pytest.mark.parametrize("what", CALLED)
def test_subgraphs_that_can_not_be_called(what: str) -> None:
    data, message = CALLED[what]
    with pytest.raises(TfliteImportError) as caught:
        load(data)
    assert any(re.search(message, line) for line in str(caught.value).splitlines())


@pytest.mark.parametrize("count", [16, 17])
def test_how_deep_calls_may_be(count: int) -> None:
    nets = []
    for place in range(count):
        nets.append(Net([f32(2)], [f32(2)]))
        edges = nets[-1].inputs, nets[-1].outputs
        if place == count - 1:
            nets[-1].op("NEG", *edges)
        else:
            nets[-1].op("CALL", *edges, "CallOptions", Subgraph=place + 1)
    if count == 16:
        assert load(write(*nets)).outputs
        return
    with pytest.raises(TfliteImportError, match="subgraphs are nested more than 16 deep"):
        load(write(*nets))


def once(body: Net) -> bytes:
    """A model that initialises variables with subgraph 1."""
    main = Net([f32(2)], [f32(2)])
    main.op("CALL_ONCE", [], [None], "CallOnceOptions", InitSubgraphIndex=1)
    main.op("NEG", main.inputs, main.outputs)
    return write(main, body)


def assigning(value: T) -> Net:
    body = Net()
    handle = body.op("VAR_HANDLE", [], T("RESOURCE", ()), "VarHandleOptions", SharedName="x")
    body.op("ASSIGN_VARIABLE", [handle, value], [None], "AssignVariableOptions")
    return body


def failing() -> Net:
    body = assigning(T(data=[1.0]))
    body.op("SKIP_GRAM", [T(data=[1.0]), T(data=[1.0])], T())
    return body


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (assigning(T("FLOAT32", (2,), variable=True)), "subgraph 1 gives variable 'x' no constant"),
        (failing(), "subgraph 1 has operators that can't be mapped"),
    ],
    ids=["no constant", "what can't be mapped"],
)
def test_first_values_that_are_none(body: Net, reason: str) -> None:
    with pytest.raises(TfliteImportError) as caught:
        load(once(body))
    assert f"operator 0 (CALL_ONCE): {reason}" in str(caught.value)


@pytest.mark.parametrize("is_constant", [False, True])
def test_an_input_is_a_tensor_of_its_own(is_constant: bool) -> None:
    x = T("FLOAT32", data=[1, 2], name="x") if is_constant else T("FLOAT32", (2,), name="x")
    net = Net([x] if is_constant else [x, x], [f32(2)])
    net.op("NEG", [x], net.outputs)
    position, what = (0, "an input and a constant") if is_constant else (1, "an input twice")
    with pytest.raises(TfliteImportError) as caught:
        load(write(net))
    assert f"input {position}: tensor 0 'x' is {what}" in str(caught.value)


def branching(declared: tuple[int, ...], count: int = 1) -> bytes:
    """A condition, an input of two rows, and branches that take so many inputs, declared with a shape of their own."""
    flag, x, result = T("BOOL", (), name="flag"), T("FLOAT32", (2, 3), name="x"), T("FLOAT32")
    main = Net([flag, x], [result])
    main.op("IF", [flag, x], result, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=1)
    branch = Net([f32(*declared) for _ in range(count)], [T("FLOAT32")])
    branch.op("NEG", branch.inputs[:1], branch.outputs)
    return write(main, branch)


def test_branches_have_the_shapes_that_they_are_given() -> None:
    """Those of the file, unless the caller wants others."""
    assert load(branching((2, 3))).outputs[0].shape == (2, 3)
    assert load(branching((2, 3)), shapes={"x": (4, 3)}).outputs[0].shape == (4, 3)
    assert load(branching((5, 3)), shapes={"x": (4, 3)}).outputs[0].shape == (4, 3)
    with pytest.raises(TfliteImportError, match=r"operator 0 \(IF\): "):
        load(branching((5, 3)))


@pytest.mark.parametrize(
    ("flag", "shown"),
    [
        (T("BOOL", (2,)), r"TENSOR_BOOL8\[2\]"),
        (T("INT32", ()), r"TENSOR_INT32\[1\]"),
        (T("INT32", (2,)), r"TENSOR_INT32\[2\]"),
    ],
    ids=["two", "a number", "two numbers"],
)
def test_conditions_that_are_none(flag: T, shown: str) -> None:
    x, result = f32(2), f32(2)
    main = Net([flag, x], [result])
    main.op("IF", [flag, x], result, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=1)
    with pytest.raises(TfliteImportError, match=rf"operator 0 \(IF\): the condition must be one boolean, got {shown}"):
        load(write(main, one("NEG", [f32(2)], [f32(2)])))


@pytest.mark.parametrize("shapes", [{}, {"x": (4, 3)}])
def test_branches_of_other_inputs(shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(TfliteImportError, match=r"operator 0 \(IF\): IF: .*2"):
        load(branching((2, 3), 2), shapes=shapes)


# --- outputs -------------------------------------------------------------------------------------------------


def product(result: T) -> bytes:
    """A product of INT64, whose numbers may need 64 bits."""
    x, y = wide(2), wide(2)
    net = Net([x, y], [result])
    net.op("MUL", [x, y], result, "MulOptions")
    return write(net)


def reshaped_product(result: T) -> bytes:
    x = wide(1, 2)
    net = Net([x], [result])
    square = net.op("MUL", [x, x], wide(1, 2), "MulOptions")
    net.op("RESHAPE", [square, i32c(2)], result)
    return write(net)


def named(tensor: T) -> T:
    tensor.name = "z"
    return tensor


def twice(first: str, second: str) -> bytes:
    """Two operators with one output. A product has both words of 64 bits, a maximum has 32."""
    x, y, z = wide(2), wide(2), named(wide(2))
    net = Net([x, y], [z])
    for name in (first, second):
        net.op(name, [x, y], z, "MulOptions" if name == "MUL" else None)
    return write(net)


CONSTANT = T("FLOAT32", data=[1, 2], name="z")
WIDE_CONSTANT = T("INT64", data=[1, 2], name="z")
BOUND: dict[str, tuple[bytes, str]] = {
    **{
        f"{second} behind {first}": (twice(first, second), f"operator 1 ({second}): its output # has a value already")
        for first in ("MUL", "MAXIMUM")
        for second in ("MUL", "MAXIMUM")
    },
    "a constant": (write(one("NEG", [f32(2)], [CONSTANT])), "operator 0 (NEG): its output # has a value already"),
    "a constant of 64 bits": (product(WIDE_CONSTANT), "operator 0 (MUL): its output # has a value already"),
    "another type": (
        reshaped_product(named(T("INT32", (2,)))),
        "operator 1 (RESHAPE): its output # is declared INT32, its inputs give INT64",
    ),
    "another shape": (
        product(named(wide(3))),
        "operator 0 (MUL): its output # is declared [3], its inputs give [2]",
    ),
}


@pytest.mark.parametrize("what", BOUND)
def test_outputs_that_do_not_fit(what: str) -> None:
    data, message = BOUND[what]
    with pytest.raises(TfliteImportError) as caught:
        load(data)
    assert message in re.sub(r"tensor \d 'z'", "#", str(caught.value))


@pytest.mark.parametrize(
    ("result", "shape"), [(T("INT64"), (2,)), (wide(2), (2,)), (T("INT64", (2,), signature=(-1,)), (2,))]
)
def test_shapes_that_the_file_leaves_open_fit(result: T, shape: tuple[int, ...]) -> None:
    assert load(product(result)).outputs[0].shape == shape


def test_what_lost_tensors_have_in_their_place() -> None:
    """A tensor without elements has nothing, so that its reader is not examined; others are looked at."""
    for shape, count in (((2, 3), 2), ((0, 3), 1)):
        net = Net([f32(2)], [f32(1)])
        lost = net.op("Own", net.inputs, T("FLOAT32", shape), custom=b"")
        net.op("SUM", [lost, i32c(9)], net.outputs, "ReducerOptions")  # there is no such axis
        with pytest.raises(TfliteImportError) as caught:
            load(write(net))
        assert len(caught.value.problems) == count, shape


def test_open_inputs_are_named_where_another_shape_may_help() -> None:
    def refusal(name: str, signature: tuple[int, ...] | None) -> str:
        x = T("FLOAT32", (1, 3), signature=signature, name="x")
        net = Net([x], [out()])
        inputs = [x, f32c(4, 5), None] if name == "FULLY_CONNECTED" else [x, x]
        net.op(name, inputs, net.outputs, "FullyConnectedOptions" if name == "FULLY_CONNECTED" else None)
        with pytest.raises(TfliteImportError) as caught:
            load(write(net))
        return str(caught.value).splitlines()[0]

    hint = "('x' of shape [-1, 3] is taken as [1, 3], --shape or load(..., shapes=...) gives others)"
    assert hint in refusal("FULLY_CONNECTED", (-1, 3))
    assert "taken as" not in refusal("FULLY_CONNECTED", None)
    assert "taken as" not in refusal("SKIP_GRAM", (-1, 3)), "no shape would help"
