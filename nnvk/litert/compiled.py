"""Changes LiteRT's Python package so that its compiled models use nnvk where a program asks for the GPU."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from nnvk.base.program import Report
from nnvk.serve.installed import ACCELERATOR


def replace_runtime_path(module: ModuleType, report: Report, options: Mapping[str, Any]) -> None:
    """Have all new environments look for accelerators in nnvk's folder."""
    theirs = module.Environment.create

    @functools.wraps(theirs)
    def create(*, options: Any = None, **others: Any) -> Any:
        path = os.fspath(ACCELERATOR.parent)
        if isinstance(options, module.EnvironmentOptions):
            return theirs(options=dataclasses.replace(options, runtime_path=path), **others)
        return theirs(**{**others, "runtime_path": path})

    module.Environment.create = staticmethod(create)


def replace_compiled_model(module: ModuleType, report: Report, options: Mapping[str, Any]) -> None:
    """Report all new compiled models."""
    for name in ("from_file", "from_buffer"):
        made = _recorded(getattr(module.CompiledModel, name), report, module.HardwareAccelerator.GPU)
        setattr(module.CompiledModel, name, staticmethod(made))
    for name in ("run_by_name", "run_by_index"):
        setattr(module.CompiledModel, name, _timed(getattr(module.CompiledModel, name), report))


def _recorded(make: Callable[..., Any], report: Report, gpu: int) -> Callable[..., Any]:
    @functools.wraps(make)
    def make_and_record(*args: Any, **kwargs: Any) -> Any:
        model = make(*args, **kwargs)
        given = inspect.signature(make).bind(*args, **kwargs).arguments
        options = given.get("options")
        wanted = given.get("hardware_accel") if options is None else options.hardware_accelerators
        model._nnvk_record = report.add(next(iter(given.values())), _placement(wanted or 0, gpu))
        return model

    return make_and_record


def _timed(run: Callable[..., None], report: Report) -> Callable[..., None]:
    @functools.wraps(run)
    def run_in_time(model: Any, *args: Any, **kwargs: Any) -> None:
        with report.timed(model._nnvk_record):
            run(model, *args, **kwargs)

    return run_in_time


def _placement(wanted: int, gpu: int) -> str:
    """Where operators run. LiteRT does not tell, but refuses a model that the GPU alone cannot run."""
    if not wanted & gpu:
        return "no operators on nnvk, because the program does not ask for the GPU"
    return "all operators on nnvk" if wanted == gpu else "operators on nnvk as logged above"
