"""Files of the compilation cache: a model, its plan in a file, and the parts of such a file."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from networks import CLASSES, classifier, images

from nnvk.base import files
from nnvk.check.model_rows import request
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning import cache
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.types.model import Model
from nnvk.types.request import ExecuteOptions, PrepareOptions

BATCH = 2
MODEL = classifier(BATCH).frozen
SHAPES = [(BATCH, 6, 6, 4)]
_KEY = bytes(range(32))


Load = Callable[..., "Plan | None"]


def compute(device: VulkanDevice, path: Path | None, model: Model = MODEL) -> np.ndarray:
    output = np.zeros((BATCH, CLASSES), np.float32)
    prepared = device.prepare_model(model, PrepareOptions(cache=path))
    prepared.execute(request([images(BATCH)], [output]), ExecuteOptions())
    return output


def keyed(folder: Path) -> Path:
    """A folder, whose files are made with a key that the tests know."""
    (folder / files.KEY_NAME).touch(0o600)
    (folder / files.KEY_NAME).write_bytes(_KEY)
    return folder


def signed(content: bytes) -> bytes:
    """A file in such a folder, whatever is in it."""
    return content + hmac.digest(_KEY, content, "sha256")


def sealed(header: Any, constants: bytes) -> bytes:
    """A file of a plan in such a folder, whatever is in it."""
    text = json.dumps(header).encode()
    start = files._START.pack(cache.KIND.magic, cache.KIND.format, len(text), len(constants))
    return signed(start + text + constants)


def parts(entry: bytes) -> tuple[dict[str, Any], bytes]:
    _, _, header, constants = files._START.unpack_from(entry)
    start = files._START.size
    return json.loads(entry[start : start + header]), entry[start + header :][:constants]
