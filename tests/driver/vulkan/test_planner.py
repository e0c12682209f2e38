"""The planner: where plans come from, what it says of them, and what it does without a slow candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fused import F32, Net, Op, joined, maximum
from rewritten import library, native

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning import planner as planner_module
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import Planner, PlanOptions, lower
from nnvk.driver.vulkan.planning.support import support
from nnvk.driver.vulkan.shaders.commands import Choice, Dispatch, Storage
from nnvk.driver.vulkan.shaders.passes import FUSIONS
from nnvk.driver.vulkan.shaders.profile import AvoidedShader
from nnvk.types.codes import OperandCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType
from nnvk.types.request import PrepareOptions, Redundancy


def dense() -> Model:
    net = Net()
    return net.finish(net.dense(net.input(64, 96), 80, 96))


def shapes_of(model: Model) -> list[tuple[int, ...]]:
    return [type_.dimensions for type_ in model.input_types()]


# --- candidates --------------------------------------------------------------------------------------------------

SHADERS = ["reduce", "argmax", "unary"]


def dispatch(number: int) -> Dispatch:
    """One of three dispatches, which differ in their shaders."""
    name = next(each for each in library().variants if each.startswith(SHADERS[number] + "."))
    shader = library().named(name)
    return Dispatch(shader, (1, 1, 1), {}, shader.specialization({}), {}, 0)


def choice(key: str, candidates: Sequence[str], chosen: str, *commands: int) -> Choice:
    return Choice(0, key, tuple(candidates), chosen, commands)


def plan_with(*choices: Choice) -> Plan:
    """A plan of the three dispatches, the first one twice, with these choices."""
    plan = lower(dense(), [(64, 96)], native(), library())
    return replace(plan, commands=(*map(dispatch, (0, 1, 2, 0)),), choices=choices)


EVERY = ["tile 1", "tile 2", "rows 4", "tile 3", "rows 8"]


@pytest.mark.parametrize(
    ("candidates", "chosen", "instead"),
    [
        (EVERY, "tile 1", "rows 4"),
        (EVERY, "tile 2", "rows 4"),
        (EVERY, "rows 4", "tile 3"),
        (EVERY, "tile 3", "rows 8"),
        (EVERY[:2], "tile 1", "tile 2"),
        (EVERY, "rows 8", None),
        (EVERY[:1], "tile 1", None),
    ],
    ids=str,
)
def test_another_candidate(planner: Planner, candidates: list[str], chosen: str, instead: str | None) -> None:
    """The next one of another kind, or else the next one."""
    plan = plan_with(choice("key", candidates, chosen, 1))
    said = planner.avoid_candidate(plan, dispatch(1))
    if instead is None:
        assert said == "there is no other candidate for it"
        assert planner.autotune_results.known == {}
    else:
        assert said == f"next time it is replaced by {instead}"
        assert planner.autotune_results.known == {"key": instead}


def test_a_choice_of_other_commands_stays(planner: Planner) -> None:
    plan = plan_with(choice("key", EVERY, "tile 1", 1, 2))
    assert planner.avoid_candidate(plan, dispatch(0)) == "there is no other candidate for it"


def test_all_dispatches_of_the_same_shader_are_concerned(planner: Planner) -> None:
    plan = plan_with(choice("first", EVERY, "tile 1", 0), choice("other", EVERY, "rows 4", 3))
    assert planner.avoid_candidate(plan, dispatch(0)) == "next time it is replaced by rows 4, tile 3"
    assert planner.autotune_results.known == {"first": "rows 4", "other": "tile 3"}


def test_the_choice_of_the_fewest_commands_changes(planner: Planner) -> None:
    """The others decide on larger parts of the model."""
    plan = plan_with(choice("large", EVERY, "tile 1", 0, 1, 2), choice("small", EVERY, "tile 1", 1))
    planner.avoid_candidate(plan, dispatch(1))
    assert planner.autotune_results.known == {"small": "rows 4"}


def test_a_quick_plan_has_other_candidates(planner: Planner) -> None:
    net = Net()
    model = net.finish(net.dense(net.input(1024, 512), 512, 512))
    plan = planner.plan(model, shapes_of(model), PrepareOptions())
    quick = planner.quick_plan(model, shapes_of(model), None)
    assert quick is not None
    assert [each.chosen for each in quick.choices] != [each.chosen for each in plan.choices]
    planner.autotune_results.add({each.tuning_key: each.chosen for each in quick.choices})
    assert planner.quick_plan(model, shapes_of(model), None) is None


# --- where plans come from ---------------------------------------------------------------------------------------


def test_an_applications_cache(planner: Planner, lowered: list[Model], tmp_path: Path) -> None:
    model, options = dense(), PrepareOptions(cache=tmp_path / "entry")
    for _ in range(2):
        planner.plan(model, shapes_of(model), options)
    assert len(lowered) == 1
    planner.plan(model, shapes_of(model), PrepareOptions())
    assert len(lowered) == 2, "small models are not kept without one"


def test_a_kept_plan_whose_candidates_would_not_be_chosen_again(
    planner: Planner, lowered: list[Model], tmp_path: Path
) -> None:
    model, options = dense(), PrepareOptions(cache=tmp_path / "entry")
    plan = planner.plan(model, shapes_of(model), options)
    (only,) = plan.choices
    planner.autotune_results.add({only.tuning_key: only.candidates[1]})
    for _ in range(2):
        again = planner.plan(model, shapes_of(model), options)
        assert [each.chosen for each in again.choices] == [only.candidates[1]]
    assert len(lowered) == 2


def late() -> tuple[Model, dict[int, np.ndarray]]:
    """A model whose plan depends on the value of an input."""
    net = Net()
    x, shape = net.input(3, 5), net.input(2, code=OperandCode.TENSOR_INT32)
    return net.finish(net.op(Op.RESHAPE, x, shape)), {shape: np.array([5, 3], np.int32)}


def test_plans_that_depend_on_values_are_not_kept(planner: Planner, tmp_path: Path) -> None:
    model, values = late()
    path = tmp_path / "entry"
    plan = planner.plan(model, shapes_of(model), PrepareOptions(cache=path), values)
    assert plan.output_shapes == ((5, 3),)
    assert not path.exists()


# --- what it says ------------------------------------------------------------------------------------------------


def test_descriptions(planner: Planner) -> None:
    net = Net()
    x = net.op(Op.TANH, net.dense(net.input(64, 96), 80, 96))
    model = net.finish(net.dense(x, 48, 80))
    first, none, second = planner.describe(model)
    assert none == ""
    assert first.endswith(" (by its cost)") and second.endswith(" (by its cost)")
    plan = planner.plan(model, shapes_of(model), PrepareOptions())
    chosen = plan.choices[0]
    planner.autotune_results.add({chosen.tuning_key: chosen.candidates[1]})
    assert planner.describe(model)[0] == f"{chosen.candidates[1]} (measured)"


def test_several_choices_of_an_operation(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    model = dense()
    some = [choice(key, EVERY, chosen) for key, chosen in (("a", "tile 1"), ("b", "rows 4"), ("c", "tile 1"))]
    plan = replace(planner.plan(model, shapes_of(model), PrepareOptions()), choices=tuple(some))
    monkeypatch.setattr(planner_module, "lower", lambda *_, **__: plan)
    assert planner.describe(model) == ["tile 1 (by its cost); rows 4 (by its cost)"]


def test_what_is_known_at_execution_alone(planner: Planner) -> None:
    model, _ = late()
    assert planner.describe(model) == [""]
    assert planner.describe_memory(model) is None
    net = Net()
    x = net.build.operand(OperandType(F32, (0, 5)))
    net.inputs.append(x)
    assert planner.describe_memory(net.finish(net.op(Op.ABS, x))) is None


def test_memory(planner: Planner) -> None:
    net = Net()
    model = net.finish(maximum(net, maximum(net, net.input(1, 8, 8, 4))))
    use, plan = planner.describe_memory(model), planner.plan(model, shapes_of(model), PrepareOptions())
    assert use is not None
    assert (use.arena, use.most_alive) == (sum(plan.pages[Storage.ARENA]), plan.most_alive)
    assert plan.most_alive > 0


def test_support_is_found_once(planner: Planner) -> None:
    model = dense()
    assert planner.support(model) == support(model, planner.profile, library()) == [None]
    assert planner.support(model) is planner.support(model)


def test_a_model_of_a_model_is_refused_for_its_operations(planner: Planner) -> None:
    small = replace(planner.profile, max_buffer=1024)
    (reason,) = support(dense(), small, library())
    assert reason is not None and reason.startswith("input takes 24576 bytes, the device binds at most 1024")


# --- memory of plans ---------------------------------------------------------------------------------------------


def planned(net: Net, *outputs: int, **changes: object) -> Plan:
    model = net.finish(*outputs)
    return lower(model, shapes_of(model), replace(native(), **changes), library())  # type: ignore[arg-type]


def addresses_alone(plan: Plan) -> list[tuple[int, int, int]]:
    """The storage, page and bytes of each tensor that is exchanged with the host or constant."""
    kept = [*plan.inputs, *plan.outputs, *plan.reports, *(address for address, _ in plan.constants)]
    return [
        (list(Storage).index(each.storage), each.page, offset)
        for each in kept
        if each is not None
        for offset in range(each.offset, each.offset + each.nbytes)
    ]


def test_what_is_exchanged_or_constant_shares_no_memory() -> None:
    net = Net()
    x, y = net.input(1, 4, 4, 8), net.input(1, 4, 4, 8)
    one, two = net.conv(x, 8, 8), net.conv(y, 8, 8)
    gathered = net.op(Op.GATHER, two, net.code(1), net.input(2, code=OperandCode.TENSOR_INT32))
    plan = planned(net, maximum(net, one), joined(net, 3, one, two), gathered)
    places = addresses_alone(plan)
    assert len(plan.flags) == 1
    assert len(places) == len(set(places))


def test_choices_name_the_commands_that_are_left() -> None:
    """Copies that go make the positions of later commands smaller."""
    net = Net()
    x = net.conv(net.input(1, 6, 6, 8), 8, 8)
    y = maximum(net, joined(net, 3, x, net.conv(x, 4, 8)))
    plan = planned(net, net.conv(y, 8, 12))
    assert len(plan.choices) == 3
    for each in plan.choices:
        commands = [plan.commands[position] for position in each.commands]
        families = [command.shader.family for command in commands if isinstance(command, Dispatch)]
        assert "gemm" in families or "winograd" in " ".join(families)
        assert sorted(each.commands) == list(each.commands)


def test_a_cpu_reuses_memory_at_once() -> None:
    """A GPU computes independent operations at the same time, in memory of their own."""
    net = Net()
    x = net.op(Op.RSQRT, net.input(1, 8, 8, 8))
    outputs = [maximum(net, maximum(net, x)) for _ in range(3)]
    model = net.finish(joined(net, 3, *outputs))
    sizes = [
        sum(lower(model, [(1, 8, 8, 8)], replace(native(), is_cpu=is_cpu), library()).pages[Storage.ARENA])
        for is_cpu in (False, True)
    ]
    assert sizes[0] >= sizes[1]


def test_flags_name_the_operation() -> None:
    net = Net()
    gathered = net.op(Op.GATHER, net.input(5, 3), net.code(0), net.input(2, code=OperandCode.TENSOR_INT32))
    plan = planned(net, net.op(Op.ABS, gathered))
    (flag,) = plan.flags
    assert "GATHER" in flag.assertion


def test_an_operation_without_results_runs_if_it_checks_data() -> None:
    """GATHER asserts that indices are in range, although it gives no elements."""
    net = Net()
    x = net.build.operand(OperandType(F32, (0, 0)))
    net.inputs.append(x)
    model = net.finish(net.op(Op.ABS, x))
    assert lower(model, [(3, 0)], native(), library()).commands == ()
    net = Net()
    x = net.build.operand(OperandType(F32, (0, 0)))
    net.inputs.append(x)
    model = net.finish(net.op(Op.GATHER, x, net.code(0), net.input(2, code=OperandCode.TENSOR_INT32)))
    plan = lower(model, [(3, 0), (2,)], native(), library())
    assert plan.commands
    assert (len(plan.flags), plan.outputs, plan.output_shapes) == (1, (None,), ((2, 0),))


def test_without_a_shader_to_avoid_nothing_is_fused_or_relaxed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt gets everything else that the first one got."""
    attempts: list[tuple[Any, ...]] = []

    def lowered(*arguments: Any) -> str:
        attempts.append(arguments)
        if len(attempts) == 1:
            raise AvoidedShader("a shader")
        return "a plan"

    def facts(g: Lowering) -> tuple[Any, ...]:
        return g.library, g.autotune_results, g.quick, g.other_strategies, g.redundancy

    monkeypatch.setattr(planner_module, "_lowered", lowered)
    monkeypatch.setattr(planner_module, "placed", lambda lowered, *_: lowered)
    model, profile = dense().with_relaxed(True), replace(native(), disabled_passes=frozenset({"cse"}))
    known, wanted = {"key": "candidate"}, (True, True, Redundancy.DUPLICATION)
    quick, others, redundancy = wanted
    options = PlanOptions(autotune_results=known, quick=quick, other_strategies=others, redundancy=redundancy)
    plan: Any = lower(model, [(64, 96)], profile, library(), options)
    assert plan == "a plan"
    first, second = attempts
    assert facts(first[0]) == facts(second[0]) == (library(), known, *wanted)
    assert (first[0].device, first[0].relaxed) == (profile, True)
    assert first[1:] == (model, [(64, 96)], options)
    assert (second[0].device, second[0].relaxed) == (replace(profile, disabled_passes=FUSIONS | {"cse"}), False)
    assert (second[1].operations, second[1].relaxed) == (model.operations, False)
    assert second[2:] == first[2:]
