"""Strategies that are measured: when, what is kept of it and where, and that results of bytes are the same bits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from nnvk.base.settings import override
from nnvk.check.model_rows import Row, empty_like, execute, parse, reference
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.planning.autotune_results import KIND
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import PlanOptions
from nnvk.driver.vulkan.running import segment, tuning
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.shaders.commands import Choice, Dispatch
from nnvk.types.codes import PreferenceCode
from nnvk.types.request import PrepareOptions

ROW = "CONV_2D u8[1,7,9,13]*0.05+120 #u8[19,3,3,13]*0.02+131 #i32[19] SAME 1 1 RELU nhwc -> u8*0.08+100"


@pytest.fixture
def device_again(tmp_path: Path, own: VulkanDevice) -> Callable[[], VulkanDevice]:
    """Makes devices that know what is kept in a folder, which is empty at first."""
    if not own.profile.timestamps:
        pytest.skip("the device has no timestamps")

    def make() -> VulkanDevice:
        with override(cache_dir=str(tmp_path)):
            devices, _ = find_devices()
        return devices[0]

    return make


class FakeTrial:
    """A plan that takes the time that candidates are said to take, whatever runs."""

    times: Callable[[Choice], int]

    def __init__(self, gpu: Gpu, plan: Plan) -> None:
        self.plan = plan

    def run(self) -> dict[str, int]:
        return {choice.tuning_key: type(self).times(choice) for choice in self.plan.choices}


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Choice], int]], None]:
    """Lets candidates seem to take some time."""

    def pretend(times: Callable[[Choice], int]) -> None:
        monkeypatch.setattr(tuning, "Trial", type("Pretended", (FakeTrial,), {"times": staticmethod(times)}))

    return pretend


@pytest.fixture
def slow_down(pretend: Callable[[Callable[[Choice], int]], None]) -> Callable[[str], None]:
    """Lets all candidates but one seem to be slow."""
    return lambda winner: pretend(lambda choice: 1 if choice.chosen == winner else 100)


def plan_of(device: VulkanDevice, row: Row) -> Plan:
    return device.planner.plan(row.model, [type_.dimensions for type_ in row.model.input_types()], PrepareOptions())


def chosen(device: VulkanDevice, row: Row) -> list[str]:
    return [choice.chosen for choice in plan_of(device, row).choices]


def tune(device: VulkanDevice, row: Row) -> None:
    tuning.tune(device.gpu, device.planner, row.model, [type_.dimensions for type_ in row.model.input_types()], None)


def test_the_fastest_is_chosen_and_kept(
    device_again: Callable[[], VulkanDevice], slow_down: Callable[[str], None], tmp_path: Path
) -> None:
    row, device = parse(ROW), device_again()
    (choice,) = plan_of(device, row).choices
    winner = tuning.shortlist(choice.candidates)[3]
    assert choice.chosen == choice.candidates[0] != winner
    slow_down(winner)
    tune(device, row)
    assert chosen(device, row) == [winner]
    assert chosen(device_again(), row) == [winner]
    assert device.describe_operations(row.model) == [f"{winner} (measured)"]
    (kept,) = tmp_path.glob("strategies-*")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert chosen(device_again(), row) == [choice.candidates[0]]


def test_all_commands_of_a_way_count(device_again: Callable[[], VulkanDevice], monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate's time counts its transforms, if it has any, and every choice that has the same tuning key."""
    row = parse("CONV_2D f32[1,28,28,64] #f32[64,3,3,64] #f32[64] SAME 1 1 NONE nhwc")
    device = device_again()
    for turn in range(2):
        plan = device.planner.lower(row.model, [(1, 28, 28, 64)])
        (choice,) = plan.choices
        candidate = next(candidate for candidate in choice.candidates if candidate.startswith("winograd") == bool(turn))
        options = PlanOptions(autotune_results={choice.tuning_key: candidate})
        plan = device.planner.lower(row.model, [(1, 28, 28, 64)], options)
        twice = replace(plan, choices=plan.choices * 2)
        trial = tuning.Trial(device.gpu, twice)
        stamps = list(range(0, 1000 * len(plan.commands) + 1, 1000))
        monkeypatch.setattr(trial, "_program", SimpleNamespace(run=lambda *_: None, timestamps_ns=lambda s=stamps: s))
        assert trial.run() == {choice.tuning_key: 2 * 1000 * (3 if turn else 1)}


class DynamicExtent:
    """A trial that takes times of a list, run by run."""

    def __init__(self, *runs: int) -> None:
        self._runs = iter(runs)

    def run(self) -> dict[str, int]:
        return {"tuning_key": next(self._runs), "of this alone " + str(id(self)): 1}


