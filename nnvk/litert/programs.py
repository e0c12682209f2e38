"""Runs an unchanged Python program, in which TensorFlow Lite's interpreters and LiteRT's compiled models use nnvk.

    python -m nnvk.litert [--device NAME] [--relaxed] PROGRAM.py [ARGUMENT ...]
    python -m nnvk.litert [--device NAME] [--relaxed] -m MODULE [ARGUMENT ...]

The interpreters are those of LiteRT (``ai_edge_litert``), tflite-runtime and TensorFlow Lite. They get nnvk's delegate
before the others. Compiled models of LiteRT that ask for the GPU get nnvk as their accelerator. At the end it prints,
for each model, where its operators ran, the number of runs and their time.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from nnvk.base.program import ModelRecord, Report, read_arguments, run_program
from nnvk.base.text import plural
from nnvk.importers.tflite.delegated import is_delegate, operators_of, taken_by_delegates
from nnvk.litert import compiled
from nnvk.litert.measuring import is_faster_without
from nnvk.loading.devices import AUTO, is_auto
from nnvk.serve.installed import DELEGATE, name_server

_MODEL = ("self", "model_path", "model_content", "experimental_delegates")
"""The arguments of an interpreter that do not belong to how it computes."""


def main() -> None:
    """Read the arguments, and run the program."""
    given = read_arguments("nnvk.litert", (__doc__ or "").partition("\n")[0])
    if not DELEGATE.exists():
        raise FileNotFoundError(f"the delegate was not built: there is no {DELEGATE}")
    name_server()
    report = Report()
    options: dict[str, Any] = {"relaxed": given.relaxed, "verbosity": 0}
    device = AUTO if is_auto(given.device) else given.device
    if device is not None:
        options["device"] = device
    # LiteRT does not say which operators of a compiled model run where: the accelerator's log does.
    own = {**_of_delegate(options), "verbosity": 1}
    os.environ["NNVK_LITERT_OPTIONS"] = ";".join(f"{key}:{value}" for key, value in own.items())
    change_modules(report, options)
    report.print_after(lambda: run_program(given.program))


def change_modules(report: Report, options: Mapping[str, Any]) -> None:
    """Have each new interpreter and compiled model use nnvk with these options, and report it.

    Modules that were not imported yet are changed when the program imports them.
    """
    for name, change in CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name], report, options)
    sys.meta_path.insert(0, _Finder(report, options))


class _Finder(MetaPathFinder):
    """Finds the modules of `CHANGES`, which are changed once they are imported."""

    def __init__(self, report: Report, options: Mapping[str, Any]) -> None:
        self._report = report
        self._options = options

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as Python finds it, with a loader that changes it."""
        if fullname not in CHANGES:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.loader is not None:
            found.loader = _Loader(found.loader, self._report, self._options)
        return found


class _Loader(Loader):
    """Loads a module, and changes it."""

    def __init__(self, loader: Loader, report: Report, options: Mapping[str, Any]) -> None:
        self._loader = loader
        self._report = report
        self._options = options

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module, as its own loader makes it."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        self._loader.exec_module(module)
        CHANGES[module.__name__](module, self._report, self._options)


def _replace_interpreter(module: ModuleType, report: Report, options: Mapping[str, Any]) -> None:
    theirs = module.Interpreter
    if hasattr(theirs, "_has_nnvk"):
        return  # the module has it from another one
    parameters = inspect.signature(theirs.__init__)
    package = module.__name__.partition(".")[0]

    class Interpreter(theirs):  # type: ignore[misc, valid-type]
        """An interpreter with nnvk's delegate before the others."""

        _has_nnvk = True

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """Like the original one."""
            bound = parameters.bind(self, *args, **kwargs)
            others = bound.arguments.get("experimental_delegates") or ()
            model = bound.arguments.get("model_path") or bound.arguments.get("model_content")

            def given(has_own: bool) -> inspect.BoundArguments:
                own = [module.load_delegate(os.fspath(DELEGATE), _of_delegate(options))] if has_own else []
                bound.arguments["experimental_delegates"] = [*own, *others]
                return bound

            def make(has_own: bool) -> Any:
                return theirs(*given(has_own).args[1:], **bound.kwargs)

            is_without = False
            if options.get("device") == AUTO and model:
                kept = {name: value for name, value in bound.arguments.items() if name not in _MODEL}
                is_without = is_faster_without(package, model, [options["relaxed"], kept], make)
            super().__init__(*given(not is_without).args[1:], **bound.kwargs)
            self._nnvk_record = report.add(model, _placement(operators_of(self)))

        def invoke(self) -> None:
            """Like the original one."""
            with report.timed(self._nnvk_record):
                super().invoke()

        def get_signature_runner(self, signature_key: str | None = None) -> Any:
            """Like the original one."""
            return _Runner(super().get_signature_runner(signature_key), report, self._nnvk_record)

    update_wrapper(Interpreter.__init__, theirs.__init__)  # programs may look at the parameters
    module.Interpreter = Interpreter  # type: ignore[attr-defined]
    with_custom_operators = getattr(module, "InterpreterWithCustomOps", None)
    if with_custom_operators is not None:
        with_custom_operators.__bases__ = (Interpreter,)


def _of_delegate(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for the delegate, which does not know `AUTO`."""
    return {name: value for name, value in options.items() if value != AUTO}


class _Runner:
    """A signature of an interpreter, whose calls are counted."""

    def __init__(self, runner: Any, report: Report, record: ModelRecord) -> None:
        self._runner = runner
        self._report = report
        self._record = record

    def __call__(self, **inputs: Any) -> Any:
        """Like the original one."""
        with self._report.timed(self._record):
            return self._runner(**inputs)

    def __getattr__(self, name: str) -> Any:
        """An attribute of the original one."""
        return getattr(self._runner, name)


def _placement(operators: Sequence[Mapping[str, Any]]) -> str:
    """How many operators run on nnvk."""
    partitions = sum(map(is_delegate, operators))
    text = f"{len(taken_by_delegates(operators))} of {plural(len(operators) - partitions, 'operator')} on nnvk"
    return f"{text} in {plural(partitions, 'partition')}" if partitions else text


CHANGES: Mapping[str, Callable[[ModuleType, Report, Mapping[str, Any]], None]] = {
    "ai_edge_litert.interpreter": _replace_interpreter,
    "tflite_runtime.interpreter": _replace_interpreter,
    "tensorflow.lite.python.interpreter": _replace_interpreter,
    "ai_edge_litert.environment": compiled.replace_runtime_path,
    "ai_edge_litert.compiled_model": compiled.replace_compiled_model,
}
"""The modules that are changed, and what changes each."""
