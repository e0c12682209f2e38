"""Resource variables, which become states, against TFLite over several invocations."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_net import Net, T, write
from tflite_oracle import actual, compare

from nnvk.importers.tflite import TfliteImportError, load


def handle(net: Net, name: str) -> T:
    return net.op("VAR_HANDLE", [], T("RESOURCE", ()), "VarHandleOptions", SharedName=name)


def initialisation(**values: T) -> Net:
    net = Net()
    for name, value in values.items():
        net.op("ASSIGN_VARIABLE", [handle(net, name), value], [None], "AssignVariableOptions")
    return net


def counter(step: T, first: T, *, assigned: str = "sum", scale: float | None = None, read: T | None = None) -> bytes:
    """Adds its input to a variable and gives what it was before, and twice what it is then."""
    result, twice = (T(step.type, step.shape, scale=scale) for _ in range(2))
    net = Net([step], [result, twice])
    net.op("CALL_ONCE", [], [None], "CallOnceOptions", InitSubgraphIndex=1)
    variable = handle(net, "sum")
    before = net.op("READ_VARIABLE", [variable], read or T(step.type, step.shape, scale=scale), "ReadVariableOptions")
    after = net.op("ADD", [before, step], T(step.type, step.shape, scale=scale), "AddOptions")
    other = variable if assigned == "sum" else handle(net, assigned)
    net.op("ASSIGN_VARIABLE", [other, after], [None], "AssignVariableOptions")
    again = net.op("READ_VARIABLE", [other], T(step.type, step.shape, scale=scale), "ReadVariableOptions")
    net.op("ADD", [before, T(step.type, data=np.zeros(step.shape), scale=scale)], result, "AddOptions")
    net.op("ADD", [again, again], twice, "AddOptions")
    return write(net, initialisation(sum=first))


def test_a_sum_over_executions() -> None:
    data = counter(T("FLOAT32", (2, 3)), T(data=[[1, 2, 3], [4, 5, 6]]))
    imported = compare(data, [np.float32([[1, 0, 2], [0.5, 0, -1]])], repeats=3)
    (state,) = imported.states
    assert (state.input.name, state.output.name, state.input.shape) == ("sum", "sum", (2, 3))
    np.testing.assert_array_equal(imported.initial_state(), [[[1, 2, 3], [4, 5, 6]]])
    assert len(imported.model.frozen.inputs) == len(imported.model.frozen.outputs) - 1 == 2


def test_quantised_elements_are_kept_whatever_scale_they_had_at_first() -> None:
    first = T("INT8", data=[10, -20, 30], scale=0.7)
    compare(counter(T("INT8", (3,), scale=0.5), first, scale=0.5), [np.int8([1, 2, -3])], repeats=3, steps=0)


def test_what_is_assigned_before_it_is_read_is_no_state() -> None:
    source, result = T("FLOAT32", (2,)), T("FLOAT32", (2,))
    net = Net([source], [result])
    variable = handle(net, "scratch")
    net.op("ASSIGN_VARIABLE", [variable, source], [None], "AssignVariableOptions")
    value = net.op("READ_VARIABLE", [variable], T("FLOAT32", (2,)), "ReadVariableOptions")
    net.op("NEG", [value], result)
    assert not compare(write(net), [np.float32([1, 2])], repeats=2).states


def test_a_variable_that_is_only_read() -> None:
    source, result = T("FLOAT32", (2,)), T("FLOAT32", (2,))
    net = Net([source], [result])
    net.op("CALL_ONCE", [], [None], "CallOnceOptions", InitSubgraphIndex=1)
    value = net.op("READ_VARIABLE", [handle(net, "w")], T("FLOAT32", (2,)), "ReadVariableOptions")
    net.op("MUL", [source, value], result, "MulOptions")
    compare(write(net, initialisation(w=T(data=[3, 4]))), [np.float32([1, 2])], repeats=2)


def test_two_variables_by_their_names() -> None:
    data = counter(T("FLOAT32", (2,)), T(data=[1, 2]), assigned="other")
    outputs = actual(load(data), [np.float32([10, 20])], repeats=2)
    np.testing.assert_array_equal(outputs, [[[1, 2], [22, 44]]] * 2)


def test_the_initial_state_is_a_copy() -> None:
    imported = load(counter(T("FLOAT32", (1,)), T(data=[5])))
    state = imported.initial_state()
    state[0][:] = 100
    np.testing.assert_array_equal(imported.initial_state(), [[5]])


def _uninitialised() -> bytes:
    net = Net([T("FLOAT32", (2,))], [T("FLOAT32", (2,))])
    value = net.op("READ_VARIABLE", [handle(net, "x")], T("FLOAT32", (2,)), "ReadVariableOptions")
    net.op("ADD", [value, net.inputs[0]], net.outputs[0], "AddOptions")
    return write(net)


def _no_handle() -> bytes:
    net = Net([T("FLOAT32", (2,))], [T("FLOAT32", (2,))])
    net.op("READ_VARIABLE", [T("RESOURCE", ())], net.outputs[0], "ReadVariableOptions")
    return write(net)


def _in_a_branch() -> bytes:
    flag, source, result = T("BOOL", ()), T("FLOAT32", (2,)), T("FLOAT32", (2,))
    main = Net([flag, source], [result])
    main.op("IF", [flag, source], result, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=1)
    branch = Net([T("FLOAT32", (2,))], [T("FLOAT32", (2,))])
    branch.op("ASSIGN_VARIABLE", [handle(branch, "x"), branch.inputs[0]], [None], "AssignVariableOptions")
    branch.op("NEG", branch.inputs, branch.outputs[0])
    return write(main, branch)


def _calls_itself() -> bytes:
    data = initialisation(x=T(data=[1]))
    data.op("CALL_ONCE", [], [None], "CallOnceOptions", InitSubgraphIndex=1)
    main = Net([T("FLOAT32", (2,))], [T("FLOAT32", (2,))])
    main.op("CALL_ONCE", [], [None], "CallOnceOptions", InitSubgraphIndex=1)
    main.op("NEG", main.inputs, main.outputs[0])
    return write(main, data)


def _read_with_another_scale() -> bytes:
    source, result = T("INT8", (2,), scale=0.5), T("INT8", (2,), scale=0.25)
    net = Net([source], [result])
    variable = handle(net, "x")
    net.op("ASSIGN_VARIABLE", [variable, source], [None], "AssignVariableOptions")
    value = net.op("READ_VARIABLE", [variable], T("INT8", (2,), scale=0.25), "ReadVariableOptions")
    net.op("ADD", [value, value], result, "AddOptions")
    return write(net)


STEP = T("FLOAT32", (2,))
REFUSED = {
    "read before it is assigned": (_uninitialised(), "variable 'x' is read before it is assigned, and no CALL_ONCE"),
    "no handle": (_no_handle(), "tensor 1 is no handle that a VAR_HANDLE before it gives"),
    "in a branch": (_in_a_branch(), "subgraph 1 has variables, which NNAPI's control flow does not carry"),
    "itself once": (_calls_itself(), "subgraph 1 contains itself"),
    "another type": (
        counter(STEP, T("INT32", data=[1, 2])),
        r"'sum' is initialised with TENSOR_INT32\[2\] and read as TENSOR_FLOAT32\[2\]",
    ),
    "another scale": (
        _read_with_another_scale(),
        r"a variable of TENSOR_QUANT8_ASYMM_SIGNED\[2\] scale 0.5 zero point 0 is read as .* scale 0.25 zero point 0",
    ),
    "another shape later": (
        counter(STEP, T(data=[1]), read=T("FLOAT32", (1,))),
        r"variable 'sum' of TENSOR_FLOAT32\[1\] is assigned TENSOR_FLOAT32\[2\]",
    ),
    "another scale later": (
        counter(
            T("INT8", (2,), scale=0.5), T("INT8", data=[1, 2], scale=0.5), scale=0.5, read=T("INT8", (2,), scale=0.25)
        ),
        "variable 'sum' of .* is assigned",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    data, message = REFUSED[what]
    with pytest.raises(TfliteImportError, match=message):
        load(data)
