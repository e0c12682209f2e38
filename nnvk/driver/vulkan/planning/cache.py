"""Compilation caching: plans in files, so that a model is lowered, and its constants packed, once for all processes.

A file (`nnvk.base.files`) has a header, the plan in JSON, and a body, the bytes of the constants. The header names
everything that the plan depends on. A file that is damaged, cut off, foreign or out of date, or whose plan the model
can't have, is replaced. Files appear whole or not at all, so that processes may share them.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nnvk.base.files import FileKind, UnusableFileError
from nnvk.base.log import logger
from nnvk.base.text import printable
from nnvk.driver.vulkan.lowering.compared import Subject
from nnvk.driver.vulkan.planning import validation
from nnvk.driver.vulkan.planning.plan import Address, Flag, Plan, Verification
from nnvk.driver.vulkan.shaders.commands import (
    Choice,
    Clear,
    Command,
    Copy,
    Dispatch,
    Storage,
    StridedView,
    TensorRef,
    binding_of,
)
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile, described
from nnvk.types.constant import bytes_of
from nnvk.types.model import Model
from nnvk.types.operand import Shape
from nnvk.types.request import Redundancy

_log = logger("driver")

KIND = FileKind(b"nnvkplan", 9)
_WRONG = (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RecursionError, MemoryError)
"""Exceptions of reading a file that holds something else."""


@dataclass(frozen=True, slots=True)
class PlanCache:
    """One file, which holds at most one plan."""

    path: Path
    key: Mapping[str, str]
    """Everything that the plan must have been made for; see `key_of`."""
    failure_level: int = logging.WARNING
    """The level at which the log says that the file can't be read or written."""

    def load(
        self, model: Model, shapes: Sequence[Shape], profile: DeviceProfile, library: ShaderLibrary
    ) -> Plan | None:
        """The plan in the file; None where there is none that can be of this model, for these input shapes."""
        try:
            limits = validation.bounds(model, shapes)
            text, constants = KIND.read(self.path, most_header=limits.most_header, most_body=limits.most_bytes)
            header = json.loads(text)
            differing = sorted(part for part, value in self.key.items() if header["key"].get(part) != value)
            if differing:
                raise UnusableFileError(f"it was made for another {' and '.join(differing)}")
            plan = _plan(header, constants, library)
            validation.check(plan, model, shapes, profile)
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.log(self.failure_level, "cache file %s can't be read: %s", self.path, error)
            return None
        except UnusableFileError as reason:
            _log.info("cache file %s is not used: %s", self.path, reason)
            return None
        except _WRONG as error:
            _log.warning("cache file %s is not used: %s: %s", self.path, type(error).__name__, printable(str(error)))
            return None
        _log.debug("the plan comes from cache file %s", self.path)
        return plan

    def store(self, plan: Plan) -> None:
        """Keep a plan. Where that fails it is logged: the next process will have to lower again."""
        try:
            nbytes = sum(data.nbytes for _, data in plan.constants)
            body = (bytes_of(data).data for _, data in plan.constants)  # in turn: those that are deferred are large
            KIND.write(self.path, _header(plan, self.key), body, nbytes)
        except OSError as error:
            _log.log(self.failure_level, "cache file %s can't be written: %s", self.path, error)


def key_of(
    version: str,
    profile: DeviceProfile,
    library: ShaderLibrary,
    model: Model,
    redundancy: Redundancy = Redundancy.NONE,
) -> dict[str, str]:
    """Everything that the plan of a fully specified model depends on: device, driver, shaders, code, model, kind."""
    return {
        "device": version,
        "profile": json.dumps(described(profile)),
        "shaders": library.digest,
        "code": _code_digest(),
        "model": _model_digest(model),
        "redundancy": redundancy.name,
    }


