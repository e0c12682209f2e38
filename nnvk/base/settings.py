"""Every ``NNVK_*`` environment variable, typed, in one place.

Settings are read once, when nnvk is imported. A wrong value is an error of the first call that asks for one; tests
replace them with `override`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace

TAGS = ("model", "compilation", "execution", "cpuexe", "manager", "driver")
"""The names that ``NNVK_VLOG`` accepts."""
_NUMBER = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the environment. A field ``x`` is the variable ``NNVK_X``; an empty one counts as unset."""

    vlog: str = ""
    """Tags to log, between commas, colons or spaces: model, compilation, execution, cpuexe, manager, driver, or all."""
    device_profile: str = field(default="", metadata={"allowed": ("mobile-min", "gpu")})
    """Tests only. The Vulkan driver takes every device for the smallest that Vulkan allows (``mobile-min``), or for a
    discrete GPU (``gpu``)."""
    validation: bool = field(default=False, metadata={"allowed": ("0", "1")})
    """Run Vulkan under the Khronos validation layer, with synchronisation validation."""
    vulkan: bool = field(default=True, metadata={"allowed": ("0", "1")})
    """0 hides all Vulkan devices."""
    partition: int = field(default=1, metadata={"allowed": ("0", "1", "2")})
    """As debug.nn.partition: 0 never partition, 1 with CPU fallback, 2 partition without fallback."""
    cache_dir: str = ""
    """The folder for what is kept between processes: compiled pipelines, and what was measured to be fast. Empty: the
    user's cache folder; 0: none."""
    tune: bool = field(default=False, metadata={"allowed": ("0", "1")})
    """Measure at compilation which ways to compute products are the fastest on the device, and keep that."""
    driver_process: bool = field(default=False, metadata={"allowed": ("0", "1")})
    """Run the Vulkan driver in a process of its own."""
    patience: int = field(default=10, metadata={"least": 0})
    """Seconds without a sign of life after which another process of nnvk's is ended; 0: never."""
    keep_plans: bool = field(default=True, metadata={"allowed": ("0", "1")})
    """Keep the plans of larger models in the folder of `cache_dir`, and begin with them in the next process."""
    compile: str = field(default="", metadata={"allowed": ("best", "fast")})
    """``fast``: begin with candidates that drivers compile quickly, and replace them when the best ones are compiled.
    Empty is ``best``."""
    compile_limit: int = field(default=10, metadata={"least": 0})
    """Seconds that a driver may take to compile one pipeline before the log names it, and another candidate is planned
    next time; 0: there is no limit."""
    progress: bool = field(default=True, metadata={"allowed": ("0", "1")})
    """0: a terminal does not show compilations that take long."""
    device: str = field(default="", metadata={"allowed": ("auto",)})
    """``auto``: models for which no device is named compute on the preferred one, or in a library that is faster."""
    cpu_libraries: bool = field(default=True, metadata={"allowed": ("0", "1")})
    """0: what NNAPI has nothing for is refused, even if onnxruntime or LiteRT is there to compute it."""
    import_memory: int = field(default=0, metadata={"least": 0})
    """MiB that an import may take beyond 256 MiB and 32 times the file's size, and activations beyond their limit. It
    may compute as many elements more."""
    verified: str = field(default="", metadata={"allowed": ("0", "1", "all", "repair")})
    """1: devices check their results, and an execution with a wrong one fails. ``repair``: it is computed again."""
    reproducible: bool = field(default=False, metadata={"allowed": ("0", "1")})
    """1: floats have the same bits on every device; operations for which these are not defined are refused."""

    avoid_shaders: str = ""
    """Names of shader variants, between commas, that the Vulkan driver plans without."""
    disable_passes: str = ""
    """Names of passes, between commas, that the Vulkan driver plans without; ``all`` are those that fuse operations."""
    unroll_loops: str = field(default="", metadata={"allowed": ("0", "1")})
    """0 or 1: the Vulkan driver never, or always, unrolls the loops of shaders. Empty: where the device needs it."""
    cooperative_matrices: str = field(default="", metadata={"allowed": ("0", "1")})
    """0 or 1: GEMMs never, or wherever they can, multiply by cooperative matrices. Empty: on GPUs, where they are
    expected to be the fastest."""
    verify_sizes: bool = field(default=False, metadata={"allowed": ("0", "1")})
    """Plan each size anew, and compare the numbers with those that the plan of another size gives."""
    verify_graph: int = field(default=0, metadata={"allowed": ("0", "1", "2")})
    """1: check the graph of operations after each pass of the Vulkan driver. 2: also compute it on the reference device
    before and after each pass, and compare."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings. A value that is not allowed is a ValueError: the variable, what it may be, what came."""
        values: dict[str, object] = {}
        for setting in fields(cls):
            name = f"NNVK_{setting.name.upper()}"
            text = environment.get(name, "")
            if not text:
                continue
            allowed = setting.metadata.get("allowed")
            if allowed and text not in allowed:
                *others, last = allowed
                wanted = f"{', '.join(others)} or {last}" if others else last
                raise ValueError(f"{name} must be {wanted}, or empty, got {text!r}")
            least = setting.metadata.get("least")
            if least is not None and not (_NUMBER.fullmatch(text) and int(text) >= least):
                raise ValueError(f"{name} must be a whole number from {least} on, or empty, got {text!r}")
            values[setting.name] = type(setting.default)(int(text)) if isinstance(setting.default, int) else text
        try:
            tags(str(values.get("vlog", "")))
        except ValueError as error:
            raise ValueError(f"NNVK_VLOG {error}") from None
        return cls(**values)  # type: ignore[arg-type]

    def environment(self) -> dict[str, str]:
        """The variables by which another process has the same settings."""
        values = {f"NNVK_{setting.name.upper()}": getattr(self, setting.name) for setting in fields(self)}
        return {name: str(int(value) if isinstance(value, bool) else value) for name, value in values.items()}


def tags(vlog: str) -> tuple[str, ...]:
    """The tags that a value of `Settings.vlog` names. ValueError: one is unknown."""
    wanted = vlog.replace(":", " ").replace(",", " ").split()
    unknown = [tag for tag in wanted if tag not in (*TAGS, "all", "1")]
    if unknown:
        raise ValueError(f"may name {', '.join(TAGS)} or all, got {unknown[0]!r}")
    return TAGS if "all" in wanted or "1" in wanted else tuple(sorted(set(wanted)))


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
