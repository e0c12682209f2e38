"""The library beside nnvk, onnxruntime or LiteRT, that computes what of a model NNAPI has nothing for."""

from __future__ import annotations

import hashlib
import inspect
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nnvk.api import Device, get_devices
from nnvk.base import forks
from nnvk.base.errors import NnapiError
from nnvk.base.forks import cached_property
from nnvk.base.text import plural
from nnvk.importers import formats
from nnvk.importers.errors import ModelImportError
from nnvk.importers.mixed import Described, Library, MixedFile, Step, may_compute
from nnvk.importers.source import PathOrBytes
from nnvk.inputs.reader import Say
from nnvk.loading.mixed_plan import MixedPlan
from nnvk.loading.plans import Plans
from nnvk.loading.settings import Settings

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
"""The folder of nnvk: warnings name the first line of other code."""


class CpuLibraryWarning(UserWarning):
    """A part of a model runs on the CPU, in onnxruntime or LiteRT, because NNAPI has nothing for it or for its data."""


class Beside:
    """A model's file for the library, which is opened when it is needed."""

    def __init__(
        self,
        name: str,
        source: PathOrBytes,
        options: Mapping[str, Any],
        settings: Settings,
        tell: Say | None,
    ) -> None:
        """``options`` are those of `formats.ModelFile.load`; ``tell`` takes remarks, which are warnings without it."""
        self._name = name
        self._source = source
        self._options = options
        self._settings = settings
        self._say = tell
        self._library: Library | None = None
        self._lock = forks.lock()

    def _open(self, refusal: ModelImportError | None) -> Library | None:
        with self._lock:
            if self._library is None:
                self._library = formats.beside(self._source, refusal, self._options)
            return self._library

    @cached_property
    def is_there(self) -> bool:
        """Whether the library is installed and wanted."""
        return formats.has_library(self._source)

    @cached_property
    def package(self) -> str:
        """The package of the library."""
        return formats.format_of(self._source).library

    @property
    def library_name(self) -> str:
        """The name of the library; before it is opened, that of its package."""
        return self.package if self._library is None else self._library.name

    def digest(self) -> str:
        """The digest of the file, the library's package and the options. OSError: the file can't be read."""
        options = sorted(self._options.items(), key=lambda item: item[0])
        digest = hashlib.sha256(repr((self.package, options)).encode())
        digest.update(self._source if isinstance(self._source, bytes) else Path(self._source).read_bytes())
        return digest.hexdigest()

    def mixed(self, refusal: ModelImportError) -> MixedFile:
        """The file in steps of nnvk and of the library. Raises the importer's refusal if the library can't help."""
        library = self._open(refusal) if refusal.is_valid else None
        if library is None:
            raise refusal
        file = library.mixed(refusal, self._devices)
        operators = [one for step in file.steps for one in step.library.operators]
        on_cpu = [one for step in file.steps if step.own is None for one in step.library.operators]
        others = sum(one.device == library.name for one in on_cpu)
        if others:
            self._tell(
                f"{library.name} computes {others} of {plural(len(operators), 'operator')} on the CPU; {file.reason}"
            )
        return file

    def plan(self, file: MixedFile, plans: Plans) -> MixedPlan:
        """The plan for a file in steps."""
        assert self._library is not None
        name = self._library.name
        settings = replace(self._settings, devices=self._devices)
        return MixedPlan(file, name, settings, plans, self.tell_data)

    def whole(self, error: NnapiError, edges: Described, plans: Plans) -> MixedPlan:
        """The plan by which the library computes the whole file, where nnvk has failed. Raises the error otherwise.

        ``edges`` have the inputs and outputs.
        """
        library = self._open(None) if may_compute(error) else None
        if library is None:
            raise error
        names = [port.name for port in edges.inputs], [port.name for port in edges.outputs]
        try:
            part = library.whole(*names)
        except NnapiError:
            raise error from None
        return self.plan(MixedFile(edges.inputs, edges.outputs, [Step(*names, part)], *names), plans)

    def tell_data(self, reason: str) -> None:
        """Say that the library computes what nnvk can't for its data."""
        self._tell(f"the CPU computes instead, in {self.library_name}: {reason}")

    def _tell(self, text: str) -> None:
        say = self._say or (lambda told: warn_user(told, CpuLibraryWarning))
        say(f"{self._name}: {text}")

    @property
    def _devices(self) -> Sequence[Device]:
        """The device that computes nnvk's steps: the library is faster than the CPU reference device behind it."""
        return (self._settings.devices or get_devices())[:1]


def warn_user(text: str, category: type[UserWarning]) -> None:
    """Warn of the line of a program that has called nnvk."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
