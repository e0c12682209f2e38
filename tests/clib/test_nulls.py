"""NULL is ANEURALNETWORKS_UNEXPECTED_NULL wherever the table does not allow it, and harmless to free."""

from __future__ import annotations

import ctypes

import pytest
from c_client import COperandType, library
from c_library import FLOATS, Adding, add_model, code_of

from nnvk import ResultCode
from nnvk.serve.extensions import ALL_FUNCTIONS
from nnvk.serve.table import By, Function, Kind

FORBIDDEN = [
    pytest.param(row, place, id=f"{row.name}-{parameter.name}")
    for row in ALL_FUNCTIONS
    if row.by is not By.FREE
    for place, parameter in enumerate(row.parameters)
    if "*" in parameter.type and not parameter.nullable
]


@pytest.mark.parametrize("row, place", FORBIDDEN)
def test_a_null(row: Function, place: int) -> None:
    somewhere = ctypes.create_string_buffer(4096)  # what is not NULL is not looked at before all are known not to be
    arguments = [
        (None if index == place else ctypes.addressof(somewhere)) if "*" in parameter.type else 0
        for index, parameter in enumerate(row.parameters)
    ]
    assert code_of(row.name.removeprefix("ANeuralNetworks").lstrip("_"), *arguments) is ResultCode.UNEXPECTED_NULL


@pytest.mark.parametrize("row", [row for row in ALL_FUNCTIONS if row.by is By.FREE], ids=lambda row: row.name)
def test_freeing_null(row: Function) -> None:
    getattr(library(), row.name.removeprefix("ANeuralNetworks"))(None)


@pytest.mark.parametrize(
    "row",
    [row for row in ALL_FUNCTIONS if any(parameter.kind is Kind.NEW_OBJECT for parameter in row.parameters)],
    ids=lambda row: row.name,
)
def test_what_fails_gives_null(row: Function) -> None:
    """Where there is anything that can be wrong."""
    if row.name in ("ANeuralNetworksModel_create", "ANeuralNetworksMemoryDesc_create"):
        return
    wrong = {
        "Burst_create": lambda: [unfinished_compilation()],
        "Compilation_create": lambda: [library().make("Model_create")],
        "Compilation_createForDevices": lambda: [finished_model(), (ctypes.c_void_p * 1)(), 0],
        "Event_createFromSyncFenceFd": lambda: [-1],
        "Execution_create": lambda: [unfinished_compilation()],
        "Execution_startCompute": lambda: [unset_execution()],
        "Execution_startComputeWithDependencies": lambda: [unset_execution(), None, 0, 0],
        "Memory_createFromAHardwareBuffer": lambda: None,
        "Memory_createFromDesc": lambda: [library().make("MemoryDesc_create")],
        "Memory_createFromFd": lambda: [0, 0, 0, 0],
        "_getDevice": lambda: [99],
    }[row.name.removeprefix("ANeuralNetworks")]()
    if wrong is None:
        return
    made = ctypes.c_void_p(1)
    assert code_of(row.name.removeprefix("ANeuralNetworks").lstrip("_"), *wrong, ctypes.byref(made))
    assert made.value is None


KEPT: list[object] = []
"""These objects must live as long as their handles are used."""


def finished_model() -> ctypes.c_void_p:
    model = add_model()
    KEPT.append(model)
    return model.handle


def unfinished_compilation() -> ctypes.c_void_p:
    return library().make("Compilation_create", finished_model())


def unset_execution() -> ctypes.c_void_p:
    adding = Adding()
    KEPT.append(adding)
    return library().make("Execution_create", adding.compilation.handle)


def test_nulls_within_arrays_and_structures() -> None:
    model, adding = add_model(), Adding()
    null = (ctypes.c_void_p * 1)()
    compilation, event = ctypes.c_void_p(), ctypes.c_void_p()
    supported = (ctypes.c_bool * 4)()
    found = [
        code_of("Compilation_createForDevices", model.handle, null, 1, ctypes.byref(compilation)),
        code_of("Model_getSupportedOperationsForDevices", model.handle, null, 1, supported),
        code_of("Execution_startComputeWithDependencies", adding.handle, null, 1, 0, ctypes.byref(event)),
        code_of("Execution_startComputeWithDependencies", adding.handle, None, 1, 0, ctypes.byref(event)),
        code_of("Execution_setInput", adding.handle, 0, None, None, 24),
        code_of("Execution_setOutput", adding.handle, 0, None, None, 24),
        code_of("MemoryDesc_setDimensions", library().make("MemoryDesc_create"), 2, None),
    ]
    unfinished = library().make("Model_create")
    type_ = COperandType.of(FLOATS)
    assert code_of("Model_addOperand", unfinished, ctypes.byref(type_)) is ResultCode.NO_ERROR
    found.append(code_of("Model_setOperandValue", unfinished, 0, None, 24))
    type_.dimensions = None
    found.append(code_of("Model_addOperand", unfinished, ctypes.byref(type_)))
    assert found == [ResultCode.UNEXPECTED_NULL] * len(found)
