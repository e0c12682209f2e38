"""Arguments that are wrong objects or impossible numbers are told by the call that gets them, and change nothing.

Every argument of every call of `nnvk.__all__` is fed with all of that: a TypeError or BAD_DATA must come, and the call
must still do its work with what is right afterwards.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builder import Builder
from samples import F32, FOUR, INT, add_model, chain_model, compiled, f32, increment_model, shared_memory

import nnvk
from nnvk import NnapiError, OperandCode, OperandType, OperationCode, ResultCode
from nnvk.base.checks import shown
from nnvk.demo.assets import MODELS
from nnvk.importers import tflite

CPU = nnvk.get_device("nnapi-reference")
VALUES = np.arange(4, dtype=np.float32)
PER_CHANNEL = OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (2, 3))

# --- what is wrong -----------------------------------------------------------------------------------------------

_OBJECTS = [None, object(), int, SimpleNamespace(), "text", b"bytes", [], {}, 0.0, 1.5, math.nan]
_HUGE = [2**64, 2**200, -(2**64), 10**5000]
_FLOATS = [0.0, 1.5, math.nan, math.inf, np.float32(1)]
_NO_NUMBERS = [None, object(), int, "1", b"1", [0], {}, np.array([0]), np.array(["1"]), 1j]

OBJECT = [*_OBJECTS, 5, True]
OPTIONAL_OBJECT = [wrong for wrong in OBJECT if wrong is not None]
NUMBER = [*_NO_NUMBERS, *_FLOATS, *_HUGE]
REAL = [*_NO_NUMBERS, 10**400, math.nan, -1.0]
FLAG = [*_NO_NUMBERS, *_FLOATS, *_HUGE, 2]
TEXT = [None, object(), 5, 1.5, b"bytes", ["a"]]
NUMBERS = [
    None,
    object(),
    5,
    1.5,
    "ab",
    {},
    {0},
    [None],
    ["0"],
    [0.0],
    [1.5],
    [[0]],
    [2**64],
    [2**200],
    [-(2**64)],
    [10**5000],
]
NUMBERS += [np.array([0.0]), np.array([[0]]), np.array(0), np.array(["0"])]
REALS = [None, object(), 5, 1.5, "ab", {}, [None], ["0.5", "0.5"], [[0.5], [0.5]], [10**400, 1.0], [math.nan] * 2]
OBJECTS = [None, object(), 5, "ab", {}, [None], [object()], ["a"], [5]]
PATH = [None, object(), 5, 1.5, [], "x" * 300, "/x" * 5000, "absent"]
BYTES = [None, object(), 5, 1.5, "x" * 32, b"x" * 31, [300] * 32, [-1] * 32, [0.0] * 32, [None] * 32, [1] * 31]
DATA = [object(), int, "text", {}, 1j, ["1"] * 4, [None] * 4, [[1, 2], [3]], [1j] * 4, np.array(["1"] * 4)]
DATA += [
    10**5000,
    [10**5000] * 4,
    np.ones(4, complex),
    np.ones(4, object),
    np.ones(4, "M8[s]"),
    np.array([0.5] * 5),
    b"123",
]
BUFFER = [object(), int, "text", {}, 1.5, [0.0] * 4, bytes(16), np.ones(4, complex), np.ones(4, object)]


def described(value: object) -> str:
    """A test's name for a value; the same in every process."""
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype}{list(value.shape)}"
    text = shown(value)
    return (text if len(text) < 24 else f"{text[:20]}...") if "0x" not in text else type(value).__name__


# --- the calls ---------------------------------------------------------------------------------------------------


@dataclass
class Given:
    """An argument: what is right, or what makes it anew, and what is wrong."""

    right: Any
    wrong: list[Any]

    def value(self) -> Any:
        return self.right() if callable(self.right) and not isinstance(self.right, type) else self.right


@dataclass
class Call:
    """How to come to something that can be called, and its arguments."""

    make: Callable[[], Callable[..., Any]]
    arguments: Mapping[str, Given] = field(default_factory=dict)


def building() -> nnvk.Model:
    """Operands 0 to 2 of four elements each, 3 an INT32, 4 a tensor with channels, 5 of type MODEL; not finished."""
    model = nnvk.Model()
    for type_ in (FOUR, FOUR, FOUR, INT, PER_CHANNEL, OperandType(OperandCode.MODEL)):
        model.add_operand(type_)
    return model


