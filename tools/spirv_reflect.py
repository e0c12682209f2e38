"""Reflection of SPIR-V compute modules: bindings, push constants, specialisation constants, needed features.

A reader of the binary form (SPIR-V specification, section 2.3) for what glslang emits for Vulkan compute shaders.
It reads only what the manifest needs and has no dependencies. spirv-tools has no reflection as a command, SPIRV-Reflect
is in neither Debian nor PyPI, and spirv-cross starts a process for each of 600 modules.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MAGIC = 0x07230203


class SpirvError(ValueError):
    """The module is not SPIR-V, or uses something that the manifest can't describe."""


class Op:
    """Opcodes that the reflection reads."""

    NAME, MEMBER_NAME = 5, 6
    ENTRY_POINT, EXECUTION_MODE, CAPABILITY = 15, 16, 17
    TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_VECTOR, TYPE_MATRIX = 20, 21, 22, 23, 24
    TYPE_ARRAY, TYPE_RUNTIME_ARRAY, TYPE_STRUCT, TYPE_POINTER = 28, 29, 30, 32
    CONSTANT_TRUE, CONSTANT_FALSE, CONSTANT = 41, 42, 43
    SPEC_CONSTANT_TRUE, SPEC_CONSTANT_FALSE, SPEC_CONSTANT = 48, 49, 50
    SPEC_CONSTANT_COMPOSITE, SPEC_CONSTANT_OP = 51, 52
    FUNCTION, VARIABLE = 54, 59
    DECORATE, MEMBER_DECORATE = 71, 72
    EXECUTION_MODE_ID = 331


class Decoration:
    """Decorations that the reflection reads."""

    SPEC_ID, BUILT_IN, NON_WRITABLE, NON_READABLE = 1, 11, 24, 25
    BINDING, DESCRIPTOR_SET, OFFSET = 33, 34, 35


EXECUTION_MODEL_GL_COMPUTE = 5
EXECUTION_MODE_LOCAL_SIZE = 17
EXECUTION_MODE_LOCAL_SIZE_ID = 38
BUILT_IN_WORKGROUP_SIZE = 25
COMPOSITE_EXTRACT = 81
STORAGE_WORKGROUP, STORAGE_PUSH_CONSTANT, STORAGE_BUFFER, STORAGE_UNIFORM, STORAGE_UNIFORM_CONSTANT = 4, 9, 12, 2, 0

# SPIR-V capability -> (its name, the Vulkan feature it needs; None: every Vulkan 1.1 device has it). The names are
# those of `PhysicalDevice.features`. A capability that is not here is refused: it would go unchecked at run time.
CAPABILITIES: dict[int, tuple[str, str | None]] = {
    0: ("Matrix", None),
    1: ("Shader", None),
    9: ("Float16", "shaderFloat16"),
    10: ("Float64", "shaderFloat64"),
    11: ("Int64", "shaderInt64"),
    22: ("Int16", "shaderInt16"),
    39: ("Int8", "shaderInt8"),
    46: ("SampledBuffer", None),
    61: ("GroupNonUniform", "subgroupBasic"),
    62: ("GroupNonUniformVote", "subgroupVote"),
    63: ("GroupNonUniformArithmetic", "subgroupArithmetic"),
    64: ("GroupNonUniformBallot", "subgroupBallot"),
    65: ("GroupNonUniformShuffle", "subgroupShuffle"),
    66: ("GroupNonUniformShuffleRelative", "subgroupShuffleRelative"),
    67: ("GroupNonUniformClustered", "subgroupClustered"),
    68: ("GroupNonUniformQuad", "subgroupQuad"),
    4433: ("StorageBuffer16BitAccess", "storageBuffer16BitAccess"),
    4434: ("UniformAndStorageBuffer16BitAccess", "uniformAndStorageBuffer16BitAccess"),
    4435: ("StoragePushConstant16", "storagePushConstant16"),
    4448: ("StorageBuffer8BitAccess", "storageBuffer8BitAccess"),
    4449: ("UniformAndStorageBuffer8BitAccess", "uniformAndStorageBuffer8BitAccess"),
    4450: ("StoragePushConstant8", "storagePushConstant8"),
    4467: ("RoundingModeRTE", "shaderRoundingModeRTEFloat16"),  # nothing declares it for another width
    5345: ("VulkanMemoryModel", "vulkanMemoryModel"),
    6016: ("DotProductInputAll", "shaderIntegerDotProduct"),
    6017: ("DotProductInput4x8Bit", "shaderIntegerDotProduct"),
    6018: ("DotProductInput4x8BitPacked", "shaderIntegerDotProduct"),
    6019: ("DotProduct", "shaderIntegerDotProduct"),
    6022: ("CooperativeMatrixKHR", "cooperativeMatrix"),
}


