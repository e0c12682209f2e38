"""Choices that were measured to be the fastest, in a file for all processes.

The file is in the user's cache folder or NNVK_CACHE_DIR. One that is damaged, or was made for others, is as good as
none; one that can't be written is no error.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Mapping

from nnvk.base.files import FileKind, UnusableFileError, cache_folder
from nnvk.base.settings import settings

MOST_BYTES = 16 << 20
"""Larger files are neither written nor read."""
MOST_KEY_BYTES = 1 << 16


class KeptChoices:
    """The choices by what they answer."""

    def __init__(self, kind: FileKind, name: str, key: str, log: logging.Logger) -> None:
        """``name`` begins the name of the file, and ``key`` says for what device and versions the choices hold."""
        self._kind = kind
        self._key = key
        self._log = log
        file, folder = f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}", cache_folder()
        self.path = None if folder is None else folder / file
        """Where the file is; None where nothing shall be kept."""
        self._lock = threading.Lock()
        self._known: dict[str, str] | None = None

    @property
    def known(self) -> Mapping[str, str]:
        """All choices; the file is read once."""
        with self._lock:
            if self._known is None:
                self._known = self._read()
            return self._known

    def add(self, choices: Mapping[str, str]) -> None:
        """Keep choices, beside those that other processes have found meanwhile."""
        with self._lock:
            self._known = {**self._read(), **(self._known or {}), **choices}
            content = json.dumps(self._known).encode()
            if self.path is None and not settings().cache_dir:
                self._log.warning(
                    "what was measured is not kept: there is no home folder, and NNVK_CACHE_DIR names none"
                )
            if self.path is None or len(content) > MOST_BYTES:
                return
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._kind.write(self.path, self._key.encode(), [content])
            except OSError as error:
                self._log.warning("what was measured can't be kept in %s: %s", self.path, error)

    def _read(self) -> dict[str, str]:
        if self.path is None:
            return {}
        try:
            header, body = self._kind.read(self.path, most_header=MOST_KEY_BYTES, most_body=MOST_BYTES)
            if header.decode() != self._key:
                raise UnusableFileError("it was made for another device")
            choices = json.loads(bytes(body))
            if not isinstance(choices, dict) or not all(isinstance(choice, str) for choice in choices.values()):
                raise UnusableFileError("it has something else")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError, UnusableFileError) as error:
            self._log.info("what was measured, in %s, is not used: %s", self.path, error)
            return {}
        return choices
