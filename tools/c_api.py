"""Write what follows from the table of C functions: the headers, the library's stubs, and ``docs/c-api.md``.

    python tools/c_api.py --out DIR    # DIR/include/android/NeuralNetworks*.h, DIR/src/tables.hpp and stubs.cpp
    python tools/c_api.py --doc        # writes the page
    python tools/c_api.py --check      # fails where the page is not what would be written

The table is `nnvk.serve.functions`; numbers are those of `nnvk.types.codes`. Beside the standard
library NumPy is needed.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
import types
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "c-api.md"
WIDTH = 110


def _enter_package() -> None:
    """Make `nnvk` importable without its `__init__`, which needs what the build has not made yet."""
    if "nnvk" not in sys.modules:
        sys.path.insert(0, str(ROOT))
        package = types.ModuleType("nnvk")
        package.__path__ = [str(ROOT / "nnvk")]
        sys.modules["nnvk"] = package


_enter_package()

from nnvk.base import packets  # noqa: E402
from nnvk.serve import protocol  # noqa: E402
from nnvk.serve.extensions import ALL_FUNCTIONS, EXTENSIONS  # noqa: E402
from nnvk.serve.functions import FUNCTIONS  # noqa: E402
from nnvk.serve.table import OBJECTS, PREFIX, By, Function, Kind, Parameter  # noqa: E402
from nnvk.types import codes, request  # noqa: E402
from nnvk.types.extension import EXTENSION, ExtendedOperationCode  # noqa: E402

UPPER = "ANEURALNETWORKS_"
ENUMS: Sequence[tuple[type[IntEnum], str]] = (
    (codes.OperandCode, ""),
    (codes.OperationCode, ""),
    (codes.FuseCode, "FUSED_"),
    (codes.PaddingCode, "PADDING_"),
    (codes.PreferenceCode, "PREFER_"),
    (codes.DeviceTypeCode, "DEVICE_"),
    (codes.ResultCode, ""),
    (codes.PriorityCode, "PRIORITY_"),
    (codes.DurationCode, ""),
    (codes.FeatureLevelCode, "FEATURE_"),
)
"""The enumerations of NeuralNetworksTypes.h, and what their enumerators begin with."""
GENERATED = "// Made by tools/c_api.py of nnvk/serve/ and nnvk/types/codes.py. Changes are lost."
OPAQUE = {
    "Burst": "A lane for executions that follow each other quickly.",
    "Compilation": "A model, compiled for devices.",
    "Device": "A device; it is never freed.",
    "Event": "The end of an execution, or a sync fence.",
    "Execution": "Computations of a compilation with certain inputs and outputs.",
    "Memory": "Memory that models and executions refer to.",
    "MemoryDesc": "What device memory will be used for.",
    "Model": "A network under construction, or finished.",
}


# --- headers -------------------------------------------------------------------------------------------------------


def _comment(text: str, indent: str = "") -> str:
    lines = textwrap.wrap(text, WIDTH - len(indent) - 3)
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */"
    return "\n".join([f"{indent}/**", *(f"{indent} * {line}" for line in lines), f"{indent} */"])


def enumerators(enum: type[IntEnum], prefix: str) -> list[tuple[str, int]]:
    """An enumeration's enumerators as C has them."""
    found = [(f"{UPPER}{prefix}{member.name}", int(member)) for member in enum]
    if enum is codes.PriorityCode:
        found.append((f"{UPPER}PRIORITY_DEFAULT", int(codes.PriorityCode.MEDIUM)))
    return found


