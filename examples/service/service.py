"""A web service for a model. Requests that wait together are computed in one execution.

    .venv/bin/pip install fastapi uvicorn  # after scripts/install.sh
    export SERVICE_MODEL=nnvk/demo/data/digits_int8.tflite
    .venv/bin/uvicorn --app-dir examples/service service:app --port 8000

``GET /`` describes the inputs and outputs. ``POST /run`` takes the inputs of one row by name, as nested lists, and
returns the outputs by name; infinity and NaN are texts. ``POST /image`` takes the file of an image for a model with one
input. ``GET /health`` computes a known row. The environment has the settings, see `Settings`.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from batches import STATUS, Batches, KnownRow, Queue, Row
from fastapi import FastAPI, HTTPException, Request, Response

import nnvk

_T = TypeVar("_T")
BYTES_OF_A_NUMBER = 40
"""A number in a request has at most so many bytes on average, with the space around it: more is refused unread."""
LONGEST_NAME = 100
"""The most characters of a name of a client's that an error shows."""
MOST_IMAGE_BYTES = 16 << 20
"""The largest file of an image that the service reads."""


@dataclass(frozen=True)
class Settings:
    """The settings of the service."""

    model: str
    """SERVICE_MODEL, the file."""
    batches: tuple[int, ...] = (1, 4, 16)
    """SERVICE_BATCHES, the numbers of rows that the model is compiled for."""
    workers: int = 2
    """SERVICE_WORKERS, the executions under way at once. Each has its own memory."""
    most_waiting: int = 64
    """SERVICE_MOST_WAITING, the requests that may wait. The service refuses more at once."""

    @classmethod
    def of_environment(cls) -> Settings:
        """The settings of this process. Raises KeyError without a model, and ValueError for what is no number."""
        numbers = {
            name: int(os.environ[f"SERVICE_{name.upper()}"])
            for name in ("workers", "most_waiting")
            if f"SERVICE_{name.upper()}" in os.environ
        }
        batches = sorted({1, *map(int, os.environ.get("SERVICE_BATCHES", "1,4,16").split(","))})
        return cls(os.environ["SERVICE_MODEL"], tuple(batches), **numbers)


class BatchedModel(Batches):
    """A model that is compiled for several numbers of rows. Threads may share it."""

    def __init__(self, path: str, batches: Sequence[int]) -> None:
        """Compile the model. Raises what `nnvk.load` raises.

        Raises ValueError if an input's size differs from call to call, or the outputs do not grow with a batch.
        """
        one = nnvk.load(path)
        self.inputs, self.outputs = one.inputs, one.outputs
        for port in self.inputs:
            if min(port.shape, default=1) < 0:
                raise ValueError(f"{path} takes no batches: the size of {port.name} is open, {port.shape}")
        self.most_bytes = sum(
            2 * len(json.dumps(port.name)) + BYTES_OF_A_NUMBER * (1 + math.prod(port.shape)) for port in self.inputs
        )
        """The bytes of the largest request."""
        models = {1: one}
        for rows in batches[1:]:
            model = nnvk.load(path, shapes={port.name: (rows, *port.shape[1:]) for port in self.inputs})
            for single, several in zip(self.outputs, model.outputs, strict=True):
                if several.shape != (rows, *single.shape[1:]):
                    raise ValueError(f"{path} takes no batches: for {rows} rows, {single.name} is {several.shape}")
            models[rows] = model
        for model in models.values():
            model.prepare()
        super().__init__(models)

    def read(self, arrays: Sequence[np.ndarray]) -> Row:
        """The inputs of a row in the model's types. Raises BAD_DATA for numbers that a type does not have."""
        return self._models[1].read(arrays)

    def read_image(self, file: bytes) -> Row:
        """A row from the file of an image, which becomes the only input as in `nnvk run`.

        Raises ValueError if the file is no image or has too many pixels, or if the input takes no image.
        """
        return self.read([self._models[1].reader.image(0, Path("the image"), io.BytesIO(file))])


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Compile the model before the first request, and answer all requests before the end."""
    settings = Settings.of_environment()
    model = await asyncio.to_thread(BatchedModel, settings.model, settings.batches)
    queue = Queue(model, settings.workers, settings.most_waiting)
    zeros = [np.zeros(port.shape, port.dtype) for port in model.inputs]
    app.state.model, app.state.queue, app.state.known = model, queue, await KnownRow.of(queue, zeros)
    yield
    await queue.close()
    model.close()


app = FastAPI(title="A model on nnvk", lifespan=lifespan)


@app.get("/")
async def describe(request: Request) -> dict[str, Any]:
    """The shapes and types of inputs and outputs. The first dimension of a row is 1."""
    model: BatchedModel = request.app.state.model
    return {
        kind: {port.name: {"shape": list(port.shape), "type": str(np.dtype(port.dtype))} for port in ports}
        for kind, ports in (("inputs", model.inputs), ("outputs", model.outputs))
    }


@app.post("/run")
async def run(request: Request) -> dict[str, Any]:
    """Compute one row of inputs by name.

    The status is 413 for too many bytes, 422 for wrong inputs, and 503 if too many requests wait or the device is lost.
    """
    model: BatchedModel = request.app.state.model
    body = await _body(request, model.most_bytes)
    # A thread reads it, because the loop answers others meanwhile.
    return await _answered(request, await asyncio.to_thread(_read, model, body))


@app.post("/image")
async def run_image(request: Request) -> dict[str, Any]:
    """Compute one row for the image whose file is the body. The status is that of `run`."""
    model: BatchedModel = request.app.state.model
    if len(model.inputs) != 1:
        raise HTTPException(422, f"an image is for a model with one input, this one has {len(model.inputs)}: use /run")
    if request.headers.get("Content-Type", "").startswith("multipart/"):
        raise HTTPException(422, "the body is a form: send the bytes of the file, as curl --data-binary @FILE does")
    file = await _body(request, MOST_IMAGE_BYTES)
    try:
        row = await asyncio.to_thread(model.read_image, file)
    except ValueError as error:
        raise HTTPException(422, str(error)) from None
    return await _answered(request, row)


@app.get("/health")
async def health(request: Request, response: Response) -> dict[str, Any]:
    """Compute the row that was computed at the start. The status is 503 if the device is lost or the result differs."""
    ok = await _computed(request.app.state.known.is_right())
    response.status_code = 200 if ok else 503
    return {"ok": ok}


async def _body(request: Request, most: int) -> bytes:
    """The bytes of a request. The status is 413 if they are more than ``most``: the rest is not read."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"a request has at most {most} bytes")
    return bytes(body)