def identified() -> nnvk.Model:
    """`building` with two inputs."""
    model = building()
    model.identify_inputs_and_outputs([0, 1], [2])
    return model


def compiling() -> nnvk.Compilation:
    return nnvk.Compilation(increment_model(), [CPU])


def compiled_increment() -> nnvk.Compilation:
    return compiled(increment_model(), CPU)


COMPILATION = compiled_increment()


def preparing() -> nnvk.Execution:
    """An execution of `increment_model`, without arguments."""
    return nnvk.Execution(COMPILATION)


def ready() -> nnvk.Execution:
    run = preparing()
    run.set_input(0, VALUES)
    run.set_output(0, np.zeros(4, np.float32))
    run.set_reusable(True)
    return run


def completed() -> nnvk.Execution:
    run = ready()
    run.compute()
    return run


def described_memory() -> nnvk.MemoryDesc:
    desc = nnvk.MemoryDesc()
    desc.add_input_role(COMPILATION, 0)
    desc.finish()
    return desc


def open_desc() -> nnvk.MemoryDesc:
    desc = nnvk.MemoryDesc()
    desc.add_output_role(compiled(chain_model([OperationCode.ABS], f32(0, 0)), CPU), 0)
    return desc


def descriptor() -> int:
    made = os.memfd_create("wrong-arguments")
    os.ftruncate(made, mmap.PAGESIZE)
    _opened.append(made)
    return made


_opened: list[int] = []


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    while _opened:
        os.close(_opened.pop())


TYPE = Given(FOUR, OPTIONAL_OBJECT)
ROLE = {
    "compilation": Given(COMPILATION, OBJECT),
    "index": Given(0, NUMBER),
    "frequency": Given(0.5, [*REAL, 0, 1.5, np.float32(2)]),
}
IN_MEMORY = {
    "index": Given(0, NUMBER),
    "memory": Given(lambda: shared_memory(VALUES), OBJECT),
    "offset": Given(0, NUMBER),
    "length": Given(16, NUMBER),
    "type": TYPE,
}
DURATION = Given(10**9, [*NUMBER, -1])
DEVICES = Given([CPU], OBJECTS)

