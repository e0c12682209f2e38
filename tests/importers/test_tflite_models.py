"""Real models against what TFLite's reference kernels gave, and the edge of an import."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from samples import compiled
from tflite_net import Net, T, write
from tflite_oracle import compare

import nnvk
from nnvk.importers.tflite import ImportedModel, TfliteImportError, load, supported_operators

MODELS = Path(__file__).parents[3] / "shared" / "models"
DEVICES = [device.name for device in nnvk.get_devices() if device.name in ("vulkan-0", "nnapi-reference")]
NAMES = sorted(path.parent.name for path in MODELS.glob("*/model.tflite"))


def compute(imported: ImportedModel, inputs: list[np.ndarray], device: str = "nnapi-reference") -> list[np.ndarray]:
    compilation = compiled(imported.model, nnvk.get_device(device))
    outputs, _ = imported.decode(nnvk.run(compilation, imported.encode(inputs)))
    return outputs


@pytest.mark.skipif(not NAMES, reason="the models are not here")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_model(name: str, device: str) -> None:
    folder = MODELS / name
    imported = load(folder / "model.tflite")
    given, wanted = np.load(folder / "input.npz"), np.load(folder / "expected.npz")
    outputs = compute(imported, [given[str(position)] for position in range(len(imported.inputs))], device)
    assert len(outputs) == len(wanted.files)
    for position, (port, got) in enumerate(zip(imported.outputs, outputs, strict=True)):
        want = wanted[str(position)]
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.size > 1 and "autoencoder" not in name:
            assert got.argmax() == want.argmax()
        if not port.is_quantised:
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)
            continue
        steps = np.abs(got.astype(int) - want.astype(int))
        if name.startswith("mobilenet"):
            assert (steps <= 1).mean() >= 0.99
            assert steps.max() <= 3
        else:
            assert steps.max() <= 1


def quantised() -> bytes:
    source, weights = T("FLOAT32", (2, 6), name="features"), T("INT8", data=np.arange(24).reshape(4, 6), scale=0.02)
    result = T("FLOAT32", (2, 4), name="scores")
    net = Net([source], [result])
    net.op("FULLY_CONNECTED", [source, weights, None], result, "FullyConnectedOptions")
    return write(net, description="hybrid")


def test_hybrid_activations_are_real_on_demand() -> None:
    """Without the rounding one operation is left, and the results are those of the weights."""
    data = quantised()
    assert len(load(data).model.frozen.operations) > 1
    imported = load(data, round_hybrid=False)
    assert [operation.code.name for operation in imported.model.frozen.operations] == ["FULLY_CONNECTED"]
    features = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    weights = (np.arange(24).reshape(4, 6) * np.float32(0.02)).astype(np.float32)
    (scores,) = compute(imported, [features])
    np.testing.assert_allclose(scores, features @ weights.T, rtol=1e-5, atol=1e-6)


def test_constants_behind_the_tables() -> None:
    source, weights = T("FLOAT32", (2, 6)), T(data=np.arange(24).reshape(4, 6))
    net = Net([source], [T("FLOAT32", (2, 4))])
    net.op("FULLY_CONNECTED", [source, weights, T(data=[1, 2, 3, 4])], net.outputs[0], "FullyConnectedOptions")
    data = write(net, behind=True)
    features = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    compare(data, [features])
    with pytest.raises(TfliteImportError, match="buffer 1 ends at byte"):
        load(data[:-40])


def test_relaxed() -> None:
    assert load(quantised(), relaxed=True).model.frozen.relaxed
    assert not load(quantised()).model.frozen.relaxed


def test_ports_say_what_tflite_has() -> None:
    source = T("UINT8", (1, 4), scale=0.5, zero_point=10, name="image")
    best = T("INT64", (1,), name="best")
    net = Net([source], [best])
    net.op("ARG_MAX", [source, T("INT32", data=1)], best, "ArgMaxOptions", OutputType=4)
    imported = load(write(net, description="what it is"))
    assert imported.description == "what it is"
    (image,), (label,) = imported.inputs, imported.outputs
    assert (image.name, image.file_type, image.dtype, image.shape) == ("image", "UINT8", np.uint8, (1, 4))
    assert (image.is_quantised, image.scale, image.zero_point) == (True, 0.5, 10)
    assert image.type.code is nnvk.OperandCode.TENSOR_QUANT8_ASYMM
    assert (label.dtype, label.type.code, label.is_quantised, label.scale) == (
        np.int64,
        nnvk.OperandCode.TENSOR_INT32,
        False,
        0,
    )
    steps = image.quantize(np.array([[-5.0, 0.1, 3.0, 1000]]))
    np.testing.assert_array_equal(steps, np.uint8([[0, 10, 16, 255]]))
    np.testing.assert_array_equal(image.dequantize(steps), np.float32([[-5, 0, 3, 122.5]]))
    (found,) = compute(imported, [steps])
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [3])


def test_inputs_by_name_or_position() -> None:
    sources = [T("FLOAT32", (2,), name=name) for name in ("first", "second")]
    net = Net(sources, [T("FLOAT32", (2,))])
    net.op("SUB", sources, net.outputs[0])
    imported = load(write(net))
    values = {"second": np.float32([1, 2]), "first": np.float32([5, 5])}
    np.testing.assert_array_equal(imported.encode(values), [[5, 5], [1, 2]])
    with pytest.raises(nnvk.NnapiError, match=r"expected the inputs \['first', 'second'\], got \['first'\]"):
        imported.encode({"first": values["first"]})
    with pytest.raises(nnvk.NnapiError, match="expected 2 inputs, got 1"):
        imported.encode([values["first"]])
    with pytest.raises(nnvk.NnapiError, match="'first' must be an array of float32, got float64"):
        imported.encode([np.zeros(2), values["second"]])
    with pytest.raises(nnvk.NnapiError, match=r"'second' must have shape \[2\], got \[3\]"):
        imported.encode([values["first"], np.zeros(3, np.float32)])


@pytest.mark.parametrize("shape", [(2, 3), (3, 4), (8,), (2, 4, 1)], ids=str)
def test_outputs_of_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    imported = load(quantised())
    assert imported.outputs[0].type.dimensions == (2, 4)
    with pytest.raises(nnvk.NnapiError):
        imported.decode([np.zeros(shape, np.float32)])


def test_a_bare_array_is_no_list_of_inputs() -> None:
    imported = load(quantised())
    (port,) = imported.inputs
    for given in (np.zeros(port.shape, np.float32), np.zeros((1, *port.shape), np.float32)):
        with pytest.raises(nnvk.NnapiError, match=r"encode takes a list of arrays, .* got one ndarray: write \[it\]"):
            imported.encode(given)


def test_arrays_of_other_packages_are_inputs() -> None:
    class Other:
        def __dlpack__(self, **options: Any) -> Any:
            return values.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return values.__dlpack_device__()

    imported = load(quantised())
    values = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    for given in (Other(), memoryview(values)):
        np.testing.assert_array_equal(imported.encode([given])[0], values)


def test_the_model_knows_the_names_of_its_inputs() -> None:
    source, state = T("FLOAT32", (1, 2), name="x"), T("FLOAT32", (1, 2), variable=True, name="memory")
    one, zero = T(data=np.eye(2)), T(data=[0.0, 0.0])
    net = Net([source], [T("FLOAT32", (1, 2))])
    net.op("RNN", [source, one, one, zero, state], net.outputs[0], "RNNOptions")
    imported = load(write(net))
    assert imported.model.frozen.input_names == ("x", "memory")
    compilation = nnvk.Compilation(imported.model)
    compilation.finish()
    given = {"memory": np.float32([[10, 20]]), "x": np.float32([[1, 2]])}
    output, _ = nnvk.run(compilation, given)
    np.testing.assert_array_equal(output, [[11, 22]])


def test_int64_inputs_are_narrowed() -> None:
    source = T("INT64", (2,), name="indexes")
    net = Net([source], [T("INT64", (2,))])
    net.op("ADD", [source, T("INT64", data=[1, 2])], net.outputs[0])
    imported = load(write(net))
    (total,) = compute(imported, [np.int64([10, 20])])
    assert total.dtype == np.int64
    np.testing.assert_array_equal(total, [11, 22])
    with pytest.raises(nnvk.NnapiError, match="'indexes' must have values of 32 bits"):
        imported.encode([np.int64([2**40, 0])])


def test_a_state_is_an_input_and_an_output() -> None:
    source = T("FLOAT32", (1, 2), name="x")
    state = T("FLOAT32", (1, 2), variable=True, name="memory")
    one = T(data=np.eye(2))
    net = Net([source], [T("FLOAT32", (1, 2))])
    net.op("RNN", [source, one, one, T(data=[0.0, 0.0]), state], net.outputs[0], "RNNOptions")
    imported = load(write(net))
    assert [(s.input.name, s.output.name) for s in imported.states] == [("memory", "memory")]
    frozen = imported.model.frozen
    assert (len(frozen.inputs), len(frozen.outputs)) == (2, 2)
    given = imported.encode([np.float32([[1, 2]])], [np.float32([[10, 20]])])
    np.testing.assert_array_equal(given[1], [[10, 20]])
    np.testing.assert_array_equal(imported.initial_state(), [[[0, 0]]])


def test_inputs_and_outputs_above_rank_4_are_merged() -> None:
    source = T("FLOAT32", (2, 3, 1, 2, 2))
    net = Net([source], [T("FLOAT32", (2, 3, 1, 2, 2))])
    net.op("NEG", [source], net.outputs[0])
    imported = load(write(net))
    assert imported.inputs[0].type.dimensions == (6, 1, 2, 2)
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 1, 2, 2)
    (negated,) = compute(imported, [values])
    np.testing.assert_array_equal(negated, -values)


def test_an_input_that_is_an_output_is_copied() -> None:
    source = T("FLOAT32", (2,))
    net = Net([source], [source])
    net.op("NEG", [source], T("FLOAT32", (2,)))
    imported = load(write(net))
    assert [operation.code.name for operation in imported.model.frozen.operations] == ["RESHAPE"]


def test_an_output_named_twice_is_copied() -> None:
    source, result = T("FLOAT32", (2,)), T("FLOAT32", (2,))
    net = Net([source], [result, result])
    net.op("NEG", [source], result)
    outputs = compute(load(write(net)), [np.float32([1, 2])])
    np.testing.assert_array_equal(outputs, [[-1, -2]] * 2)


def test_supported_operators() -> None:
    names = supported_operators()
    assert {"CONV_2D", "UNIDIRECTIONAL_SEQUENCE_LSTM", "WHILE", "TFLite_Detection_PostProcess"} <= names
    numbers = vars(tflite.BuiltinOperator)
    builtins = {name for name in numbers if not name.startswith("_")}
    builtins -= {"CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"}
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    (said,) = re.findall(r"nnvk imports \d+ of TFLite's \d+ builtin operators\. It lacks [^.]*\.", page)
    assert re.findall(r"\b\d+\b", said) == [str(len(builtins & names)), str(len(builtins))]
    stablehlo = {name for name in builtins if name.startswith("STABLEHLO_")}
    assert "and all of StableHLO but STABLEHLO_COMPOSITE" in " ".join(said.split())
    assert stablehlo & names == {"STABLEHLO_COMPOSITE"}
    lacking = set(re.findall(r"\b[A-Z][A-Z0-9_]{5,}\b", said)) - stablehlo
    assert lacking == builtins - names - stablehlo
