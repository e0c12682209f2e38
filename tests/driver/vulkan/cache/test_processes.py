"""Compilation caching by several processes, and by such as are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cached import BATCH, MODEL, SHAPES, Load, compute
from networks import increment

from nnvk.base.files import KEY_NAME
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.cache import PlanCache
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.types.model import Model
from nnvk.types.request import PrepareOptions

WRITER = """
    import os, signal, sys
    sys.path.insert(0, {support!r})
    from pathlib import Path
    from networks import classifier
    from nnvk.driver.vulkan import find_devices
    from nnvk.driver.vulkan.planning import cache
    from nnvk.types.request import PrepareOptions

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    {hook}
    device = find_devices()[0][0]
    device.prepare_model(classifier({batch}).frozen, PrepareOptions(cache=Path({path!r})))
"""
HOOKS = {
    "at the first bytes": "cache._header = die",
    "amid the constants": """
    write = cache.FileKind.write
    def cut(kind, path, header, body, nbytes=None):
        def parts():
            for number, part in enumerate(body):
                if number == 1:
                    die()
                yield part
        write(kind, path, header, parts(), nbytes)
    cache.FileKind.write = cut
    """,
    "before it is on the disk": "os.fsync = die",
    "before it is in its place": "os.replace = die",
}


def writer(path: Path, hook: str = "") -> subprocess.Popen[bytes]:
    support = str(Path(__file__).parents[3] / "support")
    lines = textwrap.dedent(WRITER).format(support=support, batch=BATCH, path=str(path), hook="pass  # hook")
    script = lines.replace("pass  # hook", textwrap.dedent(hook))
    # Not in the source tree, whose package would hide the installed one.
    return subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, cwd="/")


def finish(process: subprocess.Popen[bytes]) -> int:
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGKILL), errors.decode()
    return process.returncode


@pytest.mark.parametrize("moment", HOOKS)
def test_processes_that_are_killed_while_they_write(
    own: VulkanDevice, path: Path, entry: bytes, moment: str, lowered: list[Model]
) -> None:
    old = b"an older entry" * 1000
    path.write_bytes(old)
    assert finish(writer(path, HOOKS[moment])) == -signal.SIGKILL
    assert path.read_bytes() == old
    assert len(list(path.parent.glob(".*.tmp"))) <= 1
    compute(own, path)
    assert path.read_bytes() == entry
    compute(own, path)
    assert len(lowered) == 1


def test_what_killed_processes_leave_is_removed_in_the_end(own: VulkanDevice, path: Path) -> None:
    names = (f".{path.name}.a.tmp", f".{path.name}.b.tmp", ".x.nnvk.c.tmp")
    left, fresh, other = (path.parent / name for name in names)
    for file in (left, fresh, other):
        file.write_bytes(b"half")
    for file in (left, other):
        os.utime(file, (time.time() - 10_000,) * 2)
    compute(own, path)
    assert not left.exists()
    assert fresh.exists(), "somebody may be writing it"
    assert other.exists(), "it belongs to another entry"


def test_processes_share_a_cache(own: VulkanDevice, path: Path, entry: bytes, lowered: list[Model]) -> None:
    processes = [writer(path) for _ in range(2)]
    assert [finish(process) for process in processes] == [0, 0]
    assert path.read_bytes() == entry
    compute(own, path)
    assert not lowered


def test_readers_never_see_half_a_file(load: Load, key: dict[str, str], own: VulkanDevice, path: Path) -> None:
    kept = PlanCache(path, key)
    plan = own.planner.plan(MODEL, SHAPES, PrepareOptions())
    kept.store(plan)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            kept.store(plan)

    def plans() -> Iterator[Plan | None]:
        for _ in range(100):
            yield load(path)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert all(loaded is not None for loaded in plans())
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert {file.name for file in path.parent.iterdir()} == {path.name, KEY_NAME}


def test_constants_are_not_held_twice(own: VulkanDevice, path: Path) -> None:
    """Once they are on the device, neither packed arrays nor a file's content stay in the memory of the process."""
    for _ in range(2):
        prepared = own.prepare_model(increment(100_000).frozen, PrepareOptions(cache=path))
        (plan,) = prepared._program.single._plans.values()  # type: ignore[attr-defined]
        assert plan.plan.constants == ()