CALLS: dict[str, Call] = {
    "Burst": Call(lambda: nnvk.Burst, {"compilation": Given(COMPILATION, OBJECT)}),
    "Compilation": Call(
        lambda: nnvk.Compilation,
        {
            "model": Given(increment_model(), [*OBJECT, SimpleNamespace(model=increment_model())]),
            "devices": Given([CPU], [wrong for wrong in OBJECTS if wrong is not None]),
        },
    ),
    "Compilation.create_for_devices": Call(
        lambda: nnvk.Compilation.create_for_devices, {"model": Given(increment_model(), OBJECT), "devices": DEVICES}
    ),
    **{
        f"Compilation.get_preferred_memory_{what}_for_{which}": Call(
            lambda name=f"get_preferred_memory_{what}_for_{which}": getattr(COMPILATION, name),  # type: ignore[misc]
            {"index": Given(0, NUMBER)},
        )
        for what in ("alignment", "padding")
        for which in ("input", "output")
    },
    "Compilation.set_caching": Call(
        lambda: compiling().set_caching,
        {"cache_dir": Given(tempfile.gettempdir(), PATH), "token": Given(hashlib.sha256(b"").digest(), BYTES)},
    ),
    "Compilation.set_preference": Call(lambda: compiling().set_preference, {"preference": Given(1, [*NUMBER, 3])}),
    "Compilation.set_priority": Call(lambda: compiling().set_priority, {"priority": Given(90, [*NUMBER, 3])}),
    "Compilation.share_families": Call(
        lambda: compiling().share_families, {"families": Given({}, [None, 1, [], "text"])}
    ),
    "Compilation.set_progress": Call(
        lambda: compiling().set_progress, {"callback": Given(lambda: lambda done, total: None, OBJECTS)}
    ),
    "Compilation.set_timeout": Call(lambda: compiling().set_timeout, {"duration_ns": DURATION}),
    "Compilation.set_reproducible": Call(lambda: compiling().set_reproducible, {"reproducible": Given(True, FLAG)}),
    "Compilation.set_verified": Call(lambda: compiling().set_verified, {"verified": Given("repair", FLAG)}),
    "Device.get_extension_support": Call(
        lambda: CPU.get_extension_support, {"extension": Given("com.example.filters", TEXT)}
    ),
    "Device": Call(lambda: nnvk.Device, {"driver": Given(CPU.driver, [*OBJECT, CPU])}),
    "DeviceMemory": Call(lambda: nnvk.DeviceMemory, {"desc": Given(described_memory, OBJECT)}),
    "Event.create_from_sync_fence_fd": Call(
        lambda: nnvk.Event.create_from_sync_fence_fd,
        {"sync_fence_fd": Given(descriptor, [*NUMBER, 2**40, 2**31, -1, -(2**40)])},
    ),
    "Execution": Call(lambda: nnvk.Execution, {"compilation": Given(COMPILATION, OBJECT)}),
    "Execution.burst_compute": Call(
        lambda: ready().burst_compute, {"burst": Given(lambda: nnvk.Burst(COMPILATION), OBJECT)}
    ),
    "Execution.enable_input_and_output_padding": Call(
        lambda: preparing().enable_input_and_output_padding, {"enable": Given(True, FLAG)}
    ),
    "Execution.get_duration": Call(lambda: completed().get_duration, {"code": Given(0, [*NUMBER, 4])}),
    "Execution.get_output_operand_dimensions": Call(
        lambda: completed().get_output_operand_dimensions, {"index": Given(0, NUMBER)}
    ),
    "Execution.get_output_operand_rank": Call(lambda: completed().get_output_operand_rank, {"index": Given(0, NUMBER)}),
    "Execution.set_input": Call(
        lambda: preparing().set_input, {"index": Given(0, NUMBER), "value": Given(VALUES, DATA), "type": TYPE}
    ),
    "Execution.set_input_from_memory": Call(lambda: preparing().set_input_from_memory, IN_MEMORY),
    "Execution.set_loop_timeout": Call(lambda: preparing().set_loop_timeout, {"duration_ns": DURATION}),
    "Execution.set_measure_timing": Call(lambda: preparing().set_measure_timing, {"measure": Given(True, FLAG)}),
    "Execution.set_output": Call(
        lambda: preparing().set_output,
        {"index": Given(0, NUMBER), "value": Given(lambda: VALUES.copy(), BUFFER), "type": TYPE},
    ),
    "Execution.set_output_from_memory": Call(lambda: preparing().set_output_from_memory, IN_MEMORY),
    "Execution.set_reusable": Call(lambda: preparing().set_reusable, {"reusable": Given(True, FLAG)}),
    "Execution.set_timeout": Call(lambda: preparing().set_timeout, {"duration_ns": DURATION}),
    "Execution.start_compute_with_dependencies": Call(
        lambda: _waited(ready()),
        {"dependencies": Given([], OBJECTS), "duration_ns": DURATION},
    ),
    "HardwareBuffer": Call(lambda: nnvk.HardwareBuffer, {"size": Given(16, [*NUMBER, 0, -1])}),
    "Memory.copy": Call(
        lambda: nnvk.Memory.copy,
        {"source": Given(lambda: shared_memory(VALUES), OBJECT), "target": Given(lambda: shared_memory(16), OBJECT)},
    ),
    "Memory.create_from_desc": Call(lambda: nnvk.Memory.create_from_desc, {"desc": Given(described_memory, OBJECT)}),
    "Memory.create_from_fd": Call(
        lambda: nnvk.Memory.create_from_fd,
        {
            "size": Given(16, NUMBER),
            "protect": Given(mmap.PROT_READ, NUMBER),
            "fd": Given(descriptor, [*NUMBER, 2**40]),
            "offset": Given(0, NUMBER),
        },
    ),
    "Memory.create_from_hardware_buffer": Call(
        lambda: nnvk.Memory.create_from_hardware_buffer, {"buffer": Given(lambda: nnvk.HardwareBuffer(16), OBJECT)}
    ),
    "Memory.slice": Call(lambda: shared_memory(16).slice, {"offset": Given(0, NUMBER), "length": Given(16, NUMBER)}),
    "MemoryDesc.add_input_role": Call(lambda: nnvk.MemoryDesc().add_input_role, ROLE),
    "MemoryDesc.add_output_role": Call(lambda: nnvk.MemoryDesc().add_output_role, ROLE),
    "MemoryDesc.add_update_role": Call(
        lambda: nnvk.MemoryDesc().add_update_role,
        {
            "compilation": ROLE["compilation"],
            "input": ROLE["index"],
            "output": ROLE["index"],
            "frequency": ROLE["frequency"],
        },
    ),
    "MemoryDesc.set_dimensions": Call(
        lambda: open_desc().set_dimensions, {"dimensions": Given([2, 2], [*NUMBERS, [-1, 2], [2**32, 2], [2, 2, 2]])}
    ),
    "Model.add_operand": Call(lambda: building().add_operand, {"type": Given(FOUR, OBJECT)}),
    "Model.add_operation": Call(
        lambda: building().add_operation,
        {
            "code": Given(OperationCode.ADD, NUMBER),
            "inputs": Given([0, 1, 3], [*NUMBERS, [6], [-1]]),
            "outputs": Given([2], [*NUMBERS, [6], [-1], []]),
        },
    ),
    "Model.get_extension_operation_type": Call(
        lambda: building().get_extension_operation_type,
        {"extension": Given("com.example.filters", [*TEXT, ""]), "code": Given(0, [*NUMBER, -1, 2**16])},
    ),
    "Model.get_support": Call(lambda: add_model().get_support, {"device": Given(CPU, OBJECT)}),
    "Model.get_supported_operations_for_devices": Call(
        lambda: add_model().get_supported_operations_for_devices, {"devices": DEVICES}
    ),
    "Model.identify_inputs_and_outputs": Call(
        lambda: building().identify_inputs_and_outputs,
        {"inputs": Given([0, 1], [*NUMBERS, [6], [-1]]), "outputs": Given([2], [*NUMBERS, [6], [-1], []])},
    ),
    "Model.name_inputs": Call(
        lambda: identified().name_inputs,
        {"names": Given(["a", "b"], [None, object(), 5, 1.5, "ab", {}, {"a"}, [], ["a"], ["a"] * 3, ["a", 5]])},
    ),
    "Model.of": Call(lambda: nnvk.Model.of, {"model": Given(lambda: add_model().frozen, OBJECT)}),
    "Model.relax_computation_float32_to_float16": Call(
        lambda: building().relax_computation_float32_to_float16, {"allow": Given(True, FLAG)}
    ),
    "Model.set_operand_symm_per_channel_quant_params": Call(
        lambda: building().set_operand_symm_per_channel_quant_params,
        {
            "index": Given(4, NUMBER),
            "channel_dim": Given(0, NUMBER),
            "scales": Given([0.5, 0.25], REALS),
        },
    ),
    "Model.set_operand_value": Call(
        lambda: building().set_operand_value, {"index": Given(0, NUMBER), "value": Given(VALUES, DATA)}
    ),
    "Model.set_operand_value_from_memory": Call(
        lambda: building().set_operand_value_from_memory,
        {name: given for name, given in IN_MEMORY.items() if name != "type"},
    ),
    "Model.set_operand_value_from_model": Call(
        lambda: building().set_operand_value_from_model,
        {"index": Given(5, NUMBER), "value": Given(add_model(), OBJECT)},
    ),
    "OperandType": Call(
        lambda: _added_operand,
        {
            "code": Given(OperandCode.TENSOR_QUANT8_ASYMM, [*NUMBER, 16, -1]),
            "dimensions": Given((2, 3), [*NUMBERS, [-1], [2**32], [2**20, 2**20]]),
            "scale": Given(0.5, [*REAL, 0, math.inf, 1e-60]),
            "zero_point": Given(3, [*NUMBER, -1, 256]),
            "channel_quant": Given(None, OPTIONAL_OBJECT),
        },
    ),
    "OperandType.with_dimensions": Call(
        lambda: lambda dimensions: nnvk.Model().add_operand(FOUR.with_dimensions(dimensions)),
        {"dimensions": Given((2, 3), [*NUMBERS, [-1], [2**32], [2**20, 2**20]])},
    ),
    "get_device": Call(lambda: nnvk.get_device, {"name": Given("nnapi-reference", [*TEXT, "", "absent"])}),
    "run": Call(
        lambda: nnvk.run,
        {
            "compilation": Given(COMPILATION, OBJECT),
            "inputs": Given([VALUES], [*(wrong for wrong in OBJECTS if wrong != [None]), [], [VALUES] * 2]),
        },
    ),
}


