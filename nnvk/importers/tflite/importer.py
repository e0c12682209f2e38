"""Files of TensorFlow Lite: read once, imported for the shapes and options that a caller wants."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.base.log import logger, timed
from nnvk.importers.budget import Budget
from nnvk.importers.ports import ImportedModel
from nnvk.importers.shapes import Shapes
from nnvk.importers.tflite.errors import Malformed, TfliteImportError
from nnvk.importers.tflite.schema import HEAD, HEAD_OF_OTHERS, File, Tensor, is_model
from nnvk.importers.tflite.subgraphs import Import

_log = logger("model")


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    shapes: Shapes | None = None,
    round_hybrid: bool = True,
    relaxed: bool = False,
) -> ImportedModel:
    """Import a ``.tflite`` model, from a path or from its bytes.

    ``shapes`` gives inputs, by name, other shapes than the file's, in elements: another batch, a larger image, and
    above all the sizes that the file leaves open (`Port.signature`), which are mostly 1 without it. None or -1 for a
    size keeps the file's.

    Where weights of 8 bits meet real activations (dynamic-range quantisation), TFLite rounds the activations to
    8 bits as well. ``round_hybrid`` adds operations that do so too, and give TFLite's results; without it, the
    model is faster and nearer to what was trained, and its results differ from TFLite's by that rounding.
    ``relaxed`` allows devices to compute FLOAT32 as FLOAT16.

    Raises `TfliteImportError` where the file is malformed, or has operators that NNAPI can't express, or that would
    make more of a small file than its size warrants (`nnvk.importers.budget`): it then lists them all. Raises
    OSError where the path can't be read, BAD_DATA for ``shapes`` that the inputs can't have, and OUT_OF_MEMORY.
    """
    return TfliteFile(source).load(shapes=shapes, round_hybrid=round_hybrid, relaxed=relaxed)


class TfliteFile:
    """A ``.tflite`` file whose tables are read once. `load` makes models of it, each for other shapes.

    Raises what the function `load` raises of a file that can't be read.
    """

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        self._name = "the model" if isinstance(source, bytes) else os.fspath(source)
        with self._guarded():
            self._file = File(source if isinstance(source, bytes) else _read(Path(source)))

    def load(self, *, shapes: Shapes | None = None, round_hybrid: bool = True, relaxed: bool = False) -> ImportedModel:
        """A model of the file; arguments and errors are those of the function `load`."""
        with self._guarded():
            budget = Budget(len(self._file.data))
            return Import(self._file, self._name, budget, shapes or {}, round_hybrid, relaxed).run()

    def shape_names(self) -> set[str]:
        """The names that ``shapes`` may have: those of inputs."""
        with self._guarded():
            return {tensor.name for tensor in self.inputs()}

    def inputs(self) -> list[Tensor]:
        """The inputs as the file declares them."""
        main = self._file.subgraph(0)
        return [main.tensors[tensor] for tensor in main.inputs]

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Name the file in errors."""
        try:
            with timed(_log, "importing %s", self._name):
                yield
        except Malformed as error:
            raise TfliteImportError(error.what, self._name, detail=str(error)) from error
        except MemoryError as error:
            text = f"{self._name}: there is too little memory to import it"
            raise NnapiError(ResultCode.OUT_OF_MEMORY, text) from error


def _read(path: Path) -> bytes:
    """A file, or what begins it where that is no model: other files may be endless."""
    with path.open("rb") as file:
        head = file.read(HEAD)
        return head + (file.read() if is_model(head) else file.read(HEAD_OF_OTHERS))
