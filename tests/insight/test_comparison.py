"""Comparisons: what differs, by how much, and where it begins."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_net import Net, T, write

import nnvk
from nnvk import NnapiError, OperandCode, OperandType
from nnvk.demo.assets import DATA
from nnvk.importers import tflite
from nnvk.insight.comparison import compare
from nnvk.insight.difference import Tolerance, difference
from nnvk.insight.engines import LiteRt, OnDevice

FLOAT, INT8 = DATA / "digits_float.tflite", DATA / "digits_int8.tflite"
ADD = 6
"""The position of the ADD in the demo's models."""
F32 = OperandType(OperandCode.TENSOR_FLOAT32, (3,))
Q8 = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (3,), 0.5, 10)
ABOUT = (None, "", None, "", 0)


@pytest.mark.parametrize("path", [FLOAT, INT8], ids=lambda path: path.stem)
@pytest.mark.parametrize("alone", [False, True], ids=["whole", "alone"])
def test_all_results_are_compared(path, alone, reference) -> None:
    imported = tflite.load(path)
    comparison = compare(imported, nnvk.get_devices()[0], reference, alone=alone)
    operations = imported.model.frozen.operations
    assert [each.number for each in comparison.inside] == list(range(len(operations)))
    assert [each.operation for each in comparison.inside] == [operation.code.name for operation in operations]
    assert [each.layer.name for each in comparison.inside][:3] == ["stem", "block1_spatial", "block1_mix"]
    assert not comparison.is_off
    assert comparison.begins is None
    assert len(comparison.outputs) == 1
    if path is INT8:
        assert all(each.steps == 0 and each.largest == 0 for each in comparison.inside)
    else:
        assert 0 < max(each.of_range for each in comparison.inside) < 1e-5


@pytest.mark.parametrize("path", [FLOAT, INT8], ids=lambda path: path.stem)
def test_where_it_begins(path, subtracts, reference) -> None:
    comparison = compare(tflite.load(path), subtracts, reference)
    assert comparison.is_off
    assert comparison.begins.number == ADD
    assert comparison.begins.layer.name == "block2_skip"
    assert [each.number for each in comparison.inside if each.is_off][:2] == [ADD, ADD + 1], "what follows is off too"
    assert len(comparison.inside) > ADD + 2
    assert comparison.outputs[0].is_off


@pytest.mark.parametrize("path", [FLOAT, INT8], ids=lambda path: path.stem)
def test_alone_it_ends_with_the_one_that_is_off(path, subtracts, reference) -> None:
    comparison = compare(tflite.load(path), subtracts, reference, alone=True)
    assert [each.is_off for each in comparison.inside] == [False] * ADD + [True]
    assert comparison.begins.operation == "ADD"


def test_the_numbers_of_a_difference(subtracts, reference) -> None:
    """They are those of the arrays."""
    imported = tflite.load(FLOAT)
    model = imported.model.with_all_outputs()
    image = np.random.default_rng(3).random(imported.inputs[0].shape, np.float32)
    arrays = {}
    for device in (subtracts, reference):
        compilation = nnvk.Compilation(model, [device])
        compilation.finish()
        arrays[device.name] = dict(zip(model.frozen.outputs, nnvk.run(compilation, [image]), strict=True))
    found = compare(imported, subtracts, reference, [image]).begins
    (index,) = model.frozen.operations[ADD].outputs
    got, want = arrays[subtracts.name][index], arrays[reference.name][index]
    assert found.largest == np.abs(got - want).max()
    assert found.of_range == pytest.approx(found.largest / np.ptp(want))
    assert (found.got, found.want) == (got[found.where], want[found.where])
    assert found.wrong == (np.abs(got - want) > 1e-4 * np.ptp(want)).sum()
    assert (found.size, found.device) == (got.size, subtracts.name)


@pytest.mark.parametrize("alone", [False, True], ids=["whole", "alone"])
def test_against_litert(alone, subtracts) -> None:
    pytest.importorskip("ai_edge_litert.interpreter")
    imported = tflite.load(INT8)
    comparison = compare(imported, nnvk.get_devices()[0], LiteRt(INT8), alone=alone)
    assert not comparison.is_off
    assert len(comparison.inside) >= 10
    assert len(comparison.outputs) == 1
    wrong = compare(imported, subtracts, LiteRt(INT8), alone=alone)
    assert wrong.begins.number == ADD
    assert wrong.outputs[0].is_off
    if alone:
        assert wrong.inside[-1] is wrong.begins


def test_what_only_a_delegate_runs_shows_its_outputs(tmp_path, reference) -> None:
    pytest.importorskip("ai_edge_litert.interpreter")
    image = T("FLOAT32", (1, 3, 3, 1))
    weights, bias = T("FLOAT32", data=np.ones((2, 2, 2, 1))), T("FLOAT32", data=[1, 2])
    result, last = T("FLOAT32", (1, 6, 6, 2)), T("FLOAT32", (1, 6, 6, 2))
    net = Net([image], [last])
    options = np.array([1, 2, 2], np.int32).tobytes()  # TfLiteTransposeConvParams: padding SAME, strides
    net.op("Convolution2DTransposeBias", [image, weights, bias], [result], custom=options)
    net.op("NEG", [result], [last])
    (tmp_path / "model.tflite").write_bytes(write(net))
    imported = tflite.load(tmp_path / "model.tflite")
    comparison = compare(imported, nnvk.get_devices()[0], LiteRt(tmp_path / "model.tflite"))
    assert not comparison.is_off
    assert [each.operation for each in comparison.inside] == ["NEG"]
    assert len(comparison.outputs) == 1


