"""Verified executions of models, whose plans may have faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from faults import KINDS, replaced, with_fault

from nnvk.base.errors import VerificationError
from nnvk.check.model_rows import empty_like, request
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode
from nnvk.types.model import Model
from nnvk.types.request import ExecuteOptions, PrepareOptions, Redundancy

MULTIPLYING = "gemm", "fully_connected", "depthwise_conv2d"
"""The shaders that multiply."""
FLOAT_CELLS: tuple[KnownCode, ...] = (
    OperationCode.LSTM,
    OperationCode.UNIDIRECTIONAL_SEQUENCE_LSTM,
    OperationCode.BIDIRECTIONAL_SEQUENCE_LSTM,
    OperationCode.RNN,
    OperationCode.UNIDIRECTIONAL_SEQUENCE_RNN,
    OperationCode.BIDIRECTIONAL_SEQUENCE_RNN,
    ExtendedOperationCode.UNIDIRECTIONAL_SEQUENCE_GRU,
    OperationCode.SVDF,
)
"""Recurrent cells of floats, whose products GEMMs compute in verified plans."""
VERIFIED = PrepareOptions(redundancy=Redundancy.CHECKSUMS)


def plan_of(device: VulkanDevice, model: Model, inputs: list[np.ndarray], options: PrepareOptions) -> Plan:
    return device.planner.plan(model, [array.shape for array in inputs], options)


def families(plan: Plan) -> Counter[str]:
    return Counter(command.shader.family for command in plan.commands if isinstance(command, Dispatch))


def run(
    device: VulkanDevice,
    model: Model,
    inputs: list[np.ndarray],
    right: list[np.ndarray],
    change: Callable[[Plan], Plan] = lambda plan: plan,
    options: PrepareOptions = VERIFIED,
) -> list[np.ndarray]:
    """Execute a model, by a plan that is changed once it is made. Returns the outputs."""
    outputs, plan = empty_like(right), device.planner.plan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device.planner, "plan", lambda *arguments: change(plan(*arguments)))
        prepared = device.prepare_model(model, options)
        prepared.execute(request(inputs, outputs), ExecuteOptions())
    return outputs


def outcome(
    device: VulkanDevice,
    model: Model,
    inputs: list[np.ndarray],
    right: list[np.ndarray],
    change: Callable[[Plan], Plan],
) -> str:
    """The effect of a fault: it was found, it was without effect, or it was missed."""
    try:
        outputs = run(device, model, inputs, right, change)
    except VerificationError:
        return "found"
    same = all(ours.tobytes() == theirs.tobytes() for ours, theirs in zip(outputs, right, strict=True))
    return "harmless" if same else "missed"


def outcomes(
    device: VulkanDevice, model: Model, inputs: list[np.ndarray], right: list[np.ndarray], seeds: range
) -> Counter[str]:
    """How many faults of all kinds have which effect."""
    by_buffer = device.profile.barriers_by_buffer

    def with_seed(seed: int) -> Callable[[Plan], Plan]:
        return lambda plan: with_fault(plan, KINDS[seed % len(KINDS)], seed, by_buffer=by_buffer)

    return Counter(outcome(device, model, inputs, right, with_seed(seed)) for seed in seeds)


def with_wrong_products(plan: Plan) -> Plan:
    """The plan with products that all have the same wrong word."""
    for place in reversed(range(len(plan.commands))):
        command = plan.commands[place]
        if isinstance(command, Dispatch) and command.shader.family in MULTIPLYING:
            plan = replaced(
                plan, place + 1, command.tensors["dst"], 0, np.array([0x5A3C9617], np.uint32), by_buffer=True
            )
    return plan
