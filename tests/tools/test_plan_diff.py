"""The comparison of plans of two source trees."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plan_diff
import plan_dump
import pytest
import random_graph

import nnvk
from nnvk.demo.assets import DATA

MODEL = DATA / "digits_int8.tflite"
PROFILE = f"{MODEL}, gpu"


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("plans") / "plans.json"
    assert plan_dump.main([str(file), "--models", str(MODEL), "--random", "2"]) == 0
    found: dict[str, Any] = json.loads(file.read_bytes())
    assert len(found) == 3 * 5, "a model and two graphs, on four profiles and as relaxed ones"
    assert all(found[name]["commands"] for name in found if str(MODEL) in name)
    return found


def test_plans_equal_themselves(plans: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plans.json"
    file.write_text(json.dumps(plans))
    assert plan_diff.main([str(file), str(file)]) == 0
    assert capsys.readouterr().out.endswith(": 0 differ\n")


def dispatches(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [command for command in plan["commands"] if command["kind"] == "dispatch"]


def change_push_constant(plan: dict[str, Any]) -> None:
    push = dispatches(plan)[0]["push_constants"]
    push[next(iter(push))] = 987654


def drop_command(plan: dict[str, Any]) -> None:
    plan["commands"].pop()


def grow_arena(plan: dict[str, Any]) -> None:
    plan["memory"]["arena"][0] += 256


def exchange_tensors(plan: dict[str, Any]) -> None:
    *_, first, last = dispatches(plan)[-1]["tensors"]
    first["number"], last["number"] = last["number"], first["number"]


def refuse(plan: dict[str, Any]) -> None:
    plan.clear()
    plan["error"] = "no"


@pytest.mark.parametrize(
    "change, said",
    [
        (change_push_constant, ", push_constants: "),
        (drop_command, "commands: "),
        (grow_arena, "arena bytes: "),
        (exchange_tensors, "tensors: "),
        (refuse, "error: none -> no"),
    ],
)
def test_differences_are_named(
    plans: dict[str, Any],
    change: Callable[[dict[str, Any]], None],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    after = copy.deepcopy(plans)
    change(after[PROFILE])
    files = [tmp_path / name for name in ("before.json", "after.json")]
    for file, content in zip(files, (plans, after), strict=True):
        file.write_text(json.dumps(content))
    assert plan_diff.main([str(file) for file in files]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{PROFILE}:\n  ")
    assert said in out
    assert out.endswith(": 1 differ\n")


def test_numbers_of_tensors_and_paths_of_shaders_do_not_count(plans: dict[str, Any]) -> None:
    after = copy.deepcopy(plans[PROFILE])
    for command in dispatches(after):
        command["spirv"] = "/elsewhere"
        for tensor in command["tensors"]:
            tensor["number"] += 100
    assert not list(plan_diff.differences(plans[PROFILE], after))


def test_a_plan_that_one_side_lacks_differs(plans: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert plan_diff.compare(plans, {name: plan for name, plan in plans.items() if name != PROFILE}) == 1
    assert f"{PROFILE}:\n  only before\n" in capsys.readouterr().out


def test_a_tree_makes_its_own_plans(plans: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "nnvk").symlink_to(Path(nnvk.__file__).parent)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "support").symlink_to(Path(random_graph.__file__).parent)
    assert plan_diff.compare(plans, plan_diff.plans_of(tmp_path, [MODEL], 2)) == 0


def test_a_plan_of_the_command_line_is_compared(plans: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"model": str(MODEL), **plans[PROFILE]}))
    assert plan_diff.main([str(file), str(file)]) == 0