def types_header() -> str:
    """NeuralNetworksTypes.h."""
    parts = [GENERATED, _comment("Types and numbers of the Neural Networks API, feature level 8."), "#pragma once", ""]
    parts += ["#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>", "", "#ifdef __cplusplus"]
    parts += ['extern "C" {', "#endif", ""]
    for enum, prefix in ENUMS:
        parts += [_comment(str(enum.__doc__).split("\n")[0].replace("`", "")), "typedef enum {"]
        parts += [f"  {name} = {value}," for name, value in enumerators(enum, prefix)]
        parts += [f"}} {enum.__name__};", ""]
    parts += [
        _comment("Bytes up to which setOperandValue copies at once."),
        f"enum {{ {UPPER}MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES = {codes.MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES} }};",
        _comment("Bytes of the token of a compilation's cache."),
        f"enum {{ {UPPER}BYTE_SIZE_OF_CACHE_TOKEN = {codes.BYTE_SIZE_OF_CACHE_TOKEN} }};",
        "",
    ]
    for name in OBJECTS:
        parts += [_comment(OPAQUE[name]), f"typedef struct {PREFIX}{name} {PREFIX}{name};"]
    parts += [
        "",
        _comment("An OperationCode, or the number of an extension's operation in a model."),
        "typedef int32_t ANeuralNetworksOperationType;",
        "",
        _comment("The type of an operand."),
        "typedef struct ANeuralNetworksOperandType {",
        _comment("An OperandCode.", "  "),
        "  int32_t type;",
        _comment("0 for scalars, and for tensors whose rank is open.", "  "),
        "  uint32_t dimensionCount;",
        _comment("As many as dimensionCount says; 0 for a size that is open.", "  "),
        "  const uint32_t* dimensions;",
        _comment("Of quantised types: real value = (value - zeroPoint) * scale; else 0.", "  "),
        "  float scale;",
        "  int32_t zeroPoint;",
        "} ANeuralNetworksOperandType;",
        "",
        _comment("The scales of an operand of type ANEURALNETWORKS_TENSOR_QUANT8_SYMM_PER_CHANNEL."),
        "typedef struct ANeuralNetworksSymmPerChannelQuantParams {",
        _comment("The dimension that counts the channels.", "  "),
        "  uint32_t channelDim;",
        _comment("How many scales there are: the size of that dimension.", "  "),
        "  uint32_t scaleCount;",
        "  const float* scales;",
        "} ANeuralNetworksSymmPerChannelQuantParams;",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
    ]
    return "\n".join(parts)


def _functions_header(title: str, includes: Iterable[str], functions: Iterable[Function]) -> str:
    parts = [GENERATED, _comment(title), "#pragma once", "", *(f"#include <android/{name}>" for name in includes)]
    parts += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    for function in functions:
        errors = "; ".join(f"{code}: {when}" for code, when in function.errors.items())
        described = [function.does] + ([f"Errors: {errors}."] if errors else [])
        described.append(f"Since feature level {function.level}.")
        parts += [_comment(" ".join(described)), *_declaration(function), ""]
    return "\n".join([*parts, "#ifdef __cplusplus", "}", "#endif", ""])


def _declaration(function: Function) -> list[str]:
    line = f"{function.prototype};"
    if len(line) <= WIDTH:
        return [line]
    head, _, rest = line.partition("(")
    return textwrap.wrap(f"{head}({rest}", WIDTH, subsequent_indent="    ")


def functions_header() -> str:
    """NeuralNetworks.h."""
    title = (
        "The functions of the Neural Networks API, feature level 8. Those that return int return a ResultCode:"
        " ANEURALNETWORKS_UNEXPECTED_NULL where a pointer is NULL that must not be, ANEURALNETWORKS_DEAD_OBJECT where"
        " the server has died that the object lived in. What was wrong is logged to standard error."
    )
    return _functions_header(title, ("NeuralNetworksTypes.h", "hardware_buffer.h"), FUNCTIONS)


def extensions_header() -> str:
    """NeuralNetworksExtensions.h."""
    return _functions_header("The functions for vendor extensions.", ("NeuralNetworks.h",), EXTENSIONS)


def own_extension_header() -> str:
    """nnvk/extension.h."""
    title = "nnvk's vendor extension: operations that NNAPI has not. docs/operations.md has their signatures."
    parts = [GENERATED, _comment(title)]
    parts += ["#pragma once", "", "#include <android/NeuralNetworksExtensions.h>", ""]
    parts += [_comment("Its name, for ANeuralNetworksModel_getExtensionOperationType.")]
    parts += [f'#define NNVK_EXTENSION_NAME "{EXTENSION}"', "", _comment("Its operations, by their numbers within it.")]
    parts += ["typedef enum {", *(f"  NNVK_{code.name} = {code.value}," for code in ExtendedOperationCode)]
    return "\n".join([*parts, "} NnvkExtendedOperationCode;", ""])


# --- the library's stubs -------------------------------------------------------------------------------------------


