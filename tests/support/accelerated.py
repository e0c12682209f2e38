"""Models in LiteRT's `CompiledModel`, through nnvk's accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nnvk.serve.installed import library_paths

compiled = pytest.importorskip("ai_edge_litert.compiled_model")
environments = pytest.importorskip("ai_edge_litert.environment")
CPU, GPU = compiled.HardwareAccelerator.CPU, compiled.HardwareAccelerator.GPU


class Accelerated:
    """A compiled model for `hardware`, in an environment that has nnvk's folder, and its buffers."""

    def __init__(self, model: bytes, hardware: int = GPU) -> None:
        environment = environments.Environment.create(runtime_path=library_paths().accelerator)
        self.model = compiled.CompiledModel.from_buffer(model, hardware, environment)
        self._make_buffers()

    def _make_buffers(self) -> None:
        self.inputs = self.model.create_input_buffers(0)
        self.outputs = self.model.create_output_buffers(0)

    def resize(self, shape: Sequence[int]) -> None:
        """Give the first input another shape, and new buffers to all."""
        self.model.resize_input_tensor(0, shape)
        self._make_buffers()

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs, for inputs by position."""
        for buffer, array in zip(self.inputs, inputs, strict=True):
            buffer.write(array)
        self.model.run_by_index(0, self.inputs, self.outputs)
        return [_read(buffer) for buffer in self.outputs]


def _read(buffer: Any) -> np.ndarray:
    details = buffer.get_tensor_details()
    dtype = np.dtype(details["dtype"])
    return np.asarray(buffer.read(int(np.prod(details["shape"])), dtype)).reshape(details["shape"])
