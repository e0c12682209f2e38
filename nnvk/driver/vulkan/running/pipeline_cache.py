"""The driver's compiled pipelines in a file, so that a shader is compiled once for all processes (VkPipelineCache).

There is one file for each device and driver, in the user's cache folder or NNVK_CACHE_DIR. A file that is damaged or
from another driver is ignored. A file that cannot be written is not an error. Processes share the file: each adds its
pipelines to the content of the file.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from nnvk.base import forks
from nnvk.base.files import FileKind, UnusableFileError, cache_folder
from nnvk.base.log import logger

if TYPE_CHECKING:
    import nnvk._native as _native

_log = logger("driver")

MOST_BYTES = 256 << 20
"""The limit of the file's size. Larger data are neither written nor read."""
MOST_KEY_BYTES = 1 << 12
KIND = FileKind(b"nnvkpipe", 2)
_HEADER_BYTES = 32
"""The size of VkPipelineCacheHeaderVersionOne; data that ends with it holds no pipelines."""


class PipelineCache:
    """The file of one device."""

    def __init__(self, physical: _native.PhysicalDevice) -> None:
        self._key = {
            "vendor": physical.vendor_id,
            "device": physical.device_id,
            "driver": physical.driver_version,
            "cache": physical.pipeline_cache_uuid.hex(),
        }
        folder = cache_folder()
        vendor, device, driver, cache = self._key.values()
        self.path = None if folder is None else folder / f"pipelines-{vendor:04x}-{device:04x}-{driver:x}-{cache}"
        """The path of the file; None if nothing may be kept."""
        self._lock = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Begin without pipelines; a forked child compiles on its own device."""
        self._compiled = 0
        self._digest = b""

    def load(self) -> bytes:
        """The content of the file, for a new device; empty if no file matches."""
        data = self._read()
        self._compiled, self._digest = 0, hashlib.sha256(data).digest()
        return data

    def keep(self, device: _native.Device) -> None:
        """Write the pipelines that ``device`` has compiled since the last call."""
        compiled = device.pipelines_compiled
        if self.path is None or compiled == self._compiled or not self._lock.acquire(blocking=False):
            return  # who has the lock writes, or the next one does
        try:
            self._compiled = compiled
            data = device.pipeline_cache_data(self._read())
            digest = hashlib.sha256(data).digest()
            if digest == self._digest or not _HEADER_BYTES < len(data) <= MOST_BYTES:
                return
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            KIND.write(self.path, json.dumps(self._key).encode(), [data])
            self._digest = digest
            _log.debug("%d bytes of pipelines are kept in %s", len(data), self.path)
        except (OSError, RuntimeError, MemoryError) as error:
            _log.debug("the pipelines can't be kept in %s: %s", self.path, error)
        finally:
            self._lock.release()

    def _read(self) -> bytes:
        if self.path is None:
            return b""
        try:
            header, body = KIND.read(self.path, most_header=MOST_KEY_BYTES, most_body=MOST_BYTES)
            if json.loads(header) != self._key:
                raise UnusableFileError("it was made for another driver")
        except FileNotFoundError:
            return b""
        except (OSError, ValueError, UnusableFileError) as error:
            _log.debug("the pipelines in %s are not used: %s", self.path, error)
            return b""
        return bytes(body)
