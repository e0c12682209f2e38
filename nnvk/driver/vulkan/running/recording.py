"""A plan recorded on a device: buffers, algorithms, and the one program that is recorded once and replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nnvk.driver.vulkan.planning.plan import Address, Plan
from nnvk.driver.vulkan.running.compiler import Compiler, Unrolls, distinct, never
from nnvk.driver.vulkan.running.relocation import copies_in_place, relocations
from nnvk.driver.vulkan.running.watch import Watch
from nnvk.driver.vulkan.running.workspaces import Workspace
from nnvk.driver.vulkan.shaders.commands import Clear, Copy, Dispatch, Storage, TensorRef
from nnvk.driver.vulkan.shaders.library import OFFSET

if TYPE_CHECKING:
    import nnvk._native as _native


class Recording:
    """A plan recorded on buffers. It can run concurrently with recordings on other buffers."""

    def __init__(
        self,
        device: _native.Device,
        plan: Plan,
        constants: Sequence[_native.Buffer],
        *,
        workspace: Workspace | None = None,
        external: Mapping[Address, _native.Buffer] | None = None,
        timestamps: str = "none",
        unrolls: Unrolls = never,
        required_subgroup: int = 0,
        watch: Watch | None = None,
        is_compiled: bool = False,
    ) -> None:
        """``workspace`` has the memory that it uses; without it, it has memory of its own.

        ``external`` binds device memory instead of staging memory to inputs or outputs of the model. An input and an
        output may be the same memory.

        ``timestamps``: ``none``, ``ends`` (begin and end of the whole), or ``each`` (after every command too).
        ``unrolls``: which modules the driver gets with unrolled loops. ``required_subgroup`` is that of
        `DeviceProfile`. ``watch`` observes the compilation. ``is_compiled``: the device has compiled all pipelines.
        """
        self.plan = plan
        self._device = device
        self._external = dict(external or {})
        self._moved, self._dropped = relocations(plan, self._external)
        self._kept: list[tuple[_native.Buffer, _native.Buffer]] = []
        """Inputs that are written before they were read, and the buffers that have them until then."""
        self._update_in_place()
        self._compiler = Compiler(device, unrolls, watch or Watch(), required_subgroup)
        self._algorithms: dict[tuple[object, ...], _native.Algorithm] = {}
        self.workspace = workspace or Workspace(device)
        """The memory that it uses, together with other recordings that run before or after it."""
        self._buffers: dict[Storage, list[_native.Buffer]] = {
            Storage.CONSTANTS: list(constants),
            **self.workspace.buffers(plan.pages),
        }
        self._located: dict[int, tuple[_native.Buffer, int]] = {}
        self.program = device.create_program()
        self._compiler.compile(distinct(plan.commands), self._algorithm, concurrently=not is_compiled)
        self._record(timestamps)

    def _update_in_place(self) -> None:
        """Find the inputs that are the same memory as an output. Keep those whose commands need them later."""
        targets = {id(self._external[a]): a for a in self.plan.outputs if a is not None and a in self._external}
        for source in {a for a in self.plan.inputs if a is not None and a in self._external}:
            buffer = self._external[source]
            target = targets.get(id(buffer))
            if target is None:
                continue
            void = copies_in_place(self.plan, self._moved, self._dropped, source, target)
            if void is None:
                self._external[source] = self._device.create_buffer(buffer.size, host_visible=False)
                self._kept.append((buffer, self._external[source]))
            else:
                self._dropped |= void

    def _record(self, timestamps: str) -> None:
        program, plan = self.program, self.plan
        if timestamps != "none":
            program.timestamp()
        for buffer, kept in self._kept:
            program.copy(buffer, 0, kept, 0, buffer.size)
        if self._kept:
            program.barrier()
        for position, command in enumerate(plan.commands):
            if position in plan.barriers:
                program.barrier()
            if position in self._dropped:
                pass  # its source and target are the same memory
            elif isinstance(command, Copy):
                source, at = self._locate(command.source)
                target, to = self._locate(command.target)
                program.copy(source, at, target, to, command.nbytes)
            elif isinstance(command, Clear):
                buffer, at = self._locate(command.target)
                program.fill(buffer, at, command.target.nbytes, 0)
            else:
                program.dispatch(self._algorithm(command), command.groups, self._push_constants(command))
            if timestamps == "each":
                program.timestamp()
        if timestamps == "ends":
            program.timestamp()
        program.finish(self._exchange((*plan.inputs, *plan.entropy)), self._exchange((*plan.outputs, *plan.reports)))

    def _exchange(self, addresses: Sequence[Address | None]) -> list[tuple[_native.Buffer, int, int]]:
        """The addresses in staging memory of the host's inputs or outputs. Device memory needs none."""
        return [
            (self._buffers[a.storage][a.page], a.offset, a.nbytes)
            for a in addresses
            if a is not None and a not in self._external
        ]

    def _locate(self, tensor: TensorRef) -> tuple[_native.Buffer, int]:
        """The buffer of a tensor, and the offset in it in bytes."""
        if tensor.number in self._located:
            return self._located[tensor.number]
        whole, before = self.plan.place_in_whole(tensor.number)
        found = self._buffers[whole.storage][whole.page], whole.offset + before
        if self._external:
            moved = self._moved.get(self.plan.parts.get(tensor.number, tensor.number), whole)
            found = (self._external[moved], before) if moved in self._external else found
        self._located[tensor.number] = found
        return found

    def _algorithm(self, command: Dispatch) -> _native.Algorithm:
        """The Algorithm of a variant, its specialisation and its bound buffers."""
        shader = command.shader
        buffers = [self._locate(command.tensors[name])[0] for name in shader.bindings]
        key = (shader.name, command.specialization, *map(id, buffers))
        if key not in self._algorithms:
            self._algorithms[key] = self._compiler.algorithm(self._device, command, buffers)
        return self._algorithms[key]

    def _push_constants(self, command: Dispatch) -> bytes:
        offsets = {
            name: self._locate(command.tensors[name.removesuffix(OFFSET)])[1] // 4 for name in command.shader.offsets
        }
        return command.shader.push_constants({**command.push, **offsets})
