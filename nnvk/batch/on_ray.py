"""Rows on the machines of a Ray cluster: an actor for each GPU, or for some processors where there is none."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import ray
import ray.data
import ray.exceptions

from nnvk.api import Device, DeviceTypeCode, NnapiError, ResultCode, get_devices
from nnvk.batch.input_rows import Row
from nnvk.batch.task import Answer, Task, Worker
from nnvk.batch.threads import Batch

_AT_ONCE = 1 << 16
"""Batches that Ray is given together: it wants all of them before the first is computed."""


class Actor:
    """A worker in a process of Ray's. nnvk pickles its inputs and results, because Arrow does not know nnvk's rows."""

    def __init__(self, task: Task, device: str | None) -> None:
        self._worker = Worker(task, _device(device))

    def __call__(self, item: dict[str, bytes]) -> dict[str, bytes]:
        """The answers for a batch."""
        rows: list[Row] = pickle.loads(item["batch"])
        return {"batch": item["batch"], "answers": pickle.dumps(self._worker.run(rows))}


def run(
    task: Task, batches: Iterable[Batch], workers: int | None, device: str | None
) -> Iterator[tuple[Batch, list[Answer]]]:
    """The answers for each batch, from ``workers`` actors: without it one for each GPU, or else for each processor.

    Takes the cluster that is there (``RAY_ADDRESS``), or starts one on this machine. All its machines must have nnvk,
    and the files at the same paths.
    """
    if not ray.is_initialized():
        try:
            ray.init(log_to_driver=False)
        except Exception as error:  # whatever it meets on this machine, or does not on another one
            raise NnapiError(ResultCode.UNAVAILABLE_DEVICE, f"Ray does not start: {_last_line(error)}") from error
    there = ray.cluster_resources()
    gpus = int(there.get("GPU", 0))
    count = workers or gpus or int(there.get("CPU", 1))
    # Workers have other working folders.
    task = replace(task, model=Path(task.model).resolve())
    items = ({"batch": pickle.dumps([replace(row, path=row.path.resolve()) for row in batch])} for batch in batches)
    ray.data.DataContext.get_current().enable_progress_bars = False
    needs: dict[str, Any] = (
        {"num_gpus": min(1.0, gpus / count)} if gpus else {"num_cpus": min(1.0, there["CPU"] / count)}
    )
    while some := list(islice(items, _AT_ONCE)):
        data = ray.data.from_items(some, override_num_blocks=min(len(some), 4 * count))
        answered = data.map(Actor, fn_constructor_args=(task, device), concurrency=count, **needs)
        try:
            for item in answered.iter_rows():
                yield pickle.loads(item["batch"]), pickle.loads(item["answers"])
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            raise NnapiError(ResultCode.OP_FAILED, f"a worker of Ray has failed: {_last_line(cause)}") from error


def _last_line(error: BaseException) -> str:
    """The last line of an error, which says what is wrong. Ray's errors begin with a traceback."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1]


def _device(name: str | None) -> Device:
    """The device of this name; else the GPU whose number Ray has given to this process, or the preferred device."""
    devices = get_devices()
    if name is not None:
        return next(device for device in devices if device.name == name)
    gpus = [device for device in devices if device.type is DeviceTypeCode.GPU]
    own = [int(number) for number in ray.get_gpu_ids()]
    return gpus[own[0] % len(gpus)] if own and gpus else devices[0]
