"""The operations that the GPU runs, and why it does not run the others."""

from __future__ import annotations

import math
from copy import copy
from functools import cache

import numpy as np

from nnvk.base.errors import NnapiError
from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.lowering.kernel import Kernel, kernels
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.node import lower as lower_node
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.driver.vulkan.planning.passes.layouts import legalise_layouts
from nnvk.driver.vulkan.planning.passes.quantisation import legalise_quantisation
from nnvk.driver.vulkan.shaders.commands import padded
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import AvoidedShader, DeviceProfile
from nnvk.ops import registry
from nnvk.ops.call import Call, UnknownShape, UnknownValue
from nnvk.ops.flow import CONTROL_FLOW, referenced_models
from nnvk.ops.internal import InternalCode
from nnvk.types.model import Model


def support(model: Model, profile: DeviceProfile, library: ShaderLibrary) -> list[str | None]:
    """For each operation why the GPU does not run it; None where it does, as far as that is known before execution.

    An IF or WHILE runs where all of its models do.
    """
    reasons: dict[Model, list[str | None]] = {}
    for each in (*model.referenced(), model):
        reasons[each] = []
        for operation, call in registry.calls(each, [type_.dimensions for type_ in each.input_types()]):
            if operation.code in CONTROL_FLOW:
                inner = [_first(reasons[referenced], referenced) for referenced in referenced_models(each, operation)]
                reason = next((reason for reason in inner if reason is not None), None)
            else:
                reason = refuse(call, profile, library) or _refuse_sizes(call, profile)
            reasons[each].append(reason)
    return reasons[model]


def _first(reasons: list[str | None], model: Model) -> str | None:
    """The first reason against a referenced model."""
    for operation, reason in zip(model.operations, reasons, strict=True):
        if reason:
            return f"{operation} in a model that it refers to: {reason}"
    return None


def refuse(call: Call, profile: DeviceProfile, library: ShaderLibrary) -> str | None:
    """Why no shader can run a call; None where one can, and where that follows from what is yet to come."""
    kernel = kernels().get(call.code)
    if kernel is None:
        return f"{call.code.name} has no shader"
    try:
        return (
            _refuse_features(kernel, profile, library)
            or (kernel.refuse(call) if kernel.refuse else None)
            or _refuse_avoided(call, kernel, profile, library)
        )
    except UnknownValue:
        return None  # it comes with the execution, and when it has the planner asks again


def lower_alone(call: Call, profile: DeviceProfile, library: ShaderLibrary) -> Lowering:
    """The commands of one call. Raises AvoidedShader if it needs a variant that plans have to do without."""
    g = Lowering(profile, library)
    context = Context(profile, False, g.intermediate, g.choose, lambda _: None)
    outputs = tuple(output.index for output in call.outputs)
    graph = Graph((Node(call, 0),), (), outputs)
    for legalise in (legalise_layouts, legalise_quantisation):
        graph, _ = legalise(graph, context)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            lower_node(node, g)
    return g


def _refuse_sizes(call: Call, profile: DeviceProfile) -> str | None:
    """Why a tensor of a call is too large for the device; None where none is, and where sizes are yet to come."""
    for tensor in call.every_tensor():
        try:
            nbytes = padded(math.prod(tensor.shape) * tensor.dtype.itemsize)
        except UnknownShape:
            continue  # the lowering refuses what turns out too large
        if nbytes > profile.max_buffer:
            return f"{tensor.name} takes {nbytes} bytes, the device binds at most {profile.max_buffer}"
    return None


def _refuse_features(kernel: Kernel, profile: DeviceProfile, library: ShaderLibrary) -> str | None:
    for shader in kernel.shaders:
        reason = library.refuse(shader, profile.features)
        if reason:
            return reason
    return None


@cache
def _variant_names(shaders: tuple[Shader, ...]) -> frozenset[str]:
    """The names of all variants of some shaders, which are asked for with each operation of a model."""
    return frozenset(variant.name for shader in shaders for variant in shader.variants)


def _refuse_avoided(call: Call, kernel: Kernel, profile: DeviceProfile, library: ShaderLibrary) -> str | None:
    """Why a call can't do without the variants to avoid: which one it is depends on the call, so it is lowered."""
    if profile.avoided.isdisjoint(_variant_names(kernel.shaders)):
        return None
    trial = call.with_tensors(lambda tensor: copy(tensor) if tensor in call.outputs else tensor)
    largest = None if isinstance(call.code, InternalCode) else registry.lookup(call.code).largest
    if largest is not None:
        for output, shape in zip(trial.outputs, largest(trial), strict=True):
            output.shape = shape
    try:
        if kernel.checks_data or any(output.size for output in trial.outputs):
            lower_alone(trial, profile, library)
    except AvoidedShader as avoided:
        return avoided.reason
    except NnapiError:
        pass  # the planner meets it too
    return None
