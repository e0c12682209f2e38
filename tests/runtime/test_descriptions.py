"""The interpreter shows objects in a short and telling way."""

from __future__ import annotations

import pytest
from samples import add_model, compiled, increment_model

import nnvk
from nnvk.demo.assets import DATA
from nnvk.importers import tflite

CPU = nnvk.get_device("nnapi-reference")


@pytest.fixture(scope="module")
def imported() -> tflite.ImportedModel:
    return tflite.load(DATA / "digits_int8.tflite")


def test_models(imported: tflite.ImportedModel) -> None:
    assert repr(imported.model) == "<nnvk.Model of 11 operations: int8 1x16x16x1 -> int8 1x10>"
    assert repr(imported.model.frozen) == "<model of 11 operations: int8 1x16x16x1 -> int8 1x10>"
    assert repr(nnvk.Model()) == "<nnvk.Model not finished: 0 operands, 0 operations>"
    failed = nnvk.Model()
    failed.add_operand(nnvk.OperandType(nnvk.OperandCode.INT32))
    with pytest.raises(nnvk.NnapiError):
        failed.finish()
    assert repr(failed) == "<nnvk.Model that failed: 1 operand, 0 operations>"


def test_compilations_and_partitions(imported: tflite.ImportedModel) -> None:
    compilation = nnvk.Compilation(imported.model, [CPU])
    assert repr(compilation) == (
        "<nnvk.Compilation not finished: <model of 11 operations: int8 1x16x16x1 -> int8 1x10>>"
    )
    compilation.finish()
    assert repr(compilation) == "<nnvk.Compilation of 1 partition: 11 operations on nnapi-reference>"
    assert repr(compilation.plan) == "<plan of 1 partition: 11 operations on nnapi-reference>"
    assert repr(compilation.partitions) == (
        "(<nnvk.Partition on nnapi-reference: 11 operations (CONV_2D, DEPTHWISE_CONV_2D, CONV_2D, MAX_POOL_2D, ...)>,)"
    )


def test_everything_is_short(imported: tflite.ImportedModel) -> None:
    compilation = compiled(increment_model(), CPU)
    (partition,) = compilation.partitions
    assert repr(partition) == "<nnvk.Partition on nnapi-reference: 1 operation (ADD)>"
    for thing in (partition.part, compilation.model.operands, add_model(), imported):
        assert len(repr(thing)) < 1000
