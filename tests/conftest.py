"""All tests share a folder for caches, the C library's server, and the time that hypothesis allows for an example.

Under NNVK_VALIDATION=1 they also share a device whose messages are failures.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from tempfile import TemporaryDirectory

import pytest
from c_library import write_server

from nnvk.base.settings import override, settings
from nnvk.driver.vulkan import find_devices, take_validation_messages
from nnvk.driver.vulkan.planning.passes import fp16

with suppress(ModuleNotFoundError):  # the quick tests do without it
    import hypothesis

    # An example may take longer on a busy machine than the 200 ms that hypothesis allows.
    hypothesis.settings.register_profile(
        "busy", deadline=timedelta(seconds=3), suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("busy")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Runs can be shortened and lengthened."""
    parser.addoption(
        "--sample",
        type=int,
        metavar="N",
        help="of the conformance vectors only N, always the same ones, evenly from all operations",
    )
    parser.addoption(
        "--one-in",
        type=int,
        metavar="N",
        default=1,
        help="of all tests only about one in N, always the same ones",
    )
    parser.addoption(
        "--all-onnx-nodes",
        action="store_true",
        help="run all node tests of the onnx package in sessions of onnxruntime, not a sample of them",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that ``--one-in`` draws. The draw is by name, so that all processes of a run agree."""
    share = config.getoption("one_in")
    if share < 1:
        raise pytest.UsageError(f"--one-in: expected a number above 0, got {share}")
    drawn = [item for item in items if zlib.crc32(item.nodeid.encode()) % share == 0]
    if len(drawn) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(drawn)])
        items[:] = drawn


def pytest_configure(config: pytest.Config) -> None:
    """Files that outlive processes go to a folder of this run, and passes are checked, in processes of tests too."""
    folder = TemporaryDirectory(prefix="nnvk-tests-")
    config.add_cleanup(folder.cleanup)
    os.environ["NNVK_CACHE_DIR"] = folder.name
    os.environ["NNVK_VERIFY_GRAPH"] = "1"
    replaced = override(cache_dir=folder.name, verify_graph=1)
    replaced.__enter__()
    config.add_cleanup(lambda: replaced.__exit__(None, None, None))


def pytest_sessionstart() -> None:
    """Without a validated device there is nothing to validate: tests would just be skipped."""
    if settings().validation:
        found, reason = find_devices()
        if not found:
            raise pytest.UsageError(f"NNVK_VALIDATION=1, but {reason}")


@pytest.fixture
def any_gemm_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small relaxed models have 16-bit floats, whose GEMMs are not worth the conversions around them."""
    monkeypatch.setattr(fp16, "_WORTH_A_CONVERSION", 0)


@pytest.fixture(autouse=True)
def validation_is_silent() -> Iterator[None]:
    """Every test's messages are its own."""
    yield
    if settings().validation:
        assert take_validation_messages() == []


@pytest.fixture(scope="session", autouse=True)
def c_library_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The C library starts the package under test as its server, wherever that is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNVK_SERVER", str(write_server(tmp_path_factory.mktemp("server"))))
        yield
