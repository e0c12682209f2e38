"""Strategies that are measured: when, what is kept of it and where, and that results of bytes are the same bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from rows import Row, empty_like, execute, parse, reference

from nnvk.base.settings import override
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.running import segment, tuning
from nnvk.driver.vulkan.running.gpu import Gpu
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


@pytest.fixture
def slow_down(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets all ways but one seem to be slow."""

    def slow_down(winner: str) -> None:
        def measure(gpu: Gpu, plan: Plan) -> list[int]:
            chosen = {position for choice in plan.choices if choice.chosen == winner for position in choice.commands}
            return [1 if position in chosen else 100 for position in range(len(plan.commands))]

        monkeypatch.setattr(tuning, "measure", measure)

    return slow_down


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
    winner = tuning.shortlist(choice.ways)[3]
    assert choice.chosen == choice.ways[0] != winner
    slow_down(winner)
    tune(device, row)
    assert chosen(device, row) == [winner]
    assert chosen(device_again(), row) == [winner]
    assert device.describe_operations(row.model) == [f"{winner} (measured)"]
    (kept,) = tmp_path.glob("strategies-*")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert chosen(device_again(), row) == [choice.ways[0]]


def test_all_commands_of_a_way_count(device_again: Callable[[], VulkanDevice], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a convolution by Winograd's way those that transform, too."""
    row = parse("CONV_2D f32[1,28,28,64] #f32[64,3,3,64] #f32[64] SAME 1 1 NONE nhwc")
    for direct, fastest in ((400, "winograd"), (200, "direct")):
        device = device_again()

        def measure(gpu: Gpu, plan: Plan, direct: int = direct) -> list[int]:
            return [direct] if len(plan.commands) == 1 else [100] * len(plan.commands)

        monkeypatch.setattr(tuning, "measure", measure)
        monkeypatch.setattr(device.planner.winners, "_read", dict)
        tune(device, row)
        assert chosen(device, row)[0].startswith("winograd") == (fastest == "winograd")


def test_every_way_computes_the_same_bits(
    device_again: Callable[[], VulkanDevice], slow_down: Callable[[str], None]
) -> None:
    row, device = parse(ROW), device_again()
    expected = reference(row)
    for winner in tuning.shortlist(plan_of(device, row).choices[0].ways):
        slow_down(winner)
        device.planner.winners.add({plan_of(device, row).choices[0].question: winner})
        assert chosen(device, row) == [winner]
        outputs = empty_like(expected)
        execute(device, row, outputs)
        np.testing.assert_array_equal(outputs[0], expected[0])


def test_what_is_known_is_not_measured_again(
    device_again: Callable[[], VulkanDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    row, device, measured = parse(ROW), device_again(), []
    measure = tuning.measure

    def count(gpu: Gpu, plan: Plan) -> list[int]:
        measured.append(plan.choices[0].chosen)
        return measure(gpu, plan)

    monkeypatch.setattr(tuning, "measure", count)
    tune(device, row)
    assert measured == tuning.shortlist(plan_of(device, row).choices[0].ways)
    tune(device, row)
    tune(device_again(), row)
    assert len(measured) == len(set(measured))


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
    first, second, *_ = tuning.shortlist(plan_of(device, row).choices[0].ways)

    def measure(gpu: Gpu, plan: Plan) -> list[int]:
        if plan.choices[0].chosen != second:
            raise MemoryError("too large")
        return [9] * len(plan.commands)

    monkeypatch.setattr(tuning, "measure", measure)
    tune(device, row)
    assert first != second
    assert chosen(device, row) == [second]


def test_a_kept_plan_whose_choice_has_changed_is_made_again(
    device_again: Callable[[], VulkanDevice], slow_down: Callable[[str], None], tmp_path: Path
) -> None:
    row, device = parse(ROW), device_again()
    options, shapes = PrepareOptions(cache=tmp_path / "plan"), [t.dimensions for t in row.model.input_types()]
    first = device.planner.plan(row.model, shapes, options).choices[0]
    winner = tuning.shortlist(first.ways)[2]
    slow_down(winner)
    tune(device, row)
    for planner in (device.planner, device_again().planner):
        assert planner.plan(row.model, shapes, options).choices[0].chosen == winner


def test_without_timestamps_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(gpu: Gpu, plan: Plan) -> list[int]:
        raise AssertionError

    with override(device_profile="mobile-min", cache_dir=str(tmp_path)):
        (device, *_), _ = find_devices()
    monkeypatch.setattr(tuning, "measure", never)
    tune(device, parse(ROW))
    assert not device.planner.winners.known


@pytest.mark.parametrize(
    ("ways", "measured"),
    [
        (["a 1", "a 2"], ["a 1", "a 2"]),
        ([f"a {n}" for n in range(20)] + ["b 1", "b 2", "c 1"], [f"a {n}" for n in range(8)] + ["b 1", "c 1"]),
    ],
)
def test_shortlist(ways: Sequence[str], measured: Mapping[str, str]) -> None:
    assert tuning.shortlist(ways) == measured
