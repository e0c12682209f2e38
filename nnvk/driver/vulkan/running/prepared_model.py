"""IPreparedModel of the Vulkan driver: a plan on the device for each set of input shapes."""

from __future__ import annotations

import threading

from nnvk.base.errors import op_failed
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.running.buffer import Buffers
from nnvk.driver.vulkan.running.execution import VulkanExecution
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.running.resident_plan import ResidentPlan
from nnvk.hal import IExecution, IPreparedModel
from nnvk.ops.check import validate_request
from nnvk.types.model import Model
from nnvk.types.operand import Shape
from nnvk.types.request import PrepareOptions, Request

MAX_SHAPE_SETS = 16
"""Plans that are kept of a model whose input dimensions change from one execution to the next."""


class VulkanPreparedModel(IPreparedModel):
    """A model whose operations were all lowered to shaders."""

    def __init__(self, gpu: Gpu, buffers: Buffers, planner: Planner, model: Model, options: PrepareOptions) -> None:
        self._gpu = gpu
        self._buffers = buffers
        self._planner = planner
        self._model = model
        self._options = options
        self._plans: dict[tuple[Shape | None, ...], ResidentPlan] = {}
        self._lock = threading.Lock()
        types = model.input_types()
        if all(type_.is_fully_specified for type_ in types):
            plan = self._plan_for(tuple(type_.dimensions for type_ in types))
            plan.warm_up()  # the first execution shall be as fast as any other

    def _plan_for(self, shapes: tuple[Shape, ...]) -> ResidentPlan:
        found = self._plans.get(shapes)
        if found is None:
            with self._lock:
                found = self._plans.get(shapes)
                if found is None:
                    plan = self._planner.plan(self._model, shapes, self._options)
                    found = ResidentPlan(self._gpu, self._buffers, self._model, plan)
                    if len(self._plans) >= MAX_SHAPE_SETS:
                        del self._plans[next(iter(self._plans))]
                    self._plans[shapes] = found
        return found

    def create_reusable_execution(self, request: Request) -> IExecution:
        """Choose the plan for the request's shapes and bind the request to it."""
        validate_request(self._model, request)
        shapes = []
        for position, argument in enumerate(request.inputs):
            shape = argument.shape
            if shape is None:
                raise op_failed(f"input {position} is omitted, the operations that read it need it")
            shapes.append(shape)
        plan = self._plan_for(tuple(shapes))
        return VulkanExecution(self._gpu, plan, plan.bind(request), self._options.priority)
