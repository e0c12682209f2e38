"""A plan on its device: uploaded constants, idle recordings, and bound requests."""

from __future__ import annotations

import math
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from nnvk.base import forks
from nnvk.base.errors import NnapiError, ResultCode, UnfitData, VerificationError, bad_data
from nnvk.base.log import logger
from nnvk.base.progress import compiling
from nnvk.driver.vulkan.lowering.device_assertion import worded
from nnvk.driver.vulkan.planning.plan import Address, Plan
from nnvk.driver.vulkan.running.buffer import Buffers, VulkanBuffer
from nnvk.driver.vulkan.running.compiler import Compiler, distinct
from nnvk.driver.vulkan.running.constants import Upload
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.running.recording import Recording
from nnvk.driver.vulkan.running.scheduler import IN_FLIGHT
from nnvk.driver.vulkan.running.watch import Watch
from nnvk.driver.vulkan.running.workspaces import SCRATCH, Workspaces
from nnvk.driver.vulkan.shaders.commands import Storage
from nnvk.types.model import Model
from nnvk.types.request import ExecutionResult, OutputShape, Request

_log = logger("driver")
MAX_BOUND = 8
"""Sets of device memory for which recordings are kept."""
LEAST_IDLE = IN_FLIGHT + 2
"""Idle recordings that are kept of every plan, even a large one: as many as can be submitted or in preparation."""
MOST_IDLE = 32
"""Idle recordings that are kept of small plans."""
IDLE_BYTES = 32 << 20
"""Bytes that idle recordings beyond `LEAST_IDLE` may occupy. Recording a plan again takes little time."""

Key = tuple[tuple[tuple[Address, int], ...], str]
"""The addresses that are device memory, with its tokens, and the kind of timestamps."""


@dataclass(frozen=True, slots=True, eq=False)
class BoundRequest:
    """A request's arguments in the form that a recorded program takes."""

    inputs: tuple[np.ndarray | None, ...]
    outputs: tuple[np.ndarray | None, ...]
    external: Mapping[Address, VulkanBuffer]
    """Device memory that is used instead of staging memory."""
    short: ExecutionResult | None
    """The result if a buffer is too small for its output; nothing is executed then."""
    bytes_in: int
    bytes_out: int
    reports: tuple[np.ndarray, ...] = ()
    """Arrays that receive flags and counts."""

    def key(self, timestamps: str) -> Key:
        """The key of a recording for this request."""
        if not self.external:
            return (), timestamps
        return tuple((address, memory.token) for address, memory in self.external.items()), timestamps


_HOST_ONLY = BoundRequest((), (), {}, None, 0, 0)


