"""The whole suite of conformance vectors, where it lies beside the project, one test per file and device.

``pytest "tests/conformance/test_suite.py::test_vectors[V1_2/add_v1_2-vulkan-0]"`` runs one file again,
``nnvk conformance <folder> --filter <name>`` one test. ``pytest tests/conformance/test_suite.py --sample 600`` runs a
sample of 600 vectors, always the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from sampling import sample

from nnvk import Device, api, get_devices
from nnvk.conformance.runner import Status, connect
from nnvk.conformance.vectors import Case, find_cases
from nnvk.driver import process
from nnvk.runtime.devices import manager

SUITE = Path(__file__).parents[3] / "shared" / "conformance"
FILES = sorted(SUITE.glob("*/*.json.gz"))
DEVICES = [device.name for device in get_devices() if device.name in ("vulkan-0", "nnapi-reference")]


has_vectors = pytest.mark.skipif(not FILES, reason=f"there are no vectors in {SUITE}")


def name_of(file: Path) -> str:
    return f"{file.parent.name}/{file.name.removesuffix('.json.gz')}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The files for `test_vectors`: all of them, or those of a sample (``--sample``)."""
    if metafunc.function is not test_vectors:
        return
    count = metafunc.config.getoption("sample")
    drawn: list[tuple[Path, list[Case] | None]] = [(file, None) for file in FILES]
    if count is not None and FILES:
        try:
            cases = sorted(sample(find_cases(FILES), count), key=lambda case: case.path)
        except ValueError as error:
            raise pytest.UsageError(f"--sample: {error}") from None
        drawn = [(file, list(of_file)) for file, of_file in groupby(cases, key=lambda case: case.path)]
    metafunc.parametrize(("file", "cases"), drawn, ids=[name_of(file) for file, _ in drawn])
    metafunc.parametrize("device", DEVICES)


@has_vectors
@pytest.mark.sampled
def test_vectors(device: str, file: Path, cases: list[Case] | None) -> None:
    check(device, file, "sync", cases)


@has_vectors
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("file", FILES[::20], ids=name_of)
def test_a_sample_in_c(device: str, file: Path) -> None:
    """All of them: ``nnvk conformance FOLDER --device NAME --path c``."""
    check(device, file, "c")


@has_vectors
@pytest.mark.parametrize("file", FILES[7::40], ids=name_of)
def test_a_sample_with_the_driver_in_another_process(apart: str, file: Path) -> None:
    """All of them: ``NNVK_DRIVER_PROCESS=1 nnvk conformance FOLDER --device vulkan-0``."""
    for path in ("sync", "device-memory", "fenced"):
        check(apart, file, path)


@pytest.fixture(scope="module")
def apart() -> Iterator[str]:
    """The name of the preferred Vulkan device, whose driver is in another process."""
    if "vulkan-0" not in DEVICES:
        pytest.skip("there is no Vulkan device")
    (device, *_), _ = process.find_devices(api.driver_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manager, "_devices", [Device(device)])
        yield device.name


def check(device: str, file: Path, path: str, cases: list[Case] | None = None) -> None:
    """Run the given tests of a file, or all, which must pass, or on Vulkan be unsupported."""
    run = connect(device, path)
    verdicts = {case.name: run(case.path, case.index) for case in cases or find_cases([file])}
    may_lack = device != "nnapi-reference"
    not_allowed = [Status.FAILED] if may_lack else [Status.FAILED, Status.UNSUPPORTED]
    wrong = [f"{name}: {verdict.reason}" for name, verdict in verdicts.items() if verdict.status in not_allowed]
    assert not wrong, "\n".join(wrong)
