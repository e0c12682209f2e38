"""docs/api.md: complete, in the specification's order, and true."""

from __future__ import annotations

import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import nnvk
import nnvk.batch
import nnvk.hal
import nnvk.importers.tflite
import nnvk.insight.comparison
import nnvk.insight.engines
import nnvk.insight.limits
import nnvk.insight.measuring
import nnvk.insight.profiling

DOCUMENT = Path(__file__).parents[2] / "docs" / "api.md"

# Every function of NeuralNetworks.h at feature level 8, in its documentation's order.
FUNCTIONS = [
    "Burst_create",
    "Burst_free",
    "Compilation_create",
    "Compilation_createForDevices",
    "Compilation_finish",
    "Compilation_free",
    "Compilation_getPreferredMemoryAlignmentForInput",
    "Compilation_getPreferredMemoryAlignmentForOutput",
    "Compilation_getPreferredMemoryPaddingForInput",
    "Compilation_getPreferredMemoryPaddingForOutput",
    "Compilation_setCaching",
    "Compilation_setPreference",
    "Compilation_setPriority",
    "Compilation_setTimeout",
    "Device_getFeatureLevel",
    "Device_getName",
    "Device_getType",
    "Device_getVersion",
    "Device_wait",
    "Event_createFromSyncFenceFd",
    "Event_free",
    "Event_getSyncFenceFd",
    "Event_wait",
    "Execution_burstCompute",
    "Execution_compute",
    "Execution_create",
    "Execution_enableInputAndOutputPadding",
    "Execution_free",
    "Execution_getDuration",
    "Execution_getOutputOperandDimensions",
    "Execution_getOutputOperandRank",
    "Execution_setInput",
    "Execution_setInputFromMemory",
    "Execution_setLoopTimeout",
    "Execution_setMeasureTiming",
    "Execution_setOutput",
    "Execution_setOutputFromMemory",
    "Execution_setReusable",
    "Execution_setTimeout",
    "Execution_startCompute",
    "Execution_startComputeWithDependencies",
    "MemoryDesc_addInputRole",
    "MemoryDesc_addOutputRole",
    "MemoryDesc_create",
    "MemoryDesc_finish",
    "MemoryDesc_free",
    "MemoryDesc_setDimensions",
    "Memory_copy",
    "Memory_createFromAHardwareBuffer",
    "Memory_createFromDesc",
    "Memory_createFromFd",
    "Memory_free",
    "Model_addOperand",
    "Model_addOperation",
    "Model_create",
    "Model_finish",
    "Model_free",
    "Model_getSupportedOperationsForDevices",
    "Model_identifyInputsAndOutputs",
    "Model_relaxComputationFloat32toFloat16",
    "Model_setOperandSymmPerChannelQuantParams",
    "Model_setOperandValue",
    "Model_setOperandValueFromMemory",
    "Model_setOperandValueFromModel",
    "_getDefaultLoopTimeout",
    "_getDevice",
    "_getDeviceCount",
    "_getMaximumLoopTimeout",
    "_getRuntimeFeatureLevel",
]
NAMES = [f"ANeuralNetworks{name}" for name in FUNCTIONS]
ROW = re.compile(r"^\| `(ANeuralNetworks\w*_\w+)` \| (.+?) \| (.*)\|$", re.MULTILINE)
MENTIONED = re.compile(r"`(nnvk(?:\.\w+)+)(\([^`]*\))?`")


@pytest.fixture(scope="module")
def document() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


def resolve(path: str) -> object:
    """Return the object that a dotted name stands for; modules are imported."""
    return pkgutil.resolve_name(path)


def test_every_function_is_there_in_order(document: str) -> None:
    assert len(NAMES) == 69
    assert [name for name, _, _ in ROW.findall(document)] == NAMES


@pytest.mark.parametrize("function", NAMES)
def test_every_function_has_a_counterpart(document: str, function: str) -> None:
    """Or needs none, and the notes say why."""
    counterpart, notes = {name: (python, notes) for name, python, notes in ROW.findall(document)}[function]
    if counterpart == "none":
        assert notes.startswith("garbage collection")
        return
    assert MENTIONED.fullmatch(counterpart), counterpart


def test_everything_that_is_mentioned_exists(document: str) -> None:
    mentioned = [row for row in MENTIONED.findall(document) if row[0] != "nnvk.drivers"]  # a group of entry points
    assert len(mentioned) > 60
    for path, arguments in mentioned:
        found = resolve(path)
        if not arguments:
            continue
        assert callable(found), path
        assert arguments == f"({', '.join(described(found))})", path


def described(function: Any) -> list[str]:
    """The parameters as the document has them: with their default values."""
    parameters = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
    return [one.name if one.default is inspect.Parameter.empty else f"{one.name}={one.default!r}" for one in parameters]


def test_the_importer_is_documented(document: str) -> None:
    absent = [name for name in nnvk.importers.tflite.__all__ if f"`nnvk.importers.tflite.{name}" not in document]
    assert not absent
    assert "from nnvk.importers import tflite" in document


def test_the_importer_of_onnx_is_documented(document: str) -> None:
    importer = pytest.importorskip("nnvk.importers.onnx")
    absent = [name for name in importer.__all__ if f"`nnvk.importers.onnx.{name}" not in document]
    assert not absent
    assert "from nnvk.importers import onnx" in document


def test_the_docstrings_name_the_functions() -> None:
    """So that a search for a C function finds its counterpart in the code too."""
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(nnvk.__file__).parent.glob("runtime/*.py"))
    missing = []
    for name in NAMES:
        action = name.rpartition("_")[2]
        if action not in ("create", "free", "createForDevices", "getDevice", "getDeviceCount") and name not in sources:
            missing.append(name)
    assert not missing


def test_every_public_name_is_documented(document: str) -> None:
    absent = [name for name in nnvk.__all__ if not re.search(rf"\b{name}\b", document)]
    assert not absent


def test_the_samples_run(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each sample goes on with what those before it have made, and prints what it promises to print."""
    samples = re.findall(r"```python\n(.*?)```", document, re.DOTALL)
    assert len(samples) == 4
    variables: dict[str, object] = {}
    for sample in samples:
        exec(compile(sample, str(DOCUMENT), "exec"), variables)
        promised = " ".join(re.findall(r"print\(.*\)  # (.*)", sample))
        assert capsys.readouterr().out.split() == promised.replace("] [", "]\n [").split()


@pytest.mark.parametrize("name", ["IDevice", "IPreparedModel", "IExecution", "IFencedExecution", "IBuffer"])
def test_what_drivers_must_implement(document: str, name: str) -> None:
    (row,) = re.findall(rf"^\| `nnvk\.hal\.{name}` \| (.*) \|$", document, re.MULTILINE)
    must, _, _ = row.partition(";" if name != "IDevice" else "Also")
    assert set(re.findall(r"`(\w+)`", must)) == getattr(nnvk.hal, name).__abstractmethods__