class ResidentPlan:
    """A plan on the device."""

    def __init__(
        self,
        gpu: Gpu,
        buffers: Buffers,
        workspaces: Workspaces,
        model: Model,
        plan: Plan,
        watch: Watch | None = None,
        when_compiled: Callable[[ResidentPlan], None] = lambda _: None,
    ) -> None:
        """``workspaces`` are of all plans for other sizes of the model.

        ``watch`` observes the compilation of the plan's pipelines. ``when_compiled`` is called after it, once.
        """
        self._gpu = gpu
        self._buffers = buffers
        self._workspaces = workspaces
        self._native = gpu.native()
        self._upload = Upload(self._native, plan, gpu.constants)
        self._watch = watch
        self._when_compiled = when_compiled
        self.successor: ResidentPlan | None = None
        """The plan that replaces this one: its results are the same, and it is faster."""
        self.model = model
        self.plan = replace(plan, constants=())  # the device gets them
        self._idle: dict[Key, list[Recording]] = {}
        self._bound: OrderedDict[Key, list[Recording]] = OrderedDict()  # the idle ones on device memory
        nbytes = sum(sum(plan.pages[storage]) for storage in SCRATCH)
        self._most_idle = max(LEAST_IDLE, min(MOST_IDLE, IDLE_BYTES // max(nbytes, 1)))
        self._lock = forks.lock()
        self._gone: deque[int] = deque()
        self._sizes = tuple(
            math.prod(shape) * type_.dtype.itemsize
            for shape, type_ in zip(plan.output_shapes, model.output_types(), strict=True)
        )
        self.shapes = tuple(OutputShape(shape) for shape in plan.output_shapes)
        self.done = ExecutionResult(ResultCode.NO_ERROR, self.shapes)
        """The result of an execution without timing."""
        _log.debug("planned: %d commands, %d barriers, pages %s", len(plan.commands), len(plan.barriers), plan.pages)

    def warm_up(self) -> None:
        """Make a recording for plain executions."""
        self.put(self.take(_HOST_ONLY, "none"), _HOST_ONLY, "none")

    def own_constants(self) -> int:
        """The bytes of the constants that it alone uses."""
        return sum(self.plan.pages[Storage.CONSTANTS]) - sum(self._upload.shared().values())

    def shared_constants(self) -> Mapping[str, int]:
        """The bytes of the constants that other plans may use too, by a name for each."""
        return self._upload.shared()

    def compile(self) -> None:
        """Compile the pipelines, without a recording."""
        watch, required = self._watch or Watch(), self._gpu.profile.required_subgroup
        compiler = Compiler(self._native, self._gpu.unrolls, watch, required)
        try:
            with self._shown():
                compiler.compile_alone(distinct(self.plan.commands))
        except (RuntimeError, MemoryError) as error:
            raise self._gpu.failure(error) from error
        self._compiled()

    def _shown(self) -> AbstractContextManager[None]:
        """Show that the block compiles: not in the background, nor where another recording has compiled all."""
        watch = self._watch
        if watch is None or watch.in_background:
            return nullcontext()
        return compiling(f"{self._gpu.name} shaders")

    @property
    def _is_compiled(self) -> bool:
        """Whether plans have compiled all pipelines of this one."""
        return self._pipelines <= self._gpu.compiled

    @property
    def _pipelines(self) -> set[tuple[str, tuple[int, ...]]]:
        """The pipelines of the plan; see `Gpu.compiled`."""
        return {(dispatch.shader.name, dispatch.specialization) for dispatch in distinct(self.plan.commands)}

    def _compiled(self) -> None:
        self._gpu.compiled |= self._pipelines
        self._gpu.keep_pipelines()
        with self._lock:
            when_compiled, self._when_compiled = self._when_compiled, lambda _: None
            self._watch = None  # later recordings find the pipelines compiled
        when_compiled(self)

    def take(self, bound: BoundRequest, timestamps: str) -> Recording:
        """A recording for exclusive use; `put` it back."""
        key = bound.key(timestamps)
        pool = self._bound if key[0] else self._idle
        with self._lock:
            gone = self._remove_gone() if self._gone else ()
            for recording in reversed(pool.get(key, ())):
                if recording.workspace.turn.acquire(blocking=False):
                    pool[key].remove(recording)
                    return recording
        del gone
        if not self._upload.is_done and not self._is_compiled:
            self.compile()  # meanwhile
        try:
            with self._shown():
                recording = Recording(
                    self._native,
                    self.plan,
                    self._upload.wait(),
                    workspace=None if key[0] else self._workspaces.take(self._native),
                    external={address: memory.buffer for address, memory in bound.external.items()},
                    timestamps=timestamps,
                    unrolls=self._gpu.unrolls,
                    required_subgroup=self._gpu.profile.required_subgroup,
                    watch=self._watch,
                    is_compiled=self._is_compiled,
                )
        except (RuntimeError, MemoryError) as error:
            raise self._gpu.failure(error) from error
        self._compiled()
        return recording

    def put(self, recording: Recording, bound: BoundRequest, timestamps: str) -> None:
        """Give back a recording whose work is done.

        Only some recordings are kept; otherwise the peak of concurrency would determine the memory for good. The code
        under the lock allocates little and frees nothing, because both may run finalisers that call this class.
        """
        key = bound.key(timestamps)
        pool, most = (self._bound, LEAST_IDLE) if key[0] else (self._idle, self._most_idle)
        fresh: list[Recording] = []
        dropped: list[object] = []
        with self._lock:
            gone = self._remove_gone() if self._gone else ()
            idle = pool.setdefault(key, fresh)
            idle.append(recording)
            if len(idle) > most:
                dropped.append(idle.pop(0))  # perhaps an execution that nobody ended has its workspace
            if key[0]:
                self._bound.move_to_end(key)
                if len(self._bound) > MAX_BOUND:
                    dropped.append(self._bound.popitem(last=False))
        recording.workspace.turn.release()
        del gone, dropped

    def forget(self, token: int) -> None:
        """Drop the recordings on device memory that is about to be destroyed.

        A destructor calls this, perhaps in the middle of another method of the same thread. If that method holds the
        lock, the next method drops the recordings.
        """
        self._gone.append(token)
        if self._lock.acquire(blocking=False):
            try:
                gone = self._remove_gone()
            finally:
                self._lock.release()
            del gone

    def _remove_gone(self) -> Sequence[list[Recording]]:
        """Remove the recordings on destroyed memory. The caller drops them after it has released the lock."""
        removed: list[list[Recording]] = []
        while self._gone:
            token = self._gone.popleft()
            for key in [key for key in self._bound if any(used == token for _, used in key[0])]:
                removed.append(self._bound.pop(key))
        return removed

    def bind(self, request: Request) -> BoundRequest:
        """The arguments of a request whose input shapes are the plan's. Raises BAD_DATA for unfit device memory."""
        external: dict[Address, VulkanBuffer] = {}
        inputs: list[np.ndarray | None] = []
        outputs: list[np.ndarray | None] = []
        shapes: list[OutputShape] = []
        written: list[VulkanBuffer] = []
        for position, (source, address) in enumerate(zip(request.inputs, self.plan.inputs, strict=True)):
            if address is None:
                continue
            if source.token:
                external[address] = self._memory(f"input {position}", source.token, address.nbytes)
            else:
                inputs.append(source.array)
        for position, (target, address) in enumerate(zip(request.outputs, self.plan.outputs, strict=True)):
            size, buffer, enough = self._sizes[position], target.buffer, True
            if address is not None and target.token:
                memory = self._memory(f"output {position}", target.token, 0)
                others = external.values() if not target.updates_input else written
                if memory in others:
                    raise bad_data(f"output {position} is device memory that the same execution uses already")
                enough = memory.nbytes >= size
                external[address] = memory
                written.append(memory)
            elif address is not None:
                enough = buffer is None or buffer.nbytes >= size
                outputs.append(None if buffer is None else buffer[:size])
            shapes.append(OutputShape(self.plan.output_shapes[position], enough))
        short = None
        if not all(shape.is_sufficient for shape in shapes):
            short = ExecutionResult(ResultCode.OUTPUT_INSUFFICIENT_SIZE, tuple(shapes))
        bytes_in, bytes_out = (sum(a.nbytes for a in arrays if a is not None) for arrays in (inputs, outputs))
        reports = tuple(np.zeros(address.nbytes // 4, np.uint32) for address in self.plan.reports)
        return BoundRequest(tuple(inputs), tuple(outputs), external, short, bytes_in, bytes_out, reports)

    def draw_entropy(self) -> tuple[np.ndarray, ...]:
        """Random bytes for one execution."""
        return tuple(np.frombuffer(secrets.token_bytes(address.nbytes), np.uint8) for address in self.plan.entropy)

    def check(self, reports: Sequence[np.ndarray]) -> tuple[OutputShape, ...]:
        """The shapes of the outputs, from the reports of shaders.

        OP_FAILED: a device assertion failed. VerificationError: two computations of a tensor differ.
        """
        if self.plan.verification is not None and self.plan.verification.has_failed(reports[-1]):
            raise VerificationError(self.plan.verification.worded(self.model, reports[-1]))
        for flag, words in zip(self.plan.flags, reports, strict=False):
            if words[0]:
                raise UnfitData(worded(flag.assertion, words[1:]))
        if not self.plan.counts:
            return self.shapes
        rows = dict(zip(self.plan.reports, reports, strict=True))
        return tuple(
            OutputShape(shape if count is None else (int(rows[count][0]), *shape[1:]))
            for shape, count in zip(self.plan.output_shapes, self.plan.counts, strict=True)
        )

    def _memory(self, what: str, token: int, least: int) -> VulkanBuffer:
        memory = self._buffers.find(token)
        if memory is None:
            raise bad_data(f"{what}: {self._gpu.name} has no buffer {token}")
        if memory.nbytes < least:
            raise bad_data(f"{what} takes {least} bytes, buffer {token} has {memory.nbytes}")
        if memory.native is not self._native:
            raise NnapiError(ResultCode.DEAD_OBJECT, f"{what}: buffer {token} was lost with its Vulkan device")
        memory.users.add(self)
        return memory
