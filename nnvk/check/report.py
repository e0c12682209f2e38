"""The results of `nnvk check` as JSON. A bug report may have it attached: it has no paths and no user's name."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnvk.base.settings import settings
from nnvk.check.checks import Kind, Result, Status, suspects

_PATH = re.compile(r"(?<![\w/.])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\":;,()]+[/\\])+([^\s/\\'\":;,()]*)")
"""A path of several folders; its last part is kept."""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks of a device."""

    device: Mapping[str, Any]
    """The device's name, driver, limits and features."""
    avoided: tuple[str, ...]
    """The shader variants that plans did without."""
    results: Sequence[Result]
    seconds: float

    def with_status(self, *statuses: Status) -> list[Result]:
        """The results of these statuses."""
        return [result for result in self.results if result.status in statuses]

    def count(self, status: Status, kind: Kind | None = None) -> int:
        """How many checks, of a kind, ended so."""
        return sum(result.check.kind is kind or kind is None for result in self.with_status(status))

    def by_name(self, kind: Kind) -> dict[str, Counter[Status]]:
        """How the checks of a kind ended, by what they are about."""
        found: dict[str, Counter[Status]] = {}
        for result in self.results:
            if result.check.kind is kind:
                found.setdefault(result.check.name, Counter())[result.status] += 1
        return found

    @property
    def is_lost(self) -> bool:
        """Whether the run ended because the device was lost."""
        return any(result.outcome.is_lost for result in self.results)

    @property
    def suspects(self) -> tuple[str, ...]:
        """The shader variants that failures are likely to come of."""
        return suspects(self.results)

    @property
    def shaders(self) -> dict[str, str]:
        """All variants that cases dispatched, with the worst that a case of them came to."""
        found: dict[str, str] = {}
        for result in self.with_status(Status.PASSED, Status.FAILED):
            for name in result.outcome.shaders:
                if found.get(name) != Status.FAILED.value:
                    found[name] = result.status.value
        return dict(sorted(found.items()))

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs and for those who read a report."""
        content: dict[str, Any] = {
            "device": dict(self.device),
            "system": {
                "system": platform.system(),
                "release": platform.release(),
                "machine": platform.machine(),
                "python": platform.python_version(),
                "numpy": np.__version__,
            },
            "settings": {
                "device_profile": settings().device_profile,
                "disable_passes": settings().disable_passes,
                "validation": settings().validation,
                "driver_process": settings().driver_process,
            },
            "avoided_shaders": list(self.avoided),
            "seconds": round(self.seconds, 3),
            "device_lost": self.is_lost,
            "counts": {status.value: self.count(status) for status in Status},
            "suspected_shaders": list(self.suspects),
            "shaders": self.shaders,
            "checks": [_described(result) for result in self.results],
        }
        cleaned: dict[str, Any] = without_paths(content)
        return cleaned


def _described(result: Result) -> dict[str, Any]:
    return {
        "kind": result.check.kind.value,
        "name": result.check.name,
        "details": result.check.details,
        "status": result.status.value,
        "reason": result.outcome.reason,
        "shaders": list(result.outcome.shaders),
        "seconds": round(result.seconds, 4),
    }


def without_paths(value: Any) -> Any:
    """The same value, where texts have the last parts of paths alone."""
    if isinstance(value, str):
        return _PATH.sub(r"\1", value)
    if isinstance(value, Mapping):
        return {key: without_paths(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_paths(each) for each in value]
    return value