def _waited(run: nnvk.Execution) -> Callable[..., None]:
    """Starts an execution and waits for its end."""
    return lambda **arguments: run.start_compute_with_dependencies(**arguments).wait()


def _added_operand(**parts: Any) -> int:
    """Add an operand of a type, as only that shows whether the type contradicts itself."""
    return nnvk.Model().add_operand(OperandType(**parts))


CALLS |= {
    "load": Call(
        lambda: nnvk.load,
        {
            "source": Given(MODELS[0].path, [None, object(), int, 5, 1.5, [], {}]),
            "device": Given(CPU, [object(), int, 5, 1.5, [], {}, b"cpu", b"auto", "abacus", "automatic"]),
            "fallback": Given(True, FLAG),
            "shapes": Given({}, [object(), 5, 1.5, "text", [1], {"x": (1,)}, {"image": 5}, {"image": "text"}]),
            "relaxed": Given(False, FLAG),
            "cache": Given(True, [None, False, object(), int, 5, 1.5, [], {}, b"bytes", "absent"]),
            "constants": Given({}, [object(), 5, 1.5, "text", [1], {"x": 1}]),
            "round_hybrid": Given(True, FLAG),
            "images": Given(nnvk.ImageOptions(), OBJECT),
            "plan_bytes": Given(1, [*_NO_NUMBERS, *_FLOATS, -1]),
            "verified": Given(True, [wrong for wrong in FLAG if wrong is not None]),
            "reproducible": Given(True, [wrong for wrong in FLAG if wrong is not None]),
            "progress": Given(lambda: lambda done, total: None, [wrong for wrong in OBJECTS if wrong is not None]),
        },
    ),
    "LoadedModel.random": Call(
        lambda: nnvk.load(MODELS[0].path, device=CPU).random, {"seed": Given(0, [*_NO_NUMBERS, *_FLOATS, -1])}
    ),
    "ImageOptions": Call(
        lambda: nnvk.ImageOptions,
        {
            "normalization": Given(nnvk.Normalization(), OPTIONAL_OBJECT),
            "layout": Given("nchw", [object(), 5, 1.5, b"nchw", "hwc"]),
            "resize": Given("cover", [None, object(), 5, 1.5, b"cover", "crop"]),
        },
    ),
    "Normalization": Call(
        lambda: nnvk.Normalization,
        {
            "mean": Given((0.0,), [None, object(), 5, 1.5, "ab", {}, [None], ["0.5"], [math.nan], [math.inf], [1e300]]),
            "std": Given((1.0,), [None, object(), 5, 1.5, "ab", {}, [None], ["0.5"], [math.nan], [0.0], [1e-300]]),
            "scale": Given(1.0, [object(), "1/255", {}, [1.0], math.nan, math.inf, 0.0, 1e-300, 1e300]),
        },
    ),
}

