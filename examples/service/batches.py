"""Rows that wait together are computed in one execution: what the services of examples/ have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import nnvk

Row = list[np.ndarray]
"""The inputs or the outputs of one row, each with a first dimension of 1."""
STATUS = {nnvk.ResultCode.BAD_DATA: 422, nnvk.ResultCode.DEAD_OBJECT: 503}
"""The status of HTTP for errors of an execution; that of others is 500."""


class Batches:
    """A model for several numbers of rows. Threads may share it."""

    def __init__(self, models: Mapping[int, Any]) -> None:
        """``models`` computes so many rows: models that are compiled for them, or the same one whose batch is open."""
        self._models = dict(sorted(models.items()))

    @property
    def most_rows(self) -> int:
        """The largest batch."""
        return max(self._models)

    def run(self, rows: Sequence[Row]) -> list[Row]:
        """Compute rows in one execution, of at most as many as the largest batch. Raises what a call raises."""
        size = min(size for size in self._models if size >= len(rows))
        padded = [*rows, *[rows[-1]] * (size - len(rows))]
        outputs = self._models[size].compute([np.concatenate(arrays) for arrays in zip(*padded, strict=True)])
        return [[array[place : place + 1] for array in outputs] for place in range(len(rows))]

    def close(self) -> None:
        """Free the memory on the device."""
        for model in self._models.values():
            model.close()


class Queue:
    """The rows that wait, and the workers that take them, as many at once as fit into a batch."""

    def __init__(self, model: Batches, workers: int, most_waiting: int = 0) -> None:
        """``workers`` executions are under way at once. ``most_waiting`` rows may wait; 0: any number."""
        self._model = model
        self._waiting: asyncio.Queue[tuple[Row, asyncio.Future[Row]]] = asyncio.Queue(most_waiting)
        self._workers = [asyncio.create_task(self._work()) for _ in range(workers)]

    async def run(self, row: Row) -> Row:
        """The outputs of a row. Raises `asyncio.QueueFull` if too many wait, and what the model raises."""
        answer: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((row, answer))
        return await answer

    async def close(self) -> None:
        """Answer what waits, and end the workers."""
        await self._waiting.join()
        for worker in self._workers:
            worker.cancel()

    async def _work(self) -> None:
        while True:
            taken = [await self._waiting.get()]
            while len(taken) < self._model.most_rows and not self._waiting.empty():
                taken.append(self._waiting.get_nowait())
            # A future is cancelled if its client has gone.
            await self._answer([each for each in taken if not each[1].cancelled()])
            for _ in taken:
                self._waiting.task_done()

    async def _answer(self, requests: list[tuple[Row, asyncio.Future[Row]]]) -> None:
        if not requests:
            return
        try:
            results = await asyncio.to_thread(self._model.run, [row for row, _ in requests])
        except Exception as error:
            if len(requests) > 1:  # one of the rows may be wrong: the others get their results
                for request in requests:
                    await self._answer([request])
            elif not requests[0][1].cancelled():
                requests[0][1].set_exception(error)
        else:
            for (_, answer), result in zip(requests, results, strict=True):
                if not answer.cancelled():
                    answer.set_result(result)


@dataclass(frozen=True)
class KnownRow:
    """A row and what it was computed to at the start, for checks of health."""

    queue: Queue
    inputs: Row
    outputs: Row

    @classmethod
    async def of(cls, queue: Queue, inputs: Row) -> KnownRow:
        """Compute a row for the first time. Raises what the model raises."""
        return cls(queue, inputs, await queue.run(inputs))

    async def is_right(self) -> bool:
        """Whether the row still has the same outputs, up to rounding. Raises what `Queue.run` raises."""
        outputs = await self.queue.run(self.inputs)
        pairs = zip(outputs, self.outputs, strict=True)
        return all(np.allclose(*pair, rtol=1e-3, atol=1e-5, equal_nan=True) for pair in pairs)