@dataclass(frozen=True, slots=True)
class Block:
    """One storage-buffer block declared at a binding (there may be several views of the same binding)."""

    name: str
    set: int
    binding: int
    readonly: bool
    writeonly: bool


@dataclass(frozen=True, slots=True)
class PushConstant:
    """A scalar of the push-constant block; offset and size in bytes, type `uint`, `int` or `float`."""

    name: str
    offset: int
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class SpecConstant:
    """A specialisation constant; type `uint`, `int`, `float` or `bool`."""

    id: int
    name: str
    type: str
    default: int | float | bool


@dataclass(frozen=True, slots=True)
class Reflection:
    """The interface of a compute module to its dispatcher.

    Attributes:
        entry: name of the entry point.
        blocks: storage-buffer blocks by (set, binding), in the module's order.
        push_constants: by offset; `push_constant_size` bytes in all.
        spec_constants: by id.
        capabilities: SPIR-V capabilities by name.
        features: Vulkan features (names as `PhysicalDevice.features` has them) without which it can't run.
        local_size: workgroup size with the constants' defaults.
        local_size_ids: for each dimension the specialisation id that sets it, or None.
        shared_memory_bytes: workgroup memory with the constants' defaults.
    """

    entry: str
    blocks: tuple[Block, ...]
    push_constants: tuple[PushConstant, ...]
    push_constant_size: int
    spec_constants: tuple[SpecConstant, ...]
    capabilities: tuple[str, ...]
    features: tuple[str, ...]
    local_size: tuple[int, int, int]
    local_size_ids: tuple[int | None, int | None, int | None]
    shared_memory_bytes: int


@dataclass(slots=True)
class _Module:
    """The instructions that matter, sorted by what they describe."""

    names: dict[int, str] = field(default_factory=dict)
    member_names: dict[tuple[int, int], str] = field(default_factory=dict)
    decorations: dict[int, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    member_decorations: dict[tuple[int, int], dict[int, tuple[int, ...]]] = field(default_factory=dict)
    types: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    constants: dict[int, tuple[int, int, tuple[int, ...]]] = field(default_factory=dict)
    variables: list[tuple[int, int, int]] = field(default_factory=list)  # (id, pointer type, storage class)
    capabilities: list[int] = field(default_factory=list)
    entries: list[tuple[int, int, str]] = field(default_factory=list)  # (model, function, name)
    modes: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)  # (mode, operands), both forms


def reflect(spirv: bytes) -> Reflection:
    """Reads a SPIR-V module with one compute entry point.

    Raises:
        SpirvError: not a SPIR-V module, not a compute shader, or not describable by the manifest.
    """
    module = _parse(spirv)
    compute = [name for model, _, name in module.entries if model == EXECUTION_MODEL_GL_COMPUTE]
    if len(compute) != 1 or len(module.entries) != 1:
        raise SpirvError(f"expected one compute entry point, got {[name for _, _, name in module.entries]}")
    if unknown := [c for c in module.capabilities if c not in CAPABILITIES]:
        raise SpirvError(f"capability {unknown[0]} has no known device feature; add it to CAPABILITIES")
    capabilities = [CAPABILITIES[c] for c in module.capabilities]
    local_size, local_ids = _local_size(module)
    push, push_size = _push_constants(module)
    return Reflection(
        entry=compute[0],
        blocks=_blocks(module),
        push_constants=push,
        push_constant_size=push_size,
        spec_constants=_spec_constants(module, local_ids),
        capabilities=tuple(sorted(name for name, _ in capabilities)),
        features=tuple(sorted({feature for _, feature in capabilities if feature is not None})),
        local_size=local_size,
        local_size_ids=local_ids,
        shared_memory_bytes=sum(
            _size(module, module.types[pointer][1][1])
            for _, pointer, storage in module.variables
            if storage == STORAGE_WORKGROUP
        ),
    )


