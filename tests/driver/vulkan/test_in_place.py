"""CONCATENATION, PACK, SPLIT and SLICE leave their parts in place where these are contiguous, and copy nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from fused import (
    I8,
    TYPES,
    U8,
    Net,
    Op,
    byte_conv,
    families,
    joined,
    made,
    maximum,
    run_both,
    run_random_graph,
    split,
    typed,
)

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.running.constants import ConstantStore, Upload
from nnvk.driver.vulkan.running.recording import Recording
from nnvk.driver.vulkan.shaders.commands import Storage
from nnvk.driver.vulkan.shaders.passes import FUSIONS
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType

# --- written in place --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("axis", "shapes"), [(1, [(1, 3, 4, 4), (1, 5, 4, 4)]), (0, [(2, 1, 4, 4), (1, 1, 4, 4)])])
def test_concatenation(vulkan: VulkanDevice, kind: str, axis: int, shapes: Sequence[tuple[int, ...]]) -> None:
    net = Net()
    x = typed(net, kind, 3, 8, 4, 5)
    begin = np.zeros(4, np.int32)
    parts = [net.op(Op.SLICE, x, begin, np.array(shape, np.int32), type_=TYPES[kind]) for shape in shapes]
    y = joined(net, axis, *parts, kind=kind)
    plan = run_both(vulkan, net.finish(maximum(net, y, kind)), net.arrays)
    assert families(plan) == "arrange arrange pool2d"


@pytest.mark.parametrize("kind", TYPES)
def test_parts_that_end_amid_vec4s_are_copied_but_for_the_last(vulkan: VulkanDevice, kind: str) -> None:
    net = Net()
    y = joined(net, 0, *(made(net, kind, rows, 5) for rows in (16, 3, 16, 7)), kind=kind)
    model = net.finish(net.build.operation(Op.TILE, [y, net.build.value(np.array([2, 1], np.int32))], TYPES[kind]))
    names = families(run_both(vulkan, model, net.arrays)).split()
    # 16 rows of 5 are whole vec4s of any type; 3 rows are none, and what follows them begins amid a four.
    assert names == [*["arrange"] * 4, *["move"] * 3, "arrange"]


@pytest.mark.parametrize("code", [I8, U8], ids=lambda code: code.name)
def test_other_scales_are_looked_up_in_place(vulkan: VulkanDevice, code: OperandCode) -> None:
    net = Net()
    middle = 0 if code is I8 else 128
    x = net.input(1, 4, 4, 8, code=code, scale=0.05, zero=middle + 3)
    parts = [byte_conv(net, code, x, 8, 8, OperandType(code, (), scale, middle - 9)) for scale in (0.11, 0.2)]
    y = net.build.operation(Op.CONCATENATION, [*parts, net.code(1)], OperandType(code, (), 0.11, middle - 9))
    plan = run_both(vulkan, net.finish(y), net.arrays)
    assert families(plan) == "gemm gemm end"


def test_what_is_there_twice_is_copied_once(vulkan: VulkanDevice) -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 4, 4), 8, 4)
    y = joined(net, 1, x, x)
    plan = run_both(vulkan, net.finish(y, maximum(net, x)), net.arrays)
    assert sorted(families(plan).split()) == ["gemm", "move", "pool2d"]


def test_two_wholes(vulkan: VulkanDevice) -> None:
    """A tensor lies in the first one, and is copied to the second."""
    net = Net()
    x, y = (net.conv(net.input(1, 4, 4, 4), 8, 4) for _ in range(2))
    model = net.finish(maximum(net, joined(net, 1, x, y)), maximum(net, joined(net, 0, x, y)))
    assert families(run_both(vulkan, model, net.arrays)).split().count("move") == 2


def test_inputs_outputs_and_constants_are_copied(vulkan: VulkanDevice) -> None:
    net = Net()
    x, y = net.conv(net.input(1, 4, 4, 4), 8, 4), net.input(1, 2, 4, 8)
    model = net.finish(joined(net, 1, x, y, net.weights(1, 3, 4, 8)), x)
    plan = run_both(vulkan, model, net.arrays)
    # The input is copied to the arena first where the device has memory of its own, and then to its place.
    assert families(plan).split().count("move") == (3 if vulkan.profile.unified_memory else 1)


def test_wholes_in_wholes(vulkan: VulkanDevice) -> None:
    """As in dense blocks: all lies in the last one."""
    net = Net()
    x = net.conv(net.input(1, 4, 4, 8), 8, 8)
    for _ in range(4):
        x = joined(net, 1, x, net.conv(x, 8, 8))
    plan = run_both(vulkan, net.finish(maximum(net, x)), net.arrays)
    assert families(plan) == " ".join([*["gemm"] * 5, "pool2d"])


def test_pack(vulkan: VulkanDevice) -> None:
    for kind in TYPES:
        net = Net()
        parts = [made(net, kind, 4, 4) for _ in range(3)]
        y = net.build.operation(Op.PACK, [net.code(0), *parts], TYPES[kind])
        model = net.finish(
            net.build.operation(Op.TILE, [y, net.build.value(np.array([1, 2, 1], np.int32))], TYPES[kind])
        )
        assert families(run_both(vulkan, model, net.arrays)) == "arrange arrange arrange arrange"


def test_no_more_memory_for_it(vulkan: VulkanDevice) -> None:
    """A small part that is there early would keep room for a large one, while much else is needed."""
    net = Net()
    small = made(net, "float32", 1, 2, 2, 4)
    large = net.op(Op.SLICE, net.input(1, 64, 64, 4), np.zeros(4, np.int32), np.array([1, 64, 64, 4], np.int32))
    for _ in range(3):
        large = maximum(net, large)
    x = net.op(Op.TILE, large, np.array([1, 100, 1, 1], np.int32))
    x = net.op(Op.SLICE, x, np.zeros(4, np.int32), np.array([1, 6, 2, 4], np.int32))
    rest = net.op(Op.TILE, x, np.array([1, 4000, 1, 1], np.int32))
    model = net.finish(maximum(net, joined(net, 1, small, rest)), maximum(net, small))
    shapes = [array.shape for array in net.arrays]
    profile = replace(vulkan.profile, unified_memory=False)
    fused, plain = (
        lower(model, shapes, replace(profile, disabled_passes=frozenset() if on else FUSIONS), vulkan.planner.library)
        for on in (True, False)
    )
    assert fused.most_alive <= plain.most_alive
    run_both(vulkan, model, net.arrays)


# --- read in place -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
def test_split(vulkan: VulkanDevice, kind: str) -> None:
    net = Net()
    parts = split(net, made(net, kind, 1, 6, 4, 4), 1, 3, kind)
    model = net.finish(*(maximum(net, part, kind) for part in parts))
    assert families(run_both(vulkan, model, net.arrays)) == "arrange pool2d pool2d pool2d"


def test_inputs_are_split_in_place(vulkan: VulkanDevice) -> None:
    net = Net()
    parts = split(net, net.input(1, 6, 4, 4), 1, 3)
    assert families(run_both(vulkan, net.finish(*(maximum(net, part) for part in parts)), net.arrays)) == (
        "pool2d pool2d pool2d"
    )


def test_parts_that_are_outputs_are_copied(vulkan: VulkanDevice) -> None:
    net = Net()
    parts = split(net, made(net, "float32", 4, 4, 4), 0, 2)
    plan = run_both(vulkan, net.finish(*parts), net.arrays)
    assert families(plan) == ("arrange arrange arrange" if vulkan.profile.unified_memory else "arrange")


def test_parts_that_begin_amid_vec4s_are_copied(vulkan: VulkanDevice) -> None:
    net = Net()
    x = made(net, "float32", 1, 4, 3, 3)
    parts = [
        net.op(Op.SLICE, x, np.array([0, row, 0, 0], np.int32), np.array([1, 2, 3, 3], np.int32)) for row in (0, 1)
    ]
    model = net.finish(*(maximum(net, part) for part in parts))
    assert sorted(families(run_both(vulkan, model, net.arrays)).split()) == ["arrange", "arrange", "pool2d", "pool2d"]


def test_products_read_eights(vulkan: VulkanDevice) -> None:
    """Some load eight floats at once, which must be aligned: the second part is not, but for vec4s."""
    net = Net()
    x = made(net, "float32", 13, 8)
    part = net.op(Op.SLICE, x, np.array([1, 0], np.int32), np.array([12, 8], np.int32))
    y = net.op(Op.RESHAPE, net.input(108), np.array([9, 12], np.int32))
    other = net.op(Op.SLICE, y, np.array([1, 0], np.int32), np.array([8, 12], np.int32))
    other = net.op(Op.RESHAPE, other, np.array([12, 8], np.int32))
    run_both(vulkan, net.finish(net.dense(part, 16, 8), net.dense(other, 16, 8)), net.arrays)


def test_split_and_joined_again(vulkan: VulkanDevice) -> None:
    net = Net()
    a, b, c = split(net, made(net, "float32", 1, 6, 4, 4), 1, 3)
    model = net.finish(maximum(net, joined(net, 1, c, net.op(Op.ABS, b), a)))
    run_both(vulkan, model, net.arrays)


# --- everything --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unified", [False, True])
def test_device_memory_in_the_place_of_inputs_and_outputs(vulkan: VulkanDevice, unified: bool) -> None:
    """Parts of what is exchanged lie in what takes its place."""
    net = Net()
    a, b = split(net, net.input(1, 8, 4, 4), 1, 2)
    model = net.finish(joined(net, 1, net.conv(a, 4, 4), net.conv(b, 4, 4, 1)))
    shapes = [array.shape for array in net.arrays]
    profile = replace(vulkan.profile, unified_memory=unified)
    results = []
    for on in (True, False):
        plan = lower(
            model, shapes, replace(profile, disabled_passes=frozenset() if on else FUSIONS), vulkan.planner.library
        )
        (source,), (target,) = plan.inputs, plan.outputs
        assert source is not None and target is not None
        native = vulkan.gpu.native()
        given = native.create_buffer(source.nbytes, host_visible=True)
        given.view()[:] = net.arrays[0].reshape(-1).view(np.uint8)
        taken = native.create_buffer(target.nbytes, host_visible=True)
        constants = Upload(native, plan, ConstantStore()).wait()
        Recording(native, plan, constants, external={source: given, target: taken}).program.run([], [])
        results.append(taken.view().tobytes())
        has_parts = any(plan.addresses[number].storage is Storage.STAGING for number in plan.parts)
        assert has_parts == (on and unified)
    assert results[0] == results[1]


CODES = [
    Op.CONCATENATION,
    Op.PACK,
    Op.SPLIT,
    Op.SLICE,
    Op.STRIDED_SLICE,
    Op.RESHAPE,
    Op.TRANSPOSE,
    Op.ADD,
    Op.MUL,
    Op.RELU,
    Op.ABS,
    Op.CONV_2D,
    Op.FULLY_CONNECTED,
    Op.AVERAGE_POOL_2D,
    Op.QUANTIZE,
    Op.DEQUANTIZE,
]
"""These operations copy parts of tensors, or come before or after those that do."""


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(own: VulkanDevice, seed: int) -> None:
    run_random_graph(own, seed, CODES, operations=14)
