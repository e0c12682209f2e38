"""The process that AOSP's generator runs in: ``python -m nnvk.conformance.export_process GENERATOR SPECS OUT``.

``GetModelStruct`` of AOSP's example_generator.py describes a test for C++: types and lifetimes are enumerators, and
data is a list in braces.
"""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nnvk.base.files import replacing

_DTYPES = {
    "float": np.float32,
    "_Float16": np.float16,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
    "uint8_t": np.uint8,
    "int8_t": np.int8,
    "uint16_t": np.uint16,
    "int16_t": np.int16,
    "bool8": np.uint8,
    "bool": np.uint8,
}
_DATA = re.compile(r"TestBuffer::createFromVector<\s*(\w+)\s*>\(\s*\{(.*)\}\s*\)", re.DOTALL)
_WORDS = {"true": 1.0, "false": 0.0, "INFINITY": np.inf, "-INFINITY": -np.inf, "NAN": np.nan}
_WITHOUT_DATA = ("TEMPORARY_VARIABLE", "NO_VALUE")


def vector(name: str, struct: Mapping[str, Any]) -> dict[str, Any]:
    """A test in the form of the vectors, from AOSP's description of it. Raises ValueError for what that can't be."""
    version = _enumerator(struct["minSupportedVersion"])
    return {
        "name": name,
        "version": None if version == "UNKNOWN" else version,
        "relaxed": bool(struct["isRelaxed"]),
        "expect_failure": bool(struct["expectFailure"]),
        "multinomial_tolerance": struct["expectedMultinomialDistributionTolerance"],
        "main": _model(struct["main"]),
        "referenced": [_model(model) for model in struct["referenced"]],
    }


def _model(struct: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "operands": [_operand(operand) for operand in struct["operands"]],
        "operations": [
            {
                "type": _enumerator(operation["type"]),
                "inputs": list(operation["inputs"]),
                "outputs": list(operation["outputs"]),
            }
            for operation in struct["operations"]
        ],
        "inputs": list(struct["inputIndexes"]),
        "outputs": list(struct["outputIndexes"]),
    }


def _operand(struct: Mapping[str, Any]) -> dict[str, Any]:
    lifetime, channels = _enumerator(struct["lifetime"]), struct["channelQuant"]
    extra: dict[str, Any] = {}
    if channels:
        extra["channel_quant"] = {"scales": [float(each) for each in channels["scales"]], "dim": channels["channelDim"]}
    if struct["isIgnored"]:
        extra["ignored"] = True
    return {
        "type": _enumerator(struct["type"]),
        "dims": [int(size) for size in struct["dimensions"]],
        "scale": float(struct["scale"]),
        "zero_point": int(struct["zeroPoint"]),
        "lifetime": lifetime,
        "data": None if lifetime in _WITHOUT_DATA else _encoded(struct["data"]),
        **extra,
    }


def _enumerator(text: str) -> str:
    """``TestOperandType::TENSOR_INT32`` without its type."""
    return text.rpartition("::")[2]


def _encoded(text: str) -> str:
    """A list of C++ as base64 of its bytes."""
    match = _DATA.fullmatch(text.strip())
    if match is None or match[1] not in _DTYPES:
        raise ValueError(f"data is {text[:80]!r}, not a list of numbers")
    dtype = np.dtype(_DTYPES[match[1]]).newbyteorder("<")
    words = [word.strip() for word in match[2].split(",") if word.strip()]
    read = _real if dtype.kind == "f" else _whole
    array = np.array([read(word) for word in words], dtype)
    return base64.b64encode(array.tobytes()).decode("ascii")


def _real(word: str) -> float:
    return _WORDS[word] if word in _WORDS else float(word.rstrip("fF"))


def _whole(word: str) -> int:
    return int(_WORDS[word]) if word in _WORDS else int(word)


def write(folder: Path, spec: str, tests: Sequence[Mapping[str, Any]]) -> None:
    """Put a file of vectors in its place; the same tests give the same bytes."""
    text = json.dumps({"spec": spec, "tests": list(tests)})
    with replacing(folder / f"{spec}.json.gz", 0o666) as file:
        file.write(gzip.compress(text.encode(), mtime=0))


def main(generator: str, specs: str, out: str) -> None:
    """Have the generator read all specs of a folder, and write a file for each."""
    sys.path.insert(0, generator)
    describe: Any = importlib.import_module("example_generator")
    tool: Any = importlib.import_module("test_generator")
    tests: dict[str, list[dict[str, Any]]] = {}

    def collect(example: Any, _: Any) -> None:
        name = str(example.testName)
        found = tests.setdefault(str(tool.FileNames.specName), [])
        found.append(vector(name, describe.GetModelStruct(example)))

    with tempfile.TemporaryDirectory() as unused:  # the generator opens a file for each spec, of which nothing is read
        sys.argv = ["example_generator.py", specs, "-e", unused]
        describe.ParseCmdLine()
        tool.Run(InitializeFiles=describe.InitializeFiles, DumpExample=collect)
    for spec, of_spec in tests.items():
        write(Path(out), spec, of_spec)
        print(f"wrote {spec}: {len(of_spec)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