@pytest.mark.parametrize(
    ("first", "other", "share"),
    [
        ((100, 100, 100, 100, 100), (90, 90, 90, 90, 90), 0.9),
        ((100, 300, 100, 300, 100), (90, 270, 90, 270, 90), 0.9),  # what hits both is nothing
        ((100, 100, 100, 100, 100), (90, 99, 90, 99, 90), 0.99),  # what is not always so does not count
        ((100, 100, 100, 100, 100), (10, 200, 10, 200, 10), 2.0),
        ((100, 100, 100, 900, 100), (90, 90, 90, 90, 90), 0.9),
        ((100, 100, 100, 100, 100), (90, 900, 90, 90, 90), 0.9),  # nor does a single disturbance
        ((0, 0, 0, 0, 0), (0, 0, 0, 0, 0), 0.0),
    ],
)
def test_compare(first: Sequence[int], other: Sequence[int], share: float) -> None:
    found = tuning.compare(cast(Any, DynamicExtent(*first)), cast(Any, DynamicExtent(*other)), 5)
    assert found == {"tuning_key": pytest.approx(share)}


def test_long_runs_are_few() -> None:
    long = [10**9] * 4
    assert tuning.compare(cast(Any, DynamicExtent(*long)), cast(Any, DynamicExtent(*long)), 15) == {"tuning_key": 1.0}


def test_what_only_seemed_to_be_faster_is_not_chosen(
    device_again: Callable[[], VulkanDevice], pretend: Callable[[Callable[[Choice], int]], None]
) -> None:
    """One of many candidates has good luck. It has none when it is measured again."""
    row, device = parse(ROW), device_again()
    (choice,) = plan_of(device, row).choices
    lucky, seen = tuning.shortlist(choice.candidates)[3], []

    def times(choice: Choice) -> int:
        seen.append(choice.chosen)
        return 50 if choice.chosen == lucky and seen.count(lucky) <= tuning.TURNS else 100

    pretend(times)
    tune(device, row)
    assert seen.count(lucky) == tuning.TURNS + tuning.LAST_TURNS
    assert chosen(device, row) == [choice.candidates[0]]
    assert device.describe_operations(row.model) == [f"{choice.candidates[0]} (measured)"]


def test_every_way_computes_the_same_bits(
    device_again: Callable[[], VulkanDevice], slow_down: Callable[[str], None]
) -> None:
    row, device = parse(ROW), device_again()
    expected = reference(row)
    for winner in tuning.shortlist(plan_of(device, row).choices[0].candidates):
        slow_down(winner)
        device.planner.autotune_results.add({plan_of(device, row).choices[0].tuning_key: winner})
        assert chosen(device, row) == [winner]
        outputs = empty_like(expected)
        execute(device, row, outputs)
        np.testing.assert_array_equal(outputs[0], expected[0])


