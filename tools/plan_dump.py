"""Write the Vulkan driver's plans of models and of random graphs as JSON, for ``tools/plan_diff.py``.

    PYTHONPATH=.:tests/support python tools/plan_dump.py plans.json --models ../shared/models --random 40

The nnvk that is imported makes the plans, for the device profiles of ``tests/support/profiles.py``. It needs no
device.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from profiles import DEVICES, GPU
from random_graph import random_graph

from nnvk.base.errors import NnapiError
from nnvk.driver.vulkan.planning.outline import outline
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import NATIVE_16, DeviceProfile
from nnvk.importers import formats
from nnvk.ops import registry
from nnvk.ops.flow import CONTROL_FLOW
from nnvk.types.model import Model

SUFFIXES = (".onnx", ".tflite")
"""Files of a folder that are models."""
_CODES = tuple(code for code in registry.definitions() if code not in CONTROL_FLOW)
"""The operations of random graphs: control flow is planned at execution."""


def plans(paths: Sequence[Path], graphs: int) -> dict[str, dict[str, Any]]:
    """The outlines of the plans of models and random graphs, by the names of model and profile.

    ``graphs`` is the number of random graphs, with the seeds from 0 on. A model that can't be planned before an
    execution has the reason as ``error``. Profiles have all features that shaders use but for 16-bit floats, or none;
    each model is also planned as a relaxed one for a GPU that has these too.
    """
    library = ShaderLibrary()
    found = {}
    drawn = ((f"random graph {seed}", random_graph(seed, codes=_CODES).frozen) for seed in range(graphs))
    for name, model in chain(models(paths), drawn):
        for profile_name, each, profile in _cases(model, library.features):
            try:
                content = outline(each, profile, library)
            except NnapiError as error:
                content = {"error": error.reason}
            found[f"{name}, {profile_name}"] = content
    return found


def models(paths: Sequence[Path]) -> Iterator[tuple[Path, Model]]:
    """The models of files, and of all files in folders."""
    for path in paths:
        for file in sorted(f for f in path.rglob("*") if f.suffix in SUFFIXES) if path.is_dir() else [path]:
            yield file, formats.load(file).model.frozen


def _cases(model: Model, features: frozenset[str]) -> Iterator[tuple[str, Model, DeviceProfile]]:
    for name, profile in DEVICES.items():
        yield name, model, replace(profile, features=features - NATIVE_16 if profile.features else frozenset())
    yield "relaxed", replace(model, relaxed=True), replace(GPU, features=features)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the JSON file to write")
    parser.add_argument("--models", type=Path, nargs="+", default=[], help="models, or folders that have some")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="the number of random graphs")
    options = parser.parse_args(arguments)
    options.file.write_text(json.dumps(plans(options.models, options.random)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