INTERNAL = {
    "LoadedModel",
    "Stats",
    "Normalization.cut_off",
    "Normalization.parse",
    # Those that take any number of inputs, which tests/loading feeds with wrong ones.
    "LoadedModel.compute",
    "LoadedModel.own_parts",
    "LoadedModel.parts",
    "LoadedModel.prepare",
    "LoadedModel.profile",
    "LoadedModel.read",
    "LoadedModel.run_async",
    "LoadedModel.settle",
    "LoadedModel.shaped",
    "LoadedModel.start",
    "LoadedModel.stream",
    "Compilation.check_one_device",
    "DeviceMemory.check_role",
    "DeviceMemory.end_write",
    "DeviceMemory.is_updated",
    "DeviceMemory.set_initialized",
    "DeviceMemory.slice",
    "DeviceMemory.write",
    "Event",
    "Memory",
    "Memory.set_initialized",
    "Memory.write",
    "OperandType.check",
    "OperandType.check_channels",
    "Partition",
}
"""Calls that nnvk itself makes."""


def public_calls() -> Iterator[tuple[str, set[str]]]:
    """Everything public that takes arguments, where it is defined, with their names."""
    for name in nnvk.__all__:
        found = getattr(nnvk, name)
        if isinstance(found, str):
            continue
        if not inspect.isclass(found):
            yield name, set(inspect.signature(found).parameters)
        elif not issubclass(found, (Enum, Exception)):
            yield name, set(inspect.signature(found).parameters)
            for method in vars(found):
                value = getattr(found, method)
                if not method.startswith("_") and callable(value):
                    yield f"{name}.{method}", set(inspect.signature(value).parameters) - {"self"}


def test_every_call_is_here() -> None:
    """With each of its arguments."""
    found = {path: arguments for path, arguments in public_calls() if arguments and path not in INTERNAL}
    assert found == {path: set(call.arguments) for path, call in CALLS.items()}


@pytest.mark.parametrize("path", CALLS)
def test_what_is_right(path: str) -> None:
    call = CALLS[path]
    call.make()(**{name: given.value() for name, given in call.arguments.items()})


