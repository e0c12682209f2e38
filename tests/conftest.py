"""All tests share a folder for caches, the C library's server, and the time that hypothesis allows for an example.

Under NNVK_VALIDATION=1 they also share a device whose messages are failures.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import in_turn
import pytest
from c_library import write_server

from nnvk.base.limits import cores
from nnvk.base.settings import override, settings
from nnvk.driver.vulkan import find_devices, take_validation_messages
from nnvk.driver.vulkan.planning import planner
from nnvk.driver.vulkan.planning.lowered import Lowered
from nnvk.driver.vulkan.planning.passes import fp16
from nnvk.driver.vulkan.running import compiler
from nnvk.types.model import Model

_PROOF_MINUTES = 3
_VALIDATED = ("tests/driver/vulkan/", "tests/conformance/test_suite.py::")
"""How the names of the Vulkan devices' tests begin."""
_VALIDATED_ONE_IN = 5
"""One in so many of them runs under the validation layer only."""

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
        "--proof",
        choices=("only", "without"),
        help="run only the tests that proof.txt names, which prove an installation, or all others",
    )
    parser.addoption(
        "--validated",
        choices=("only", "without"),
        help="run only the fifth of the Vulkan devices' tests that CI runs under the validation layer, or all others",
    )
    parser.addoption(
        "--in-turn",
        action="store_true",
        help="let devices and numbers take turns over the cases of tests, see tests/support/in_turn.py",
    )
    parser.addoption(
        "--litert-graphs",
        type=int,
        metavar="N",
        default=100,
        help="compare N random graphs of quantised operators with LiteRT's kernels, bit by bit",
    )
    parser.addoption(
        "--all-onnx-nodes",
        action="store_true",
        help="run all node tests of the onnx package in sessions of onnxruntime, not a sample of them",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collected tests from the garbage collector, which spent a fifth of the time on looking at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that ``--one-in`` draws, and ``--proof``, ``--validated`` and ``--in-turn`` select.

    All go by the name of a test, so that all processes of a run agree.
    """
    share, proof = config.getoption("one_in"), config.getoption("proof")
    if share < 1:
        raise pytest.UsageError(f"--one-in: expected a number above 0, got {share}")
    lines = (Path(__file__).parent / "proof.txt").read_text().splitlines()
    names = tuple(line.split("#")[0].strip() for line in lines if line and not line.startswith("#"))
    if proof == "only":
        files = {item.nodeid.partition("::")[0] for item in items}
        for name in names:
            file = name.partition("::")[0]
            # A file without tests here is one that a missing package skips.
            is_test = any(item.nodeid.startswith(name) for item in items)
            if not is_test and (file in files or not (config.rootpath / file).exists()):
                raise pytest.UsageError(f"proof.txt: no test is called {name}")
    in_turn.number_cases(items)
    proved = {i for i in items if i.nodeid.startswith(names) and _is_quick(i)}
    kept = proved if proof == "only" else set(items) - proved if proof else set(items)
    validated = config.getoption("validated")
    if config.getoption("in_turn"):
        # A test that another run leaves to the validation layer must be one that runs there.
        parts = (kept & proved, kept - proved) if validated else (kept,)
        kept = set().union(*(in_turn.chosen([item for item in items if item in part]) for part in parts))
    if validated:
        kept = {item for item in kept if _is_validated(item) == (validated == "only")}
    kept = {item for item in kept if in_turn.number_of(item.nodeid) % share == 0}
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def _is_quick(item: pytest.Item) -> bool:
    """Whether a test that proof.txt names is a part of the proof, which leaves out numbers and takes few vectors."""
    is_sample = item.config.getoption("sample") is not None
    return item.get_closest_marker("numbers") is None and (is_sample or item.get_closest_marker("sampled") is None)


def _is_validated(item: pytest.Item) -> bool:
    """Whether CI runs a test under the validation layer. Another set of numbers says nothing new of a test there."""
    is_of_vulkan = item.nodeid.startswith(_VALIDATED) and "nnapi-reference" not in item.nodeid
    is_drawn = in_turn.number_of(item.nodeid) % _VALIDATED_ONE_IN == 0
    return is_of_vulkan and is_drawn and item.get_closest_marker("numbers") is None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Say how much the proof is before it begins."""
    if node.config.getoption("proof") == "only" and node.gateway.id == "gw0":
        line = f"{len(ids)} tests prove the installation: about {_PROOF_MINUTES} minutes on two cores"
        node.config.pluginmanager.get_plugin("terminalreporter").write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Files that outlive processes go to a folder of this run, and passes are checked, in processes of tests too.

    No test passes by onnxruntime or LiteRT, unless it has `libraries`, which lets these compute what nnvk can't.
    """
    if config.getoption("in_turn"):
        in_turn.switch_on()
    folder = TemporaryDirectory(prefix="nnvk-tests-")
    config.add_cleanup(folder.cleanup)
    os.environ["NNVK_CACHE_DIR"] = folder.name
    os.environ["NNVK_VERIFY_GRAPH"] = "1"
    os.environ["NNVK_VERIFY_SIZES"] = "1"
    os.environ["NNVK_CPU_LIBRARIES"] = "0"
    replaced = override(cache_dir=folder.name, verify_graph=1, verify_sizes=True, cpu_libraries=False)
    replaced.__enter__()
    config.add_cleanup(lambda: replaced.__exit__(None, None, None))
    # Where each core has a worker, threads that help one to compile shaders only take time from another.
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    patch = pytest.MonkeyPatch()
    patch.setattr(compiler, "cores", lambda: max(1, cores() // workers))
    config.add_cleanup(patch.undo)


def pytest_sessionstart() -> None:
    """Without a validated device there is nothing to validate: tests would just be skipped."""
    if settings().validation:
        found, reason = find_devices()
        if not found:
            raise pytest.UsageError(f"NNVK_VALIDATION=1, but {reason}")


@pytest.fixture
def libraries() -> Iterator[None]:
    """Let onnxruntime and LiteRT compute what nnvk can't."""
    with override(cpu_libraries=True):
        yield


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


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Model]:
    """The models that the Vulkan driver lowers during a test: with numbers, or traced."""
    models: list[Model] = []
    before = planner.lowered

    def counted(model: Model, *arguments: Any) -> Lowered:
        models.append(model)
        return before(model, *arguments)

    monkeypatch.setattr(planner, "lowered", counted)
    return models
