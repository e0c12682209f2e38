"""Compilation caching: what is kept, when it is used, and what its use depends on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builder import Builder
from cached import BATCH, MODEL, SHAPES, Load, compute
from networks import CLASSES, classifier, images

from nnvk.api import Compilation, get_device
from nnvk.api import run as run_once
from nnvk.check.model_rows import parse, request
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning import cache
from nnvk.driver.vulkan.planning.cache import PlanCache, key_of
from nnvk.driver.vulkan.shaders.commands import Copy
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.constant import bytes_of
from nnvk.types.model import Lifetime, Model
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import ExecuteOptions, PrepareOptions, Redundancy

# --- use ---------------------------------------------------------------------------------------------------------


def test_a_second_preparation_lowers_nothing(vulkan: VulkanDevice, path: Path, lowered: list[Model]) -> None:
    expected = compute(vulkan, None)
    assert compute(vulkan, path).tobytes() == expected.tobytes()
    assert len(lowered) == 2
    assert path.exists()
    for _ in range(2):
        assert compute(vulkan, path).tobytes() == expected.tobytes()
    assert len(lowered) == 2


def test_a_plan_comes_back_as_it_was(
    own: VulkanDevice, library: ShaderLibrary, path: Path, key: dict[str, str]
) -> None:
    plan = own.planner.plan(MODEL, SHAPES, PrepareOptions())
    PlanCache(path, key).store(plan)
    back = PlanCache(path, key).load(MODEL, SHAPES, own.planner.profile, library)
    assert back is not None
    for field in ("barriers", "pages", "inputs", "outputs", "output_shapes"):
        assert getattr(back, field) == getattr(plan, field), field
    assert dict(back.addresses) == dict(plan.addresses)
    for ours, theirs in zip(back.commands, plan.commands, strict=True):
        if isinstance(theirs, Copy):
            assert ours == theirs
            continue
        assert not isinstance(ours, Copy)
        assert ours.shader.name == theirs.shader.name
        assert tuple(ours.groups) == tuple(theirs.groups)
        assert (ours.tensors, ours.specialization, ours.push) == (theirs.tensors, theirs.specialization, theirs.push)
        assert ours.operation == theirs.operation
        assert ours.shader.push_constants({**ours.push, **dict.fromkeys(ours.shader.offsets, 0)})
    for (ours_at, data), (theirs_at, original) in zip(back.constants, plan.constants, strict=True):
        assert ours_at == theirs_at
        assert np.array_equal(bytes_of(data), bytes_of(original))


def test_a_verified_plan_comes_back_as_it_was(own: VulkanDevice, library: ShaderLibrary, path: Path) -> None:
    options = PrepareOptions(cache=path, redundancy=Redundancy.CHECKSUMS)
    plan = own.planner.plan(MODEL, SHAPES, options)
    back = PlanCache(path, key_of(own.version, own.planner.profile, library, MODEL, Redundancy.CHECKSUMS)).load(
        MODEL, SHAPES, own.planner.profile, library
    )
    assert back is not None
    assert plan.verification is not None
    assert plan.verification.subjects
    assert back.verification == plan.verification
    assert own.planner.plan(MODEL, SHAPES, options).verification == plan.verification
    assert (
        PlanCache(path, key_of(own.version, own.planner.profile, library, MODEL)).load(
            MODEL, SHAPES, own.planner.profile, library
        )
        is None
    ), "a plain plan is another one"


def test_numbers_of_numpy_are_kept_as_others(
    own: VulkanDevice, library: ShaderLibrary, path: Path, key: dict[str, str]
) -> None:
    plan = own.planner.plan(MODEL, SHAPES, PrepareOptions())
    cache_ = PlanCache(path, key)
    cache_.store(replace(plan, most_alive=np.int64(plan.most_alive)))  # type: ignore[arg-type]
    back = cache_.load(MODEL, SHAPES, own.planner.profile, library)
    assert back is not None
    assert back.most_alive == plan.most_alive
    with pytest.raises(TypeError, match=r"1j can't be kept"):
        cache_.store(replace(plan, most_alive=1j))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "RELU f32[3]",
        "CONV_2D u8[1,5,7,3]*0.05+120 #pc0[5,3,3,3] #i32[5] SAME 1 1 RELU -> u8*0.08+100",
        "CONCATENATION i8[2,3]*0.5+3 i8[2,5]*0.25+9 1",
        "RESHAPE f32[2,3] (3,2)",
        "MEAN u8[3,16385]*0.5+3 (1) 0",
        "GATHER f32[5,3] 0 @(0,4)",
    ],
)
def test_operations_from_the_cache(vulkan: VulkanDevice, path: Path, lowered: list[Model], text: str) -> None:
    row = parse(text)
    outputs = []
    for _ in range(2):
        prepared = vulkan.prepare_model(row.model, PrepareOptions(cache=path))
        output = np.zeros(100_000, np.uint8)
        prepared.execute(request(row.inputs, [output]), ExecuteOptions())
        outputs.append(output.tobytes())
    assert outputs[0] == outputs[1]
    assert len(lowered) == 1


def test_models_with_open_shapes_are_not_kept(own: VulkanDevice, path: Path) -> None:
    model = classifier(0).frozen
    output = np.zeros((BATCH, CLASSES), np.float32)
    prepared = own.prepare_model(model, PrepareOptions(cache=path))
    prepared.execute(request([images(BATCH)], [output]), ExecuteOptions())
    assert not path.exists()


@pytest.mark.parametrize("shapes", [[(0, 4), (1, 4)], [(1, 4), (0, 4)]], ids=str)
def test_models_of_which_one_input_is_open_are_not_kept(own: VulkanDevice, path: Path, shapes: list[Shape]) -> None:
    build = Builder()
    types = [OperandType(OperandCode.TENSOR_FLOAT32, shape) for shape in shapes]
    inputs = [build.operand(type_) for type_ in types]
    model = build.finish(inputs, [build.operation(OperationCode.ADD, inputs, types[shapes.index((0, 4))])]).frozen
    prepared = own.prepare_model(model, PrepareOptions(cache=path))
    for rows in (3, 5):
        arrays = [np.ones((rows if shape[0] == 0 else 1, 4), np.float32) for shape in shapes]
        output = np.zeros((rows, 4), np.float32)
        prepared.execute(request(arrays, [output]), ExecuteOptions())
        assert (output == 2).all()
    assert not path.exists()


def test_the_public_way(tmp_path: Path, lowered: list[Model]) -> None:
    device = get_device("vulkan-0")
    results = []
    for token in (b"a" * 32, b"a" * 32, b"b" * 32):
        compilation = Compilation(classifier(BATCH), [device])
        compilation.set_caching(tmp_path, token)
        compilation.finish()
        results.append(run_once(compilation, [images(BATCH)])[0].tobytes())
    assert len(set(results)) == 1
    assert len(lowered) == 2, "once for each token"
    assert len(list(tmp_path.glob("[!.]*"))) == 2


# --- what a plan depends on --------------------------------------------------------------------------------------


def with_operand(model: Model, index: int, **changes: Any) -> Model:
    operands = list(model.operands)
    operands[index] = replace(operands[index], **changes)
    return replace(model, operands=tuple(operands))


def test_another_model_is_lowered_and_replaces_the_entry(own: VulkanDevice, path: Path, lowered: list[Model]) -> None:
    weights = next(i for i, operand in enumerate(MODEL.operands) if operand.lifetime is Lifetime.CONSTANT)
    value = MODEL.operands[weights].value
    assert value is not None
    changed = value.copy()
    changed.flat[0] += 1
    other = with_operand(MODEL, weights, constant=changed)
    first = compute(own, path)
    second = compute(own, path, other)
    assert first.tobytes() != second.tobytes()
    assert second.tobytes() == compute(own, path, other).tobytes()
    assert lowered == [MODEL, other]


def test_everything_that_matters_is_in_the_key(
    own: VulkanDevice, library: ShaderLibrary, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def differs(part: str, other: dict[str, str]) -> bool:
        return [name for name in key if key[name] != other[name]] == [part]

    assert key == key_of(own.version, own.planner.profile, library, classifier(BATCH).frozen)
    assert differs("device", key_of("another driver", own.planner.profile, library, MODEL))
    by_buffer = not own.planner.profile.barriers_by_buffer
    for change in ({"max_groups": 7}, {"features": frozenset()}, {"barriers_by_buffer": by_buffer}):
        assert differs("profile", key_of(own.version, replace(own.planner.profile, **change), library, MODEL))
    for model in (
        classifier(BATCH + 1).frozen,
        classifier(BATCH, seed=1).frozen,
        replace(MODEL, relaxed=True),
        replace(MODEL, operations=MODEL.operations[:-1]),
        with_operand(MODEL, MODEL.outputs[0], lifetime=Lifetime.TEMPORARY_VARIABLE),
    ):
        assert differs("model", key_of(own.version, own.planner.profile, library, model))
    monkeypatch.setattr(library, "digest", "other shaders")
    assert differs("shaders", key_of(own.version, own.planner.profile, library, MODEL))
    monkeypatch.undo()
    monkeypatch.setattr(cache, "_code_digest", lambda: "other code")
    assert differs("code", key_of(own.version, own.planner.profile, library, MODEL))


def test_a_plan_for_something_else_is_not_used(load: Load, key: dict[str, str], entry: bytes, path: Path) -> None:
    assert load(path, entry) is not None
    for part in key:
        assert load(path, key=key | {part: "another"}) is None
