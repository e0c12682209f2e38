"""Objects of the C library: lifetimes, states, sizes."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path

import numpy as np
import pytest
from c_client import CCompilation, CExecution, CModel, COperandType, library, numbers
from c_library import FLOATS, Adding, add_model, code_of

from nnvk import (
    EXTENSION,
    ExtendedOperationCode,
    NnapiError,
    OperandCode,
    OperandType,
    OperationCode,
    PreferenceCode,
    ResultCode,
    get_devices,
)

DEVICES = [device.name for device in get_devices()]
OPEN = OperandType(OperandCode.TENSOR_FLOAT32, (0,))
OK, BAD_DATA, BAD_STATE = ResultCode.NO_ERROR, ResultCode.BAD_DATA, ResultCode.BAD_STATE


def test_devices_are_those_of_python() -> None:
    for device in get_devices():
        handle = library().device(device.name)
        kind, level, version = ctypes.c_int32(), ctypes.c_int64(), ctypes.c_char_p()
        library().call("Device_getType", handle, ctypes.byref(kind))
        library().call("Device_getFeatureLevel", handle, ctypes.byref(level))
        library().call("Device_getVersion", handle, ctypes.byref(version))
        found = (kind.value, level.value, (version.value or b"").decode())
        assert found == (device.type, device.feature_level, device.version)
        assert library().device(device.name).value == handle.value
        assert code_of("Device_wait", handle) is OK


@pytest.mark.parametrize("device", DEVICES)
def test_an_execution(device: str) -> None:
    adding = Adding(device, reusable=True)
    for value in (3, 5, 7):
        adding.first[:] = value
        adding.execution.compute()
        assert adding.is_right()


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))), ids=lambda order: "".join(map(str, order)))
def test_every_order_of_free(order: tuple[int, ...]) -> None:
    """Model, compilation, execution, burst and event, the last while it computes."""
    adding = Adding()
    burst = library().make("Burst_create", adding.compilation.handle)
    event = library().make("Execution_startCompute", adding.handle)
    frees = [
        lambda: library().Model_free(adding.model.handle),
        lambda: library().Compilation_free(adding.compilation.handle),
        lambda: library().Execution_free(adding.handle),
        lambda: library().Burst_free(burst),
        lambda: library().Event_free(event),
    ]
    handles = (adding.model, adding.compilation, adding.execution)
    for place in order:
        frees[place]()
    assert adding.is_right()
    for freed in handles:
        del freed.handle


def test_a_compilation_outlives_its_model_and_an_execution_its_compilation() -> None:
    adding = Adding()
    library().Model_free(adding.model.handle)
    library().Compilation_free(adding.compilation.handle)
    del adding.model.handle, adding.compilation.handle
    adding.execution.compute()
    assert adding.is_right()


def test_states_of_a_model() -> None:
    model = library().make("Model_create")
    made = ctypes.c_void_p()
    assert code_of("Compilation_create", model, ctypes.byref(made)) is BAD_STATE
    assert code_of("Model_finish", model) is BAD_DATA
    assert code_of("Model_finish", model) is BAD_STATE
    assert code_of("Model_addOperand", model, ctypes.byref(COperandType.of(FLOATS))) is BAD_STATE
    assert code_of("Compilation_create", model, ctypes.byref(made)) is BAD_STATE
    library().Model_free(model)


def test_states_of_a_compilation() -> None:
    model = add_model()
    compilation = library().make("Compilation_create", model.handle)
    made, number = ctypes.c_void_p(), ctypes.c_uint32()
    assert code_of("Execution_create", compilation, ctypes.byref(made)) is BAD_STATE
    assert code_of("Burst_create", compilation, ctypes.byref(made)) is BAD_STATE
    given = (compilation, 0, ctypes.byref(number))
    assert code_of("Compilation_getPreferredMemoryAlignmentForInput", *given) is BAD_STATE
    assert code_of("Compilation_setPreference", compilation, 7) is BAD_DATA
    assert code_of("Compilation_setPreference", compilation, PreferenceCode.LOW_POWER) is OK
    assert code_of("Compilation_setPriority", compilation, 1) is BAD_DATA
    assert code_of("Compilation_setTimeout", compilation, 1) is BAD_DATA  # for no device in particular
    assert code_of("Compilation_finish", compilation) is OK
    assert code_of("Compilation_finish", compilation) is BAD_STATE
    assert code_of("Compilation_setPreference", compilation, PreferenceCode.LOW_POWER) is BAD_STATE
    assert code_of("Compilation_getPreferredMemoryAlignmentForInput", *given) is OK
    assert number.value > 0
    library().Compilation_free(compilation)


def test_states_of_an_execution() -> None:
    adding = Adding()
    number = ctypes.c_uint64()
    assert code_of("Execution_getDuration", adding.handle, 0, ctypes.byref(number)) is BAD_STATE
    assert code_of("Execution_enableInputAndOutputPadding", adding.handle, True) is BAD_STATE
    assert code_of("Execution_compute", adding.handle) is OK
    assert code_of("Execution_getDuration", adding.handle, 0, ctypes.byref(number)) is OK
    assert number.value == 2**64 - 1
    assert code_of("Execution_getDuration", adding.handle, 9, ctypes.byref(number)) is BAD_DATA
    assert code_of("Execution_compute", adding.handle) is BAD_STATE
    assert code_of("Execution_setReusable", adding.handle, True) is BAD_STATE
    assert code_of("Execution_setInput", adding.handle, 0, None, adding.first.ctypes.data, 24) is BAD_STATE


@pytest.mark.parametrize("index, length", [(-1, 24), (2, 24), (0, 23), (0, 25), (0, 0)])
def test_inputs_that_do_not_fit(index: int, length: int) -> None:
    adding = Adding()
    assert code_of("Execution_setInput", adding.handle, index, None, adding.first.ctypes.data, length) is BAD_DATA
    adding.execution.compute()  # as it was set before
    assert adding.is_right()


def test_what_was_not_set() -> None:
    adding = Adding()
    execution = CExecution(adding.compilation)
    assert code_of("Execution_compute", execution.handle) is BAD_DATA


@pytest.mark.parametrize("device", DEVICES)
def test_open_dimensions(device: str) -> None:
    """They come with the inputs; what lies behind the output stays as it was."""
    compilation = CCompilation(add_model(OPEN), device)
    execution = CExecution(compilation)
    source, result = np.arange(5, dtype=np.float32), np.full(9, -1, np.float32)
    assert code_of("Execution_setInput", execution.handle, 0, None, source.ctypes.data, 20) is BAD_DATA
    type_ = COperandType.of(OPEN.with_dimensions((5,)))
    for index in (0, 1):
        library().call("Execution_setInput", execution.handle, index, ctypes.byref(type_), source.ctypes.data, 20)
    execution.set_output(0, result)
    execution.compute()
    assert result.tolist() == [0, 2, 4, 6, 8, -1, -1, -1, -1]
    assert execution.get_output_operand_dimensions(0) == (5,)


@pytest.mark.parametrize("device", DEVICES)
def test_an_output_that_is_too_small(device: str) -> None:
    """Its dimensions are told all the same."""
    compilation = CCompilation(add_model(OPEN), device)
    execution = CExecution(compilation)
    source, result = np.arange(5, dtype=np.float32), np.zeros(3, np.float32)
    type_ = COperandType.of(OPEN.with_dimensions((5,)))
    for index in (0, 1):
        library().call("Execution_setInput", execution.handle, index, ctypes.byref(type_), source.ctypes.data, 20)
    execution.set_output(0, result)
    assert code_of("Execution_compute", execution.handle) is ResultCode.OUTPUT_INSUFFICIENT_SIZE
    rank, dimensions = ctypes.c_uint32(), numbers([0])
    small = ResultCode.OUTPUT_INSUFFICIENT_SIZE
    assert code_of("Execution_getOutputOperandRank", execution.handle, 0, ctypes.byref(rank)) is small
    assert code_of("Execution_getOutputOperandDimensions", execution.handle, 0, dimensions) is small
    assert (rank.value, list(dimensions)) == (1, [5])


def test_padding() -> None:
    adding = Adding()
    execution = CExecution(adding.compilation)
    library().call("Execution_enableInputAndOutputPadding", execution.handle, True)
    source, result = np.arange(9, dtype=np.float32), np.full(9, -1, np.float32)
    execution.set_input(0, source)
    execution.set_input(1, source)
    execution.set_output(0, result)
    execution.compute()
    assert result.tolist() == [0, 2, 4, 6, 8, 10, -1, -1, -1]


def test_large_constants_are_not_needed_after_set_operand_value() -> None:
    """More than a packet holds."""
    type_ = OperandType(OperandCode.TENSOR_FLOAT32, (30011,))
    model = CModel()
    for given in (type_, type_, OperandType(OperandCode.INT32), type_):
        model.add_operand(given)
    values = np.arange(30011, dtype=np.float32)
    model.set_operand_value(1, values)
    model.set_operand_value(2, np.zeros(1, np.int32))
    model.add_operation(OperationCode.ADD, [0, 1, 2], [3])
    model.identify_inputs_and_outputs([0], [3])
    model.finish()
    execution = CExecution(CCompilation(model, "nnapi-reference"))
    expected = values + 1
    source, result = np.ones_like(values), np.zeros_like(values)
    execution.set_input(0, source)
    execution.set_output(0, result)
    execution.compute()
    assert (result == expected).all()


def test_bursts() -> None:
    adding, other = Adding(reusable=True), Adding()
    burst = library().make("Burst_create", adding.compilation.handle)
    assert code_of("Execution_burstCompute", other.handle, burst) is BAD_DATA
    for _ in range(3):
        adding.sum[:] = 0
        assert code_of("Execution_burstCompute", adding.handle, burst) is OK
        assert adding.is_right()
    library().Burst_free(burst)


def test_supported_operations() -> None:
    model = add_model()
    assert model.supported_operations("nnapi-reference") == [True]
    twice = (ctypes.c_void_p * 2)(*[library().device("nnapi-reference").value] * 2)
    assert code_of("Model_getSupportedOperationsForDevices", model.handle, twice, 2, (ctypes.c_bool * 1)()) is BAD_DATA


def test_caching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative folder is the application's, whose working directory may have changed."""
    model = add_model()
    compilation = library().make("Compilation_create", model.handle)
    token = ctypes.create_string_buffer(bytes(range(32)), 32)
    assert code_of("Compilation_setCaching", compilation, str(tmp_path / "none").encode(), token) is BAD_DATA
    assert code_of("Compilation_setCaching", compilation, str(tmp_path).encode(), token) is OK
    (tmp_path / "here").mkdir()
    assert code_of("Compilation_setCaching", compilation, b"here", token) is BAD_DATA
    monkeypatch.chdir(tmp_path)
    assert code_of("Compilation_setCaching", compilation, b"here", token) is OK
    assert code_of("Compilation_finish", compilation) is OK
    library().Compilation_free(compilation)


