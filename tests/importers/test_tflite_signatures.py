"""Functions of a file by name, and what its metadata says."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from tflite_metadata import metadata, packed
from tflite_net import Net, Signature, T, write
from tflite_oracle import litert

from nnvk.api import NnapiError, get_device
from nnvk.importers.tflite import Metadata, TfliteImportError, load


def floats(*shape: int) -> T:
    return T("FLOAT32", shape)


def two_functions(second: str = "MUL") -> bytes:
    """A difference, whose inputs the signature names in another order than the subgraph has, and a second subgraph."""
    first, other, difference, half = floats(2, 3), floats(2, 3), floats(2, 3), floats(2, 3)
    main = Net([first, other], [difference, half])
    main.op("SUB", [first, other], difference)
    main.op("MUL", [difference, T(data=[0.5])], half)
    source, result = floats(4), floats(4)
    extra = Net([source], [result])
    extra.op(second, [source, T(data=[3.0])], result)
    keys = [
        Signature("minus", 0, {"b": other, "a": first}, {"halved": half, "whole": difference}),
        Signature("times", 1, {"x": source}, {"y": result}),
    ]
    return write(main, extra, signatures=keys)


def test_signatures_agree_with_litert() -> None:
    data = two_functions()
    imported = load(data)
    assert list(imported.signatures) == ["minus", "times"]
    a, b = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([[3, 1, 2], [9, 9, 9]])
    got = imported.signatures["minus"](a=a, b=b)
    np.testing.assert_array_equal(got["whole"], a - b)
    np.testing.assert_array_equal(got["halved"], (a - b) / 2)
    x = np.float32([1, 2, 3, 4])
    np.testing.assert_array_equal(imported.signatures["times"](x=x)["y"], 3 * x)
    assert repr(imported.signatures["times"]) == "Signature 'times'(x) -> (y)"
    assert imported.signatures["minus"].inputs["b"].name == imported.inputs[1].name
    if litert is None:
        pytest.skip("needs ai-edge-litert")
    interpreter = litert.Interpreter(model_content=data)
    for key, arrays in (("minus", {"a": a, "b": b}), ("times", {"x": x})):
        wanted, found = interpreter.get_signature_runner(key)(**arrays), imported.signatures[key](**arrays)
        assert wanted.keys() == found.keys()
        for name, want in wanted.items():
            np.testing.assert_array_equal(found[name], want)


def test_a_signature_runs_where_it_is_compiled_for() -> None:
    signature = load(two_functions()).signatures["times"]
    signature.compile([get_device("nnapi-reference")])
    np.testing.assert_array_equal(signature(x=np.ones(4, np.float32))["y"], [3, 3, 3, 3])


def test_a_signature_of_a_file_with_states_goes_on_where_it_was() -> None:
    source, state, result = floats(1, 2), T("FLOAT32", (1, 2), variable=True), floats(1, 2)
    net, one = Net([source], [result]), T(data=np.eye(2))
    net.op("RNN", [source, one, one, T(data=[0.0, 0.0]), state], result, "RNNOptions")
    signature = load(write(net, signatures=[Signature("step", 0, {"x": source}, {"y": result})])).signatures["step"]
    x = np.float32([[1, 2]])
    assert [signature(x=x)["y"].tolist() for _ in range(3)] == [[[1, 2]], [[2, 4]], [[3, 6]]]
    signature.reset()
    assert signature(x=x)["y"].tolist() == [[1, 2]]


def test_names_that_do_not_fit() -> None:
    imported = load(two_functions())
    with pytest.raises(KeyError, match="plus"):
        imported.signatures["plus"]
    with pytest.raises(NnapiError, match=r"signature 'minus' takes the inputs \['b', 'a'\], got \['a', 'c'\]"):
        imported.signatures["minus"](a=0, c=0)
    with pytest.raises(NnapiError, match="must be an array of float32, got float64"):
        imported.signatures["times"](x=np.zeros(4))


def test_a_signature_that_can_not_be_imported_says_so_each_time_it_is_asked_for() -> None:
    imported = load(two_functions("SKIP_GRAM"))
    for _ in range(2):
        with pytest.raises(TfliteImportError, match=r"operator 0 \(SKIP_GRAM\) of subgraph 1") as caught:
            imported.signatures["times"]
        assert [problem.operation for problem in caught.value.problems] == ["SKIP_GRAM"]


def test_a_signature_of_other_tensors_than_its_subgraph_has() -> None:
    source, middle, result = floats(2), floats(2), floats(2)
    net = Net([source], [result])
    net.op("NEG", [source], middle)
    net.op("ABS", [middle], result)
    imported = load(write(net, signatures=[Signature("inner", 0, {"x": source}, {"y": middle})]))
    with pytest.raises(TfliteImportError, match="the outputs of signature 'inner' are not those of its subgraph"):
        imported.signatures["inner"]


def test_other_signatures_take_the_shapes_of_inputs_that_they_have() -> None:
    imported = load(two_functions(), shapes={"t0": (5, 3), "t1": (5, 3)})
    ones = np.ones((5, 3), np.float32)
    assert imported.signatures["minus"](a=ones, b=ones)["whole"].shape == (5, 3)


def test_signatures_share_the_shapes_of_inputs_of_one_name() -> None:
    """The shape of an input that only the first subgraph has is nothing to the second one."""
    nets = []
    for names in (("x", "own"), ("x",)):
        inputs = [T("FLOAT32", (2, 3), name=name) for name in names]
        nets.append(Net(inputs, [T("FLOAT32")]))
        nets[-1].op("NEG", inputs[:1], nets[-1].outputs)
    keys = [Signature(str(at), at, dict(zip("ab", net.inputs, strict=False)), {}) for at, net in enumerate(nets)]
    imported = load(write(*nets, signatures=keys), shapes={"x": (5, 3), "own": (4, 2)})
    assert [port.shape for port in imported.inputs] == [(5, 3), (4, 2)]
    assert imported.signatures["1"].inputs["a"].shape == (5, 3)


# --- metadata ------------------------------------------------------------------------------------------------


def negation() -> Net:
    net = Net([floats(1, 2)], [floats(1, 2)])
    net.op("NEG", net.inputs, net.outputs[0])
    return net


def test_metadata() -> None:
    data = packed(
        write(negation(), metadata=metadata("A model", mean=[127.5], std=[63.75, 2], labels="names.txt")),
        {"other.txt": "no", "names.txt": "cat\r\ndog\n"},
    )
    found = load(data).metadata
    assert (found.name, found.description, found.version, found.author) == ("A model", "says much", "v1", "")
    assert (found.inputs[0].name, found.inputs[0].mean, found.inputs[0].std) == ("image", (127.5,), (63.75, 2.0))
    assert (found.outputs[0].name, found.outputs[0].labels) == ("classes", ("cat", "dog"))
    assert load(write(negation())).metadata == Metadata()


@pytest.mark.parametrize("files", [{}, {"names.txt": "x" * (5 << 20)}], ids=["missing", "too large"])
def test_labels_that_can_not_be_read(files: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    data = packed(write(negation(), metadata=metadata("A model", labels="names.txt")), files)
    with caplog.at_level(logging.WARNING):
        assert load(data).metadata == Metadata()
    assert "the metadata can't be read and is left out" in caplog.text


def test_damaged_metadata_stands_in_nobodys_way() -> None:
    whole = metadata("A model", mean=[1.0], std=[2.0], labels="names.txt")
    for length in range(0, len(whole), 3):
        assert load(write(negation(), metadata=whole[:length])).inputs
    for offset in range(0, len(whole) - 4, 4):
        for word in (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f"):
            damaged = whole[:offset] + word + whole[offset + 4 :]
            assert load(packed(write(negation(), metadata=damaged), {"names.txt": "a\nb"})).inputs


@pytest.mark.parametrize("what", ["input", "output"])
@pytest.mark.parametrize("foreign", [0, 1])
def test_a_signature_that_names_a_tensor_of_elsewhere(what: str, foreign: int) -> None:
    """One of two tensors is no input, or no output, of the subgraph."""
    x, y, inner, z = floats(2), floats(2), floats(2), floats(2)
    net = Net([x, y], [inner, z])
    between = net.op("ADD", [x, y], floats(2))
    net.op("NEG", [between], inner)
    net.op("ABS", [between], z)
    inputs, outputs = [x, y], [inner, z]
    (inputs if what == "input" else outputs)[foreign] = between
    key = Signature("own", 0, dict(zip("ab", inputs, strict=True)), dict(zip("cd", outputs, strict=True)))
    with pytest.raises(TfliteImportError, match=f"the {what}s of signature 'own' are not those of its subgraph"):
        _ = load(write(net, signatures=[key])).signatures["own"]


def test_a_signature_without_one_of_the_inputs() -> None:
    x, y, z = floats(2), floats(2), floats(2)
    net = Net([x, y], [z])
    net.op("ADD", [x, y], z)
    with pytest.raises(TfliteImportError, match="the inputs of signature 'own' are not those of its subgraph"):
        _ = load(write(net, signatures=[Signature("own", 0, {"a": x}, {"c": z})])).signatures["own"]
