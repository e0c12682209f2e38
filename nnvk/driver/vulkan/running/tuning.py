"""Find the fastest of several candidates on a device by timestamps around each command of a model.

Other load on the machine affects the run of that moment. Each candidate therefore runs in turns with the first
candidate, which has the lowest estimated time. The measure is the ratio of both times, run by run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnvk.base.errors import NnapiError
from nnvk.base.log import logger
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import Planner, PlanOptions
from nnvk.driver.vulkan.running.constants import Upload
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.running.recording import Recording
from nnvk.types.model import Model
from nnvk.types.operand import Shape

_log = logger("driver")

LEAST_CANDIDATES = 8
"""The candidates with the lowest estimated times that are measured. The first one of each other kind is added."""
TURNS = 5
"""Runs of a candidate in turns with the first one."""
LAST_TURNS = 15
"""Runs of all results together in turns with the first candidates, which must be slower again."""
_LEAST_TURNS = 3
_ENOUGH_NS = 600_000_000
"""The time after which no more turns follow, except the least number of turns."""
_CLEARLY = 0.95
"""The fraction of the first candidate's time that another candidate must stay below to replace it."""
_QUARTILE = 75
"""The percentile of the ratios that counts. Noise makes it larger."""


def tune(
    gpu: Gpu,
    planner: Planner,
    model: Model,
    shapes: Sequence[Shape],
    values: Mapping[int, np.ndarray] | None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Measure the candidates of a model that are not known yet, and let the planner keep the autotune results.

    The model is planned and run on inputs of zeros as often as an operation has candidates, and once more if the
    results lead to other tuning keys. A candidate that the device fails to run is left out. Nothing happens if the
    device has no timestamps. ``progress`` gets the number of finished measurements and of all. Raises the errors of
    planning.
    """
    for _ in range(2):
        _tune(gpu, planner, model, shapes, values, progress or (lambda done, total: None))


def _tune(
    gpu: Gpu,
    planner: Planner,
    model: Model,
    shapes: Sequence[Shape],
    values: Mapping[int, np.ndarray] | None,
    progress: Callable[[int, int], None],
) -> None:
    known = planner.autotune_results.known
    options = PlanOptions(values=values or {}, autotune_results=known)
    plan = planner.lower(model, shapes, options)
    candidates = {
        choice.tuning_key: shortlist(choice.candidates) for choice in plan.choices if choice.tuning_key not in known
    }
    if not any(len(each) > 1 for each in candidates.values()):
        return
    if not gpu.profile.timestamps:
        _log.info("%s has no timestamps: strategies stay as they are", gpu.name)
        return

    def attempt(what: str, chosen: Mapping[str, str]) -> Trial | None:
        try:
            return Trial(gpu, planner.lower(model, shapes, replace(options, autotune_results={**known, **chosen})))
        except (NnapiError, RuntimeError, MemoryError) as error:
            _log.info("%s: %s can't be measured: %s", gpu.name, what, error)
            return None

    first: Trial | None = None
    chosen: dict[str, str] = {}
    shares: dict[str, dict[str, float]] = {tuning_key: {} for tuning_key in candidates}
    turns = max(map(len, candidates.values()))
    for turn in range(turns):
        progress(turn, turns + 1)
        tried = {tuning_key: each[turn] for tuning_key, each in candidates.items() if turn < len(each)}
        other = attempt(f"candidates number {turn}", {**chosen, **tried})
        if other is None:
            continue
        if first is None:
            first = other
            chosen = {tuning_key: tried.get(tuning_key, each[0]) for tuning_key, each in candidates.items()}
        else:
            for tuning_key, share in compare(first, other, TURNS).items():
                if tuning_key in tried:
                    shares[tuning_key][tried[tuning_key]] = share
    if first is None:
        return
    progress(turns, turns + 1)
    best = {tuning_key: min(of, key=of.__getitem__) for tuning_key, of in shares.items() if of}
    faster = {tuning_key: each for tuning_key, each in best.items() if shares[tuning_key][each] <= _CLEARLY}
    if faster and (last := attempt("the autotune results", {**chosen, **faster})) is not None:
        again = compare(first, last, LAST_TURNS)
        chosen |= {tuning_key: each for tuning_key, each in faster.items() if again.get(tuning_key, 1.0) <= _CLEARLY}
    planner.autotune_results.add(chosen)
    progress(turns + 1, turns + 1)


def shortlist(candidates: Sequence[str]) -> list[str]:
    """The candidates to measure. ``candidates`` are in the order of their estimated times."""
    kinds = {candidate.split()[0] for candidate in candidates[:LEAST_CANDIDATES]}
    chosen = list(candidates[:LEAST_CANDIDATES])
    for candidate in candidates[LEAST_CANDIDATES:]:
        if candidate.split()[0] not in kinds:
            kinds.add(candidate.split()[0])
            chosen.append(candidate)
    return chosen


class Trial:
    """A plan on the device, which is run on inputs of zeros."""

    def __init__(self, gpu: Gpu, plan: Plan) -> None:
        self.plan = plan
        native = gpu.native()
        self._upload = Upload(native, plan, gpu.constants)
        constants = self._upload.wait()
        recording = Recording(
            native,
            plan,
            constants,
            timestamps="each",
            unrolls=gpu.unrolls,
            required_subgroup=gpu.profile.required_subgroup,
        )
        self._program = recording.program
        inputs = (*plan.inputs, *plan.entropy)
        self._inputs = [np.zeros(address.nbytes, np.uint8) for address in inputs if address is not None]
        self._outputs = [None for address in (*plan.outputs, *plan.reports) if address is not None]
        self.run()  # the first run touches memory

    def run(self) -> dict[str, int]:
        """The nanoseconds of each tuning key, summed over all of its choices."""
        self._program.run(self._inputs, self._outputs)
        durations = np.diff(np.array(self._program.timestamps_ns(), np.int64))
        spent: dict[str, int] = {}
        for choice in self.plan.choices:
            of_choice = sum(int(durations[position]) for position in choice.commands)
            spent[choice.tuning_key] = spent.get(choice.tuning_key, 0) + of_choice
        return spent


def compare(first: Trial, other: Trial, turns: int) -> dict[str, float]:
    """The ratio of two plans' times for each tuning key that both have.

    The plans run in turns, and the result is the percentile `_QUARTILE` of the ratios.
    """
    before: list[dict[str, int]] = []
    after: list[dict[str, int]] = []
    total = 0
    for turn in range(turns):
        for trial, runs in ((first, before), (other, after))[:: 1 if turn % 2 else -1]:
            runs.append(trial.run())
            total += sum(runs[-1].values())
        if total > _ENOUGH_NS and turn + 1 >= _LEAST_TURNS:
            break
    tuning_keys = before[0].keys() & after[0].keys()
    shares = {
        tuning_key: [two[tuning_key] / max(one[tuning_key], 1) for one, two in zip(before, after, strict=True)]
        for tuning_key in tuning_keys
    }
    return {tuning_key: float(np.percentile(each, _QUARTILE)) for tuning_key, each in shares.items()}