def _read(model: BatchedModel, body: bytes) -> Row:
    """The inputs of a request as arrays of the model's types. A wrong input is an `HTTPException` that names it."""
    try:
        inputs = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(422, "expected an object of JSON: the inputs by name") from None
    names = [port.name for port in model.inputs]
    if not isinstance(inputs, dict) or set(inputs) != set(names):
        got = ", ".join(map(_shown, inputs)) if isinstance(inputs, dict) else type(inputs).__name__
        raise HTTPException(422, f"expected the inputs {', '.join(names)}, got {got or 'none'}")
    arrays = []
    for port in model.inputs:
        numbers = _numbers(inputs[port.name], port.shape)
        array = None if numbers is None else _array(numbers, np.dtype(port.dtype))
        if array is None:
            wanted = f"numbers of shape {list(port.shape)}, all finite in {np.dtype(port.dtype)}"
            raise HTTPException(422, f"input {port.name}: expected {wanted}")
        arrays.append(array.reshape(port.shape))
    try:
        return model.read(arrays)
    except nnvk.NnapiError as error:
        raise _http_error(error) from None


async def _answered(request: Request, row: Row) -> dict[str, Any]:
    """The outputs of a row by name, as nested lists."""
    model: BatchedModel = request.app.state.model
    outputs = await _computed(request.app.state.queue.run(row))
    return {port.name: _lists(array) for port, array in zip(model.outputs, outputs, strict=True)}


def _lists(array: np.ndarray) -> Any:
    """An array as nested lists. JSON has no number for infinity and NaN: they are texts that programs can read."""
    if "float" in array.dtype.name and not np.isfinite(array).all():
        numbers = [one if math.isfinite(one) else json.dumps(one) for one in array.reshape(-1).tolist()]
        return np.array(numbers, object).reshape(array.shape).tolist()
    return array.tolist()


def _numbers(value: Any, shape: Sequence[int]) -> list[Any] | None:
    """The numbers in nested lists of a shape; None for anything else. NumPy would make huge arrays of texts."""
    level = [value]
    for size in shape:
        if not all(isinstance(one, list) and len(one) == size for one in level):
            return None
        level = [element for one in level for element in one]
    return level if all(isinstance(one, (bool, int, float)) for one in level) else None


def _array(numbers: list[Any], dtype: np.dtype) -> np.ndarray | None:
    """An array of numbers, in the type of an input of floats; None if one is not finite in it."""
    is_real = "float" in dtype.name
    is_unsigned = dtype == np.uint64 and all(isinstance(one, int) and one >= 0 for one in numbers)
    try:
        # A client's JSON may have large floats as integers. NumPy alone would make floats of integers beyond 63 bits.
        array = np.array(numbers, np.float64 if is_real else dtype if is_unsigned else None)
    except OverflowError:
        return None
    with np.errstate(over="ignore"):
        array = array.astype(dtype) if is_real else array
    return array if array.dtype != object and np.isfinite(array).all() else None


def _shown(name: str) -> str:
    """A client's name in an error: JSON may have characters that are no Unicode, and names of any length."""
    return name[:LONGEST_NAME].encode("ascii", "backslashreplace").decode()


async def _computed(result: Awaitable[_T]) -> _T:
    """Wait for a result of the queue. An error becomes an `HTTPException` with the status that fits."""
    try:
        return await result
    except asyncio.QueueFull:
        raise HTTPException(503, "too many requests wait", headers={"Retry-After": "1"}) from None
    except nnvk.NnapiError as error:
        raise _http_error(error) from None


def _http_error(error: nnvk.NnapiError) -> HTTPException:
    return HTTPException(STATUS.get(error.code, 500), f"{error.code.name}: {error.reason}")
