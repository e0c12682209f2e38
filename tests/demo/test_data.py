"""The shipped models, labels and pictures."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tflite

from nnvk.demo.assets import DATA, MODELS, PICTURE_SIZE, DemoModel, labels, pictures

IDS = [model.title for model in MODELS]


def probabilities_of_litert(model: DemoModel) -> np.ndarray:
    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = interpreter_module.Interpreter(model_path=str(model.path))
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    found = []
    for picture in pictures():
        interpreter.set_tensor(source["index"], model.to_input(picture.pixels).reshape(model.input_shape))
        interpreter.invoke()
        found.append(model.to_probabilities(interpreter.get_tensor(target["index"])[0]))
    return np.stack(found)


def test_pictures_have_labels() -> None:
    shipped = pictures()
    assert Counter(picture.label for picture in shipped) == {digit: 6 for digit in range(len(labels()))}
    assert len({picture.place for picture in shipped}) == len(shipped) == 60
    assert all(picture.pixels.max() > 200 for picture in shipped)


def test_data_is_small() -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 400_000


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_conventions_of_the_files(model: DemoModel) -> None:
    graph = tflite.Model.GetRootAsModel(model.path.read_bytes(), 0).Subgraphs(0)
    source, target = graph.Tensors(graph.Inputs(0)), graph.Tensors(graph.Outputs(0))
    assert tuple(source.ShapeAsNumpy()) == model.input_shape == (1, PICTURE_SIZE, PICTURE_SIZE, 1)
    assert tuple(target.ShapeAsNumpy()) == (1, len(labels()))
    if model.output_dtype == np.int8:
        assert (source.Quantization().ZeroPoint(0), target.Quantization().ZeroPoint(0)) == (-128, -128)
        assert source.Quantization().Scale(0) == pytest.approx(1 / 255)
        assert target.Quantization().Scale(0) == 1 / 256


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_litert_classifies(model: DemoModel) -> None:
    answers = probabilities_of_litert(model).argmax(axis=1)
    assert np.mean(answers == [picture.label for picture in pictures()]) >= 0.97


def test_int8_agrees_with_float() -> None:
    real, quantised = (probabilities_of_litert(model) for model in MODELS)
    assert np.mean(real.argmax(axis=1) == quantised.argmax(axis=1)) >= 0.98
    assert np.abs(real - quantised).max() < 0.1
