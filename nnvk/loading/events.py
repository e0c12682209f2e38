"""Calls of a model that are under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnvk.api import Event


class ModelEvent(Event):
    """The end of a call that `LoadedModel.start` has begun: an `nnvk.Event` that has the outputs."""

    def __init__(self, event: Event, outputs: Callable[[], Any]) -> None:
        """``outputs`` gives what the call returns, after the event has been awaited."""
        super().__init__(event.fence, lambda _: event.wait(), writes_host=event.writes_host)
        self._outputs = outputs

    def result(self) -> Any:
        """Wait, and return what the call returns. Raises what the call raises."""
        self.wait()
        return self._outputs()
