"""Autotune results: a file keeps the candidates that were measured to be the fastest on a device, for all processes.

There is one file for a device, its driver and nnvk's shaders, in the user's cache folder or NNVK_CACHE_DIR. One that is
damaged, or was made for others, is as good as none; one that can't be written is no error.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping

from nnvk.base.files import FileKind, UnusableFileError, cache_folder
from nnvk.base.log import logger
from nnvk.base.settings import settings
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile, described

_log = logger("driver")

MOST_BYTES = 16 << 20
"""Larger files are neither written nor read."""
MOST_KEY_BYTES = 1 << 16
KIND = FileKind(b"nnvktune", 3)


class AutotuneResults:
    """The autotune results by the tuning key that they answer (`Lowering.choose`)."""

    def __init__(self, version: str, profile: DeviceProfile, library: ShaderLibrary) -> None:
        content = {"device": version, "profile": described(profile), "shaders": library.digest}
        self._key = json.dumps(content)
        folder = cache_folder()
        name = f"strategies-{hashlib.sha256(self._key.encode()).hexdigest()[:16]}"
        self.path = None if folder is None else folder / name
        """Where the file is; None where nothing shall be kept."""
        self._lock = threading.Lock()
        self._known: dict[str, str] | None = None

    @property
    def known(self) -> Mapping[str, str]:
        """All autotune results; the file is read once."""
        with self._lock:
            if self._known is None:
                self._known = self._read()
            return self._known

    def add(self, autotune_results: Mapping[str, str]) -> None:
        """Keep autotune results, beside those that other processes have found meanwhile."""
        with self._lock:
            self._known = {**self._read(), **(self._known or {}), **autotune_results}
            content = json.dumps(self._known).encode()
            if self.path is None and not settings().cache_dir:
                _log.warning("what was measured is not kept: there is no home folder, and NNVK_CACHE_DIR names none")
            if self.path is None or len(content) > MOST_BYTES:
                return
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                KIND.write(self.path, self._key.encode(), [content])
            except OSError as error:
                _log.warning("what was measured can't be kept in %s: %s", self.path, error)

    def _read(self) -> dict[str, str]:
        if self.path is None:
            return {}
        try:
            header, body = KIND.read(self.path, most_header=MOST_KEY_BYTES, most_body=MOST_BYTES)
            if header.decode() != self._key:
                raise UnusableFileError("it was made for another device")
            autotune_results = json.loads(bytes(body))
            if not isinstance(autotune_results, dict) or not all(
                isinstance(candidate, str) for candidate in autotune_results.values()
            ):
                raise UnusableFileError("it has something else")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError, UnusableFileError) as error:
            _log.info("what was measured, in %s, is not used: %s", self.path, error)
            return {}
        return autotune_results
