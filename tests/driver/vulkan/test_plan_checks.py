"""Plans from files: each bound of the checks, with the largest value that passes and the first that does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fused import F32, Net, Op
from profiles import GPU

from nnvk.driver.vulkan.lowering.compared import DIFFERENCE_WORDS, Subject
from nnvk.driver.vulkan.lowering.gemm.tiles.quads import Quads
from nnvk.driver.vulkan.lowering.verification import EXCHANGE
from nnvk.driver.vulkan.planning import validation
from nnvk.driver.vulkan.planning.plan import Address, Flag, Plan, Verification
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.planning.validation import bounds, check
from nnvk.driver.vulkan.shaders.commands import Clear, Command, Copy, Dispatch, Storage, StridedView, TensorRef, padded
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.types.model import Model
from nnvk.types.operand import OperandType

ARENA, CONSTANTS, STAGING, UPLOAD = Storage.ARENA, Storage.CONSTANTS, Storage.STAGING, Storage.UPLOAD
SHAPES = [(16,)]
COMMAND = Copy(TensorRef(0, 64, STAGING), TensorRef(1, 64, STAGING), 64)


def model() -> Model:
    """RELU of 16 numbers, which are 64 bytes."""
    net = Net()
    return net.finish(net.op(Op.RELU, net.input(16), type_=OperandType(F32, (16,))))


def plan_of(
    *more: Address,
    parts: dict[int, int] | None = None,
    commands: Sequence[Command] = (COMMAND,),
    pages: dict[Storage, tuple[int, ...]] | None = None,
    **changes: Any,
) -> Plan:
    """A plan that copies the input to the output, with ``more`` tensors, which have the numbers from 2 on."""
    source, target = Address(STAGING, 0, 0, 64), Address(STAGING, 0, 64, 64)
    addresses = dict(enumerate((source, target, *more)))
    sizes = {ARENA: (), CONSTANTS: (), STAGING: (128,), UPLOAD: ()} | (pages or {})
    plan = Plan(
        tuple(commands), frozenset(), addresses, sizes, (), (source,), (target,), ((16,),), parts=dict(parts or {})
    )
    return replace(plan, **changes)


def passes(plan: Plan, profile: DeviceProfile = GPU, of: Model | None = None) -> bool:
    """Whether a plan may be one of a model, that of `model` unless another one is given."""
    try:
        check(plan, of or model(), SHAPES, profile)
    except ValueError as error:
        assert str(error)
        return False
    return True


def test_a_plan_within_all_bounds() -> None:
    check(plan_of(), model(), SHAPES, GPU)


def test_an_output_of_open_dimensions() -> None:
    net = Net()
    declared = net.finish(net.op(Op.RELU, net.input(16), type_=OperandType(F32, (0,))))
    assert passes(plan_of(), of=declared)
    assert not passes(plan_of(output_shapes=((4, 4),)), of=declared)


def test_bounds_of_a_model() -> None:
    """The 2 operands and the operation; 64 bytes are given and 64 computed, of which the input counts twice."""
    limits = bounds(model(), SHAPES)
    assert limits.most_commands == 1024 + 64 * 3
    assert limits.most_bytes == (64 << 20) + 64 * (64 + 64 + 64)
    assert limits.most_header == 1024 * limits.most_commands


def test_bounds_of_open_shapes_take_each_for_the_largest() -> None:
    net = Net()
    x = net.input(16)
    y = net.build.operation(Op.RELU, [x], OperandType(F32, (0,)))
    unknown = bounds(net.finish(net.build.operation(Op.ABS, [y], OperandType(F32, (0,)))), SHAPES)
    known = bounds(model(), SHAPES)
    assert unknown.most_bytes >= known.most_bytes


def test_the_most_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "_COMMANDS_FACTOR", 0)
    for most in (2, 1):
        monkeypatch.setattr(validation, "_COMMANDS_BASE", most)
        plan = plan_of(commands=[COMMAND, COMMAND], barriers=frozenset({1}))
        assert passes(plan) == (most == 2)


def test_the_most_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "_BYTES_FACTOR", 0)
    for most in (128, 127):
        monkeypatch.setattr(validation, "_BYTES_BASE", most)
        assert passes(plan_of()) == (most == 128)


# --- exchange with the host --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({"inputs": (None,)}, False),
        ({"outputs": (None,)}, False),
        ({"inputs": (Address(STAGING, 0, 32, 64),)}, False),
        ({"output_shapes": ((17,),)}, False),
        ({"output_shapes": ((4, 4),)}, False),
        ({"output_shapes": ((-4, -4),)}, False),
        ({"output_shapes": ()}, False),
        ({"outputs": (Address(STAGING, 0, 0, 64),)}, True),
        ({"barriers": frozenset({0})}, False),
    ],
    ids=str,
)
def test_inputs_and_outputs(changes: dict[str, Any], fits: bool) -> None:
    assert passes(plan_of(**changes)) == fits


@pytest.mark.parametrize("shape", [(-4, -4), (-4, -4, 1), (4, -2, -2)], ids=str)
def test_negative_dimensions_of_an_output_of_any_rank(shape: tuple[int, ...]) -> None:
    net = Net()
    any_rank = net.finish(net.op(Op.RELU, net.input(16)))
    assert passes(plan_of(output_shapes=((4, 4),)), of=any_rank)
    assert not passes(plan_of(output_shapes=(shape,)), of=any_rank)


def test_what_has_no_elements_lies_nowhere() -> None:
    net = Net()
    empty = net.finish(net.op(Op.RELU, net.input(0, 4)))
    plan = plan_of(inputs=(None,), outputs=(None,), output_shapes=((0, 4),), commands=())
    check(plan, empty, [(0, 4)], GPU)
    for change in ({"inputs": plan_of().inputs}, {"outputs": plan_of().outputs}):
        with pytest.raises(ValueError, match="of 0 bytes has 64"):
            check(replace(plan, **change), empty, [(0, 4)], GPU)


def test_inputs_lie_where_the_host_writes() -> None:
    """Devices whose memory the host writes have upload memory for them, and the others staging memory."""
    source, target = Address(UPLOAD, 0, 0, 64), Address(STAGING, 0, 0, 64)
    uploaded = replace(
        plan_of(pages={STAGING: (64,), UPLOAD: (64,)}),
        commands=(Copy(TensorRef(0, 64, UPLOAD), TensorRef(1, 64, STAGING), 64),),
        addresses={0: source, 1: target},
        inputs=(source,),
        outputs=(target,),
    )
    for writes in (False, True):
        profile = replace(GPU, host_writes_device_memory=writes)
        assert passes(plan_of(), profile) != writes
        assert passes(uploaded, profile) == writes


def exchanged(nbytes: int, storage: Storage = STAGING) -> tuple[Plan, Address]:
    """A plan that also exchanges a tensor of so many bytes."""
    address = Address(storage, 0, 128 if storage is STAGING else 0, nbytes)
    size = -(-max(nbytes, 1) // 64) * 64
    pages = {STAGING: (128 + size,)} if storage is STAGING else {storage: (size,)}
    return plan_of(address, pages=pages), address


@pytest.mark.parametrize(("nbytes", "fits"), [(0, False), (1, True), (64, True), (65, False)])
def test_random_bytes(nbytes: int, fits: bool) -> None:
    plan, address = exchanged(nbytes)
    assert passes(replace(plan, entropy=(address,))) == fits


def test_random_bytes_out_of_reach() -> None:
    plan, address = exchanged(4, ARENA)
    assert not passes(replace(plan, entropy=(address,)))


@pytest.mark.parametrize(("nbytes", "fits"), [(3, False), (4, True), (5, False)])
def test_numbers_of_rows(nbytes: int, fits: bool) -> None:
    plan, address = exchanged(nbytes)
    assert passes(replace(plan, counts=(address,))) == fits
    assert passes(replace(plan, counts=(None,)))
    assert not passes(replace(plan, counts=(address, address)))


def test_a_scalar_has_no_number_of_rows() -> None:
    net = Net()
    x = net.input(16)
    scalar = net.finish(net.op(Op.REDUCE_SUM, x, np.array([0], np.int32), net.build.value(False)))
    plan, address = exchanged(4)
    target = Address(STAGING, 0, 64, 4)
    plan = replace(plan, outputs=(target,), output_shapes=((),), addresses={**plan.addresses, 1: target})
    plan = replace(plan, commands=(Copy(TensorRef(0, 64, STAGING), TensorRef(1, 4, STAGING), 4),))
    assert passes(plan, of=scalar)
    assert not passes(replace(plan, counts=(address,)), of=scalar)


@pytest.mark.parametrize(
    ("text", "nbytes", "fits"),
    [
        ("it is {}", 8, True),
        ("it is {}", 4, False),
        ("it is {:r} of {}", 12, True),
        ("it is {", 4, False),
        ("it is }", 4, False),
        ("x" * 1000, 4, True),
        ("x" * 1001, 4, False),
    ],
)
def test_assertions(text: str, nbytes: int, fits: bool) -> None:
    plan, address = exchanged(nbytes)
    assert passes(replace(plan, flags=(Flag(address, text),))) == fits


@pytest.mark.parametrize("words", [DIFFERENCE_WORDS - 1, DIFFERENCE_WORDS, DIFFERENCE_WORDS + 1])
def test_a_difference_has_so_many_words(words: int) -> None:
    plan, address = exchanged(4 * words)
    assert passes(replace(plan, verification=Verification(address, ()))) == (words == DIFFERENCE_WORDS)


def test_a_difference_out_of_reach() -> None:
    plan, address = exchanged(4 * DIFFERENCE_WORDS, ARENA)
    assert not passes(replace(plan, verification=Verification(address, ())))


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"operation": EXCHANGE}, True),
        ({"operation": EXCHANGE - 1}, False),
        ({"operation": 1}, False),
        ({"name": "x" * 1000}, True),
        ({"name": "x" * 1001}, False),
        ({"shape": ()}, True),
        ({"shape": (0,)}, True),
        ({"shape": (4, -1)}, False),
        ({"shape": (4, 5), "tile": (3,)}, True),
        ({"shape": (4, 5, 6), "tile": (3, 2)}, True),
        ({"tile": (3,)}, False),
        ({"shape": (4, 5), "tile": (3, 2)}, False),
        ({"shape": (4, 5, 6, 7), "tile": (3, 2, 1)}, False),
        ({"shape": (4, 5), "tile": (0,)}, False),
        ({"shape": (0, 5), "tile": (3,)}, False),
        ({"operation": 1, "name": "x" * 1001}, False),
    ],
    ids=str,
)
def test_what_is_compared(changes: dict[str, Any], fits: bool) -> None:
    subject = replace(Subject(0, "output", "float32", (16,)), **changes)
    plan, address = exchanged(4 * DIFFERENCE_WORDS)
    good = Subject(0, "output", "float32", (16,))
    for subjects in ((subject,), (good, subject)):
        assert passes(replace(plan, verification=Verification(address, subjects))) == fits


# --- memory ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "fits"),
    [
        (Address(ARENA, 0, 64, 64), True),
        (Address(ARENA, 0, 64, 49), True),
        (Address(ARENA, 0, 64, 65), False),
        (Address(ARENA, 0, 128, 4), False),
        (Address(ARENA, 0, 32, 4), False),
        (Address(ARENA, 0, -64, 4), False),
        (Address(ARENA, 0, 0, -4), False),
        (Address(ARENA, 1, 0, 4), False),
        (Address(ARENA, -1, 0, 4), False),
        (Address(UPLOAD, 0, 0, 4), False),
    ],
    ids=str,
)
def test_tensors_lie_in_pages(address: Address, fits: bool) -> None:
    beside = Address(ARENA, 0, 0, 128)
    assert passes(plan_of(beside, address, pages={ARENA: (128,)})) == fits


@pytest.mark.parametrize(
    ("sizes", "fits"), [((128,), True), ((64,), False), ((192,), False), ((100,), False), ((128, 0), False)]
)
def test_sizes_of_pages(sizes: tuple[int, ...], fits: bool) -> None:
    some = Address(ARENA, 0, 0, 64), Address(ARENA, 0, 64, 4)
    assert passes(plan_of(*some, pages={ARENA: sizes})) == fits


def test_an_empty_tensor_takes_the_least_memory() -> None:
    assert passes(plan_of(Address(ARENA, 0, 0, 0), pages={ARENA: (64,)}))


def test_pages_that_the_device_can_bind() -> None:
    assert passes(plan_of(), replace(GPU, max_buffer=128))
    assert not passes(plan_of(), replace(GPU, max_buffer=127))


@pytest.mark.parametrize(
    ("alive", "fits"), [(0, True), (64, True), (128, True), (192, False), (-64, False), (1, False)]
)
def test_the_most_bytes_alive(alive: int, fits: bool) -> None:
    assert passes(plan_of(Address(ARENA, 0, 0, 128), pages={ARENA: (128,)}, most_alive=alive)) == fits


def test_constants_have_data() -> None:
    address, data = Address(CONSTANTS, 0, 0, 64), np.zeros(64, np.uint8)
    plan = plan_of(address, pages={CONSTANTS: (64,)})
    assert passes(replace(plan, constants=((address, data),)))
    assert not passes(plan)
    assert not passes(replace(plan, constants=((address, data),) * 2))


WHOLE = Address(ARENA, 0, 64, 256)


@pytest.mark.parametrize(
    ("part", "fits"),
    [
        (Address(ARENA, 0, 64, 64), True),
        (Address(ARENA, 0, 80, 64), True),
        (Address(ARENA, 0, 68, 64), False),
        (Address(ARENA, 0, 256, 64), True),
        (Address(ARENA, 0, 272, 64), False),
        (Address(ARENA, 0, 48, 64), False),
        (Address(STAGING, 0, 64, 64), False),
        # Four rows of 16 bytes amid rows of 64 bytes.
        (Address(ARENA, 0, 80, 64, StridedView(16, 16, 64)), True),
        (Address(ARENA, 0, 84, 64, StridedView(16, 16, 64)), True),
        (Address(ARENA, 0, 82, 64, StridedView(16, 16, 64)), False),
        (Address(ARENA, 0, 76, 64, StridedView(16, 16, 64)), False),
        (Address(ARENA, 0, 112, 64, StridedView(48, 16, 64)), True),
        (Address(ARENA, 0, 116, 64, StridedView(48, 16, 64)), False),
        (Address(ARENA, 0, 112, 64, StridedView(52, 16, 64)), False),
        (Address(ARENA, 0, 64, 64, StridedView(-4, 16, 64)), False),
        (Address(ARENA, 0, 64, 60, StridedView(0, 16, 64)), False),
        (Address(ARENA, 0, 64, 64, StridedView(0, 0, 64)), False),
        (Address(ARENA, 0, 64, 64, StridedView(0, 64, 64)), True),
        (Address(ARENA, 0, 64, 64, StridedView(0, 64, 32)), False),
    ],
    ids=str,
)
def test_parts_of_tensors(part: Address, fits: bool) -> None:
    before = Address(ARENA, 0, 0, 64)
    after = Address(ARENA, 0, 320, 64)
    pages = {ARENA: (384,)}
    assert passes(plan_of(WHOLE, before, after, part, parts={5: 2}, pages=pages)) == fits


def test_rows_amid_others_are_those_of_a_part() -> None:
    """All rows that a view spans have to lie in a page, too."""
    lone = Address(ARENA, 0, 0, 64, StridedView(0, 16, 64))
    assert not passes(plan_of(lone, Address(ARENA, 0, 64, 64), pages={ARENA: (128,)}))


def test_parts_of_parts_and_of_other_pages() -> None:
    first, second = Address(ARENA, 0, 0, 256), Address(ARENA, 1, 0, 256)
    part = Address(ARENA, 0, 0, 64)
    pages = {ARENA: (256, 256)}
    assert passes(plan_of(first, second, part, part, parts={4: 2, 5: 2}, pages=pages))
    assert not passes(plan_of(first, second, part, part, parts={4: 2, 5: 4}, pages=pages))
    assert not passes(plan_of(first, second, part, parts={4: 3}, pages=pages))


# --- commands ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nbytes", "fits"), [(0, False), (4, True), (6, False), (64, True), (68, False), (-4, False)])
@pytest.mark.parametrize("sizes", [(60, 100), (100, 60)])
def test_bytes_of_copies(sizes: tuple[int, int], nbytes: int, fits: bool) -> None:
    """The smaller tensor has 60 bytes, and padding to 64."""
    source, target = (TensorRef(2 + place, size, ARENA) for place, size in enumerate(sizes))
    some = Address(ARENA, 0, 0, sizes[0]), Address(ARENA, 0, padded(sizes[0]), sizes[1])
    pages = {ARENA: (sum(map(padded, sizes)),)}
    plan = plan_of(*some, commands=[COMMAND, Copy(source, target, nbytes)], pages=pages)
    assert passes(plan) == fits


def test_constants_are_not_written() -> None:
    address, data = Address(CONSTANTS, 0, 0, 64), np.zeros(64, np.uint8)
    constant = TensorRef(2, 64, CONSTANTS)
    read = Copy(constant, COMMAND.target, 64)
    for command, fits in ((read, True), (Copy(COMMAND.source, constant, 64), False), (Clear(constant), False)):
        plan = plan_of(address, commands=[command], pages={CONSTANTS: (64,)}, constants=((address, data),))
        assert passes(plan) == fits


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"operation": 1}, False),
        ({"operation": -1}, False),
        ({"fused": (0,)}, True),
        ({"fused": (1,)}, False),
        # An invocation for each 16th of a byte of the output.
        ({"groups": (1024, 1, 1)}, True),
        ({"groups": (1025, 1, 1)}, False),
        ({"groups": (32, 32, 1)}, True),
        ({"groups": (32, 32, 2)}, False),
        ({"groups": (1, 0, 1)}, False),
        ({"groups": (-1, -1, 1)}, False),
    ],
    ids=str,
)
def test_dispatches(changes: dict[str, Any], fits: bool) -> None:
    plan = lowered()
    commands = [replace(each, **changes) if isinstance(each, Dispatch) else each for each in plan.commands]
    assert passes(replace(plan, commands=tuple(commands))) == fits


def lowered() -> Plan:
    return lower(model(), SHAPES, GPU, ShaderLibrary())


def test_dispatches_need_features() -> None:
    library = ShaderLibrary()
    shader = library[Quads(4, (4, 4)).variant("f32")]
    assert shader.features
    plan = lowered()
    (dispatch,) = (command for command in plan.commands if isinstance(command, Dispatch))
    other = replace(dispatch, shader=shader, specialization=shader.specialization({}))
    plan = replace(plan, commands=tuple(other if each is dispatch else each for each in plan.commands))
    assert passes(plan, replace(GPU, features=shader.features))
    assert not passes(plan, replace(GPU, features=frozenset()))


def test_dispatches_that_the_device_can_run() -> None:
    plan = lowered()
    (dispatch,) = (command for command in plan.commands if isinstance(command, Dispatch))
    wide = replace(dispatch, groups=(5, 1, 1))
    plan = replace(plan, commands=tuple(wide if each is dispatch else each for each in plan.commands))
    invocations = int(np.prod(dispatch.shader.local_size(dispatch.specialization)))
    for change, fits in (
        ({"max_groups": 5}, True),
        ({"max_groups": 4}, False),
        ({"max_invocations": invocations}, True),
        ({"max_invocations": invocations - 1}, False),
    ):
        assert passes(plan, replace(GPU, **change)) == fits, change
