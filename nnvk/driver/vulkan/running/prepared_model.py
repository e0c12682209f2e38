"""IPreparedModel of the Vulkan driver."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from nnvk.base.errors import NnapiError, UnfitData
from nnvk.base.settings import settings
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.running.buffer import Buffers
from nnvk.driver.vulkan.running.execution import VulkanExecution
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.running.program import Factory, Straight
from nnvk.driver.vulkan.running.resident_plan import ResidentPlan
from nnvk.driver.vulkan.running.segment import Segment
from nnvk.driver.vulkan.running.segmented_execution import SegmentedExecution
from nnvk.driver.vulkan.running.values import BufferPool
from nnvk.driver.vulkan.running.workspaces import SCRATCH
from nnvk.driver.vulkan.shaders.commands import Storage
from nnvk.hal import IExecution, IFencedExecution, IPreparedModel
from nnvk.ops.check import validate_request
from nnvk.types.model import Model
from nnvk.types.request import ExecuteOptions, ExecutionResult, PrepareOptions, Request


class VulkanPreparedModel(IPreparedModel):
    """A model whose operations are all lowered to shaders, usually to one recorded segment."""

    def __init__(self, gpu: Gpu, buffers: Buffers, planner: Planner, model: Model, options: PrepareOptions) -> None:
        self._gpu = gpu
        self._buffers = buffers
        self._pool = BufferPool(buffers)
        self._model = model
        self._options = options
        factory = Factory(gpu, buffers, planner, options)
        self._workspaces = factory.workspaces
        self._program = factory.program(model)
        self._prepare_known()

    def _prepare_known(self) -> None:
        """Plan the segments whose shapes and values are known."""
        single = self._program.single
        if single is not None:
            plan = None
            if single.known_shapes is not None:
                with contextlib.suppress(UnfitData):  # inputs that an execution omits may not be given together
                    plan = single.plan_by_shapes(single.known_shapes)
            if plan is not None:
                plan.warm_up()  # the first execution shall be as fast as any other
            return
        for segment in self._segments():
            if segment.known_shapes is not None:
                with contextlib.suppress(NnapiError):  # a branch that is never taken may be impossible
                    plan = segment.plan_by_shapes(segment.known_shapes)
                    if plan is not None:
                        plan.compile()

    def _segments(self) -> Iterator[Segment]:
        """All segments, including those of control flow's models."""
        programs, seen = [self._program], {self._program}
        for program in programs:
            for node in program.nodes:
                if isinstance(node, Straight):
                    yield node.segment
                else:
                    inner = [each for each in node.programs if each not in seen]
                    seen.update(inner)
                    programs += inner

    def memory_bytes(self) -> dict[str, int]:
        """The memory of the plans made so far: constants, and activations and staging memory of one execution."""
        constants = sum(plan.own_constants() for plan in self.plans()) + sum(self.shared_constants().values())
        return {**self._scratch(), Storage.CONSTANTS.value: constants}

    def shared_memory(self) -> dict[str, int]:
        """The large constants of the plans made so far, and their workspace. Plans of other models may use them too."""
        return {**self.shared_constants(), self._workspaces.name: sum(self._scratch().values())}

    def shared_constants(self) -> dict[str, int]:
        """The large constants of the plans made so far, by their names."""
        return {name: nbytes for plan in self.plans() for name, nbytes in plan.shared_constants().items()}

    def _scratch(self) -> dict[str, int]:
        """The bytes of a workspace by what they are for: the most that a plan takes, because they use it in turn."""
        plans = [plan.plan for plan in self.plans()]
        return {each.value: max((sum(plan.pages[each]) for plan in plans), default=0) for each in SCRATCH}

    def plans(self) -> Iterator[ResidentPlan]:
        """The plans made so far."""
        for segment in self._segments():
            yield from segment.plans()

    def create_reusable_execution(self, request: Request) -> IExecution:
        """Bind a request to the plan for its shapes. If plans depend on more, the execution selects them."""
        validate_request(self._model, request)
        single = self._program.single
        shapes = tuple(argument.shape for argument in request.inputs)
        plan = None if single is None else single.plan_by_shapes(shapes)
        if plan is not None and not plan.plan.counts:
            is_final = settings().compile != "fast"
            return self._bound(plan, request) if is_final else ReboundExecution(plan, self._bound, request)
        return SegmentedExecution(self._gpu, self._buffers, self._pool, self._program, request, self._options.priority)

    def _bound(self, plan: ResidentPlan, request: Request) -> VulkanExecution:
        return VulkanExecution(self._gpu, plan, plan.bind(request), self._options.priority)


class ReboundExecution(IExecution):
    """An execution whose plan may get a successor: it binds its request again then."""

    def __init__(
        self, plan: ResidentPlan, bind: Callable[[ResidentPlan, Request], VulkanExecution], request: Request
    ) -> None:
        """``bind`` returns an execution of a request by a plan."""
        self._bind = bind
        self._request = request
        self._bound = plan, bind(plan, request)

    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        """Execute by the plan in force."""
        return self._execution().execute(options)

    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        """Execute by the plan in force."""
        return self._execution().execute_fenced(wait_for, options)

    def _execution(self) -> VulkanExecution:
        plan, execution = self._bound
        if plan.successor is not None:
            plan = plan.successor
            execution = self._bind(plan, self._request)
            self._bound = plan, execution
        return execution
