"""Operators on resource variables, which become states, and the subgraph that gives them their first values."""

from __future__ import annotations

from nnvk.importers.emitter import is_quantised, same_quantisation
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin


@builtin("CALL_ONCE")
def call_once(c: Context) -> list[Value]:
    """Map CALL_ONCE, of a subgraph without inputs and outputs that assigns constants. They are computed at import."""
    c.variables.initialise(c.options("CallOnceOptions").InitSubgraphIndex())
    return []


@builtin("VAR_HANDLE")
def var_handle(c: Context) -> list[Value]:
    """Map VAR_HANDLE, which is known at import."""
    options = c.options("VarHandleOptions")
    container, name = ((text or b"").decode("utf-8", "replace") for text in (options.Container(), options.SharedName()))
    c.output()
    c.variables.declare(c.operator.outputs[0], f"{container}/{name}" if container else name)
    return []


@builtin("READ_VARIABLE")
def read_variable(c: Context) -> Value:
    """Map READ_VARIABLE: the value that was assigned last, in this execution or before."""
    value, out = c.variables.read(c.index(0), c.output(), c.out()), c.out()
    if is_quantised(value) and not same_quantisation(value.type, out):
        raise Unmapped(f"a variable of {value.type} is read as {out}")
    return value


@builtin("ASSIGN_VARIABLE")
def assign_variable(c: Context) -> list[Value]:
    """Map ASSIGN_VARIABLE: set the next value."""
    c.variables.assign(c.index(0), c.input(1), c.operator.index)
    return []