@cache
def _code_digest() -> str:
    """The digest of the modules that make plans: their decisions may change although no shader does."""
    package = Path(__file__).parents[3]
    digest = hashlib.sha256()
    for path in sorted((*package.glob("driver/vulkan/**/*.py"), *package.glob("ops/*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _model_digest(model: Model) -> str:
    """The digest of operands with values, operations, inputs and outputs, and of the models that a model refers to."""
    digests: dict[Model, str] = {}
    for each in (*model.referenced(), model):
        digest = hashlib.sha256()
        for operand in each.operands:
            digest.update(repr((operand.type, operand.lifetime)).encode())
            if operand.constant is not None:
                digest.update(bytes_of(operand.constant).data)
            if operand.subgraph is not None:
                digest.update(digests[operand.subgraph].encode())
        digest.update(repr((each.operations, each.inputs, each.outputs, each.relaxed, each.reproducible)).encode())
        digests[each] = digest.hexdigest()
    return digests[model]


# --- plans -------------------------------------------------------------------------------------------------------


def _header(plan: Plan, key: Mapping[str, str]) -> bytes:
    header = {
        "key": key,
        "tensors": {number: _address_row(address) for number, address in plan.addresses.items()},
        "commands": [_command_row(command) for command in plan.commands],
        "barriers": sorted(plan.barriers),
        "pages": {storage.value: sizes for storage, sizes in plan.pages.items()},
        "constants": [_address_row(address) for address, _ in plan.constants],
        "inputs": [address and _address_row(address) for address in plan.inputs],
        "outputs": [address and _address_row(address) for address in plan.outputs],
        "output_shapes": plan.output_shapes,
        "flags": [[_address_row(flag.address), flag.assertion] for flag in plan.flags],
        "counts": [address and _address_row(address) for address in plan.counts],
        "entropy": [_address_row(address) for address in plan.entropy],
        "parts": dict(plan.parts),
        "most_alive": plan.most_alive,
        "verification": plan.verification and _verification_row(plan.verification),
        "choices": [
            [choice.operation, choice.tuning_key, choice.candidates[0], choice.chosen] for choice in plan.choices
        ],
    }
    return json.dumps(header, separators=(",", ":"), default=_number).encode()


def _number(value: object) -> object:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} can't be kept")


def _plan(header: Mapping[str, Any], constants: memoryview, library: ShaderLibrary) -> Plan:
    pages = {storage: tuple(map(_whole, header["pages"][storage.value])) for storage in Storage}

    def address(row: Sequence[Any] | None) -> Address | None:
        return None if row is None else _address(row)

    addresses = {int(number): _address(row) for number, row in header["tensors"].items()}
    refs = {number: TensorRef(number, spot.nbytes, spot.storage) for number, spot in addresses.items()}
    arrays: list[tuple[Address, np.ndarray]] = []
    end = 0
    for row in header["constants"]:
        spot = _address(row)
        arrays.append((spot, np.frombuffer(constants, np.uint8, spot.nbytes, end)))
        end += spot.nbytes
    if end != len(constants):
        raise UnusableFileError(f"its constants are {end} bytes of {len(constants)}")
    return Plan(
        tuple(_command(row, refs, library) for row in header["commands"]),
        frozenset(map(_whole, header["barriers"])),
        addresses,
        pages,
        tuple(arrays),
        tuple(address(row) for row in header["inputs"]),
        tuple(address(row) for row in header["outputs"]),
        tuple(tuple(map(_whole, shape)) for shape in header["output_shapes"]),
        tuple(Flag(_address(row), assertion) for row, assertion in header["flags"]),
        tuple(address(row) for row in header["counts"]),
        tuple(_address(row) for row in header["entropy"]),
        tuple(
            Choice(_whole(operation), str(tuning_key), (str(first),), str(chosen))
            for operation, tuning_key, first, chosen in header["choices"]
        ),
        {int(number): _whole(whole) for number, whole in header["parts"].items()},
        _whole(header["most_alive"]),
        None if header["verification"] is None else _verification(header["verification"]),
    )


def _verification_row(verification: Verification) -> list[Any]:
    rows = [[each.operation, each.name, each.dtype, each.shape, each.tile] for each in verification.subjects]
    return [_address_row(verification.address), rows, verification.checksums]


def _verification(row: Sequence[Any]) -> Verification:
    address, subjects, checksums = row
    return Verification(
        _address(address),
        tuple(
            Subject(
                _whole(operation), str(name), str(np.dtype(dtype)), *(tuple(map(_whole, sizes)) for sizes in shapes)
            )
            for operation, name, dtype, *shapes in subjects
        ),
        _whole(checksums),
    )


def _whole(value: Any) -> int:
    """A whole number; true and 1.0 are none."""
    if type(value) is not int:
        raise TypeError(f"expected a whole number, got {value!r}")
    return value


def _address_row(address: Address) -> list[Any]:
    view = address.view
    within = [] if view is None else [[view.first, view.width, view.pitch]]
    return [address.storage.value, address.page, address.offset, address.nbytes, *within]


def _address(row: Sequence[Any]) -> Address:
    storage, page, offset, nbytes, *within = row
    view = None
    if within:
        ((first, width, pitch),) = within
        view = StridedView(_whole(first), _whole(width), _whole(pitch))
    return Address(Storage(storage), _whole(page), _whole(offset), _whole(nbytes), view)


def _command_row(command: Command) -> list[Any]:
    if isinstance(command, Copy):
        return [command.source.number, command.target.number, command.nbytes]
    if isinstance(command, Clear):
        return [command.target.number]
    return [
        command.shader.name,
        command.groups,
        {name: tensor.number for name, tensor in command.tensors.items()},
        command.specialization,
        command.push,
        command.operation,
        command.fused,
    ]


def _command(row: Sequence[Any], refs: Mapping[int, TensorRef], library: ShaderLibrary) -> Command:
    if len(row) == 3:
        return Copy(refs[_whole(row[0])], refs[_whole(row[1])], _whole(row[2]))
    if len(row) == 1:
        return Clear(refs[_whole(row[0])])
    name, groups, tensors, specialization, push, operation, fused = row
    shader = library.named(name)
    shader.check_push_constants(push)
    if set(map(binding_of, tensors)) != set(shader.bindings):
        raise ValueError(f"shader {name} binds {sorted(shader.bindings)}, not {sorted(tensors)}")
    x, y, z = map(_whole, groups)
    named = {binding: refs[_whole(number)] for binding, number in tensors.items()}
    return Dispatch(
        shader,
        (x, y, z),
        named,
        tuple(map(_whole, specialization)),
        push,
        _whole(operation),
        tuple(map(_whole, fused)),
    )
