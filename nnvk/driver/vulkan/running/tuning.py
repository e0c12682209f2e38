"""Which of several ways is the fastest on a device: measured on the commands of a model, by timestamps around each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nnvk.base.errors import NnapiError
from nnvk.base.log import logger
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.running.recording import Recording, upload_constants
from nnvk.types.model import Model
from nnvk.types.operand import Shape

_log = logger("driver")

LEAST_WAYS = 8
"""Ways that are measured: the ones thought to be the fastest, and the first of each kind beside."""
RUNS = 5
"""Of which the fastest counts; a first run more touches memory."""
_ENOUGH_NS = 300_000_000
"""After so much time no run follows: noise is a small part of it."""
_NOISE = 1.05
"""By how much times differ where nothing does."""


def tune(
    gpu: Gpu, planner: Planner, model: Model, shapes: Sequence[Shape], values: Mapping[int, np.ndarray] | None
) -> None:
    """Measure what there is to choose in a model and is not known yet, and let the planner keep the winners.

    The model is planned and run as often as an operation has ways, on inputs of zeros, and once more where the winners
    bring other questions. Raises what planning it does; a way that the device fails to run is left out. Nothing happens
    where the device has no timestamps.
    """
    for _ in range(2):
        _tune(gpu, planner, model, shapes, values)


def _tune(
    gpu: Gpu, planner: Planner, model: Model, shapes: Sequence[Shape], values: Mapping[int, np.ndarray] | None
) -> None:
    known = planner.winners.known
    plan = planner.lower(model, shapes, values, known)
    ways = {choice.question: shortlist(choice.ways) for choice in plan.choices if choice.question not in known}
    if not any(len(each) > 1 for each in ways.values()):
        return
    if not gpu.profile.timestamps:
        _log.info("%s has no timestamps: strategies stay as they are", gpu.name)
        return
    times: dict[str, dict[str, int]] = {question: {} for question in ways}
    for turn in range(max(map(len, ways.values()))):
        tried = {question: each[turn] for question, each in ways.items() if turn < len(each)}
        # Where nothing is left to try, what was the fastest so far takes the least time.
        chosen = {question: tried.get(question) or _fastest(times[question], ways[question]) for question in ways}
        try:
            plan = planner.lower(model, shapes, values, {**known, **chosen})
            durations = measure(gpu, plan)
        except (NnapiError, RuntimeError, MemoryError) as error:
            _log.info("%s: ways number %d can't be measured: %s", gpu.name, turn, error)
            continue
        for choice in plan.choices:
            if tried.get(choice.question) == choice.chosen:
                spent = sum(durations[position] for position in choice.commands)
                before = times[choice.question].get(choice.chosen, spent)
                times[choice.question][choice.chosen] = min(before, spent)
    planner.winners.add({question: _fastest(of, ways[question]) for question, of in times.items() if of})


def shortlist(ways: Sequence[str]) -> list[str]:
    """The ways to measure, of those that there are: they are in the order of what they are thought to cost."""
    kinds = {way.split()[0] for way in ways[:LEAST_WAYS]}
    chosen = list(ways[:LEAST_WAYS])
    for way in ways[LEAST_WAYS:]:
        if way.split()[0] not in kinds:
            kinds.add(way.split()[0])
            chosen.append(way)
    return chosen


def measure(gpu: Gpu, plan: Plan) -> list[int]:
    """The shortest time of each command of a plan, in nanoseconds, on inputs of zeros."""
    native = gpu.native()
    recording = Recording(native, plan, upload_constants(native, plan), timestamps="each")
    inputs = [np.zeros(address.nbytes, np.uint8) for address in (*plan.inputs, *plan.entropy) if address is not None]
    outputs = [None for address in (*plan.outputs, *plan.reports) if address is not None]
    shortest: np.ndarray | None = None
    total = 0
    for number in range(RUNS + 1):
        recording.program.run(inputs, outputs)
        durations = np.diff(np.array(recording.program.timestamps_ns(), np.int64))
        if number == 0:
            continue
        shortest = durations if shortest is None else np.minimum(shortest, durations)
        total += int(durations.sum())
        if total > _ENOUGH_NS:
            break
    return [] if shortest is None else [int(duration) for duration in shortest]


def _fastest(times: Mapping[str, int], ways: Sequence[str]) -> str:
    """The way that took the least time; the first one, unless another is clearly faster."""
    if not times:
        return ways[0]
    best = min(times, key=times.__getitem__)
    return ways[0] if times.get(ways[0], math.inf) <= _NOISE * times[best] else best
