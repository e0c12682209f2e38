"""``--device auto``: an interpreter gets nnvk's delegate only where it computes faster with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from nnvk.api import get_devices
from nnvk.base.log import logger
from nnvk.base.settings import settings
from nnvk.importers.measured import LIBRARY, MOST_CALLS, Choices, version_of, why_device

_log = logger("compilation")


def is_faster_without(package: str, model: Any, options: object, make: Callable[[bool], Any]) -> bool:
    """Whether an interpreter without the delegate computes a model, which is a path or bytes, faster.

    It is measured on zeros, for the sizes in the file, unless it was measured before with the same ``options``.
    ``make`` makes an interpreter, with the delegate or without. Where one fails the program shall meet it: False.
    """
    is_file = isinstance(model, str | os.PathLike)
    name = Path(model).name if is_file else "a model"
    try:
        why = why_device(package, settings().cpu_libraries, None)
        if why:
            raise ValueError(why)
        digest = sha256(repr((package, options)).encode())
        digest.update(Path(model).read_bytes() if is_file else model)
        choices = Choices(name, digest.hexdigest(), get_devices()[0], version_of(package), lambda: package)
        plain = _ready(make(False))
        shapes = tuple(tuple(map(int, one["shape"])) for one in plain.get_input_details())
        if not choices.known(shapes):
            delegated = _ready(make(True))
            for _ in range(MOST_CALLS):
                choices.compute(shapes, delegated.invoke, plain.invoke)
        return choices.known(shapes) == LIBRARY
    except (ValueError, RuntimeError, OSError) as error:
        _log.info("%s: the device computes: %s", name, error)
        return False


def _ready(interpreter: Any) -> Any:
    """An interpreter whose inputs are zeros, which are allowed as indexes and sizes too."""
    interpreter.allocate_tensors()
    for one in interpreter.get_input_details():
        if one["dtype"] not in (np.bytes_, np.str_, np.object_):
            interpreter.set_tensor(one["index"], np.zeros(one["shape"], one["dtype"]))
    return interpreter
