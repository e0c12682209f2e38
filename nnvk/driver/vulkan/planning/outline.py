"""A plan as plain data, for tools that read how a model would run: on a device, or on one that is not there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnvk.base.errors import op_failed
from nnvk.driver.vulkan.graph.builder import NeedsValue
from nnvk.driver.vulkan.graph.dump import Observe
from nnvk.driver.vulkan.lowering.gemm.verification.checksum import BY_CHANNEL, CHECKSUM, products
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import PlanOptions, lower
from nnvk.driver.vulkan.planning.support import support
from nnvk.driver.vulkan.shaders.commands import Clear, Command, Copy, Dispatch, Storage, binding_of
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.flow import CONTROL_FLOW
from nnvk.types.constant import bytes_of
from nnvk.types.model import Model
from nnvk.types.request import Redundancy


def outline(
    model: Model,
    profile: DeviceProfile,
    library: ShaderLibrary,
    autotune_results: Mapping[str, str] | None = None,
    observe: Observe | None = None,
    redundancy: Redundancy = Redundancy.NONE,
) -> dict[str, Any]:
    """The plan of a model for a device of this profile, as JSON has it.

    OP_FAILED with the reason where that is not known before an execution (open dimensions, parameters that are inputs,
    control flow), and where an operation has no shader that runs on the device. ``observe`` gets the text of the model
    before the first pass and after each one. ``redundancy``: what is computed beside the results.
    """
    for index, type_ in zip(model.inputs, model.input_types(), strict=True):
        if not type_.is_fully_specified:
            raise op_failed(f"operand {index} is an input of open dimensions: {type_}; a plan needs all sizes")
    for operation, reason in zip(model.operations, support(model, profile, library), strict=True):
        if operation.code in CONTROL_FLOW:
            reason = "control flow is planned in parts, at execution"
        if reason:
            raise op_failed(f"{operation.code.name} can't be planned for {profile.name}: {reason}")
    shapes = [type_.dimensions for type_ in model.input_types()]
    options = PlanOptions(autotune_results=autotune_results or {}, observe=observe, redundancy=redundancy)
    try:
        plan = lower(model, shapes, profile, library, options)
    except NeedsValue as needs:
        raise op_failed(f"it is planned at execution, for the value of operand {needs.operand}: {needs}") from needs
    return {
        "commands": _commands(plan, model, profile.required_subgroup),
        "memory": {storage.value: list(plan.pages[storage]) for storage in Storage},
        "passes": {each.value: count for each, count in plan.applied.items()},
    }


def _commands(plan: Plan, model: Model, required_subgroup: int) -> list[dict[str, Any]]:
    strategies = {position: choice.chosen for choice in plan.choices for position in choice.commands}
    return [
        {
            "barrier": position in plan.barriers,
            **_command(command, model, required_subgroup),
            **_products(command, plan),
            "strategy": strategies.get(position, ""),
        }
        for position, command in enumerate(plan.commands)
    ]


def _products(command: Command, plan: Plan) -> dict[str, Any]:
    """The words of each product that a dispatch verifies by checksums."""
    if not isinstance(command, Dispatch) or command.shader.family not in (CHECKSUM.name, BY_CHANNEL.name):
        return {}
    address = plan.addresses[command.tensors["filters"].number]
    words = next(data for place, data in plan.constants if place == address)
    return {"products": products(command, np.frombuffer(bytes_of(words), np.uint32))}


def _command(command: Command, model: Model, required_subgroup: int) -> dict[str, Any]:
    if isinstance(command, Copy):
        return {"kind": "copy", "bytes": command.nbytes}
    if isinstance(command, Clear):
        return {"kind": "clear", "bytes": command.target.nbytes}
    return {"kind": "dispatch", **_dispatch(command, model, required_subgroup)}


def _dispatch(dispatch: Dispatch, model: Model, required_subgroup: int) -> dict[str, Any]:
    shader, operation = dispatch.shader, model.operations[dispatch.operation]
    words: Sequence[int] = dispatch.specialization
    return {
        "operation": dispatch.operation,
        "code": operation.code.name,
        "shader": shader.name,
        "spirv": str(shader.path),
        "groups": list(dispatch.groups),
        "local": list(shader.local_size(words)),
        "specialization": list(words),
        "constants": shader.named_constants(words),
        "subgroup_size": shader.subgroup_size(words, required_subgroup),
        "push_constants": {name: _finite(value) for name, value in dispatch.push.items()},
        "push_constant_size": shader.push_constant_size,
        "tensors": [
            {
                "name": name,
                "binding": shader.bindings.index(binding_of(name)),
                "number": tensor.number,
                "bytes": tensor.nbytes,
                "storage": tensor.storage.value,
                "read": binding_of(name) in shader.reads,
                "written": binding_of(name) in shader.writes,
            }
            for name, tensor in dispatch.tensors.items()
        ],
    }


def _finite(value: float) -> float | str:
    """A number as JSON can say it: ``inf`` and the like are words."""
    return value if math.isfinite(value) else str(value)
