"""The whole suite of conformance vectors, where it lies beside the project, one test per file and device.

``pytest "tests/conformance/test_suite.py::test_vectors[V1_2/add_v1_2-vulkan-0]"`` runs one file again,
``nnvk conformance <folder> --filter <name>`` one test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nnvk import get_devices
from nnvk.conformance.runner import Status, connect
from nnvk.conformance.vectors import find_cases

SUITE = Path(__file__).parents[3] / "shared" / "conformance"
FILES = sorted(SUITE.glob("*/*.json.gz"))
DEVICES = [device.name for device in get_devices() if device.name in ("vulkan-0", "nnapi-reference")]


@pytest.mark.skipif(not FILES, reason=f"there are no vectors in {SUITE}")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name.removesuffix('.json.gz')}")
def test_vectors(device: str, file: Path) -> None:
    run = connect(device, "sync")
    verdicts = {case.name: run(case.path, case.index) for case in find_cases([file])}
    not_allowed = [Status.FAILED, Status.UNSUPPORTED] if device == "nnapi-reference" else [Status.FAILED]
    wrong = [f"{name}: {verdict.reason}" for name, verdict in verdicts.items() if verdict.status in not_allowed]
    assert not wrong, "\n".join(wrong)
