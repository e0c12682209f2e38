"""Classes are ranked with the softmax of logits, and probabilities as they are."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_net import Net, T, write

from nnvk.importers import tflite
from nnvk.insight.classes import Ranker


def ranker(operator: str | None, labels: list[str] | None = None) -> Ranker:
    """The ranker of a model that ends with an operator, and with a Reshape behind it."""
    source, middle, result = (T("FLOAT32", (1, 3)) for _ in range(3))
    net = Net([source], [result])
    if operator == "FULLY_CONNECTED":
        net.op(operator, [source, T("FLOAT32", data=np.eye(3, dtype=np.float32)), None], middle)
    elif operator == "SOFTMAX":
        net.op(operator, [source], middle, "SoftmaxOptions", Beta=1.0)
    elif operator is not None:
        net.op(operator, [source], middle)
    net.op("RESHAPE", [source if operator is None else middle, T("INT32", data=[1, 3])], result)
    return Ranker(tflite.load(write(net)), labels)


@pytest.mark.parametrize(
    ("operator", "result", "is_softmax"),
    [
        ("FULLY_CONNECTED", [0.2, 0.9, 0.5], True),
        ("LOG_SOFTMAX", [-1.0, -2.0, -0.7], True),
        ("SOFTMAX", [0.1, 0.2, 0.7], False),
        ("LOGISTIC", [0.2, 0.9, 0.5], False),
        (None, [0.2, 0.9, 0.5], False),
        (None, [0.1, 0.2, 0.7], False),
        (None, [-0.1, 0.2, 0.7], True),
        (None, [0.1, 2.0, 0.7], True),
        ("FULLY_CONNECTED", [0.1, 0.2, 0.7], False),
        ("FULLY_CONNECTED", [np.nan, 0.2, 0.7], False),
    ],
)
def test_scores_are_softmax_where_the_output_has_logits(
    operator: str | None, result: list[float], is_softmax: bool
) -> None:
    array = np.array([result], np.float32)
    outputs, scores, found = ranker(operator).scores(array)
    assert found is is_softmax
    wanted = np.exp(array[0]) / np.exp(array[0]).sum() if is_softmax else array[0]
    assert np.allclose(scores, wanted, equal_nan=True)
    assert np.array_equal(outputs, array[0].astype(np.float64), equal_nan=True)


def test_large_logits_do_not_overflow() -> None:
    ranking = ranker("FULLY_CONNECTED", ["a", "b", "c"]).best(np.array([[1e4, 0, -1e4]], np.float32), 2)
    assert [(one.score, one.label, one.output) for one in ranking.classes] == [(1.0, "a", 1e4), (0.0, "b", 0.0)]


def test_labels_must_be_as_many_as_classes() -> None:
    with pytest.raises(ValueError, match=r"there are 2 labels, output '.*' has 3 classes"):
        ranker("SOFTMAX", ["a", "b"])
