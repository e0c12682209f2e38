"""Whether a plan that comes from a file can be one of its model: ranges of all that reaches a device.

A digest finds accidents, but not forgeries. After these checks, the device does not refuse a plan, and a plan takes no
more memory and time than its model can. The results of the plan are not checked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.compared import DIFFERENCE_WORDS
from nnvk.driver.vulkan.lowering.device_assertion import placeholders
from nnvk.driver.vulkan.lowering.verification import EXCHANGE
from nnvk.driver.vulkan.planning.barriers import barriers
from nnvk.driver.vulkan.planning.plan import Address, Flag, Plan
from nnvk.driver.vulkan.shaders.commands import ALIGNMENT, FOUR, Command, Copy, Dispatch, Storage, padded, whole_vec4s
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.registry import compatible
from nnvk.types.codes import OperandCode
from nnvk.types.model import Lifetime, Model
from nnvk.types.operand import OperandType, Shape

_COMMANDS_BASE, _COMMANDS_FACTOR = 1024, 64
"""Commands of a plan at most: so many, and so many times the operands and operations. The kernels' need is under 20."""
_BYTES_BASE, _BYTES_FACTOR = 64 << 20, 64
"""Bytes of all buffers at most: so many, and so many times those of the tensors. Filters of one channel take 16."""
_GROUPS_FACTOR = 16
"""Workgroups of a dispatch at most, for each byte that it writes; the kernels have one for four bytes or more."""
_HEADER_FACTOR = 1024
"""Bytes that describe a command, at most."""
_LONGEST_ASSERTION = 1000
_MOST_ENTROPY = 64
"""Random bytes that a shader asks for at most."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on a model's plans that are known before one is made."""

    most_bytes: int
    """The most bytes of the buffers of all storages together."""
    most_commands: int

    @property
    def most_header(self) -> int:
        """Bytes of a plan's description."""
        return _HEADER_FACTOR * self.most_commands


def bounds(model: Model, shapes: Sequence[Shape]) -> Bounds:
    """For these shapes of inputs."""
    sizes = [_nbytes(type_, shape) for type_, shape in zip(model.input_types(), shapes, strict=True)]
    for operand in model.operands:
        if operand.type.code is not OperandCode.MODEL:
            sizes.append(operand.type.size if operand.constant is None else operand.constant.nbytes)
    unknown = sizes.count(0) * max(sizes)  # what the model leaves open is taken to be as large as the largest
    commands = _COMMANDS_BASE + _COMMANDS_FACTOR * (len(model.operands) + len(model.operations))
    return Bounds(_BYTES_BASE + _BYTES_FACTOR * (sum(sizes) + unknown), commands)


def check(plan: Plan, model: Model, shapes: Sequence[Shape], profile: DeviceProfile) -> None:
    """Raise ValueError unless the plan may be one of the model for these shapes of inputs, on this device."""
    limits = bounds(model, shapes)
    _require(len(plan.commands) <= limits.most_commands, f"it has {len(plan.commands)} commands")
    _check_memory(plan, limits.most_bytes, profile)
    given = Storage.UPLOAD if profile.host_writes_device_memory else Storage.STAGING
    for index, address, shape in zip(model.inputs, plan.inputs, shapes, strict=True):
        operand = model.operands[index]
        nbytes = 0 if operand.lifetime is Lifetime.NO_VALUE else _nbytes(operand.type, shape)
        _check_exchange("an input", address, nbytes, given)
    for index, address, shape in zip(model.outputs, plan.outputs, plan.output_shapes, strict=True):
        type_ = model.operands[index].type
        fits = min(shape, default=0) >= 0 and (not type_.dimensions or compatible(type_.dimensions, shape))
        _require(fits, f"an output of {type_} has shape {list(shape)}")
        _check_exchange("an output", address, _nbytes(type_, shape))
    for flag in plan.flags:
        _check_assertion(flag)
        _check_exchange("a flag", flag.address, 4 * (1 + placeholders(flag.assertion)))
    if plan.verification is not None:
        _check_exchange("a difference", plan.verification.address, 4 * DIFFERENCE_WORDS)
        for subject in plan.verification.subjects:
            is_there = EXCHANGE <= subject.operation < len(model.operations) and len(subject.name) <= _LONGEST_ASSERTION
            _require(is_there and min(subject.shape, default=0) >= 0, f"{subject} can't be verified")
            has_tiles = len(subject.tile) < min(3, len(subject.shape)) and min((*subject.tile, *subject.shape)) > 0
            _require(not subject.tile or has_tiles, f"{subject} has no such tiles")
    for address in plan.entropy:
        _check_exchange("random numbers", address, address.nbytes)
        _require(0 < address.nbytes <= _MOST_ENTROPY, f"{address.nbytes} random bytes are asked for")
    for count, shape in zip(plan.counts, plan.output_shapes, strict=bool(plan.counts)):
        if count is not None:
            _check_exchange("a number of rows", count, 4)
            _require(bool(shape), "an output without dimensions has a number of rows")
    for command in plan.commands:
        _check_command(command, len(model.operations), profile)
    needed = barriers(plan.commands, plan.addresses, by_buffer=profile.barriers_by_buffer)
    _require(plan.barriers == needed, "its barriers are not those of its commands")


