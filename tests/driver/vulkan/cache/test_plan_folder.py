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
from nnvk.driver.vulkan.planning.plan_folder import LEAST_OPERATIONS, PlanFolder
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.constant import Constant, QuantisedConstant
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


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def filled(folder: Path, **files: tuple[int, int]) -> PlanFolder:
    """A folder of files, each with its bytes and the time at which it was used."""
    folder.mkdir()
    for name, (nbytes, time) in files.items():
        path = folder / f"{name}.nnvk"
        path.write_bytes(bytes(nbytes))
        os.utime(path, (time, time))
    return PlanFolder(folder)


@pytest.mark.parametrize(("most", "left"), [(1000, "abc"), (999, "ab"), (300, "ab"), (299, "b"), (199, "")])
def test_so_many_bytes_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, left: str) -> None:
    """The plan that was used last is `b`, then `a`, then `c`. All that would come behind one that is too much goes."""
    monkeypatch.setattr(plan_folder, "MOST_BYTES", most)
    filled(tmp_path / "plans", a=(100, 2000), b=(200, 3000), c=(700, 1000)).bound()
    assert names(tmp_path / "plans") == {f"{letter}.nnvk" for letter in left}


def test_links_and_folders_are_no_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not counted, and stay."""
    monkeypatch.setattr(plan_folder, "MOST_BYTES", 150)
    folder = filled(tmp_path / "plans", a=(100, 1000))
    (tmp_path / "large").write_bytes(bytes(200))
    (tmp_path / "plans" / "link.nnvk").symlink_to(tmp_path / "large")
    (tmp_path / "plans" / "folder.nnvk").mkdir()
    folder.bound()
    assert names(tmp_path / "plans") == {"a.nnvk", "link.nnvk", "folder.nnvk"}
    monkeypatch.setattr(plan_folder, "MOST_BYTES", 50)
    folder.bound()
    assert names(tmp_path / "plans") == {"link.nnvk", "folder.nnvk"}


def test_a_folder_that_is_not_there_has_no_plans_to_remove(tmp_path: Path) -> None:
    PlanFolder(tmp_path / "plans").bound()
    assert not (tmp_path / "plans").exists()


@pytest.mark.parametrize("kind", ["float32", "int32", "levels"])
@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_the_bytes_that_a_plan_will_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, relaxed: bool, shared: bool
) -> None:
    """Relaxed real numbers take 16 bits, levels 8, and a constant of several operands is there once."""

    def constant() -> Constant:
        if kind == "levels":
            return QuantisedConstant(np.ones(COUNT, np.int8), np.ones(1, np.float32), 0)
        return np.ones(COUNT, kind)

    one = constant()
    plain = chain(LEAST_OPERATIONS)
    operands = [
        each
        if each.constant is None or not each.type.dimensions
        else replace(each, constant=one if shared else constant())
        for each in plain.operands
    ]
    numbers = {id(each.constant): 4 for each in operands if each.constant is not None and not each.type.dimensions}
    model = replace(plain, operands=tuple(operands), relaxed=relaxed)
    each = 1 if kind == "levels" else 2 if relaxed and kind == "float32" else 4
    total = each * COUNT * (1 if shared else LEAST_OPERATIONS) + sum(numbers.values())
    with override(cache_dir=str(tmp_path), verify_graph=0):
        for most, is_kept in ((total, True), (total - 1, False)):
            monkeypatch.setattr(plan_folder, "MOST_PLAN_BYTES", most)
            assert plan_folder.plan_folder(model) == (PlanFolder(tmp_path / "plans") if is_kept else None)


@pytest.mark.parametrize("nbytes", [99, 100, 101])
def test_a_plan_of_so_many_bytes_is_stored(
    own: VulkanDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nbytes: int
) -> None:
    monkeypatch.setattr(plan_folder, "MOST_PLAN_BYTES", 100)
    model = chain(1)
    plan = own.planner.lower(model, [(COUNT,)])
    ((address, _),) = plan.constants
    plan = replace(plan, constants=((address, np.zeros(nbytes, np.uint8)),))
    PlanFolder(tmp_path / "plans").cache({"model": "one"}).store(plan)
    assert len(kept(tmp_path / "plans")) == (nbytes <= 100)


def test_plans_of_other_keys_have_other_files(tmp_path: Path) -> None:
    """The order in which a key names its parts makes no difference."""
    folder = PlanFolder(tmp_path)
    keys = [{"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {"a": "2", "b": "1"}, {"a": "1"}, {"a": "1\0b=2"}]
    paths = [folder.cache(key).path for key in keys]
    assert paths[0] == paths[1]
    assert len(set(paths)) == 3, "a zero byte is in no part"
    assert all(path.parent == tmp_path and path.suffix == ".nnvk" for path in paths)


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
