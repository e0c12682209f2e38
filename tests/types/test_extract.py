"""Models that show what is inside."""

from __future__ import annotations

import numpy as np
import pytest
from random_graph import random_graph

import nnvk
from nnvk import NnapiError, OperationCode
from nnvk.driver.cpu import executor
from nnvk.ops import registry
from nnvk.ops.flow import Clock
from nnvk.types.extract import exposed, extract

CODES = [code for code in registry.definitions() if code is not OperationCode.RANDOM_MULTINOMIAL]


@pytest.mark.parametrize("seed", range(12))
def test_every_result_is_an_output_and_what_its_operation_gives(seed: int) -> None:
    graph = random_graph(seed, 8, CODES)
    model = graph.frozen
    shown = exposed(model)
    assert shown.outputs[: len(model.outputs)] == model.outputs, "its own come first"
    results = {index for operation in model.operations for index in operation.outputs}
    assert set(shown.outputs) == results
    assert len(shown.outputs) == len(results)
    assert (shown.inputs, shown.operations, shown.relaxed) == (model.inputs, model.operations, model.relaxed)
    clock = Clock(None, 10**9)
    with np.errstate(all="ignore"):
        values = dict(zip(model.inputs, graph.inputs, strict=True))
        values.update(zip(shown.outputs, executor.run(shown, graph.inputs, clock), strict=True))
        for number in range(len(model.operations)):
            part = extract(model, [number])
            alone = executor.run(part.model, [values[index] for index in part.inputs], clock)
            for index, array in zip(part.outputs, alone, strict=True):
                np.testing.assert_array_equal(values[index], array)
    assert exposed(shown).outputs == shown.outputs


def test_of_the_builder() -> None:
    graph = random_graph(3, 5, CODES)
    whole = graph.model.with_all_outputs()
    assert whole.frozen.outputs == exposed(graph.frozen).outputs
    assert graph.frozen.outputs == graph.model.frozen.outputs, "the model itself stays"
    device = nnvk.get_device("nnapi-reference")
    assert len(whole.get_support(device)) == len(graph.frozen.operations)
    with pytest.raises(NnapiError, match="can't be called after finish"):
        whole.finish()
    with pytest.raises(NnapiError, match="not finished"):
        nnvk.Model().with_all_outputs()
