"""Plans that are kept by default: for which models, where, how many, and that results are the same."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builder import Builder

from nnvk.base.files import KEY_NAME
from nnvk.base.settings import override
from nnvk.check.model_rows import request
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning import cache, plan_folder
from nnvk.driver.vulkan.planning.plan_folder import LEAST_OPERATIONS
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType
from nnvk.types.request import ExecuteOptions, PrepareOptions

COUNT = 11


def chain(operations: int, scale: float = 2.0) -> Model:
    """A model that multiplies by a constant once for each operation."""
    build = Builder()
    type_ = OperandType(OperandCode.TENSOR_FLOAT32, (COUNT,))
    source = tensor = build.operand(type_)
    for _ in range(operations):
        factor = build.constant(type_, np.full(COUNT, scale, np.float32))
        tensor = build.operation(OperationCode.MUL, [tensor, factor], type_)
    return build.finish([source], [tensor]).frozen


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of the kept plans."""
    with override(cache_dir=str(tmp_path / "some"), verify_graph=0):
        yield tmp_path / "some" / "plans"


def kept(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*")} - {KEY_NAME}


def compute(device: VulkanDevice, model: Model) -> np.ndarray:
    output = np.zeros(COUNT, np.float32)
    prepared = device.prepare_model(model, PrepareOptions())
    prepared.execute(request([np.arange(COUNT, dtype=np.float32)], [output]), ExecuteOptions())
    return output


def test_the_second_preparation_lowers_nothing(own: VulkanDevice, folder: Path, lowered: list[Model]) -> None:
    for _ in range(3):
        result = compute(own, chain(LEAST_OPERATIONS))
        np.testing.assert_array_equal(result, np.arange(COUNT) * np.float32(2.0**LEAST_OPERATIONS))
    assert len(lowered) == 1
    assert len(kept(folder)) == 1
    assert folder.stat().st_mode & 0o777 == 0o700


def test_each_model_has_its_own_file(own: VulkanDevice, folder: Path, lowered: list[Model]) -> None:
    for scale in (2.0, 3.0, 2.0, 3.0):
        result = compute(own, chain(LEAST_OPERATIONS, scale))
        np.testing.assert_array_equal(result, np.arange(COUNT) * np.float32(scale**LEAST_OPERATIONS))
    assert len(lowered) == len(kept(folder)) == 2


def test_settings_have_their_own_plans(own: VulkanDevice, folder: Path) -> None:
    compute(own, chain(LEAST_OPERATIONS))
    profile = own.planner.profile
    try:
        own.planner.profile = replace(profile, disabled_passes=frozenset({"elementwise"}))
        compute(own, chain(LEAST_OPERATIONS))
    finally:
        own.planner.profile = profile
    assert len(kept(folder)) == 2


def test_small_models_are_not_kept(own: VulkanDevice, folder: Path) -> None:
    compute(own, chain(LEAST_OPERATIONS - 1))
    assert not folder.exists()


@pytest.mark.parametrize("values", [{"keep_plans": False}, {"cache_dir": "0"}, {"verify_graph": 1}], ids=str)
def test_switches(own: VulkanDevice, folder: Path, values: dict[str, object], lowered: list[Model]) -> None:
    with override(**values):
        for _ in range(2):
            compute(own, chain(LEAST_OPERATIONS))
    assert len(lowered) == 2
    assert not folder.exists()


def test_an_application_has_its_own_cache(own: VulkanDevice, folder: Path, path: Path) -> None:
    own.prepare_model(chain(LEAST_OPERATIONS), PrepareOptions(cache=path))
    assert path.exists()
    assert not folder.exists()


def test_a_damaged_file_is_replaced(own: VulkanDevice, folder: Path, lowered: list[Model]) -> None:
    compute(own, chain(LEAST_OPERATIONS))
    (path,) = folder.glob("*.nnvk")
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes(40))
    for _ in range(2):
        compute(own, chain(LEAST_OPERATIONS))
    assert len(lowered) == 2
    assert path.read_bytes() == content


def test_a_large_plan_is_not_kept(own: VulkanDevice, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_folder, "MOST_PLAN_BYTES", 4 * COUNT)
    compute(own, chain(LEAST_OPERATIONS))
    assert not folder.exists()


def test_no_digest_of_a_model_whose_plan_is_too_large(own: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    digests: list[Model] = []
    of_model = cache._model_digest
    monkeypatch.setattr(cache, "_model_digest", lambda model: digests.append(model) or of_model(model))
    model = chain(LEAST_OPERATIONS)
    nbytes = sum(operand.constant.nbytes for operand in model.operands if operand.constant is not None)
    with override(verify_graph=0):
        for most, expected in ((nbytes - 1, 0), (nbytes, 1)):
            monkeypatch.setattr(plan_folder, "MOST_PLAN_BYTES", most)
            compute(own, model)
            assert len(digests) == expected


def test_the_plans_that_were_used_last_stay(
    own: VulkanDevice, folder: Path, monkeypatch: pytest.MonkeyPatch, lowered: list[Model]
) -> None:
    compute(own, chain(LEAST_OPERATIONS, 2.0))
    (first,) = folder.glob("*.nnvk")
    monkeypatch.setattr(plan_folder, "MOST_BYTES", 5 * first.stat().st_size // 2)
    (folder / "other.txt").write_bytes(bytes(1 << 20))
    compute(own, chain(LEAST_OPERATIONS, 3.0))
    (second,) = set(folder.glob("*.nnvk")) - {first}
    os.utime(first, (1000, 1000))
    os.utime(second, (2000, 2000))
    compute(own, chain(LEAST_OPERATIONS, 2.0))  # a use
    assert len(lowered) == 2
    compute(own, chain(LEAST_OPERATIONS, 4.0))
    assert first.exists()
    assert not second.exists()
    assert len(list(folder.glob("*.nnvk"))) == 2
    assert (folder / "other.txt").exists()


def test_a_folder_that_can_not_be_written(
    own: VulkanDevice, folder: Path, caplog: pytest.LogCaptureFixture, lowered: list[Model]
) -> None:
    folder.parent.mkdir()
    folder.touch()
    with caplog.at_level(logging.DEBUG, "nnvk.driver"):
        for _ in range(2):
            compute(own, chain(LEAST_OPERATIONS))
    assert len(lowered) == 2
    assert "plans can't be kept" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