def test_extensions() -> None:
    model, number, flag = library().make("Model_create"), ctypes.c_int32(), ctypes.c_bool(True)
    assert code_of("Model_getExtensionOperationType", model, b"com.example.test", 3, ctypes.byref(number)) is OK
    assert number.value & 0xFFFF == 3 and number.value >> 16
    assert code_of("Model_getExtensionOperandType", model, b"com.example.test", 3, ctypes.byref(number)) is BAD_DATA
    device = library().device("nnapi-reference")
    assert code_of("Device_getExtensionSupport", device, b"com.example.none", ctypes.byref(flag)) is OK
    assert not flag.value
    library().Model_free(model)


@pytest.mark.parametrize("device", DEVICES)
def test_the_extension_of_nnvk(device: str) -> None:
    flag = ctypes.c_bool(False)
    assert code_of("Device_getExtensionSupport", library().device(device), EXTENSION.encode(), ctypes.byref(flag)) is OK
    assert flag.value
    model, number = CModel(), ctypes.c_int32()
    gather_nd = ExtendedOperationCode.GATHER_ND.value
    library().call("Model_getExtensionOperationType", model.handle, EXTENSION.encode(), gather_nd, ctypes.byref(number))
    integers = OperandType(OperandCode.TENSOR_INT32, (3, 2))
    floats = [OperandType(OperandCode.TENSOR_FLOAT32, shape) for shape in ((5, 7), (3,))]
    for type_ in (floats[0], integers, floats[1]):
        model.add_operand(type_)
    model.add_operation(number.value, [0, 1], [2])
    with pytest.raises(NnapiError, match="BAD_DATA"):  # what is wrong goes to the log
        model.add_operation(number.value - gather_nd + 999, [0, 1], [2])
    model.identify_inputs_and_outputs([0, 1], [2])
    model.finish()
    assert model.supported_operations(device) == [True]
    execution = CExecution(CCompilation(model, device))
    source, result = np.arange(35, dtype=np.float32).reshape(5, 7), np.zeros(3, np.float32)
    execution.set_input(0, source)
    execution.set_input(1, np.array([[4, 6], [0, -7], [-1, 1]], np.int32))
    execution.set_output(0, result)
    execution.compute()
    assert result.tolist() == [34, 0, 29]


def test_constants_of_the_runtime() -> None:
    found = (library().getDefaultLoopTimeout(), library().getMaximumLoopTimeout(), library().getRuntimeFeatureLevel())
    assert found == (2_000_000_000, 15_000_000_000, 1000008)