def _instructions(spirv: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    if len(spirv) < 20 or len(spirv) % 4:
        raise SpirvError(f"{len(spirv)} bytes are not a SPIR-V module")
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
    if words[0] != MAGIC:
        raise SpirvError(f"expected the magic number {MAGIC:#010x}, got {words[0]:#010x}")
    at = 5
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if count == 0 or at + count > len(words):
            raise SpirvError(f"malformed instruction {opcode} at word {at}")
        yield opcode, words[at + 1 : at + count]
        at += count


def _string(words: tuple[int, ...]) -> str:
    return struct.pack(f"<{len(words)}I", *words).split(b"\0", 1)[0].decode()


def _parse(spirv: bytes) -> _Module:
    module = _Module()
    for opcode, operands in _instructions(spirv):
        match opcode:
            case Op.FUNCTION:
                break  # everything of interest precedes the first function
            case Op.NAME:
                module.names[operands[0]] = _string(operands[1:])
            case Op.MEMBER_NAME:
                module.member_names[operands[0], operands[1]] = _string(operands[2:])
            case Op.DECORATE:
                module.decorations.setdefault(operands[0], {})[operands[1]] = operands[2:]
            case Op.MEMBER_DECORATE:
                key = (operands[0], operands[1])
                module.member_decorations.setdefault(key, {})[operands[2]] = operands[3:]
            case Op.CAPABILITY:
                module.capabilities.append(operands[0])
            case Op.ENTRY_POINT:
                module.entries.append((operands[0], operands[1], _string(operands[2:])))
            case Op.EXECUTION_MODE | Op.EXECUTION_MODE_ID:
                module.modes.append((operands[1], operands[2:]))
            case Op.VARIABLE:
                module.variables.append((operands[1], operands[0], operands[2]))
            case _ if Op.TYPE_BOOL <= opcode <= Op.TYPE_POINTER:
                module.types[operands[0]] = (opcode, operands[1:])
            case _ if Op.CONSTANT_TRUE <= opcode <= Op.SPEC_CONSTANT_OP:
                module.constants[operands[1]] = (opcode, operands[0], operands[2:])
    return module


def _blocks(module: _Module) -> tuple[Block, ...]:
    blocks = []
    for variable, pointer, storage in module.variables:
        decorations = module.decorations.get(variable, {})
        if Decoration.BINDING not in decorations:
            continue
        if storage == STORAGE_UNIFORM_CONSTANT:
            continue  # the texels of one of the buffers (shaders/include/texels.glsl)
        struct_id = module.types[pointer][1][1]
        name = module.names.get(struct_id, "")
        if storage == STORAGE_UNIFORM or module.types[struct_id][0] != Op.TYPE_STRUCT:
            raise SpirvError(f"binding {decorations[Decoration.BINDING][0]} ({name}) is not a storage buffer")
        members = [
            {**decorations, **module.member_decorations.get((struct_id, i), {})}
            for i in range(len(module.types[struct_id][1]))
        ]
        blocks.append(
            Block(
                name=name,
                set=decorations.get(Decoration.DESCRIPTOR_SET, (0,))[0],
                binding=decorations[Decoration.BINDING][0],
                readonly=all(Decoration.NON_WRITABLE in member for member in members),
                writeonly=all(Decoration.NON_READABLE in member for member in members),
            )
        )
    return tuple(sorted(blocks, key=lambda block: (block.set, block.binding)))


def _scalar_type(module: _Module, type_id: int) -> str:
    match module.types.get(type_id):
        case (Op.TYPE_BOOL, _):
            return "bool"
        case (Op.TYPE_INT, (32, signed)):
            return "int" if signed else "uint"
        case (Op.TYPE_FLOAT, (32, *_)):
            return "float"
        case other:
            raise SpirvError(f"expected a 32-bit scalar, got the type {other}")


def _push_constants(module: _Module) -> tuple[tuple[PushConstant, ...], int]:
    for _, pointer, storage in module.variables:
        if storage != STORAGE_PUSH_CONSTANT:
            continue
        struct_id = module.types[pointer][1][1]
        members = []
        for i, type_id in enumerate(module.types[struct_id][1]):
            name = module.member_names.get((struct_id, i), f"member{i}")
            try:
                kind = _scalar_type(module, type_id)
            except SpirvError as error:
                raise SpirvError(f"push constant {name}: {error}") from None
            offset = module.member_decorations[struct_id, i][Decoration.OFFSET][0]
            members.append(PushConstant(name, offset, kind, 4))
        members.sort(key=lambda member: member.offset)
        return tuple(members), max(member.offset + member.size for member in members)
    return (), 0


def _value(module: _Module, constant: int) -> int | float | bool:
    """The value of a constant, specialisation constants at their defaults."""
    opcode, type_id, operands = module.constants[constant]
    match opcode:
        case Op.CONSTANT_TRUE | Op.SPEC_CONSTANT_TRUE:
            return True
        case Op.CONSTANT_FALSE | Op.SPEC_CONSTANT_FALSE:
            return False
        case Op.CONSTANT | Op.SPEC_CONSTANT:
            kind = _scalar_type(module, type_id)
            code = {"uint": "<I", "int": "<i", "float": "<f"}[kind]
            value: int | float = struct.unpack(code, struct.pack("<I", operands[0]))[0]
            return value
        case Op.SPEC_CONSTANT_OP if operands[0] == COMPOSITE_EXTRACT:
            _, composite, index = operands
            return _value(module, module.constants[composite][2][index])
        case Op.SPEC_CONSTANT_OP:
            return _evaluate(operands[0], [_value(module, operand) for operand in operands[1:]])
        case _:
            raise SpirvError(f"constant instruction {opcode} has no scalar value")


def _evaluate(opcode: int, values: list[Any]) -> int:
    """OpSpecConstantOp over integers: what an array length is computed with."""
    match opcode:
        case 128:  # IAdd
            return int(values[0] + values[1])
        case 130:  # ISub
            return int(values[0] - values[1])
        case 132:  # IMul
            return int(values[0] * values[1])
        case 134 | 135:  # UDiv, SDiv
            return int(values[0] // values[1])
        case 137 | 139:  # UMod, SMod
            return int(values[0] % values[1])
        case 124 | 126:  # Bitcast, SNegate
            return int(values[0]) if opcode == 124 else -int(values[0])
        case 194 | 195:  # ShiftRightLogical, ShiftRightArithmetic
            return int(values[0]) >> int(values[1])
        case 196:  # ShiftLeftLogical
            return int(values[0]) << int(values[1])
        case 169:  # Select
            return int(values[1] if values[0] else values[2])
        case 170 | 171:  # IEqual, INotEqual
            return int((values[0] == values[1]) == (opcode == 170))
        case 172 | 173 | 176 | 177:  # UGreaterThan, SGreaterThan, ULessThan, SLessThan
            return int(values[0] > values[1] if opcode < 174 else values[0] < values[1])
        case 174 | 175 | 178 | 179:  # UGreaterThanEqual, SGreaterThanEqual, ULessThanEqual, SLessThanEqual
            return int(values[0] >= values[1] if opcode < 176 else values[0] <= values[1])
        case _:
            raise SpirvError(f"operation {opcode} on specialisation constants is not understood")


def _spec_constants(module: _Module, local_ids: tuple[int | None, ...]) -> tuple[SpecConstant, ...]:
    axes = zip(local_ids, "xyz", strict=True)
    dimension = {spec_id: f"local_{axis}" for spec_id, axis in axes if spec_id is not None}
    found = []
    for constant, (_, type_id, _) in module.constants.items():
        decorations = module.decorations.get(constant, {})
        if Decoration.SPEC_ID not in decorations:
            continue
        spec_id = decorations[Decoration.SPEC_ID][0]
        name = dimension.get(spec_id) or module.names.get(constant) or f"spec{spec_id}"
        found.append(SpecConstant(spec_id, name, _scalar_type(module, type_id), _value(module, constant)))
    return tuple(sorted(found, key=lambda constant: constant.id))


def _local_size(module: _Module) -> tuple[tuple[int, int, int], tuple[int | None, int | None, int | None]]:
    def of(ids: tuple[int, ...]) -> tuple[Any, Any]:
        sizes = tuple(int(_value(module, i)) for i in ids)
        spec = tuple(module.decorations.get(i, {}).get(Decoration.SPEC_ID, (None,))[0] for i in ids)
        return sizes, spec

    # The constant decorated WorkgroupSize overrides the execution mode (SPIR-V specification, 3.21).
    for constant, decorations in module.decorations.items():
        if decorations.get(Decoration.BUILT_IN) == (BUILT_IN_WORKGROUP_SIZE,):
            return of(module.constants[constant][2])
    for mode, operands in module.modes:
        if mode == EXECUTION_MODE_LOCAL_SIZE:
            return (operands[0], operands[1], operands[2]), (None, None, None)
        if mode == EXECUTION_MODE_LOCAL_SIZE_ID:
            return of(operands)
    raise SpirvError("the module has no workgroup size")


def _size(module: _Module, type_id: int) -> int:
    """Bytes of a type in workgroup memory, tightly laid out (a lower bound where a driver pads)."""
    opcode, operands = module.types[type_id]
    match opcode:
        case Op.TYPE_BOOL:
            return 4
        case Op.TYPE_INT | Op.TYPE_FLOAT:
            return operands[0] // 8
        case Op.TYPE_VECTOR | Op.TYPE_MATRIX:
            return _size(module, operands[0]) * operands[1]
        case Op.TYPE_ARRAY:
            return _size(module, operands[0]) * int(_value(module, operands[1]))
        case Op.TYPE_STRUCT:
            return sum(_size(module, member) for member in operands)
        case _:
            raise SpirvError(f"type {opcode} has no size in workgroup memory")
