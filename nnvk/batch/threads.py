"""Rows on the devices of this machine, by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from queue import SimpleQueue

from nnvk.api import Device
from nnvk.base.background import executor
from nnvk.batch.input_rows import Row
from nnvk.batch.task import Answer, Task, Worker

Batch = Sequence[Row]


def run(
    task: Task, batches: Iterable[Batch], devices: Sequence[Device], in_flight: int
) -> Iterator[tuple[Batch, list[Answer]]]:
    """Compile the model on each device, and return an iterator over the answers for each batch, in their order.

    So many executions are in flight on each device as ``in_flight`` says: while one computes, the next rows are read.
    """
    return _answers([Worker(task, device) for device in devices], batches, in_flight)


def _answers(workers: list[Worker], batches: Iterable[Batch], in_flight: int) -> Iterator[tuple[Batch, list[Answer]]]:
    free: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers * in_flight:
        free.put(worker)

    def answer(batch: Batch) -> list[Answer]:
        worker = free.get()
        try:
            return worker.run(batch)
        finally:
            free.put(worker)

    count = len(workers) * in_flight
    pool = executor(count)
    pending: deque[tuple[Batch, Future[list[Answer]]]] = deque()
    try:
        for batch in batches:
            pending.append((batch, pool.submit(answer, batch)))
            if len(pending) >= 2 * count:
                first, future = pending.popleft()
                yield first, future.result()
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
    finally:  # whoever stops in the middle waits for what is under way, and for no more
        pool.shutdown(wait=True, cancel_futures=True)
