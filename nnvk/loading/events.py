"""Calls of a model that are under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnvk.api import Event
from nnvk.base.errors import NnapiError


class ModelEvent(Event):
    """The end of a call that `LoadedModel.start` has begun: an `nnvk.Event` that has the outputs."""

    def __init__(self, event: Event, outputs: Callable[[], Any], instead: Callable[[NnapiError], Any]) -> None:
        """``outputs`` gives what the call returns, after the event has been awaited.

        ``instead`` gives it if the call has failed, or raises the error.
        """
        super().__init__(event.fence, lambda _: event.wait(), writes_host=event.writes_host)
        self._outputs = outputs
        self._instead = instead

    def result(self) -> Any:
        """Wait, and return what the call returns. Raises what the call raises."""
        try:
            self.wait()
        except NnapiError as error:
            return self._instead(error)
        return self._outputs()
