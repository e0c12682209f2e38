"""A model on all rows of some files: what is done is kept and not done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from nnvk.api import Device, DeviceTypeCode, get_devices
from nnvk.base.checks import sequence
from nnvk.base.text import did_you_mean
from nnvk.batch import threads
from nnvk.batch.failures import Failure, Failures
from nnvk.batch.input_rows import Reader, Row, list_rows
from nnvk.batch.results import Results
from nnvk.batch.task import Once, Task
from nnvk.inputs.images import UnfitInputError

ENGINES = ("threads", "ray")
IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome."""

    done: int
    """Rows that have a result now."""
    before: int
    """Rows that had one already."""
    failed: int
    """Rows that have none."""
    failures: tuple[Failure, ...]
    """The first thousand of those, and why; ``errors.csv`` has all."""


def default_devices() -> list[Device]:
    """All GPUs, or else the preferred device."""
    gpus = [device for device in get_devices() if device.type is DeviceTypeCode.GPU]
    return gpus or get_devices()[:1]


def map_files(
    task: Task,
    inputs: Sequence[Path | str],
    folder: Path | str,
    *,
    devices: Sequence[Device] | None = None,
    in_flight: int = IN_FLIGHT,
    engine: str = "threads",
    workers: int | None = None,
    begin: Callable[[int], Callable[[int], object]] | None = None,
) -> Outcome:
    """Run a model on every row of ``inputs`` and keep the results in ``folder``, which `read_results` reads.

    Inputs are images, ``.npy`` (one input, or many in rows), ``.npz`` (all inputs of a row), Parquet files (a column
    for each input), and folders of these. Rows that ``folder`` has results of are not computed again, by their names.
    A row that fails is a `Failure` and a line in ``errors.csv``, and the others go on; it is tried again next time. If
    the first row is an image and the model takes no image, or if there is no row, that is a ValueError before anything
    is compiled.

    ``devices``: all GPUs without; with ``engine="ray"`` at most one, which each of ``workers`` actors uses. ``begin``
    is called after this process has compiled the model, with the number of rows to compute; what it returns is called
    with the number of rows that came since.

    Raises ValueError, OSError and ModuleNotFoundError for what is wrong with the files, the folder or the engine, and
    what importing and computing raise where it is not a row's fault. Earlier results stay.
    """
    if engine not in ENGINES:
        raise ValueError(
            f"there is no engine {engine!r}; there are {', '.join(ENGINES)}{did_you_mean(engine, ENGINES)}"
        )
    if engine == "ray" and find_spec("ray") is None:
        raise ModuleNotFoundError("to map on Ray, install it: pip install 'ray[data]' pyarrow")
    folder, paths = Path(folder), [Path(each) for each in sequence("the inputs", inputs)]
    say, tell = (None if one is None else Once(one) for one in (task.say, task.tell))
    task = replace(task, say=say, tell=tell)
    reader = task.load().reader
    files = list_rows(reader, paths, folder)
    with Results(folder, task.about()) as results, Failures(folder) as failures:
        before = sum(map(results.before.count, files))
        left = sum(rows.count for rows in files) - before
        _try(Reader(reader), next((row for rows in files for row in rows if row.name not in results.before), None))
        batches = _batches((row for rows in files for row in rows if row.name not in results.before), task.batch)
        if engine == "ray":
            named = devices[0].name if devices else None
            answered = import_module("nnvk.batch.on_ray").run(task, batches, workers, named)
        else:
            answered = threads.run(task, batches, (devices or default_devices()) if left else (), in_flight)
        advance = begin(left) if begin is not None else lambda count: None
        with closing(answered):
            for batch, answers in answered if left else ():
                for row, answer in zip(batch, answers, strict=True):
                    if isinstance(answer, str):
                        failures.add(row.name, answer)
                    else:
                        results.add(row.name, answer)
                advance(len(batch))
    return Outcome(left - failures.count, before, failures.count, tuple(failures.first))


def _try(reader: Reader, row: Row | None) -> None:
    """Read the first row, before devices compile for all. `UnfitInputError`: the model can't take such rows."""
    if row is not None:
        try:
            reader.read(row)
        except UnfitInputError:
            raise
        except (ValueError, OSError):  # the row's own fault, which is told with the others
            pass


def _batches(rows: Iterator[Row], size: int) -> Iterator[Sequence[Row]]:
    while batch := list(islice(rows, size)):
        yield batch
