"""From a model and the shapes of its inputs to a `Plan`: kernels choose shaders, then memory is planned.

A kernel (`nnvk.driver.vulkan.kernels`) sees one operation as a `Call` and a `Lowering`, through which it names
tensors, packs constants and dispatches shaders.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode, bad_data, op_failed
from nnvk.driver.vulkan.kernel import kernels
from nnvk.driver.vulkan.memory_plan import Block, padded, place
from nnvk.driver.vulkan.plan import Address, Command, Copy, Dispatch, Plan, Storage, TensorRef
from nnvk.driver.vulkan.profile import DeviceProfile
from nnvk.driver.vulkan.shader import Variant
from nnvk.driver.vulkan.shader_library import ShaderLibrary
from nnvk.ops import registry
from nnvk.ops.call import Call, Tensor
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape


class Lowering:
    """What a kernel uses to lower one operation after the other."""

    def __init__(self, device: DeviceProfile, library: ShaderLibrary) -> None:
        self.device = device
        """Limits and kind of the device that the plan is for."""
        self.operation = 0
        self._library = library
        self._numbers = itertools.count()
        self._commands: list[Command] = []
        self._tensors: dict[int, TensorRef] = {}
        self._constants: dict[int, tuple[TensorRef, np.ndarray]] = {}
        self._uploaded: dict[int, TensorRef] = {}

    # --- tensors ---------------------------------------------------------------------------------------------

    def tensor(self, tensor: Tensor) -> TensorRef:
        """The operand as shaders see it: dense, in the layout that NNAPI gives it."""
        known = self._tensors.get(tensor.index)
        if known is None:
            if tensor.is_constant:
                known = self.constant(tensor.data)
            else:
                known = self._new(tensor.size * tensor.dtype.itemsize, Storage.ARENA)
            self._tensors[tensor.index] = known
        return known

    def constant(self, data: np.ndarray) -> TensorRef:
        """Data that the plan carries: uploaded once, when the model is prepared."""
        known = self._uploaded.get(id(data))
        if known is None:
            array = np.ascontiguousarray(data)
            known = self._new(array.nbytes, Storage.CONSTANTS)
            self._constants[known.number] = (known, array)
            self._uploaded[id(array)] = known
        return known

    def scratch(self, nbytes: int) -> TensorRef:
        """Memory for intermediate results of one operation."""
        return self._new(nbytes, Storage.ARENA)

    def alias(self, source: Tensor, target: Tensor) -> None:
        """Let ``target`` be the same memory as ``source``: for operations that only change the shape."""
        self._tensors[target.index] = self.tensor(source)

    def _new(self, nbytes: int, storage: Storage) -> TensorRef:
        if padded(nbytes) > self.device.max_buffer:
            raise NnapiError(
                ResultCode.OUT_OF_MEMORY,
                f"a tensor of {nbytes} bytes is larger than the device can bind ({self.device.max_buffer})",
            )
        return TensorRef(next(self._numbers), nbytes, storage)

    # --- commands --------------------------------------------------------------------------------------------

    def dispatch(
        self,
        variant: Variant,
        *,
        groups: Sequence[int],
        tensors: Mapping[str, TensorRef],
        spec: Mapping[str, int | float | bool] | None = None,
        **push: int | float,
    ) -> None:
        """Dispatch a shader variant.

        ``tensors`` are by the names of the shader's blocks, ``push`` are its push constants but for the offsets,
        ``spec`` its specialisation constants (``local_x``, ... for the workgroup's size) where they aren't the
        default. A name too many or too few is an error, so that host and shader can't drift apart.
        """
        shader = self._library[variant]
        lacking = shader.features - self.device.features
        if lacking:
            raise bad_data(f"shader {variant.name} needs {sorted(lacking)}, which the device lacks")
        if set(tensors) != set(shader.bindings):
            raise KeyError(f"shader {variant.name} binds {sorted(shader.bindings)}, got {sorted(tensors)}")
        shader.check_push_constants(push)
        x, y, z = (*groups, 1, 1)[:3]
        size = x, y, z
        if any(count > self.device.max_groups for count in size):
            raise NnapiError(ResultCode.OP_FAILED, f"{variant.name}: {size} workgroups exceed {self.device.max_groups}")
        if 0 in size:
            return
        self._commands.append(
            Dispatch(shader, size, dict(tensors), shader.specialization(spec or {}), push, self.operation)
        )

    def flat(self, count: int, local: int) -> tuple[int, int, int]:
        """Workgroups of ``local`` invocations for ``count`` of them: what ``flat_invocation()`` numbers."""
        groups = -(-count // local)
        rows = max(1, -(-groups // self.device.max_groups))
        return -(-groups // rows), rows, 1

    def copy(self, source: TensorRef, target: TensorRef, nbytes: int) -> None:
        """Copy the first ``nbytes`` (rounded up to words) of a tensor."""
        if nbytes:
            self._commands.append(Copy(source, target, -(-nbytes // 4) * 4))

    # --- the whole model -------------------------------------------------------------------------------------

    def lower(self, model: Model, input_shapes: Sequence[Shape], refuse: Callable[[Call], str] = lambda _: "") -> Plan:
        """Lower every operation and plan memory. Raises BAD_DATA for what the kernels can't run.

        ``refuse`` is asked of every call, now that all shapes are known: OP_FAILED with its reason where it gives one,
        because another device may do better.
        """
        inputs = [self._input(type_, shape) for type_, shape in zip(model.input_types(), input_shapes, strict=True)]
        direct = {ref.number: ref for ref in inputs} if self.device.unified_memory else {}
        for index, ref in zip(model.inputs, inputs, strict=True):
            if direct:
                self._tensors[index] = ref
            else:
                self._tensors[index] = self._new(ref.nbytes, Storage.ARENA)
                self.copy(ref, self._tensors[index], ref.nbytes)
        shapes: dict[int, Shape] = dict(zip(model.inputs, input_shapes, strict=True))
        for number, (operation, call) in enumerate(registry.calls(model, input_shapes, final=True)):
            self.operation = number
            if call.unknown is not None:
                raise bad_data(f"{operation}: {call.unknown}")
            shapes.update((output.index, output.shape) for output in call.outputs)
            if any(output.size for output in call.outputs):
                reason = refuse(call)
                if reason:
                    raise op_failed(f"{operation}: {reason}")
                with np.errstate(all="ignore"):  # multipliers of extreme scales saturate
                    kernels()[call.code].lower(call, self)
        output_shapes = tuple(shapes[index] for index in model.outputs)
        outputs = [self._output(model, index, shapes[index]) for index in model.outputs]
        return self._plan(inputs, outputs, output_shapes)

    def _input(self, type_: OperandType, shape: Shape) -> TensorRef:
        return self._new(math.prod(shape) * type_.dtype.itemsize, Storage.STAGING)

    def _output(self, model: Model, index: int, shape: Shape) -> TensorRef | None:
        """Where a model output is fetched from; a copy, unless the host can read where it was written."""
        nbytes = math.prod(shape) * model.operands[index].type.dtype.itemsize
        if not nbytes:
            return None
        source = self._tensors[index]
        target = self._new(nbytes, Storage.STAGING)
        written = [command for command in self._commands if source in command.writes]
        if self.device.unified_memory and source.storage is Storage.ARENA and written:
            self._replace(source, target)
        else:
            self.copy(source, target, nbytes)
        return target

    def _replace(self, old: TensorRef, new: TensorRef) -> None:
        """Let every command use ``new`` in place of ``old``."""

        def renamed(tensor: TensorRef) -> TensorRef:
            return new if tensor == old else tensor

        for position, command in enumerate(self._commands):
            if isinstance(command, Copy):
                self._commands[position] = Copy(renamed(command.source), renamed(command.target), command.nbytes)
            elif old in command.tensors.values():
                self._commands[position] = Dispatch(
                    command.shader,
                    command.groups,
                    {name: renamed(tensor) for name, tensor in command.tensors.items()},
                    command.specialization,
                    command.push,
                    command.operation,
                )
        for index, tensor in self._tensors.items():
            self._tensors[index] = renamed(tensor)

    def _plan(
        self, inputs: Sequence[TensorRef], outputs: Sequence[TensorRef | None], output_shapes: tuple[Shape, ...]
    ) -> Plan:
        lifetimes: dict[TensorRef, tuple[int, int]] = {}
        for position, command in enumerate(self._commands):
            for tensor in (*command.reads, *command.writes):
                first, _ = lifetimes.get(tensor, (position, position))
                lifetimes[tensor] = (first, position)
        end = len(self._commands)
        for tensor in (*inputs, *(output for output in outputs if output is not None)):
            lifetimes[tensor] = (-1, end)  # the host's side of the exchange is never shared
        for tensor, _ in self._constants.values():
            if tensor in lifetimes:
                lifetimes[tensor] = (-1, end)
        addresses: dict[int, Address] = {}
        pages: dict[Storage, tuple[int, ...]] = {}
        for storage in Storage:
            tensors = [tensor for tensor in lifetimes if tensor.storage is storage]
            placement = place([Block(t.nbytes, *lifetimes[t]) for t in tensors], self.device.max_buffer)
            pages[storage] = placement.pages
            for tensor, spot in zip(tensors, placement.places, strict=True):
                addresses[tensor.number] = Address(storage, spot.page, spot.offset, tensor.nbytes)
        return Plan(
            tuple(self._commands),
            barriers(self._commands, addresses, by_buffer=self.device.barriers_by_buffer),
            addresses,
            pages,
            tuple((addresses[t.number], data) for t, data in self._constants.values() if t.number in addresses),
            tuple(addresses[tensor.number] if tensor.nbytes else None for tensor in inputs),
            tuple(None if tensor is None else addresses[tensor.number] for tensor in outputs),
            output_shapes,
        )


def barriers(
    commands: Sequence[Command], addresses: Mapping[int, Address], *, by_buffer: bool = False
) -> frozenset[int]:
    """The commands that must wait for earlier ones: they read or write bytes that those wrote, or write what they read.

    ``by_buffer``: as if every tensor were as large as the buffer that it lies in.
    """
    needed: set[int] = set()
    written: list[Address] = []
    read: list[Address] = []

    def touch(some: Sequence[Address], others: Sequence[Address]) -> bool:
        return any(_overlap(a, b, by_buffer) for a in some for b in others)

    for position, command in enumerate(commands):
        reads = [addresses[tensor.number] for tensor in command.reads]
        writes = [addresses[tensor.number] for tensor in command.writes]
        if touch(reads, written) or touch(writes, written) or touch(writes, read):
            needed.add(position)
            written, read = [], []
        written += writes
        read += reads
    return frozenset(needed)


def _overlap(a: Address, b: Address, by_buffer: bool) -> bool:
    if a.storage is not b.storage or a.page != b.page:
        return False
    return by_buffer or (a.offset < b.offset + padded(b.nbytes) and b.offset < a.offset + padded(a.nbytes))