class Rounding(OnDevice):
    """Gives floats of 16 bits."""

    def results(self, imported, inputs, *, inside):
        found = super().results(imported, inputs, inside=inside)
        return {index: array.astype(np.float16).astype(array.dtype) for index, array in found.items()}


@pytest.mark.parametrize("relaxed", [False, True])
def test_a_relaxed_model_may_be_as_wrong_as_16_bits_are(relaxed, reference) -> None:
    imported = tflite.load(FLOAT, relaxed=relaxed)
    comparison = compare(imported, Rounding(reference), reference)
    assert max(each.of_range for each in comparison.inside) > 1e-4
    assert comparison.is_off != relaxed


def test_alone_is_for_devices(reference) -> None:
    pytest.importorskip("ai_edge_litert.interpreter")
    with pytest.raises(NnapiError, match="on devices, not on litert"):
        compare(tflite.load(INT8), LiteRt(INT8), reference, alone=True)


def test_inputs_that_do_not_fit(reference) -> None:
    with pytest.raises(NnapiError, match="must have shape"):
        compare(tflite.load(FLOAT), reference, reference, [np.zeros((1, 2, 3, 4), np.float32)])


@pytest.mark.parametrize(
    ("type_", "got", "want", "largest", "of_range", "steps", "wrong"),
    [
        (F32, [1, 2, 3], [1, 2, 3], 0, 0, None, 0),
        (F32, [1, 2, 3.5], [1, 2, 3], 0.5, 0.25, None, 1),
        (F32, [1, 2, 3.0001], [1, 2, 3], 1e-4, 5e-5, None, 0),
        (F32, [np.nan, np.inf, -np.inf], [np.nan, np.inf, -np.inf], 0, 0, None, 0),
        (F32, [np.nan, 0, 0], [0, 0, 0], np.inf, np.inf, None, 1),
        (F32, [0, 0, 0], [0, np.inf, np.nan], np.inf, np.inf, None, 2),
        (F32, [5, 5, 5], [4, 4, 4], 1, 0.25, None, 3),
        (F32, [1, 0, 0], [0, 0, 0], 1, 1, None, 1),
        (F32, [1e-8, 3e-8, 9e-7], [1e-8, 2e-8, 0], 9e-7, 45, None, 0),
        (F32, [1e-8, 3e-8, 2e-6], [1e-8, 2e-8, 0], 2e-6, 100, None, 1),
        (Q8, [10, 12, 14], [10, 11, 14], 0.5, 0.25, 1, 0),
        (Q8, [0, 0, 255], [255, 0, 0], 127.5, 1, 255, 2),
        (OperandType(OperandCode.TENSOR_INT32, (3,)), [1, 2, 3], [1, 2, 4], 1, 1 / 3, None, 1),
        (OperandType(OperandCode.TENSOR_BOOL8, (3,)), [1, 0, 1], [1, 1, 1], 1, 1, None, 1),
        (OperandType(OperandCode.TENSOR_FLOAT16, (3,)), [1, 2, 3.002], [1, 2, 3], 0.00195, 0.00098, None, 0),
    ],
)
def test_differences(type_, got, want, largest, of_range, steps, wrong) -> None:
    arrays = (np.array(values, type_.dtype) for values in (got, want))
    found = difference(ABOUT, type_, *arrays, Tolerance())
    assert found.largest == pytest.approx(largest, rel=0.01)
    assert found.of_range == pytest.approx(of_range, rel=0.01)
    assert (found.steps, found.wrong, found.size) == (steps, wrong, 3)
    assert found.is_off == (wrong > 0)


def test_other_sizes_are_off_and_nothing_is_not() -> None:
    found = difference(ABOUT, F32, np.zeros(3, np.float32), np.zeros(2, np.float32), Tolerance())
    assert found.is_off
    assert found.largest == np.inf
    nothing = np.zeros((0, 3), np.float32)
    assert not difference(ABOUT, F32, nothing, nothing, Tolerance()).is_off


def test_numbers_near_0_have_a_floor() -> None:
    got, want = np.array([1e-8, 9e-7], np.float32), np.array([1e-8, 0], np.float32)
    assert not difference(ABOUT, F32, got, want, Tolerance()).is_off
    assert difference(ABOUT, F32, got, want, Tolerance(floor=1e-7)).is_off
    assert difference(ABOUT, F32, got + 1, want, Tolerance()).is_off


def test_tolerances() -> None:
    got, want = np.array([10, 13, 14], np.uint8), np.array([10, 11, 14], np.uint8)
    assert difference(ABOUT, Q8, got, want, Tolerance()).is_off
    assert not difference(ABOUT, Q8, got, want, Tolerance(steps=2)).is_off
    got, want = np.array([0, 1, 1.01], np.float32), np.array([0, 1, 1], np.float32)
    assert difference(ABOUT, F32, got, want, Tolerance()).is_off
    assert not difference(ABOUT, F32, got, want, Tolerance(of_range=0.02)).is_off


def test_complex_numbers_differ_by_their_parts() -> None:
    type_ = OperandType(OperandCode.TENSOR_FLOAT32, (2, 2))
    want = np.array([1 + 1j, 2 - 1j], np.complex64)
    found = difference(
        (None, "", None, "", 0), type_, want + np.complex64(0.5j), want, Tolerance(of_range=0.1, steps=1)
    )
    assert (found.wrong, found.size, found.largest) == (2, 4, 0.5)
    assert found.where == (0, 1) and (found.got, found.want) == (1.5, 1)
    assert not difference((None, "", None, "", 0), type_, want, want, Tolerance(of_range=0.1, steps=1)).is_off
