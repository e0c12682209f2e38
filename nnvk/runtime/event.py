"""Event: an execution under way."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nnvk.base.errors import NnapiError


class Event:
    """The end of an asynchronous execution (``ANeuralNetworksEvent``).

    `wait` writes the outputs; before it they are not defined. An event that is dropped waits first.
    """

    def __init__(self, finish: Callable[[], None]) -> None:
        self._finish: Callable[[], None] | None = finish
        self._error: NnapiError | None = None
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait for the end (``ANeuralNetworksEvent_wait``). Raises what the execution raised; may be called again."""
        with self._lock:
            if self._finish is not None:
                finish, self._finish = self._finish, None
                try:
                    finish()
                except NnapiError as error:
                    self._error = error
        if self._error is not None:
            raise self._error

    def __del__(self) -> None:
        try:
            self.wait()
        except NnapiError:
            pass  # nobody is left to hear it
