"""Profiles: every operation under its number in the model, whatever it is a part of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from builder import Builder
from decorators import Decorated, Refusing
from networks import increment

import nnvk
from nnvk import OperandCode, OperandType, OperationCode
from nnvk.demo.assets import DATA
from nnvk.hal import IDevice, Support
from nnvk.importers import tflite
from nnvk.inputs.randoms import random_inputs
from nnvk.insight.limits import Limits
from nnvk.insight.placement import compile_model, device_of_operations
from nnvk.insight.profiling import Part, Profile, joined, take_profile
from nnvk.insight.report import memory_of
from nnvk.types.model import Model

DEVICES = nnvk.get_devices()
names = pytest.mark.parametrize("name", [device.name for device in DEVICES])
SQUARE = OperandType(OperandCode.TENSOR_FLOAT32, (2, 2))
FLAG = OperandType(OperandCode.TENSOR_BOOL8, (1,))


class Leaves(Decorated):
    """Leaves control flow to the runtime."""

    def get_supported_operations(self, model: Model) -> list[Support]:
        control = (OperationCode.IF, OperationCode.WHILE)
        return [Support("it is control flow" if operation.code in control else None) for operation in model.operations]


def profile(
    imported: tflite.ImportedModel | nnvk.Model, devices: Sequence[nnvk.Device], inputs: Sequence[np.ndarray] = ()
) -> tuple[nnvk.Compilation, Profile]:
    model, sources = (imported, ()) if isinstance(imported, nnvk.Model) else (imported.model, imported.sources)
    compilation = compile_model(model, list(devices))
    arrays = list(inputs) or random_inputs(compilation.model)
    return compilation, take_profile("model", devices[0], compilation, arrays, Limits(3, 60), sources)


def check_sums(found: Profile) -> None:
    assert sum(part.share for part in found.parts) == pytest.approx(1)
    assert sum(partition.share for partition in found.partitions) == pytest.approx(1)
    assert sum(share for _, _, share in found.by_layer()) == pytest.approx(1, abs=0.01)


@names
@pytest.mark.parametrize("seed", range(4))
def test_operations_have_their_numbers_where_a_model_is_cut(name: str, seed: int) -> None:
    first = nnvk.Device(Refusing(nnvk.get_device(name).driver, seed))
    imported = tflite.load(DATA / "digits_int8.tflite")
    compilation, found = profile(imported, [first, nnvk.get_device("nnapi-reference")])
    operations = compilation.model.operations
    places = device_of_operations(compilation)
    partitions = {
        number: place for place, partition in enumerate(compilation.plan.partitions) for number in partition.operations
    }
    assert len(found.partitions) > 1, "the seed cuts it"
    for part in found.parts:
        if part.number is not None:
            assert operations[part.number].code.name in part.operation.split(" + ")  # of what a device fuses
            assert part.layer == imported.sources[part.number]
            assert part.partition == partitions[part.number]
            assert found.partitions[part.partition].device == places[part.number]
    moved = {number for number, operation in enumerate(operations) if operation.code is OperationCode.RESHAPE}
    assert {part.number for part in found.parts} >= set(range(len(operations))) - moved
    assert all(partition.mean_ns > 0 for partition in found.partitions)
    check_sums(found)


def counter(device: IDevice) -> nnvk.Model:
    """Two additions, four rounds of a WHILE, and an addition."""
    condition = Builder()
    value, limit = condition.operand(SQUARE), condition.value(np.full((2, 2), 4, np.float32))
    less = condition.operation(OperationCode.LESS, [value, limit], OperandType(OperandCode.TENSOR_BOOL8, (2, 2)))
    axes = condition.value(np.array([0, 1], np.int32))
    any_ = condition.outputs(OperationCode.REDUCE_ANY, [less, axes, condition.value(False)], FLAG)[0]
    test = condition.finish([value], [any_])
    body = Builder()
    value = body.operand(SQUARE)
    one = body.value(np.ones((2, 2), np.float32))
    after = body.finish([value], [body.operation(OperationCode.ADD, [value, one], SQUARE)])
    build = Builder()
    value = build.operand(SQUARE)
    one = build.value(np.ones((2, 2), np.float32))
    start = build.operation(OperationCode.SUB, [value, one], SQUARE)
    start = build.operation(OperationCode.MUL, [start, one], SQUARE)
    parts = [build.reference(test), build.reference(after)]
    (looped,) = build.outputs(OperationCode.WHILE, [*parts, start], SQUARE)
    return build.finish([value], [build.operation(OperationCode.ADD, [looped, one], SQUARE)])


@names
@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_what_a_loop_runs_is_the_loops(name: str, split: bool) -> None:
    driver = nnvk.get_device(name).driver
    device = nnvk.Device(Leaves(driver) if split else Decorated(driver))
    compilation, found = profile(counter(driver), [device], [np.ones((2, 2), np.float32)])
    assert compilation.model.operations[2].code is OperationCode.WHILE
    assert len(found.partitions) == (3 if split else 1)
    inside = {part.operation for part in found.parts if part.number == 2}
    assert {"LESS", "REDUCE_ANY", "ADD"} <= inside
    assert {part.operation for part in found.parts if part.number == 3} == {"ADD"}
    before = {part.operation for part in found.parts if part.number in (0, 1)}
    assert before in ({"SUB", "MUL"}, {"SUB + MUL"}), "one of the two, where a device fuses them"
    check_sums(found)


def test_a_partition_has_the_time_of_what_it_waits_for() -> None:
    compilation, found = profile(increment(1000), DEVICES[:1])
    (partition,) = found.partitions
    assert partition.operations == tuple(range(len(compilation.model.operations)))
    assert partition.mean_ns >= found.mean_ns * 0.5


def test_memory_of_what_is_prepared() -> None:
    """The Vulkan driver says how much there is of each storage; constants are at least the model's."""
    model = tflite.load(DATA / "digits_float.tflite").model
    constants = sum(operand.value.nbytes for operand in model.frozen.operands if operand.value is not None)
    for device in DEVICES:
        memory = memory_of(compile_model(model, [device]))
        if device.name == "nnapi-reference":
            assert memory == {}
        else:
            assert memory["constants"] >= 0.9 * constants
            assert memory["arena"] > 0
            assert set(memory) == {"arena", "constants", "staging", "upload"}


def test_shares_of_joined_profiles_add_up() -> None:
    """The times of parts are rounded, each for itself, and so is their sum."""
    part = Part(0, "ADD", (1,), None, "", "cpu", 0, 3, 0.3)
    whole = joined([Profile("model", "cpu", 1, 10, (part,) * 3, ())] * 2)
    assert sum(one.share for one in whole.parts) == pytest.approx(1)
    assert whole.mean_ns == 20
