"""The pass `outputs`: dispatches write small outputs where the host reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from builder import Builder
from fused import Net, joined, run_both
from profiles import DISCRETE
from samples import f32

from nnvk.driver.vulkan.device import VulkanDevice
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.commands import Copy, Storage
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.types.codes import OperationCode
from nnvk.types.operand import OperandType

RELU, TANH, RESHAPE = OperationCode.RELU, OperationCode.TANH, OperationCode.RESHAPE
ALONE = replace(DISCRETE, disabled_passes=DISCRETE.disabled_passes - {Pass.OUTPUTS.value})


@pytest.fixture(scope="module")
def library() -> ShaderLibrary:
    return ShaderLibrary()


def plan(library: ShaderLibrary, codes: Sequence[OperationCode], size: int, outputs: Sequence[int]) -> Plan:
    """Operations of one input, one after the other; outputs are results by their number, from 1."""
    build = Builder()
    values = [build.operand(f32(size))]
    for code in codes:
        shape = [build.value(np.array([size // 2, 2], np.int32))] if code is RESHAPE else []
        values.append(build.operation(code, [values[-1], *shape], OperandType(f32(1).code)))
    model = build.finish(values[:1], [values[number] for number in outputs]).frozen
    return lower(model, [(size,)], ALONE, library)


def copies_out(made: Plan) -> int:
    """The copies to the host's memory."""
    return sum(
        isinstance(command, Copy) and made.addresses[command.target.number].storage is Storage.STAGING
        for command in made.commands
    )


@pytest.mark.parametrize(("size", "copies"), [(1, 0), (4096, 0), (4097, 1)])
def test_small_outputs_are_written_to_the_hosts_memory(library: ShaderLibrary, size: int, copies: int) -> None:
    made = plan(library, [RELU, TANH], size, [2])
    assert copies_out(made) == copies
    assert [address and address.storage for address in made.outputs] == [Storage.STAGING]


def test_outputs_that_are_read_on_are_copied(library: ShaderLibrary) -> None:
    made = plan(library, [RELU, TANH], 7, [1, 2])
    assert copies_out(made) == 1
    (read,) = made.commands[2].reads
    assert made.addresses[read.number].storage is Storage.ARENA


@pytest.mark.parametrize(("codes", "outputs", "copies"), [([RELU, RESHAPE], [1, 2], 2), ([RESHAPE], [1], 1)])
def test_outputs_with_the_same_elements_are_copied(
    library: ShaderLibrary, codes: list[OperationCode], outputs: list[int], copies: int
) -> None:
    made = plan(library, codes, 6, outputs)
    assert copies_out(made) == copies
    assert len({*made.inputs, *made.outputs}) == 1 + len(outputs)


def test_wholes_with_parts_are_copied(library: ShaderLibrary) -> None:
    """A tensor that others lie in is written by several commands."""
    net = Net()
    x = net.input(1, 4, 4, 4)
    whole = joined(net, 3, net.conv(x, 8, 4), net.conv(x, 12, 4))
    made = lower(net.finish(whole), [(1, 4, 4, 4)], replace(ALONE, disabled_passes=frozenset()), library)
    assert copies_out(made) == 1


def test_results(as_gpu: VulkanDevice) -> None:
    net = Net()
    x = net.conv(net.input(1, 5, 3, 4), 8, 4)
    run_both(as_gpu, net.finish(net.op(TANH, x), net.op(RELU, x)), net.arrays)
