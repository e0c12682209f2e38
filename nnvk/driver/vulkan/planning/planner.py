"""From a model and its inputs' shapes to a `Plan`: kernels choose shaders, then memory and barriers are planned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nnvk.base.errors import op_failed
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.barriers import barriers
from nnvk.driver.vulkan.planning.cache import PlanCache, key_of
from nnvk.driver.vulkan.planning.memory_plan import Block, place
from nnvk.driver.vulkan.planning.plan import Address, Plan
from nnvk.driver.vulkan.planning.support import refuse, refuse_sizes
from nnvk.driver.vulkan.shaders.commands import Storage, TensorRef
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops import registry
from nnvk.ops.call import Call
from nnvk.types.model import Model
from nnvk.types.operand import Shape
from nnvk.types.request import PrepareOptions


class Planner:
    """Plans models for a device, of which no more need be there than its profile."""

    def __init__(self, profile: DeviceProfile, library: ShaderLibrary, version: str) -> None:
        self.profile = profile
        """What plans know of the device."""
        self.library = library
        """The compiled shaders."""
        self._version = version

    def plan(self, model: Model, shapes: Sequence[Shape], options: PrepareOptions) -> Plan:
        """The plan for these input shapes, from the options' cache where they follow from the model."""
        kept = None
        if options.cache is not None and all(type_.is_fully_specified for type_ in model.input_types()):
            kept = PlanCache(options.cache, key_of(self._version, self.profile, self.library, model))
            plan = kept.load(self.library)
            if plan is not None:
                return plan
        plan = lower(model, shapes, self.profile, self.library, self.refuse)
        if kept is not None:
            kept.store(plan)
        return plan

    def refuse(self, call: Call) -> str:
        """Why no shader can run a call; empty where one can, and where that follows from shapes yet to come."""
        return refuse(call, self.profile, self.library)

    def refuse_early(self, call: Call) -> str:
        """`refuse`, or what is too large; for calls that are not lowered yet."""
        return self.refuse(call) or refuse_sizes(call, self.profile)


def lower(
    model: Model,
    input_shapes: Sequence[Shape],
    profile: DeviceProfile,
    library: ShaderLibrary,
    refuse: Callable[[Call], str] = lambda _: "",
) -> Plan:
    """Lower every operation and plan memory. OP_FAILED: shapes contradict each other (`registry.at_execution`).

    ``refuse`` is asked of every call, now that all shapes are known: OP_FAILED with its reason where it gives one,
    because another device may do better.
    """
    g = Lowering(profile, library)
    types = model.input_types()
    inputs = [
        g.input(index, math.prod(shape) * type_.dtype.itemsize)
        for index, type_, shape in zip(model.inputs, types, input_shapes, strict=True)
    ]
    shapes: dict[int, Shape] = dict(zip(model.inputs, input_shapes, strict=True))
    for number, (operation, call) in enumerate(registry.calls(model, input_shapes, final=True)):
        g.operation = number
        if call.unknown is not None:
            raise op_failed(f"{operation}: {call.unknown}")
        shapes.update((output.index, output.shape) for output in call.outputs)
        if any(output.size for output in call.outputs):
            reason = refuse(call)
            if reason:
                raise op_failed(f"{operation}: {reason}")
            with np.errstate(all="ignore"):  # multipliers of extreme scales saturate
                kernels()[call.code].lower(call, g)
    outputs = [
        g.output(index, math.prod(shapes[index]) * model.operands[index].type.dtype.itemsize) for index in model.outputs
    ]
    return _placed(g, inputs, outputs, tuple(shapes[index] for index in model.outputs))


def _placed(
    g: Lowering, inputs: Sequence[TensorRef], outputs: Sequence[TensorRef | None], output_shapes: tuple[Shape, ...]
) -> Plan:
    """Place all tensors that commands touch, and find the barriers."""
    commands = g.commands
    lifetimes: dict[TensorRef, tuple[int, int]] = {}
    for position, command in enumerate(commands):
        for tensor in (*command.reads, *command.writes):
            first, _ = lifetimes.get(tensor, (position, position))
            lifetimes[tensor] = (first, position)
    always = -1, len(commands)
    for tensor in (*inputs, *(output for output in outputs if output is not None)):
        lifetimes[tensor] = always  # the host's side of the exchange is never shared
    for tensor, _ in g.constants:
        if tensor in lifetimes:
            lifetimes[tensor] = always
    addresses: dict[int, Address] = {}
    pages: dict[Storage, tuple[int, ...]] = {}
    for storage in Storage:
        tensors = [tensor for tensor in lifetimes if tensor.storage is storage]
        memory = place([Block(tensor.nbytes, *lifetimes[tensor]) for tensor in tensors], g.device.max_buffer)
        pages[storage] = memory.pages
        for tensor, spot in zip(tensors, memory.places, strict=True):
            addresses[tensor.number] = Address(storage, spot.page, spot.offset, tensor.nbytes)
    return Plan(
        tuple(commands),
        barriers(commands, addresses, by_buffer=g.device.barriers_by_buffer),
        addresses,
        pages,
        tuple((addresses[tensor.number], data) for tensor, data in g.constants if tensor.number in addresses),
        tuple(addresses[tensor.number] if tensor.nbytes else None for tensor in inputs),
        tuple(None if tensor is None else addresses[tensor.number] for tensor in outputs),
        output_shapes,
    )
