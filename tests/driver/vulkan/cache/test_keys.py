"""Files of autotune results and keys of plans, without a device."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builder import Builder
from cached import keyed
from fused import Net, Op, joined, maximum
from profiles import GPU
from rewritten import library
from samples import BOOL8

from nnvk.base import kept_choices
from nnvk.base.errors import NnapiError
from nnvk.base.settings import override
from nnvk.driver.vulkan.planning.autotune_results import KIND, AutotuneResults
from nnvk.driver.vulkan.planning.cache import PlanCache, key_of
from nnvk.driver.vulkan.planning.outline import outline
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.planning.support import support
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of caches."""
    with override(cache_dir=str(tmp_path)):
        yield tmp_path


def results(version: str = "version", profile: DeviceProfile = GPU) -> AutotuneResults:
    return AutotuneResults(version, profile, library())


def test_results_are_there_for_the_next_process(folder: Path) -> None:
    assert results().known == {}
    results().add({"a": "1", "b": "2"})
    assert results().known == {"a": "1", "b": "2"}
    assert len(list(folder.glob("strategies-*"))) == 1


def test_a_folder_that_is_made_is_its_owners(tmp_path: Path) -> None:
    with override(cache_dir=str(tmp_path / "new" / "folder")):
        results().add({"a": "1"})
    assert (tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("folder")
def test_results_of_several_processes_are_kept() -> None:
    one, two = results(), results()
    assert one.known == two.known == {}
    one.add({"a": "1", "b": "1"})
    two.add({"b": "2", "c": "2"})
    assert results().known == {"a": "1", "b": "2", "c": "2"}
    one.add({"d": "1"})
    assert one.known == results().known == {"a": "1", "b": "1", "c": "2", "d": "1"}


@pytest.mark.usefixtures("folder")
def test_each_device_has_its_own() -> None:
    paths = [results().path, results("other").path, results(profile=replace(GPU, units=3)).path]
    assert len(set(paths)) == 3
    results().add({"a": "1"})
    assert results("other").known == {}


def write(content: object, key: str | None = None) -> None:
    """Write other content to the file of the results, or with another key."""
    path = results().path
    assert path is not None
    path.parent.mkdir(exist_ok=True)
    KIND.write(path, (key or results()._key).encode(), [json.dumps(content).encode()])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("content", [["a"], {"a": 1}, {"a": "1", "b": None}, None, 3], ids=str)
def test_a_file_of_something_else(content: object) -> None:
    write(content)
    assert results().known == {}
    results().add({"a": "1"})
    assert results().known == {"a": "1"}


@pytest.mark.usefixtures("folder")
def test_a_file_of_another_device_in_the_place() -> None:
    write({"a": "1"})
    assert results().known == {"a": "1"}
    write({"a": "1"}, "another device")
    assert results().known == {}


@pytest.mark.usefixtures("folder")
def test_large_files_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"a": "1" * 100}
    size = len(json.dumps(content))
    for most, kept in ((size, content), (size - 1, {})):
        monkeypatch.setattr(kept_choices, "MOST_BYTES", most)
        own = results()
        assert own.path is not None
        own.path.unlink(missing_ok=True)
        own.add(content)
        assert own.known == content
        assert results().known == kept


def test_results_without_a_folder(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said if the user wants no caches."""
    with override(cache_dir="0"):
        own = results()
        own.add({"a": "1"})
    assert (own.path, own.known, caplog.messages) == (None, {"a": "1"}, [])
    monkeypatch.setattr(kept_choices, "cache_folder", lambda: None)
    with override(cache_dir=""), caplog.at_level(logging.WARNING, "nnvk.driver"):
        results().add({"a": "1"})
    assert ["there is no home folder" in message for message in caplog.messages] == [True]


def test_a_folder_that_can_not_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no folder")
    with override(cache_dir=str(tmp_path / "file")), caplog.at_level(logging.WARNING, "nnvk.driver"):
        own = results()
        own.add({"a": "1"})
    assert own.known == {"a": "1"}
    (message,) = caplog.messages
    assert message.startswith(f"what was measured can't be kept in {own.path}: ")


# --- plans ---------------------------------------------------------------------------------------------------------


def with_flags(net: Net) -> int:
    return net.op(Op.GATHER, net.input(5, 3), net.code(0), net.input(2, code=OperandCode.TENSOR_INT32))


def with_parts(net: Net) -> int:
    x = net.input(1, 4, 6, 8)
    return maximum(net, joined(net, 3, net.conv(x, 8, 8), net.conv(x, 4, 8)))


def with_choices(net: Net) -> int:
    return net.dense(net.input(64, 96), 80, 96)


PLANS = {"flags": with_flags, "parts": with_parts, "choices": with_choices}


@pytest.mark.parametrize("name", PLANS)
def test_all_of_a_plan_comes_back(tmp_path: Path, name: str) -> None:
    net = Net()
    model = net.finish(PLANS[name](net))
    shapes = [type_.dimensions for type_ in model.input_types()]
    plan = lower(model, shapes, GPU, library())
    assert getattr(plan, name)
    keyed(tmp_path)
    cache = PlanCache(tmp_path / "entry", {"part": "value"})
    cache.store(plan)
    back = cache.load(model, shapes, GPU, library())
    assert back is not None
    kept = ("commands", "barriers", "addresses", "pages", "inputs", "outputs", "output_shapes", "flags", "counts")
    for field in (*kept, "entropy", "parts", "most_alive"):
        assert getattr(back, field) == getattr(plan, field), field
    for ours, theirs in zip(back.choices, plan.choices, strict=True):
        assert ours == replace(theirs, candidates=theirs.candidates[:1], commands=())


# --- models that refer to models -----------------------------------------------------------------------------------


def branching(*factors: float) -> Model:
    """An IF between two models, each of which multiplies by a factor of its own."""
    type_ = OperandType(OperandCode.TENSOR_FLOAT32, (4,))
    branches = []
    for factor in factors:
        build = Builder()
        x = build.operand(type_)
        product = build.operation(OperationCode.MUL, [x, build.constant(type_, np.full(4, factor, np.float32))], type_)
        branches.append(build.finish([x], [product]))
    build = Builder()
    condition, x = build.operand(BOOL8), build.operand(type_)
    inputs = [condition, *map(build.reference, branches), x]
    return build.finish([condition, x], [build.operation(OperationCode.IF, inputs, type_)]).frozen


def test_the_key_has_the_models_that_a_model_refers_to() -> None:
    pairs = [(2.0, 3.0), (3.0, 3.0), (3.0, 2.0), (2.0, 3.0)]
    *others, again = [key_of("version", GPU, library(), branching(*pair))["model"] for pair in pairs]
    assert len(set(others)) == 3
    assert again == others[0]


def test_control_flow_is_planned_at_execution() -> None:
    with pytest.raises(NnapiError, match="control flow is planned in parts, at execution"):
        outline(branching(2.0, 3.0), GPU, library())


def test_control_flow_runs_where_all_of_its_models_do() -> None:
    model = branching(2.0, 3.0)
    assert support(model, GPU, library()) == [None] * len(model.operations)
    (reason,) = set(support(model, replace(GPU, max_buffer=1), library())) - {None}
    assert reason is not None and "in a model that it refers to: " in reason
