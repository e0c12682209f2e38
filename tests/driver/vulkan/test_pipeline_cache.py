"""The driver's compiled pipelines on disk: what is kept, what is read, and that no file can do harm."""

from __future__ import annotations

import json
import os
import stat
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from networks import increment

from nnvk import _native
from nnvk.base.errors import ResultCode
from nnvk.base.settings import override, settings
from nnvk.check.model_rows import request
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.running.pipeline_cache import KIND, MOST_BYTES, PipelineCache
from nnvk.types.request import ExecuteOptions, PrepareOptions

HEADER = struct.Struct("<4I16s")
"""VkPipelineCacheHeaderVersionOne."""


class Physical:
    """A cache reads these properties of a physical device."""

    vendor_id, device_id, driver_version, pipeline_cache_uuid = 0x10DE, 0x2684, 0x8C, bytes(range(16))


class Device:
    """A device whose cache grows by a pipeline with each compilation, and joins what others have."""

    def __init__(self, cache: bytes = b"") -> None:
        self.pipelines: set[bytes] = set(cache[32:].split()) if cache else set()
        self.pipelines_compiled = 0
        self.asked = 0

    def compile(self, *names: bytes) -> None:
        self.pipelines |= set(names)
        self.pipelines_compiled += len(names)

    def pipeline_cache_data(self, others: bytes = b"") -> bytes:
        self.asked += 1
        return bytes(32) + b" ".join(sorted(self.pipelines | set(others[32:].split())))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where caches are kept; not there yet."""
    with override(cache_dir=str(tmp_path / "some" / "folder")):
        yield tmp_path / "some" / "folder"


def cache_of(physical: type[Physical] = Physical) -> PipelineCache:
    return PipelineCache(physical())  # type: ignore[arg-type]


def pipelines(cache: PipelineCache) -> set[bytes]:
    return Device(cache.load()).pipelines


def test_what_one_process_compiles_another_has(folder: Path) -> None:
    cache, device = cache_of(), Device()
    assert cache.load() == b""
    device.compile(b"a", b"b")
    cache.keep(device)  # type: ignore[arg-type]
    assert pipelines(cache_of()) == {b"a", b"b"}
    (file,) = folder.glob("[!.]*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_nothing_is_written_where_nothing_is_new(folder: Path) -> None:
    cache, device = cache_of(), Device()
    cache.keep(device)  # type: ignore[arg-type]
    assert device.asked == 0
    assert not folder.exists()
    device.compile(b"a")
    cache.keep(device)  # type: ignore[arg-type]
    cache.keep(device)  # type: ignore[arg-type]
    assert device.asked == 1
    (file,) = folder.glob("[!.]*")
    before = file.stat().st_mtime_ns, file.stat().st_ino
    again = cache_of()
    known = Device(again.load())
    known.compile(b"a")  # out of the cache
    again.keep(known)  # type: ignore[arg-type]
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before


def test_processes_add_to_what_others_have_compiled(folder: Path) -> None:
    caches, devices = [cache_of() for _ in range(3)], [Device() for _ in range(3)]
    for cache in caches:
        cache.load()
    for cache, device, name in zip(caches, devices, (b"a", b"b", b"c"), strict=True):
        device.compile(name)
        cache.keep(device)  # type: ignore[arg-type]
    assert pipelines(cache_of()) == {b"a", b"b", b"c"}


def test_threads_do_not_wait_for_one_that_writes(folder: Path) -> None:
    cache, entered, go_on = cache_of(), threading.Event(), threading.Event()

    class Slow(Device):
        def pipeline_cache_data(self, others: bytes = b"") -> bytes:
            entered.set()
            assert go_on.wait(10)
            return super().pipeline_cache_data(others)

    device = Slow()
    device.compile(b"a")
    writer = threading.Thread(target=cache.keep, args=(device,))
    writer.start()
    assert entered.wait(10)
    device.compile(b"b")
    cache.keep(device)  # type: ignore[arg-type]
    go_on.set()
    writer.join()
    cache.keep(device)  # type: ignore[arg-type]
    assert pipelines(cache_of()) == {b"a", b"b"}


@pytest.mark.parametrize(
    "changed",
    [{"vendor_id": 1}, {"device_id": 1}, {"driver_version": 1}, {"pipeline_cache_uuid": bytes(16)}],
    ids=lambda changed: next(iter(changed)),
)
def test_every_driver_has_a_file_of_its_own(folder: Path, changed: dict[str, object]) -> None:
    device = Device()
    device.compile(b"a")
    cache = cache_of()
    cache.keep(device)  # type: ignore[arg-type]
    other = cache_of(type("Other", (Physical,), changed))
    assert other.load() == b""
    assert other.path is not None and cache.path is not None
    other.path.write_bytes(cache.path.read_bytes())  # under the other's name it is none of the other's
    assert other.load() == b""


def test_files_that_can_not_be_used(folder: Path) -> None:
    cache = cache_of()
    assert cache.path is not None
    folder.mkdir(parents=True)
    key = json.dumps(cache._key).encode()
    KIND.write(cache.path, key, [b"x" * 100])
    good = cache.path.read_bytes()
    assert cache.load() == b"x" * 100
    for content in (b"", b"x", good[:-1], good + b"x", good[:50] + b"?" + good[51:]):
        cache.path.write_bytes(content)
        assert cache.load() == b""
    for header in (b"", b"{", b"[]", b"{}", b"null", b"\xff"):
        KIND.write(cache.path, header, [b"x" * 100])
        assert cache.load() == b""
    with cache.path.open("wb") as file:
        file.truncate(MOST_BYTES * 2)
    assert cache.load() == b""
    cache.path.unlink()
    os.mkfifo(cache.path)
    assert cache.load() == b""
    device = Device()
    device.compile(b"a")
    cache.keep(device)  # type: ignore[arg-type]
    assert pipelines(cache) == {b"a"}


def test_folders_that_can_not_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    for number, place in enumerate((tmp_path / "file" / "folder", Path("/proc/nnvk"))):
        with override(cache_dir=str(place)):
            cache, device = cache_of(), Device()
        assert cache.load() == b""
        device.compile(b"a")
        with caplog.at_level("DEBUG", "nnvk.driver"):
            cache.keep(device)  # type: ignore[arg-type]
        assert caplog.text.count("can't be kept") == number + 1
    assert all(record.levelname == "DEBUG" for record in caplog.records)


def test_a_driver_that_gives_nothing_keeps_nothing(folder: Path) -> None:
    class Empty(Device):
        def pipeline_cache_data(self, others: bytes = b"") -> bytes:
            return bytes(32)

    class Broken(Device):
        def pipeline_cache_data(self, others: bytes = b"") -> bytes:
            raise RuntimeError("VK_ERROR_UNKNOWN")

    for device in (Empty(), Broken()):
        device.compile(b"a")
        cache_of().keep(device)  # type: ignore[arg-type]
    assert not folder.exists()


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with override(cache_dir="0"):
        cache, device = cache_of(), Device()
    device.compile(b"a")
    cache.keep(device)  # type: ignore[arg-type]
    assert (cache.path, cache.load(), device.asked) == (None, b"", 0)
    with override(cache_dir=""):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_of().path.parent == tmp_path / "nnvk"  # type: ignore[union-attr]
    assert settings().cache_dir, "tests keep nothing in the user's folder"


def test_the_device_takes_it_over(folder: Path, own: VulkanDevice) -> None:
    """The driver gets what the file holds, and the file gets what the driver compiles, if the driver hands it out."""
    found, _ = find_devices()
    device = found[0]
    cache = device.gpu._pipelines
    assert cache.path is not None
    assert cache.path.is_relative_to(folder)
    prepared = device.prepare_model(increment(100).frozen, PrepareOptions())
    native = device.gpu.native()
    assert native.pipelines_compiled > 0
    data = native.pipeline_cache_data()
    if len(data) >= HEADER.size:  # llvmpipe gives no pipelines; that of Mesa 26.2 says 20 bytes for its header of 32
        size, version, vendor, number, uuid = HEADER.unpack_from(data)
        assert (size, version) == (HEADER.size, 1)
        physical = native.physical
        assert (vendor, number, uuid) == (physical.vendor_id, physical.device_id, physical.pipeline_cache_uuid)
    assert cache.path.exists() == (len(data) > HEADER.size)
    folder.mkdir(parents=True, exist_ok=True)
    for content in (data, data + b"what the driver did not write", b"x" * 1000):
        KIND.write(cache.path, json.dumps(cache._key).encode(), [content])
        again = find_devices()[0][0]
        output = np.empty(100, np.float32)
        again.prepare_model(increment(100).frozen, PrepareOptions()).execute(
            request([np.ones(100, np.float32)], [output]), ExecuteOptions()
        )
        assert (output == 2).all()
    executions = native.pipelines_compiled
    prepared.execute(request([np.ones(100, np.float32)], [output]), ExecuteOptions())
    assert native.pipelines_compiled == executions


def test_caches_of_processes_are_joined(own: VulkanDevice) -> None:
    native = own.gpu.native()
    data = native.pipeline_cache_data()
    for others in (data, data[:20], b"x" * 100):
        assert len(native.pipeline_cache_data(others)) >= len(data)
    assert issubclass(_native.DeviceLostError, _native.VulkanError)
    assert own.gpu.failure(_native.VulkanError("x")).code is ResultCode.OP_FAILED
