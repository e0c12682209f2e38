"""Inputs and outputs that an operator of a file does not have: each is named, whatever the operator is."""

from __future__ import annotations

import re

import pytest
import tflite
from tflite_net import Net, T, write
from tflite_oracle import f32

from nnvk.importers.tflite import TfliteImportError, load
from nnvk.importers.tflite.registry import supported_operators
from nnvk.importers.user_functions import function_names

OPTIONAL = {
    "CALL": "contains itself",
    "CALL_ONCE": "contains itself",
    "Convolution2DTransposeBias": "the options must have 12 bytes, got 0",
    "IF": "contains itself",
    "LSH_PROJECTION": "unknown type of projection 0",
    "STABLEHLO_COMPOSITE": "contains itself",
    "TFLite_Detection_PostProcess": "must be a FlexBuffers map (buffer is too small)",
    "VAR_HANDLE": "is read before an operator writes it",
    "WHILE": "contains itself",
}
"""Operators that something else is refused of first."""


def refusal(name: str, inputs: list[T | None], outputs: list[T] | None = None) -> str:
    """Why an operator is refused; empty where it is mapped."""
    results = [T()] if outputs is None else outputs
    net = Net([tensor for tensor in inputs if tensor is not None] or [f32(1)], results or [f32(1)])
    is_custom = not hasattr(tflite.BuiltinOperator, name)
    net.op(name, inputs, results or [None], custom=b"" if is_custom else None)
    try:
        load(write(net))
    except TfliteImportError as error:
        return str(error)
    return ""


MAPPED = sorted(supported_operators() - function_names())


@pytest.mark.parametrize("first", [[], [None]], ids=["no input", "an input that is left out"])
@pytest.mark.parametrize("name", MAPPED)
def test_no_input(name: str, first: list[T | None]) -> None:
    said = refusal(name, first)
    assert re.search(r"input \d is missing", said) or (name in OPTIONAL and OPTIONAL[name] in said), said


@pytest.mark.parametrize("name", MAPPED)
def test_one_input(name: str) -> None:
    """Another one may be missing: nothing is looked for behind the last one."""
    assert "make no sense" not in refusal(name, [f32(2, 3)]) or name == "TFLite_Detection_PostProcess"


@pytest.mark.parametrize("name", ["NEG", "SHAPE", "RANK", "EXPAND_DIMS", "RESHAPE", "ADD", "CAST", "CONCATENATION"])
def test_a_handle_is_no_tensor(name: str) -> None:
    handle, result = T("RESOURCE", ()), T()
    net = Net([f32(2)], [result])
    net.op("VAR_HANDLE", [], handle, "VarHandleOptions", SharedName="x")
    net.op(name, [handle, T("INT32", data=[0])], result)
    with pytest.raises(TfliteImportError, match=rf"operator 1 \({name}\): input 0 is missing"):
        load(write(net))


@pytest.mark.parametrize("name", ["NEG", "ADD", "CAST", "VAR_HANDLE", "RESHAPE", "SOFTMAX", "UNPACK"])
def test_no_output(name: str) -> None:
    said = refusal(name, [f32(2, 3), f32(2, 3)], [])
    assert "make no sense" not in said and said != ""
