"""Lowering without a device: what a kernel may ask for, and the plans that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builder import Builder
from networks import random_graph
from profiles import DISCRETE, UNIFIED
from samples import f32

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.driver.vulkan.lowering.copies.move import FILL
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import PlanOptions, lower
from nnvk.driver.vulkan.shaders.commands import Copy, Dispatch, Storage
from nnvk.driver.vulkan.shaders.declaration import declared_shaders
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType

F32 = OperandCode.TENSOR_FLOAT32


@pytest.fixture(scope="module")
def library() -> ShaderLibrary:
    return ShaderLibrary()


@pytest.fixture
def g(library: ShaderLibrary) -> Lowering:
    return Lowering(DISCRETE, library)


def tensor(*shape: int, index: int = 0, data: np.ndarray | None = None) -> Tensor:
    return Tensor("input", index, OperandType(F32, shape), shape, data)


# --- misuse ------------------------------------------------------------------------------------------------------


def fill(g: Lowering, **changes: Any) -> None:
    arguments: dict[str, Any] = {"groups": (1,), "tensors": {"dst": g.scratch(64)}, "count": 4, "word": 0}
    g.dispatch(changes.pop("variant", FILL.variant()), **(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensors": {}}, r"shader fill binds \['dst'\], got \[\]"),
        ({"tensors": {"dst": None, "src": None}}, r"binds \['dst'\], got \['dst', 'src'\]"),
        ({"spec": {"local_y": 4}}, r"no specialisation constants \['local_y'\], only \['local_x'\]"),
        ({"size": 4}, r"push constants missing \[\], unknown \['size'\]"),
        ({"dst_offset": 0}, r"\['dst_offset'\] are filled in by the lowering"),
    ],
    ids=lambda value: str(next(iter(value))) if isinstance(value, dict) else "",
)
def test_names_that_the_shader_does_not_have(g: Lowering, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(KeyError, match=message):
        fill(g, **changes)


def test_push_constants_that_are_left_out(g: Lowering) -> None:
    with pytest.raises(KeyError, match=r"shader fill: push constants missing \['word'\], unknown \[\]"):
        g.dispatch(FILL.variant(), groups=(1,), tensors={"dst": g.scratch(64)}, count=1)


@pytest.mark.parametrize("value", [-1, 2**32, 0.5, "4"])
def test_push_constants_of_another_type(g: Lowering, value: Any) -> None:
    with pytest.raises(ValueError, match=r"shader fill: count = "):
        fill(g, count=value)


def test_too_many_workgroups(g: Lowering) -> None:
    with pytest.raises(NnapiError, match=r"fill: \(1, 101, 1\) workgroups exceed 100"):
        fill(g, groups=(1, 101))


def test_tensors_that_no_binding_holds(g: Lowering) -> None:
    too_large = np.zeros(1 << 18)
    for make in (lambda: g.scratch((1 << 20) + 1), lambda: g.tensor(tensor(1 << 19)), lambda: g.constant(too_large)):
        with pytest.raises(NnapiError, match="larger than the device can bind") as error:
            make()
        assert error.value.code is ResultCode.OUT_OF_MEMORY
    g.scratch(1 << 20)


def test_features_that_the_device_lacks(g: Lowering) -> None:
    shader = next(shader for shader in declared_shaders() if shader.name == "gemm")
    lacking = r"gemm\.f32\.subgroup\.none\.whole\.plain needs \[.*'subgroupShuffle'\], which the device lacks"
    with pytest.raises(NnapiError, match=lacking):
        g.dispatch(
            shader.variant(DTYPE="f32", TILE="subgroup", ARITHMETIC="none", SUMS="whole", EPILOGUE="plain"),
            groups=(1,),
            tensors={},
        )


# --- choices -----------------------------------------------------------------------------------------------------


def test_a_choice_has_the_commands_that_came_of_it(g: Lowering) -> None:
    """Until the next choice or operation, wherever they stand in the end."""
    source, target = g.scratch(64), g.scratch(64)
    g.copy(source, target, 4)
    assert g.choose("a question", ["a way", "another"]) == "a way"
    g.copy(source, target, 8)
    g.flag("zeros go before all else")
    g.copy(source, target, 12)
    g.choose("another question", ["a way", "another"])
    g.copy(source, target, 16)
    g.operation += 1
    g.copy(source, target, 20)
    first, second = g.choices
    assert (first.candidates, first.chosen, first.operation) == (("a way", "another"), "a way", 0)
    sizes = [command.nbytes if isinstance(command, Copy) else 0 for command in g.commands]
    assert [[sizes[position] for position in choice.commands] for choice in (first, second)] == [[8, 12], [16]]


def test_what_was_measured_is_chosen_where_there_is_such_a_way(library: ShaderLibrary) -> None:
    g = Lowering(DISCRETE, library, autotune_results={"a question": "another", "another question": "what is gone"})
    assert g.choose("a question", ["a way", "another"]) == "another"
    assert g.choose("another question", ["a way", "another"]) == "a way"


def test_one_way_alone_is_no_choice(g: Lowering) -> None:
    assert g.choose("a question", ["a way"]) == "a way"
    assert not g.choices


# --- what is asked for twice -------------------------------------------------------------------------------------


def test_a_tensor_is_always_the_same(g: Lowering) -> None:
    assert g.tensor(tensor(4, index=7)) is g.tensor(tensor(4, index=7))
    assert g.tensor(tensor(4, index=8)) is not g.tensor(tensor(4, index=7))


def test_constants_are_carried_once(g: Lowering) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert g.constant(data) is g.constant(data)
    assert g.tensor(tensor(2, 3, index=1, data=data)) is g.constant(data)
    assert g.constant(data.T) is not g.constant(data)


def test_empty_dispatches_and_copies_are_left_out(g: Lowering) -> None:
    fill(g, groups=(0, 1, 1))
    g.copy(g.scratch(4), g.scratch(4), 0)
    assert not g.commands


@pytest.mark.parametrize(
    ("count", "groups"), [(1, (1, 1, 1)), (64, (1, 1, 1)), (65, (2, 1, 1)), (6400, (100, 1, 1)), (6401, (51, 2, 1))]
)
def test_long_ranges_fold(g: Lowering, count: int, groups: tuple[int, ...]) -> None:
    assert g.flat(count, 64) == groups


# --- plans -------------------------------------------------------------------------------------------------------


def chain(*codes: OperationCode, size: int = 100, outputs: Sequence[int] | None = None) -> Model:
    """Operations of one input, one after the other; outputs are results by their number, from 1."""
    build = Builder()
    values = [build.operand(f32(size))]
    for code in codes:
        shape = [build.value(np.array([size // 2, 2], np.int32))] if code is OperationCode.RESHAPE else []
        values.append(build.operation(code, [values[-1], *shape], OperandType(F32)))
    return build.finish(values[:1], [values[number] for number in outputs or [len(codes)]]).frozen


def plan(library: ShaderLibrary, profile: DeviceProfile, model: Model) -> Plan:
    return lower(model, [type_.dimensions for type_ in model.input_types()], profile, library)


def kinds(plan: Plan) -> list[str]:
    return ["copy" if isinstance(command, Copy) else command.shader.name for command in plan.commands]


RELU, TANH, RESHAPE = OperationCode.RELU, OperationCode.TANH, OperationCode.RESHAPE


def test_discrete_devices_copy_in_and_out(library: ShaderLibrary) -> None:
    made = plan(library, DISCRETE, chain(RELU, TANH))
    assert kinds(made)[0] == kinds(made)[-1] == "copy"
    assert len(made.commands) == 4
    assert made.barriers == {1, 2, 3}
    assert all(address is not None and address.storage is Storage.STAGING for address in (*made.inputs, *made.outputs))


def test_unified_devices_work_in_place(library: ShaderLibrary) -> None:
    made = plan(library, UNIFIED, chain(RELU, TANH))
    assert "copy" not in kinds(made)
    assert made.barriers == {1}
    first, last = made.commands
    assert isinstance(first, Dispatch)
    assert isinstance(last, Dispatch)
    assert made.addresses[first.reads[0].number] == made.inputs[0]
    assert made.addresses[last.writes[0].number] == made.outputs[0]


def test_inputs_are_written_to_device_memory_where_the_host_can(library: ShaderLibrary) -> None:
    made = plan(library, replace(DISCRETE, host_writes_device_memory=True), chain(RELU, TANH))
    assert kinds(made)[-1] == "copy"
    first, *_ = made.commands
    assert isinstance(first, Dispatch)
    assert made.addresses[first.reads[0].number] == made.inputs[0]
    assert [address and address.storage for address in made.inputs] == [Storage.UPLOAD]
    assert [address and address.storage for address in made.outputs] == [Storage.STAGING]


def test_activations_share_memory(library: ShaderLibrary) -> None:
    made = plan(library, UNIFIED, chain(*[RELU] * 20, size=1000))
    assert made.pages[Storage.ARENA] == (2 * 4032,)
    assert made.pages[Storage.STAGING] == (2 * 4032,)


def test_an_output_that_is_read_on_is_written_once(library: ShaderLibrary) -> None:
    made = plan(library, UNIFIED, chain(RELU, TANH, outputs=[1, 2]))
    assert "copy" not in kinds(made)
    assert made.outputs[0] != made.outputs[1]
    assert made.addresses[made.commands[1].reads[0].number] == made.outputs[0]


@pytest.mark.parametrize("profile", [DISCRETE, UNIFIED], ids=["discrete", "unified"])
@pytest.mark.parametrize(
    ("codes", "outputs"),
    [((RESHAPE,), [1]), ((RELU, RESHAPE), [1, 2]), ((RESHAPE, RELU), [1, 2]), ((RESHAPE, RESHAPE), [1, 2])],
    ids=["an input", "an output", "an input read on", "twice"],
)
def test_outputs_that_are_reshaped_have_memory_of_their_own(
    library: ShaderLibrary, profile: DeviceProfile, codes: tuple[OperationCode, ...], outputs: list[int]
) -> None:
    made = plan(library, profile, chain(*codes, outputs=outputs))
    exchanged = [*made.inputs, *made.outputs]
    assert len(set(exchanged)) == len(exchanged)
    written = {made.addresses[ref.number] for command in made.commands for ref in command.writes}
    assert set(made.outputs) <= written


def test_barriers_by_buffer_for_the_validation_layer(library: ShaderLibrary) -> None:
    build = Builder()
    sources = [build.operand(f32(100)) for _ in range(2)]
    inner = [build.operation(RELU, [source], f32(100)) for source in sources]
    model = build.finish(sources, [build.operation(RELU, [value], f32(100)) for value in inner]).frozen
    assert plan(library, UNIFIED, model).barriers == {2}
    assert plan(library, replace(UNIFIED, barriers_by_buffer=True), model).barriers == {1, 2, 3}


def test_a_large_arena_takes_several_pages(library: ShaderLibrary) -> None:
    made = plan(library, UNIFIED, chain(RELU, RELU, RELU, size=200_000))
    assert made.pages[Storage.ARENA] == (800_000, 800_000)
    assert made.pages[Storage.STAGING] == (800_000, 800_000)


def test_calls_are_refused_once_their_shapes_are_known(library: ShaderLibrary) -> None:
    model = chain(RELU, TANH, size=0)  # open
    seen: list[tuple[OperationCode, tuple[int, ...]]] = []

    def refuse(call: Call) -> str:
        seen.append((call.code, call.output.shape))
        return "too long" if call.code is TANH and call.output.size > 5 else ""

    lower(model, [(5,)], UNIFIED, library, PlanOptions(refuse=refuse))
    assert seen == [(RELU, (5,)), (TANH, (5,))]
    with pytest.raises(NnapiError, match="TANH: too long") as error:
        lower(model, [(6,)], UNIFIED, library, PlanOptions(refuse=refuse))
    assert error.value.code is ResultCode.OP_FAILED
    lower(model, [(0,)], UNIFIED, library, PlanOptions(refuse=lambda _: "nothing is computed for empty outputs"))


# --- whole graphs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [DISCRETE, UNIFIED], ids=["discrete", "unified"])
@pytest.mark.parametrize("seed", range(25))
def test_every_read_finds_what_was_written_for_it(library: ShaderLibrary, profile: DeviceProfile, seed: int) -> None:
    """Memory holds the number of the tensor that was last written there."""
    made = plan(library, profile, random_graph(seed).frozen)
    pages = {s: [np.full(-(-size // 64), -1) for size in sizes] for s, sizes in made.pages.items()}

    def lines(number: int) -> np.ndarray:
        at = made.addresses[number]
        return pages[at.storage][at.page][at.offset // 64 : -(-(at.offset + at.nbytes) // 64)]

    given = [address for address in made.inputs if address is not None]
    for number, address in made.addresses.items():
        if address.storage is Storage.CONSTANTS or address in given:
            lines(number)[:] = number
    since: list[Dispatch | Copy] = []
    for position, command in enumerate(made.commands):
        if position in made.barriers:
            since = []
        for ref in command.reads:
            if ref not in command.writes:
                assert (lines(ref.number) == ref.number).all(), f"command {position} reads what it should not"
            assert all(not np.shares_memory(lines(ref.number), lines(w.number)) for c in since for w in c.writes)
        for ref in command.writes:
            assert all(
                not np.shares_memory(lines(ref.number), lines(o.number)) for c in since for o in (*c.reads, *c.writes)
            )
            lines(ref.number)[:] = ref.number
        since.append(command)
    for address in made.outputs:
        numbers = {number for number, at in made.addresses.items() if at == address}
        assert len(numbers) == 1
        assert (lines(numbers.pop()) >= 0).all()
