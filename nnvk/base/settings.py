"""Every ``NNVK_*`` environment variable, typed, in one place.

Settings are read once, when they are first asked for; tests replace them with `override`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment can change. A field ``x`` is the variable ``NNVK_X``."""

    vlog: str = ""
    """Comma-separated tags to log: model, compilation, execution, cpuexe, manager, driver, or all."""
    device_profile: str = ""
    """``mobile-min`` makes the Vulkan driver believe that every device is the smallest allowed one."""
    validation: bool = False
    """Run Vulkan under the Khronos validation layer, with synchronisation validation."""
    vulkan: bool = True
    """0 hides all Vulkan devices."""
    partition: int = 1
    """As debug.nn.partition: 0 never partition, 1 with CPU fallback, 2 partition without fallback."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings; a value that doesn't parse is an error that names its variable."""
        values: dict[str, object] = {}
        for field in fields(cls):
            name = f"NNVK_{field.name.upper()}"
            text = environment.get(name)
            if text is None:
                continue
            if isinstance(field.default, bool):
                if text not in ("0", "1"):
                    raise ValueError(f"{name} must be 0 or 1, not {text!r}")
                values[field.name] = text == "1"
            elif isinstance(field.default, int):
                try:
                    values[field.name] = int(text)
                except ValueError:
                    raise ValueError(f"{name} must be a whole number, not {text!r}") from None
            else:
                values[field.name] = text
        return cls(**values)  # type: ignore[arg-type]


_current: Settings | None = None


def settings() -> Settings:
    """The settings in force."""
    global _current
    if _current is None:
        _current = Settings.from_environment(os.environ)
    return _current


@contextmanager
def override(**values: object) -> Iterator[Settings]:
    """Replace some settings inside a ``with`` block."""
    global _current
    before = settings()
    _current = replace(before, **values)  # type: ignore[arg-type]
    try:
        yield _current
    finally:
        _current = before