def request_name(function: Function) -> str:
    """The name of a function's number in requests."""
    return "kRequest" + function.name.removeprefix(PREFIX).replace("_", "")


def tables() -> str:
    """tables.hpp: numbers that library and server share, and declarations of what is written by hand."""
    rows = ALL_FUNCTIONS
    parts = [GENERATED, "#pragma once", "", "#include <android/NeuralNetworksExtensions.h>", "", "#include <cstdint>"]
    parts += ["", "namespace nnvk {", "", f"constexpr uint32_t kFingerprint = {protocol.fingerprint()}u;"]
    parts += [
        f"constexpr uint32_t kIndirect = {packets.INDIRECT}u;",
        f"constexpr size_t kLargestPacket = {packets.LARGEST_PACKET};",
        f"constexpr size_t kMostDescriptors = {packets.MOST_DESCRIPTORS};",
        f"constexpr size_t kAlignment = {packets.ALIGNMENT};",
        f"constexpr uint32_t kSavedPartFormat = {protocol.SAVED_PART_FORMAT};",
        f"constexpr uint64_t kDefaultLoopTimeout = {request.DEFAULT_LOOP_TIMEOUT_NS};",
        f"constexpr uint64_t kMaximumLoopTimeout = {request.MAXIMUM_LOOP_TIMEOUT_NS};",
        f"constexpr int64_t kFeatureLevel = {int(max(codes.FeatureLevelCode))};",
        "",
    ]
    parts += [f"constexpr uint32_t {request_name(row)} = {number};" for number, row in enumerate(rows)]
    parts += [f"constexpr uint32_t kRequest{number_name(asked)} = {int(asked)};" for asked in protocol.REQUESTS]
    parts += [
        "",
        "// Written by hand: arguments are no NULL that must not be. Errors are thrown.",
        "namespace by_hand {",
        "",
    ]
    for row in rows:
        if row.by is By.LIBRARY:
            returns = "void" if row.returns == "int" else row.returns
            parts.append(f"{returns} {row.name}({', '.join(_c(parameter) for parameter in row.parameters)});")
    return "\n".join([*parts, "", "}  // namespace by_hand", "}  // namespace nnvk", ""])


def number_name(asked: IntEnum) -> str:
    """A request's name as C++ has it."""
    return asked.name.title().replace("_", "")


def _c(parameter: Parameter) -> str:
    return f"{parameter.type} {parameter.name}"


def stubs() -> str:
    """stubs.cpp: the C functions."""
    parts = [GENERATED, "", '#include "objects.hpp"', '#include "request.hpp"', "", "using namespace nnvk;", ""]
    for row in ALL_FUNCTIONS:
        arguments = ", ".join(_c(parameter) for parameter in row.parameters)
        parts += [f'extern "C" NNVK_EXPORT {row.returns} {row.name}({arguments}) {{', *_body(row), "}", ""]
    return "\n".join(parts)


def _body(row: Function) -> list[str]:
    if row.by is By.FREE:
        return [f"  freeObject({row.parameters[0].name});"]
    given = ", ".join(parameter.name for parameter in row.parameters)
    if row.returns != "int":
        return [f"  return by_hand::{row.name}({given});"]
    inner = [f'required({p.name}, "{p.name}");' for p in row.parameters if "*" in p.type and not p.nullable]
    inner += [
        f'requiredArray({p.name}, {p.count}, "{p.name}");'
        for p in row.parameters
        if p.count and p.kind is not Kind.OBJECTS
    ]
    inner += [f'requiredElements({p.name}, {p.count}, "{p.name}");' for p in row.parameters if p.kind is Kind.OBJECTS]
    inner += [f"*{p.name} = nullptr;" for p in row.parameters if p.kind is Kind.NEW_OBJECT]
    inner += [f"by_hand::{row.name}({given});"] if row.by is By.LIBRARY else _asking(row)
    return [f'  return guarded("{row.name}", [&] {{', *(f"    {line}" for line in inner), "  });"]


