"""Runs an unchanged Python program, in which sessions of onnxruntime get nnvk's provider before the others.

    python -m nnvk.onnxruntime [--device NAME] [--relaxed] PROGRAM.py [ARGUMENT ...]
    python -m nnvk.onnxruntime [--device NAME] [--relaxed] -m MODULE [ARGUMENT ...]

At the end it prints, for each session, how many nodes ran where, the number of runs and their time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import onnxruntime
from onnxruntime.capi import onnxruntime_inference_collection

from nnvk.base.errors import bad_state
from nnvk.base.program import Report, read_arguments, run_program
from nnvk.base.text import plural
from nnvk.loading.devices import AUTO, is_auto
from nnvk.onnxruntime.sessions import NAME, assignment, devices, record_assignment, register

_OLDEST = (1, 26)
"""The first onnxruntime whose sessions take the name of a registered provider, in all its releases."""
_Stock = onnxruntime.InferenceSession
_CPU = "CPUExecutionProvider"
_FALLS_BACK = f"""*************** EP Error ***************
EP Error {{error}} when using {{providers}}
Falling back to {[_CPU]} and retrying.
****************************************"""
"""The lines that onnxruntime prints where it can't make the providers that a program asks for, only its CPU's."""
_RUNS = ("run", "run_with_ort_values", "run_with_iobinding", "run_with_ortvaluevector")
"""The methods of a session that return at the end of a run."""
_MOST_OPERATORS = 5
"""Operators that a line of the report names."""


def main() -> None:
    """Read the arguments, and run the program."""
    given = read_arguments("nnvk.onnxruntime", (__doc__ or "").partition("\n")[0])
    register()
    report = Report()
    replace_sessions(report, given.device, {"relaxed": str(int(given.relaxed))})
    report.print_after(lambda: run_program(given.program))


def replace_sessions(report: Report, device: str | None, options: Mapping[str, str]) -> None:
    """Have each new `InferenceSession` run on nnvk's device what it can, with the provider's options, and report it.

    A session fails if nnvk's provider can't be made. If another provider that the program asks for can't be made,
    onnxruntime's CPU provider takes its place, as without nnvk. BAD_STATE: onnxruntime is older than 1.26. BAD_DATA:
    there is no such device.
    """
    version = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if version < _OLDEST:
        raise bad_state(f"onnxruntime must be 1.26 or later to run unchanged programs, got {onnxruntime.__version__}")
    chosen = AUTO if is_auto(device) else devices(device)[0].ep_metadata["nnvk_device"]
    own = (NAME, {**options, "device": chosen})

    class InferenceSession(onnxruntime.InferenceSession):  # type: ignore[misc]
        """A session of onnxruntime with nnvk's provider before the others."""

        def __init__(
            self,
            path_or_bytes: Any,
            sess_options: Any = None,
            providers: Sequence[Any] | None = None,
            provider_options: Sequence[Mapping[str, Any]] | None = None,
            **kwargs: Any,
        ) -> None:
            """Like onnxruntime's; without a way to go on without nnvk's provider."""
            sess_options = sess_options or onnxruntime.SessionOptions()
            record_assignment(sess_options)
            asked = _with_own(own, providers, provider_options)
            may_fall_back, kwargs["enable_fallback"] = int(kwargs.get("enable_fallback", 1)) == 1, 0
            with _written_before(path_or_bytes, sess_options):
                try:
                    super().__init__(path_or_bytes, sess_options, *asked, **kwargs)
                except (ValueError, RuntimeError) as error:  # of the providers that the program asks for
                    if not may_fall_back:
                        raise
                    print(_FALLS_BACK.format(error=error, providers=providers))
                    super().__init__(path_or_bytes, sess_options, [own, _CPU], None, **kwargs)
            self._nnvk_record = report.add(path_or_bytes, _placement(self))

        def set_providers(
            self, providers: Sequence[Any] | None = None, provider_options: Sequence[Mapping[str, Any]] | None = None
        ) -> None:
            """Like onnxruntime's; nnvk's provider stays the first."""
            super().set_providers(*_with_own(own, providers, provider_options))
            self._nnvk_record.placement = _placement(self)

        def run_async(
            self, output_names: Any, input_feed: Any, callback: Callable[..., None], *args: Any, **kwargs: Any
        ) -> Any:
            """Like onnxruntime's; the run ends where the callback begins."""
            end = report.begun(self._nnvk_record)

            def ended(*results: Any) -> None:
                end()
                callback(*results)

            return super().run_async(output_names, input_feed, ended, *args, **kwargs)

    for name in _RUNS:
        setattr(InferenceSession, name, _timed(getattr(_Stock, name), report))
    available = [name for name in onnxruntime.get_available_providers() if name != NAME]
    onnxruntime.get_available_providers = lambda: list(available)  # some programs print, map or count the names
    for module in (onnxruntime, onnxruntime_inference_collection):
        module.InferenceSession = InferenceSession


def _timed(method: Callable[..., Any], report: Report) -> Callable[..., Any]:
    """A method of a session, whose calls are counted as runs."""

    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with report.timed(self._nnvk_record):
            return method(self, *args, **kwargs)

    return run


@contextmanager
def _written_before(path_or_bytes: Any, options: onnxruntime.SessionOptions) -> Iterator[None]:
    """Write the optimised model that a program asks for, and take the request out of the options for a session.

    onnxruntime can't write a session with parts of a provider. The file has the operators of ONNX, which any session
    can read: onnxruntime's fused ones are for its own CPU.
    """
    file, level = options.optimized_model_filepath, options.graph_optimization_level
    if file:
        basic = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.graph_optimization_level = min(level, basic, key=int)
        _Stock(path_or_bytes, options, [_CPU])
        options.graph_optimization_level, options.optimized_model_filepath = level, ""
    try:
        yield
    finally:
        options.optimized_model_filepath = file


def _with_own(
    own: tuple[str, Mapping[str, Any]], providers: Sequence[Any] | None, options: Sequence[Mapping[str, Any]] | None
) -> tuple[list[Any], list[Mapping[str, Any]] | None]:
    """The provider of nnvk, then those that a program asks for, and their options if these are given apart.

    A program may have named nnvk's, too, because onnxruntime's own modules list it. onnxruntime checks the rest.
    """
    names = list(providers or [_CPU])
    apart = None if options is None or not providers else list(options)
    for place in reversed(range(len(names))):
        if names[place] == NAME or (isinstance(names[place], tuple) and names[place][:1] == (NAME,)):
            del names[place]
            if apart:
                del apart[place : place + 1]
    return ([own, *names], None) if apart is None else ([own[0], *names], [own[1], *apart])


def _placement(session: onnxruntime.InferenceSession) -> str:
    """How many nodes run on nnvk, and which ones don't."""
    placed = assignment(session)
    own = [one for one in placed if one.provider == NAME]
    parts = len({one.part for one in own})
    text = f"{len(own)} of {plural(len(placed), 'node')} on nnvk"
    if own:
        text += f" in {plural(parts, 'part')}"
    others = Counter(one.operator for one in placed if one.provider != NAME)
    named = [f"{count} {operator}" for operator, count in others.most_common(_MOST_OPERATORS)]
    left = sum(others.values()) - sum(count for _, count in others.most_common(_MOST_OPERATORS))
    if left:
        named.append(f"{left} more")
    return f"{text}; elsewhere {', '.join(named)}" if named else text
