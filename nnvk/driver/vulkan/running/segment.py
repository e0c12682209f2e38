"""Models without control flow on the device: a plan for each set of shapes and of late values."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from nnvk.base import forks
from nnvk.base.log import logger, timed
from nnvk.base.progress import compiling, progressed
from nnvk.base.settings import settings
from nnvk.driver.vulkan.graph.builder import NeedsValue
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.running.buffer import Buffers
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.running.resident_plan import ResidentPlan
from nnvk.driver.vulkan.running.tiered_compilation import compile_best, is_time_left
from nnvk.driver.vulkan.running.tuning import tune
from nnvk.driver.vulkan.running.watch import Watch
from nnvk.driver.vulkan.running.workspaces import Workspaces
from nnvk.types.codes import PreferenceCode
from nnvk.types.model import Model
from nnvk.types.operand import Shape
from nnvk.types.request import PrepareOptions

_log = logger("driver")

MAX_PLANS = 16
"""The most plans that are kept of a model whose input dimensions or late values change between executions."""

InputShapes = tuple[Shape | None, ...]
"""The shapes of an execution's inputs; None for an input that is omitted."""


class Segment:
    """A model that becomes one list of commands once its shapes and late values are known."""

    def __init__(
        self,
        gpu: Gpu,
        buffers: Buffers,
        workspaces: Workspaces,
        planner: Planner,
        model: Model,
        options: PrepareOptions,
    ) -> None:
        self.model = model
        """The model that the segment runs."""
        self._gpu = gpu
        self._memory = gpu, buffers, workspaces
        self._planner = planner
        self._options = options
        self._looked_at: tuple[int, ...] = ()
        self._lock = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Begin without plans on the device; a forked child makes its own plans."""
        self._plans: dict[tuple[InputShapes, tuple[bytes, ...]], ResidentPlan] = {}

    @property
    def known_shapes(self) -> InputShapes | None:
        """The shapes of the inputs; None if the model leaves one open."""
        types = self.model.input_types()
        return tuple(type_.dimensions for type_ in types) if all(type_.is_fully_specified for type_ in types) else None

    def plans(self) -> list[ResidentPlan]:
        """The plans made so far."""
        with self._lock:
            return list(self._plans.values())

    def plan_by_shapes(self, shapes: InputShapes) -> ResidentPlan | None:
        """The plan for these shapes; None if it also depends on late values."""
        if self._looked_at:
            return None
        try:
            return self._plan_for(shapes, {})
        except NeedsValue:
            return None

    def plan_for(self, shapes: InputShapes, read: Callable[[int], np.ndarray]) -> ResidentPlan:
        """The plan for these shapes and for the late values, which ``read`` returns by position of the input.

        Raises `NeedsValue` if an operation needs a value that the segment itself computes.
        """
        while True:
            values = {position: read(position) for position in self._looked_at if shapes[position] is not None}
            try:
                return self._plan_for(shapes, values)
            except NeedsValue as needed:
                if needed.operand not in self.model.inputs:
                    raise
                with self._lock:
                    position = self.model.inputs.index(needed.operand)
                    if position not in self._looked_at:
                        self._looked_at += (position,)

    def _plan_for(self, shapes: InputShapes, values: dict[int, np.ndarray]) -> ResidentPlan:
        key = shapes, tuple(value.tobytes() for value in values.values())
        found = self._plans.get(key)
        if found is None:
            with self._lock:
                found = self._plans.get(key)
                if found is None:
                    found = self._new_plan(shapes, values)
                    if len(self._plans) >= MAX_PLANS:
                        del self._plans[next(iter(self._plans))]
                    self._plans[key] = found
        return found

    def _new_plan(self, shapes: InputShapes, values: dict[int, np.ndarray]) -> ResidentPlan:
        model = self.model.with_omitted([shape is None for shape in shapes])
        known = {model.inputs[position]: value for position, value in values.items()}
        sizes = [shape or () for shape in shapes]
        options, name, progress = self._options, self._gpu.name, partial(progressed, self._options.progress)
        if settings().tune or options.preference is PreferenceCode.SUSTAINED_SPEED:
            options = replace(options, families=None)  # each size has candidates of its own
            with timed(_log, "%s: measuring candidates", name), compiling(f"{name} measurements"):
                tune(self._gpu, self._planner, model, sizes, known, progress)
        with timed(_log, "%s: planning", name), compiling(f"{name} plan"):
            may_be_quick = settings().compile == "fast" and not self._options.other_strategies
            quick = self._quick_plan(model, sizes, known) if may_be_quick else None
            plan = quick or self._planner.plan(model, sizes, options, known)
        watch = self._watch(plan, progress=progress)
        if quick is None:
            return ResidentPlan(*self._memory, model, plan, watch)
        reference = weakref.ref(self)

        def when_compiled(quick: ResidentPlan) -> None:
            compile_best(name, partial(_compile_best, reference, quick, model, sizes, known))

        return ResidentPlan(*self._memory, model, plan, watch, when_compiled)

    def _quick_plan(self, model: Model, sizes: Sequence[Shape], known: dict[int, np.ndarray]) -> Plan | None:
        return self._planner.quick_plan(model, sizes, known, redundancy=self._options.redundancy)

    def _watch(
        self,
        plan: Plan,
        *,
        progress: Callable[[int, int], None] | None = None,
        is_wanted: Callable[[], bool] | None = None,
    ) -> Watch:
        # A pipeline of other strategies that takes too long is no reason to change what is usually chosen.
        too_slow = None if self._options.other_strategies else partial(self._planner.avoid_candidate, plan)
        return Watch(self._gpu.name, settings().compile_limit, progress, too_slow, is_wanted)

    def _replace(self, old: ResidentPlan, new: ResidentPlan) -> None:
        """Have all later executions use another plan."""
        with self._lock:
            old.successor = new
            for key, plan in self._plans.items():
                if plan is old:
                    self._plans[key] = new


def _compile_best(
    reference: weakref.ref[Segment],
    quick: ResidentPlan,
    model: Model,
    sizes: Sequence[Shape],
    known: dict[int, np.ndarray],
) -> None:
    """Make and compile the best plan of a segment, and replace the one that was compiled quickly."""

    def is_wanted() -> bool:
        return is_time_left() and reference() is not None

    segment = reference()
    if segment is None:
        return
    plan = segment._planner.plan(model, sizes, segment._options, known)
    watch = segment._watch(plan, is_wanted=is_wanted)
    better = ResidentPlan(*segment._memory, model, plan, watch)
    del segment  # so that nobody compiles for a model that is gone
    better.warm_up()
    segment = reference()
    if segment is not None:
        segment._replace(quick, better)


def segment_options(options: PrepareOptions, name: str) -> PrepareOptions:
    """The options for one of a model's segments. Each segment has its own cache."""
    cache = options.cache
    return options if cache is None else replace(options, cache=cache.with_name(f"{cache.stem}-{name}{cache.suffix}"))