@pytest.mark.parametrize(
    ("path", "name", "wrong"),
    [
        pytest.param(path, name, wrong, id=f"{path}-{name}-{described(wrong)}")
        for path, call in CALLS.items()
        for name, given in call.arguments.items()
        for wrong in given.wrong
    ],
)
def test_what_is_wrong(path: str, name: str, wrong: object) -> None:
    call = CALLS[path]
    function = call.make()
    right = {other: given.value() for other, given in call.arguments.items()}
    with pytest.raises(TypeError if is_wrong_everywhere(wrong) else (TypeError, NnapiError)) as caught:
        function(**(right | {name: wrong}))
    if isinstance(caught.value, NnapiError):
        assert caught.value.code is ResultCode.BAD_DATA, caught.value
    function(**right)


def is_wrong_everywhere(value: object) -> bool:
    """Whether no call takes such an object, whatever it holds: that is a TypeError, and no matter of NNAPI's codes."""
    return type(value) in (object, type, SimpleNamespace)


IMPORTED = tflite.load(MODELS[0].path)
PORT = IMPORTED.inputs[0]
EDGE: dict[str, Callable[[Any], object]] = {
    "load": tflite.load,
    "ImportedModel.encode": IMPORTED.encode,
    "ImportedModel.encode one": lambda wrong: IMPORTED.encode([wrong]),
    "ImportedModel.encode state": lambda wrong: IMPORTED.encode([np.zeros(PORT.shape, PORT.dtype)], wrong),
    "ImportedModel.decode": IMPORTED.decode,
    "ImportedModel.decode one": lambda wrong: IMPORTED.decode([wrong]),
    "Port.encode": PORT.encode,
    "Port.decode": PORT.decode,
}
"""The importer's objects take arguments through these functions."""


@pytest.mark.parametrize("path", EDGE)
@pytest.mark.parametrize("wrong", [object(), int, 5, 1.5, {}, ["a"], [None]], ids=described)
def test_what_is_wrong_for_the_importer(path: str, wrong: object) -> None:
    with pytest.raises((TypeError, NnapiError)) as caught:
        EDGE[path](wrong)
    if isinstance(caught.value, NnapiError):
        assert caught.value.code is ResultCode.BAD_DATA


@pytest.mark.parametrize(
    "number", [2**31, np.int64(2**31), -(2**40), np.uint32(2**32 - 1), np.int64(-(2**62))], ids=repr
)
def test_numbers_that_a_type_does_not_hold(number: object) -> None:
    for value in (number, [number]):
        with pytest.raises(NnapiError, match=r"operand 3: .* is no INT32") as caught:
            building().set_operand_value(3, value)
        assert caught.value.code is ResultCode.BAD_DATA


# --- what is right -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_lists_of_numbers_may_be_arrays(dtype: type) -> None:
    build = Builder()
    a, b, activation = build.operand(f32(2)), build.operand(f32(2)), build.constant(INT, 0)
    result = build.operand(f32(2))
    model = build.model
    model.add_operation(OperationCode.ADD, np.array([a, b, activation], dtype), np.array([result], dtype))  # type: ignore[arg-type]
    model.identify_inputs_and_outputs(np.array([a, b], dtype), np.array([result], dtype))  # type: ignore[arg-type]
    model.finish()
    (output,) = nnvk.run(compiled(model, CPU), [np.ones(2, np.float32)] * 2)
    assert output.tolist() == [2, 2]
    assert {type(index) for index in model.frozen.operations[0].inputs} == {int}


def test_dimensions_of_memory_may_be_an_array() -> None:
    desc = open_desc()
    desc.set_dimensions(np.array([2, 3]))  # type: ignore[arg-type]
    desc.finish()
    assert nnvk.Memory.create_from_desc(desc).dimensions == (2, 3)


def test_numbers_may_be_numpy_s() -> None:
    run = preparing()
    run.set_input(np.int64(0), VALUES)  # type: ignore[arg-type]
    output = np.zeros(4, np.float32)
    run.set_output(np.uint8(0), output)  # type: ignore[arg-type]
    run.set_reusable(np.bool_(True))  # type: ignore[arg-type]
    run.set_loop_timeout(np.int64(10**9))  # type: ignore[arg-type]
    run.compute()
    assert output.tolist() == [1, 2, 3, 4]
    compilation = compiling()
    compilation.set_caching(tempfile.gettempdir(), np.arange(32))  # type: ignore[arg-type]
    assert OperandType(F32, np.array([2])) == OperandType(F32, (2,))  # type: ignore[arg-type]