def test_what_is_known_is_not_measured_again(
    device_again: Callable[[], VulkanDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    row, device, measured = parse(ROW), device_again(), []
    trial = tuning.Trial

    def count(gpu: Gpu, plan: Plan) -> tuning.Trial:
        measured.append(plan.choices[0].chosen)
        return trial(gpu, plan)

    monkeypatch.setattr(tuning, "Trial", count)
    tune(device, row)
    candidates = tuning.shortlist(plan_of(device, row).choices[0].candidates)
    assert measured[: len(candidates)] == candidates
    assert len(measured) <= len(candidates) + 1  # the winner once more
    before = len(measured)
    tune(device, row)
    tune(device_again(), row)
    assert len(measured) == before


@pytest.mark.parametrize(
    ("preference", "setting", "tuned"),
    [
        (PreferenceCode.FAST_SINGLE_ANSWER, False, False),
        (PreferenceCode.SUSTAINED_SPEED, False, True),
        (PreferenceCode.FAST_SINGLE_ANSWER, True, True),
    ],
)
def test_when_it_is_measured(
    own: VulkanDevice, monkeypatch: pytest.MonkeyPatch, preference: PreferenceCode, setting: bool, tuned: bool
) -> None:
    calls: list[object] = []
    monkeypatch.setattr(segment, "tune", lambda *arguments: calls.append(arguments))
    with override(tune=setting):
        own.prepare_model(parse(ROW).model, PrepareOptions(preference))
    assert bool(calls) is tuned


def test_a_way_that_fails_is_left_out(
    device_again: Callable[[], VulkanDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    row, device = parse(ROW), device_again()
    first, second, *_ = tuning.shortlist(plan_of(device, row).choices[0].candidates)

    def trial(gpu: Gpu, plan: Plan) -> FakeTrial:
        if plan.choices[0].chosen != second:
            raise MemoryError("too large")
        return FakeTrial(gpu, plan)

    monkeypatch.setattr(tuning, "Trial", trial)
    tune(device, row)
    assert first != second
    assert chosen(device, row) == [second]


def test_a_kept_plan_whose_choice_has_changed_is_made_again(
    device_again: Callable[[], VulkanDevice], slow_down: Callable[[str], None], tmp_path: Path
) -> None:
    row, device = parse(ROW), device_again()
    options, shapes = PrepareOptions(cache=tmp_path / "plan"), [t.dimensions for t in row.model.input_types()]
    first = device.planner.plan(row.model, shapes, options).choices[0]
    winner = tuning.shortlist(first.candidates)[2]
    slow_down(winner)
    tune(device, row)
    for planner in (device.planner, device_again().planner):
        assert planner.plan(row.model, shapes, options).choices[0].chosen == winner


def test_a_candidate_that_compiles_slowly_is_replaced(device_again: Callable[[], VulkanDevice]) -> None:
    row, device = parse(ROW), device_again()
    shapes = [type_.dimensions for type_ in row.model.input_types()]
    plan = device.planner.plan(row.model, shapes, PrepareOptions())
    seen: list[str] = []
    while True:
        (choice,) = plan.choices
        assert choice.chosen not in seen
        seen.append(choice.chosen)
        slow = next(each for each in (plan.commands[at] for at in choice.commands) if isinstance(each, Dispatch))
        follows = device.planner.avoid_candidate(plan, slow)
        plan = device_again().planner.plan(row.model, shapes, PrepareOptions())
        if follows == "there is no other candidate for it":
            break
        assert follows == f"next time it is replaced by {plan.choices[0].chosen}"
    assert plan.choices[0].chosen == seen[-1] == choice.candidates[-1]
    assert seen[1] == next(each for each in choice.candidates if each.split()[0] != seen[0].split()[0])
    expected, outputs = reference(row), empty_like(reference(row))
    execute(device_again(), row, outputs)
    np.testing.assert_array_equal(outputs[0], expected[0])


def test_what_has_no_candidates_stays(own: VulkanDevice) -> None:
    row = parse("MAX_POOL_2D f32[1,7,9,13] VALID 2 2 3 3 NONE -> f32")
    plan = own.planner.plan(row.model, [type_.dimensions for type_ in row.model.input_types()], PrepareOptions())
    (pool,) = [command for command in plan.commands if isinstance(command, Dispatch)]
    assert own.planner.avoid_candidate(plan, pool) == "there is no other candidate for it"


@pytest.mark.parametrize("content", [b"[]", b'{"a question": 1}', b'"text"', b"{", b"\xff"])
def test_a_file_with_something_else_is_not_used(
    device_again: Callable[[], VulkanDevice], content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    autotune_results = device_again().planner.autotune_results
    autotune_results.add({"a question": "a"})
    assert dict(device_again().planner.autotune_results.known) == {"a question": "a"}
    assert autotune_results.path is not None
    KIND.write(autotune_results.path, autotune_results._key.encode(), [content])
    with caplog.at_level(logging.INFO, logger="nnvk"):
        assert device_again().planner.autotune_results.known == {}
    assert "is not used" in caplog.text


def test_without_timestamps_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(gpu: Gpu, plan: Plan) -> None:
        raise AssertionError

    with override(device_profile="mobile-min", cache_dir=str(tmp_path)):
        (device, *_), _ = find_devices()
    monkeypatch.setattr(tuning, "Trial", never)
    tune(device, parse(ROW))
    assert not device.planner.autotune_results.known


@pytest.mark.parametrize(
    ("candidates", "measured"),
    [
        (["a 1", "a 2"], ["a 1", "a 2"]),
        ([f"a {n}" for n in range(20)] + ["b 1", "b 2", "c 1"], [f"a {n}" for n in range(8)] + ["b 1", "c 1"]),
    ],
)
def test_shortlist(candidates: Sequence[str], measured: Mapping[str, str]) -> None:
    assert tuning.shortlist(candidates) == measured


def test_progress(device: VulkanDevice) -> None:
    reported: list[tuple[int, int]] = []
    row = parse(ROW)
    shapes = [type_.dimensions for type_ in row.model.input_types()]
    tuning.tune(device.gpu, device.planner, row.model, shapes, None, lambda *numbers: reported.append(numbers))
    total = reported[0][1] if reported else -1  # the smallest device has no choice
    assert reported[: total + 1] == [(done, total) for done in range(total + 1)]
