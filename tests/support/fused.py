"""Models whose plans are run with fusions and without: what both give must be the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from builder import Builder
from guarded import run_plan_guarded
from random_graph import random_graph

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.graph.builder import NeedsValue
from nnvk.driver.vulkan.planning.barriers import barriers
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.running.constants import ConstantStore, Upload
from nnvk.driver.vulkan.running.recording import Recording
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.passes import FUSIONS
from nnvk.types.codes import FuseCode, OperandCode, OperationCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType

Op = OperationCode
F32 = OperandCode.TENSOR_FLOAT32
F16 = OperandCode.TENSOR_FLOAT16
I8 = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
U8 = OperandCode.TENSOR_QUANT8_ASYMM
TYPES = {
    "float32": OperandType(F32),
    "float16": OperandType(F16),
    "unsigned": OperandType(U8, (), 0.05, 128),
    "signed": OperandType(I8, (), 0.05, -3),
}


class Net:
    """A model under construction, whose constants and inputs are drawn at random."""

    def __init__(self, seed: int = 0, real: OperandCode = F32) -> None:
        self.build = Builder()
        self.rng = np.random.default_rng(seed)
        self.real = OperandType(real)
        self.inputs: list[int] = []
        self.arrays: list[np.ndarray] = []

    def input(self, *shape: int, code: OperandCode | None = None, scale: float = 0.0, zero: int = 0) -> int:
        type_ = OperandType(code or self.real.code, shape, scale, zero)
        if type_.code in (F32, F16):
            array = self.rng.normal(0, 3, shape).astype(type_.dtype)
            array.reshape(-1)[:: max(1, array.size // 5)] = 0.0
        else:
            limits = np.iinfo(type_.dtype)
            array = self.rng.integers(limits.min, limits.max, shape, type_.dtype, endpoint=True)
        self.inputs.append(self.build.operand(type_))
        self.arrays.append(array)
        return self.inputs[-1]

    def weights(self, *shape: int) -> int:
        return self.build.value(self.rng.normal(0, 0.5, shape).astype(self.real.dtype))

    def op(self, code: Op, *operands: int | float | np.ndarray, type_: OperandType | None = None) -> int:
        inputs = [self.build.value(each) if isinstance(each, np.ndarray) else each for each in operands]
        inputs = [self.number(each) if isinstance(each, float) else each for each in inputs]
        return self.build.operation(code, inputs, type_ or self.real)

    def number(self, value: float) -> int:
        code = OperandCode.FLOAT16 if self.real.code is F16 else OperandCode.FLOAT32
        return self.build.constant(OperandType(code), value)

    def scalar(self, value: float) -> int:
        return self.build.value(np.array([value], self.real.dtype))

    def code(self, value: int) -> int:
        return self.build.value(int(value))

    def conv(self, source: int, outputs: int, depth: int, size: int = 3, padding: int = 1) -> int:
        rest = [padding, 1, 1, FuseCode.NONE]
        operands = [source, self.weights(outputs, size, size, depth), self.weights(outputs), *map(self.code, rest)]
        return self.build.operation(Op.CONV_2D, operands, self.real)

    def depthwise(self, source: int, channels: int) -> int:
        operands = [source, self.weights(1, 3, 3, channels), self.weights(channels)]
        return self.build.operation(
            Op.DEPTHWISE_CONV_2D, [*operands, *map(self.code, [1, 1, 1, 1, FuseCode.RELU])], self.real
        )

    def dense(self, source: int, outputs: int, depth: int) -> int:
        operands = [source, self.weights(outputs, depth), self.weights(outputs), self.code(FuseCode.NONE)]
        return self.build.operation(Op.FULLY_CONNECTED, operands, self.real)

    def finish(self, *outputs: int) -> Model:
        return self.build.finish(self.inputs, outputs).frozen


def net_of(kind: str) -> Net:
    """Return a network whose numbers are of this type if it is a float."""
    return Net(real=TYPES[kind].code) if kind.startswith("float") else Net()


def transposed(net: Net, x: int, *axes: int, kind: str = "float32") -> int:
    return net.op(Op.TRANSPOSE, x, np.array(axes, np.int32), type_=TYPES[kind])


def typed(net: Net, kind: str, *shape: int) -> int:
    type_ = TYPES[kind]
    return net.input(*shape, code=type_.code, scale=type_.scale, zero=type_.zero_point)


def made(net: Net, kind: str, *shape: int) -> int:
    """Return the result of an operation that no other one is fused with."""
    x = typed(net, kind, *shape[:-1], shape[-1] + 1)
    begin, size = np.zeros(len(shape), np.int32), np.array(shape, np.int32)
    return net.op(Op.SLICE, x, begin, size, type_=TYPES[kind])


def joined(net: Net, axis: int, *parts: int, kind: str = "float32") -> int:
    return net.build.operation(Op.CONCATENATION, [*parts, net.code(axis)], TYPES[kind])


def split(net: Net, x: int, axis: int, count: int, kind: str = "float32") -> list[int]:
    return net.build.outputs(Op.SPLIT, [x, net.code(axis), net.code(count)], *[TYPES[kind]] * count)


def shaped(net: Net, kind: str, x: int, *shape: int) -> int:
    return net.op(Op.RESHAPE, x, np.array(shape, np.int32), type_=TYPES[kind])


def heads(net: Net, kind: str, x: int, batches: int, count: int, rows: int, columns: int) -> int:
    """Matrices out of rows in which they lie side by side."""
    return transposed(net, shaped(net, kind, x, batches, rows, count, columns), 0, 2, 1, 3, kind=kind)


def wrapped_gather(net: Net, shape: Sequence[int], axis: int, indices: Sequence[int], **other: int) -> int:
    """GATHER by indices that may be below 0, as the importer of ONNX composes it.

    ``other`` has the numbers that differ from those of the pattern, ``below``, ``one``, ``zero`` and ``size``.
    """
    numbers, truth = OperandType(OperandCode.TENSOR_INT32), OperandType(OperandCode.TENSOR_BOOL8)
    source, index = net.input(*shape), net.input(len(indices), code=OperandCode.TENSOR_INT32)
    net.arrays[-1] = np.array(indices, np.int32)

    def all_of(name: str, usual: int) -> np.ndarray:
        return np.full(len(indices), other.get(name, usual), np.int32)

    is_below = net.op(Op.LESS, index, all_of("below", 0), type_=truth)
    chosen = net.op(Op.SELECT, is_below, all_of("one", 1), all_of("zero", 0), type_=numbers)
    more = net.op(Op.MUL, chosen, all_of("size", shape[axis]), net.code(0), type_=numbers)
    wrapped = net.op(Op.ADD, index, more, net.code(0), type_=numbers)
    return net.op(Op.GATHER, source, net.code(axis), wrapped)


def multiplied(net: Net, kind: str, left: int, right: int, adj_y: bool) -> int:
    flags = [net.build.value(flag) for flag in (False, adj_y)]
    return net.op(Op.BATCH_MATMUL, left, right, *flags, type_=TYPES[kind])


def merged(net: Net, kind: str, x: int, batches: int, count: int, rows: int, columns: int) -> int:
    """The other way round: rows of matrices side by side."""
    return shaped(net, kind, transposed(net, x, 0, 2, 1, 3, kind=kind), batches, rows, count * columns)


def maximum(net: Net, x: int, kind: str = "float32") -> int:
    """An operation that takes what is given as it is."""
    return net.build.operation(Op.MAX_POOL_2D, [x, *map(net.code, [1, 1, 1, 2, 2, 0])], TYPES[kind])


def plans(
    device: VulkanDevice, model: Model, shapes: Sequence[tuple[int, ...]], disabled: frozenset[str] = FUSIONS
) -> list[Plan]:
    """The plan as it is, and one without some passes: without all fusions, unless others are named."""
    profile = replace(device.profile, barriers_by_buffer=False)
    profiles = [replace(profile, disabled_passes=each) for each in (frozenset[str](), disabled)]
    return [lower(model, shapes, each, device.planner.library) for each in profiles]


def run_both(
    device: VulkanDevice,
    model: Model,
    inputs: Sequence[np.ndarray],
    ulps: int = 0,
    tolerance: float = 0.0,
    disabled: frozenset[str] = FUSIONS,
) -> Plan:
    """Run both plans between guards, and the fused one as it is, and compare the bits of all outputs; the fused plan.

    A device may flush subnormal float32 numbers to zero in one plan and not in the other: Vulkan leaves that open.

    ``ulps``: by so many units in the last place floats may differ. ``tolerance``: by so much, and by as large a part.
    ``disabled``: the passes that the other plan does without.
    """
    fused, plain = plans(device, model, [array.shape for array in inputs], disabled)
    results = []
    for plan in (fused, plain):
        outputs = _outputs(model, plan)
        assert run_plan_guarded(device, plan, inputs, outputs) == []
        results.append(outputs)
    in_arena = _run(device, model, fused, inputs)
    assert all(mine.tobytes() == there.tobytes() for mine, there in zip(results[0], in_arena, strict=True))
    for mine, theirs in zip(*results, strict=True):
        differ = mine.reshape(-1).view(np.uint8) != theirs.reshape(-1).view(np.uint8)
        same = ((mine != mine) & (theirs != theirs)) | _are_flushed(mine, theirs)
        different = differ.reshape(mine.size, -1).any(axis=1) & ~same.reshape(-1)
        if tolerance:
            np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
            continue
        if ulps:
            np.testing.assert_array_max_ulp(mine, theirs, ulps)
            continue
        assert not different.any(), (mine.reshape(-1)[different][:5], theirs.reshape(-1)[different][:5])
    assert len(fused.commands) <= len(plain.commands)
    return fused


def _are_flushed(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """True where one array has a subnormal float32 number and the other one a zero of its sign."""
    if mine.dtype != np.float32:
        return np.zeros(mine.shape, bool)
    is_small = (np.abs(mine) < np.finfo(np.float32).smallest_normal) & (
        np.abs(theirs) < np.finfo(np.float32).smallest_normal
    )
    return is_small & ((mine == 0) != (theirs == 0)) & (np.signbit(mine) == np.signbit(theirs))


def run_random_graph(device: VulkanDevice, seed: int, codes: Sequence[Op], operations: int = 12) -> None:
    """`run_both` of a random graph of so many operations out of these."""
    graph = random_graph(seed, operations, codes)
    try:
        run_both(device, graph.frozen, graph.inputs)
    except NeedsValue:
        pytest.skip("a parameter comes with the execution: there is no one plan")


def _outputs(model: Model, plan: Plan) -> list[np.ndarray]:
    return [
        np.empty(shape, model.operands[index].type.dtype)
        for index, shape in zip(model.outputs, plan.output_shapes, strict=True)
    ]


def _run(device: VulkanDevice, model: Model, plan: Plan, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs where tensors lie as the plan says."""
    native, outputs = device.gpu.native(), _outputs(model, plan)
    given = [array for array, address in zip(inputs, plan.inputs, strict=True) if address is not None]
    given += [np.arange(address.nbytes, dtype=np.uint8) for address in plan.entropy]
    taken = [array for array, address in zip(outputs, plan.outputs, strict=True) if address is not None]
    reports = [np.zeros(address.nbytes // 4, np.uint32) for address in plan.reports]
    needed = barriers(plan.commands, plan.addresses, by_buffer=device.profile.barriers_by_buffer)
    plan = replace(plan, barriers=needed)  # the validation layer sees buffers alone
    Recording(native, plan, Upload(native, plan, ConstantStore()).wait()).program.run(given, [*taken, *reports])
    return outputs


def families(plan: Plan) -> str:
    """The shaders of a plan's dispatches, in order."""
    names = [command.shader.name for command in plan.commands if isinstance(command, Dispatch)]
    return " ".join(name.partition(".")[0] + (" end" if ".fused" in name else "") for name in names)


def without_packing(plan: Plan) -> list[str]:
    """The shaders of a plan, but for what puts weights into their places."""
    return [name for name in families(plan).split() if name not in ("pack_filter", "move")]


def byte_conv(net: Net, code: OperandCode, source: int, outputs: int, depth: int, out: OperandType) -> int:
    zero = 0 if code is I8 else 131
    dtype = np.int8 if code is I8 else np.uint8
    limits = np.iinfo(dtype)
    values = net.rng.integers(limits.min + 1, limits.max, (outputs, 3, 3, depth), dtype)
    weights = net.build.constant(OperandType(code, values.shape, 0.01, zero), values)
    bias = net.rng.integers(-900, 900, outputs).astype(np.int32)
    constant = net.build.constant(OperandType(OperandCode.TENSOR_INT32, (outputs,), 0.05 * 0.01), bias)
    rest = map(net.code, [1, 1, 1, FuseCode.NONE])
    return net.build.operation(Op.CONV_2D, [source, weights, constant, *rest], out)