def _asking(row: Function) -> list[str]:
    """The lines that ask the server."""
    first = row.parameters[0]
    lives_there = first.kind is Kind.OBJECT and first.object != "Device"
    owner = f"serverOf(*{first.name})" if lives_there else "Server::running()"
    lines = [f"Request request({request_name(row)}, {owner});"]
    results: list[str] = []
    for p in row.parameters:
        if p.kind in (Kind.OBJECT, Kind.NUMBER, Kind.TEXT, Kind.POINTER):
            lines.append(f"request.put({'*' if p.kind is Kind.OBJECT else ''}{p.name});")
        elif p.kind in (Kind.OBJECTS, Kind.NUMBERS, Kind.BYTES):
            lines.append(f"request.put({p.name}, {p.count});")
        elif p.kind is Kind.RESULT:
            results.append(f"request.take({p.name});")
        elif p.kind is Kind.RESULTS:
            results.append(f"request.takeAll({p.name});")
        elif p.kind is Kind.NEW_OBJECT:
            results.append(f"*{p.name} = request.made<{PREFIX}{p.object}>();")
    if any(p.kind is Kind.NEW_OBJECT for p in row.parameters):
        lines.append("request.announce();")
    lines += ["request.ask();", *results, "request.check();"] if results else ["request.ask();"]
    return lines if lives_there else ["again([&] {", *(f"  {line}" for line in lines), "});"]


# --- the page ------------------------------------------------------------------------------------------------------

_INTRODUCTION = """\
# The C interface

`libneuralnetworks.so` has every function of NNAPI at feature level 8. `tools/c_api.py` writes this page from the same
table as the library, its server and the headers. [c.md](c.md) says how to build programs with the library,
and [processes.md](processes.md#the-c-library) how it works.

Functions that return `int` return a `ResultCode`. Each function may return these codes, and those that its entry lists:

- `ANEURALNETWORKS_UNEXPECTED_NULL`: a pointer is NULL that must not be NULL.
- `ANEURALNETWORKS_OUT_OF_MEMORY`; `ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT`: no descriptors or threads are left.
- `ANEURALNETWORKS_UNAVAILABLE_DEVICE`: the server can't be started.
- `ANEURALNETWORKS_DEAD_OBJECT`: the object's server has died; a new model gets a new server.

The library logs the reason of each error to standard error. Any thread may use an object, and objects may be freed in
any order.
"""


def page() -> str:
    """docs/c-api.md."""
    parts = [_INTRODUCTION]
    for title, rows in (("NeuralNetworks.h", FUNCTIONS), ("NeuralNetworksExtensions.h", EXTENSIONS)):
        parts.append(f"## {title}\n")
        owner = None
        for row in rows:
            if row.owner != owner:
                owner = row.owner
                parts.append(f"### {PREFIX}{owner}\n" if owner else "### The runtime\n")
            parts.append(_entry(row))
    return "\n".join(parts)


def _entry(row: Function) -> str:
    lines = [f"`{row.prototype}`\\", *textwrap.wrap(row.does, 120)]
    notes = []
    if row.nullable and row.by is not By.FREE:
        notes.append(f"May be NULL: {', '.join(f'`{name}`' for name in row.nullable)}.")
    notes += [f"{'`' + code + '`' if code.isupper() else code}: {when}." for code, when in row.errors.items()]
    notes.append(f"Feature level {row.level}." + (f" In Python: `{row.python}`." if row.python else ""))
    for note in notes:
        lines += textwrap.wrap(note, 118, initial_indent="- ", subsequent_indent="  ")
    return "\n".join([*lines, ""])


def write(folder: Path) -> None:
    """Write headers and sources; what has not changed keeps its time."""
    files = {
        "include/android/NeuralNetworks.h": functions_header(),
        "include/android/NeuralNetworksExtensions.h": extensions_header(),
        "include/android/NeuralNetworksTypes.h": types_header(),
        "include/nnvk/extension.h": own_extension_header(),
        "src/stubs.cpp": stubs(),
        "src/tables.hpp": tables(),
    }
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != content:
            target.write_text(content)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where headers and sources go")
    parser.add_argument("--doc", action="store_true", help="write the page")
    parser.add_argument("--check", action="store_true", help="compare the page")
    options = parser.parse_args(arguments)
    if options.out is not None:
        write(options.out)
    if options.doc:
        PAGE.write_text(page())
    if options.check and (not PAGE.exists() or PAGE.read_text() != page()):
        print(f"{PAGE} is not up to date: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