def _check_exchange(what: str, address: Address | None, size: int, storage: Storage = Storage.STAGING) -> None:
    """Where host and device exchange something of so many bytes."""
    nbytes = 0 if address is None else address.nbytes
    _require(nbytes == size, f"{what} of {size} bytes has {nbytes}")
    _require(address is None or address.storage is storage, f"{what} is out of the host's reach")


def _check_assertion(flag: Flag) -> None:
    text = flag.assertion
    fits = isinstance(text, str) and len(text) <= _LONGEST_ASSERTION
    _require(fits and not {"{", "}"} & set(text.replace("{}", "").replace("{:r}", "")), "an assertion is no text")


def _check_memory(plan: Plan, most_bytes: int, profile: DeviceProfile) -> None:
    """Pages that the device can bind and tensors fill, tensors in them, and data for all that is constant."""
    pages = [(storage, page, size) for storage, sizes in plan.pages.items() for page, size in enumerate(sizes)]
    total = sum(size for _, _, size in pages)
    _require(total <= most_bytes, f"it takes {total} bytes, a plan of its model {most_bytes} at most")
    placed = set(plan.addresses.values())
    exchanged = {*plan.inputs, *plan.outputs, *plan.reports, *plan.entropy} - {None}
    _require(placed.issuperset(exchanged), "what is exchanged is no tensor")
    for address in placed:
        sizes = plan.pages[address.storage]
        is_inside = 0 <= address.page < len(sizes) and min(address.offset, address.nbytes) >= 0
        view = address.view
        if view is not None:
            are_whole = 0 < view.width <= view.pitch and address.nbytes % view.width == 0
            _require(view.are_inside and are_whole, f"{address} is no part of rows")
        ends = address.offset + (whole_vec4s(address.nbytes) if address.view is None else address.span)
        _require(is_inside and ends <= sizes[address.page], f"{address} is outside")
    within: Counter[tuple[Storage, int]] = Counter()
    for number, address in plan.addresses.items():
        if number in plan.parts:
            _check_part(plan, number)
        else:
            _require(address.offset % ALIGNMENT == 0, f"{address} is not aligned")
            within[address.storage, address.page] += max(ALIGNMENT, padded(address.nbytes))
    arena = sum(plan.pages[Storage.ARENA])
    alive_fits = plan.most_alive % ALIGNMENT == 0 and 0 <= plan.most_alive <= arena
    _require(alive_fits, f"{plan.most_alive} bytes of {arena} are needed at once")
    for storage, page, size in pages:
        fits = 0 < size <= min(profile.max_buffer, within[storage, page]) and size % ALIGNMENT == 0
        _require(fits, f"page {page} of {storage.value} has {size} bytes")
    constant = Counter(address for address in plan.addresses.values() if address.storage is Storage.CONSTANTS)
    _require(constant == Counter(address for address, _ in plan.constants), "constants and their data differ")


def _check_part(plan: Plan, number: int) -> None:
    """A tensor that lies in another one."""
    address, whole = plan.addresses[number], plan.addresses[plan.parts[number]]
    fits = plan.parts[number] not in plan.parts and (address.storage, address.page) == (whole.storage, whole.page)
    before, view = address.offset - whole.offset, address.view
    fits = fits and (view is None or view.first <= before)
    fits = fits and before % (FOUR if view is None else 4) == 0 and before >= 0
    fits = fits and before + address.span <= whole.nbytes
    _require(fits, f"{address} is no part of {whole}")


def _check_command(command: Command, operations: int, profile: DeviceProfile) -> None:
    if isinstance(command, Copy):
        room = min(padded(command.source.nbytes), padded(command.target.nbytes))
        _require(0 < command.nbytes <= room and command.nbytes % 4 == 0, f"{command.nbytes} bytes are copied in {room}")
    elif isinstance(command, Dispatch):
        _check_dispatch(command, operations, profile)
    _require(all(tensor.storage is not Storage.CONSTANTS for tensor in command.writes), "a constant is written")


def _check_dispatch(dispatch: Dispatch, operations: int, profile: DeviceProfile) -> None:
    name = dispatch.shader.name
    for operation in (dispatch.operation, *dispatch.fused):
        _require(0 <= operation < operations, f"{name} is for operation {operation} of {operations}")
    _require(dispatch.shader.features <= profile.features, f"{name} needs features that the device lacks")
    groups = math.prod(dispatch.groups)
    most = _GROUPS_FACTOR * sum(padded(tensor.nbytes) for tensor in dispatch.writes)
    fits = all(1 <= count <= profile.max_groups for count in dispatch.groups) and groups <= most
    _require(fits, f"{name} has {dispatch.groups} workgroups")
    local = dispatch.shader.local_size(dispatch.specialization)
    fits = min(local) >= 1 and math.prod(local) <= profile.max_invocations
    _require(fits, f"{name} has workgroups of {local} invocations")


def _nbytes(type_: OperandType, shape: Shape) -> int:
    return math.prod(shape) * type_.dtype.itemsize


def _require(condition: bool, assertion: str) -> None:
    if not condition:
        raise ValueError(assertion)
