"""Runs an unchanged Python program, in which sessions of onnxruntime get nnvk's provider before the others.

    python -m nnvk.onnxruntime [--device NAME] [--relaxed] PROGRAM.py [ARGUMENT ...]
    python -m nnvk.onnxruntime [--device NAME] [--relaxed] -m MODULE [ARGUMENT ...]

At the end it prints, for each session, how many nodes ran where, the number of runs and their time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import onnxruntime
from onnxruntime.capi import onnxruntime_inference_collection

from nnvk.base.errors import bad_state
from nnvk.base.program import Report, read_arguments, run_program
from nnvk.base.text import plural
from nnvk.onnxruntime.sessions import NAME, assignment, devices, record_assignment, register

_OLDEST = (1, 26)
"""The first onnxruntime whose sessions take the name of a registered provider, in all its releases."""
_Stock = onnxruntime.InferenceSession
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

    A session fails if nnvk's provider can't be made. BAD_STATE: onnxruntime is older than 1.26. BAD_DATA: there is no
    such device.
    """
    version = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if version < _OLDEST:
        raise bad_state(f"onnxruntime must be 1.26 or later to run unchanged programs, got {onnxruntime.__version__}")
    (chosen,) = devices(device)
    own = (NAME, {**options, "device": chosen.ep_metadata["nnvk_device"]})

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
            asked = _with_options(providers, provider_options)
            kwargs["enable_fallback"] = 0
            with _written_before(path_or_bytes, sess_options):
                super().__init__(path_or_bytes, sess_options, [own, *asked], None, **kwargs)
            self._record = report.add(path_or_bytes, _placement(self))

        def run(self, *args: Any, **kwargs: Any) -> Any:
            """Like onnxruntime's."""
            with report.timed(self._record):
                return super().run(*args, **kwargs)

        def run_with_ort_values(self, *args: Any, **kwargs: Any) -> Any:
            """Like onnxruntime's."""
            with report.timed(self._record):
                return super().run_with_ort_values(*args, **kwargs)

        def run_with_iobinding(self, *args: Any, **kwargs: Any) -> Any:
            """Like onnxruntime's."""
            with report.timed(self._record):
                return super().run_with_iobinding(*args, **kwargs)

    for module in (onnxruntime, onnxruntime_inference_collection):
        module.InferenceSession = InferenceSession


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
        _Stock(path_or_bytes, options, ["CPUExecutionProvider"])
        options.graph_optimization_level, options.optimized_model_filepath = level, ""
    try:
        yield
    finally:
        options.optimized_model_filepath = file


def _with_options(
    providers: Sequence[Any] | None, options: Sequence[Mapping[str, Any]] | None
) -> list[tuple[str, Mapping[str, Any]]]:
    """The providers that a program asks for, each with its options."""
    names = [one if isinstance(one, tuple) else (one, {}) for one in providers or ["CPUExecutionProvider"]]
    if options is None:
        return names
    return [(name, given) for (name, _), given in zip(names, options, strict=True)]


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
