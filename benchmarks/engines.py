"""The engines that are compared, each behind the same two things: `run()`, and `outputs` of the last run.

LiteRT (PyPI ``ai-edge-litert``) and ncnn (PyPI ``ncnn``) are optional: `LITERT` and `NCNN` say whether they are there.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nnvk
from nnvk.importers import tflite
from nnvk.serve.installed import DELEGATE

try:
    from ai_edge_litert.compiled_model import CompiledModel, GpuOptions, HardwareAccelerator, Options
    from ai_edge_litert.interpreter import Interpreter, load_delegate
except ImportError:
    Interpreter = None
try:
    import ncnn
except ImportError:
    ncnn = None

LITERT = Interpreter is not None
NCNN = ncnn is not None


class NnvkModel:
    """A model compiled for a device, its input and output arrays set once."""

    def __init__(
        self,
        model: nnvk.Model,
        device: nnvk.Device,
        inputs: Sequence[np.ndarray],
        preference: nnvk.PreferenceCode = nnvk.PreferenceCode.FAST_SINGLE_ANSWER,
    ) -> None:
        """Operations that the device does not support run on the CPU reference device."""
        alone = all(support.supported for support in model.get_support(device))
        cpus = [d for d in nnvk.get_devices() if d.type is nnvk.DeviceTypeCode.CPU and d.name != device.name]
        began = time.perf_counter_ns()
        self.compilation = nnvk.Compilation(model, [device] if alone else [device, *cpus])
        self.compilation.set_preference(preference)
        self.compilation.finish()
        self.prepare_ns = time.perf_counter_ns() - began
        self.alone = alone
        """Whether all of it runs on the device."""
        self.operations = len(self.compilation.model.operations)
        self.operations_on_device = sum(
            len(part.operations) for part in self.compilation.partitions if part.device.name == device.name
        )
        self._inputs = list(inputs)
        self.outputs = nnvk.run(self.compilation, self._inputs)
        self._execution = self.execution()
        self.run = self._execution.compute

    def execution(self, *, measure: bool = False) -> nnvk.Execution:
        """A reusable execution on the arrays."""
        execution = nnvk.Execution(self.compilation)
        execution.set_reusable(True)
        if measure:
            execution.set_measure_timing(True)
        for index, array in enumerate(self._inputs):
            execution.set_input(index, array)
        for index, array in enumerate(self.outputs):
            execution.set_output(index, array)
        return execution

    def hardware_ns(self, runs: int) -> float | None:
        """Median that the device itself measures; None where it can't, or isn't alone."""
        if not self.alone:
            return None
        execution = self.execution(measure=True)
        times = []
        for _ in range(runs):
            execution.compute()
            times.append(execution.get_duration(nnvk.DurationCode.DURATION_ON_HARDWARE))
        return None if max(times) >= 1 << 63 else float(np.median(times))


def nnvk_graph(graph: bytes | nnvk.Model, device: nnvk.Device, inputs: Sequence[np.ndarray]) -> NnvkModel:
    """A model of one operator, as `graphs` makes it."""
    if isinstance(graph, nnvk.Model):
        return NnvkModel(graph, device, inputs)
    imported = tflite.load(graph)
    arrays = [port.encode(array) for port, array in zip(imported.inputs, inputs, strict=True)]
    return NnvkModel(imported.model, device, arrays)


class LiteRtModel:
    """A ``.tflite`` model in LiteRT on the CPU, or on a device of nnvk through the delegate."""

    def __init__(
        self, model: Path | bytes, threads: int, inputs: Sequence[np.ndarray], device: nnvk.Device | None = None
    ) -> None:
        source = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
        began = time.perf_counter_ns()
        with quiet():
            delegates = [load_delegate(str(DELEGATE), {"device": device.name})] if device else []
            self._interpreter = Interpreter(**source, num_threads=threads, experimental_delegates=delegates)
            self._interpreter.allocate_tensors()
        self.prepare_ns = time.perf_counter_ns() - began
        self._inputs = [
            (detail["index"], array)
            for detail, array in zip(self._interpreter.get_input_details(), inputs, strict=True)
        ]
        self._outputs = [detail["index"] for detail in self._interpreter.get_output_details()]
        self.outputs: list[np.ndarray] = []
        self.run()

    def run(self) -> None:
        """From inputs to outputs."""
        for index, array in self._inputs:
            self._interpreter.set_tensor(index, array)
        self._interpreter.invoke()
        self.outputs = [self._interpreter.get_tensor(index) for index in self._outputs]


class LiteRtGpuModel:
    """A ``.tflite`` model in LiteRT on its GPU accelerator, in float32; the CPU has what that does not take."""

    def __init__(self, model: Path | bytes, inputs: Sequence[np.ndarray]) -> None:
        """RuntimeError: it takes no GPU that is there."""
        began = time.perf_counter_ns()
        options = Options(
            hardware_accelerators=HardwareAccelerator.GPU | HardwareAccelerator.CPU,
            gpu_options=GpuOptions(enforce_f32=True),
        )
        with quiet():
            content = model if isinstance(model, bytes) else model.read_bytes()
            self._model = CompiledModel.from_buffer(content, options=options)
            buffers, self._outputs = self._model.create_input_buffers(0), self._model.create_output_buffers(0)
        self.prepare_ns = time.perf_counter_ns() - began
        self.alone = bool(self._model.is_fully_accelerated())
        """Whether all of it runs on the GPU."""
        self._inputs = list(zip(buffers, map(np.ascontiguousarray, inputs), strict=True))
        details = [buffer.get_tensor_details() for buffer in self._outputs]
        self._like = [np.empty(detail["shape"], detail["dtype"]) for detail in details]
        self.outputs: list[np.ndarray] = []
        self.run()

    def run(self) -> None:
        """From inputs to outputs."""
        for buffer, array in self._inputs:
            buffer.write(array)
        self._model.run_by_index(0, [buffer for buffer, _ in self._inputs], self._outputs)
        self.outputs = [
            np.asarray(buffer.read(array.size, array.dtype)).reshape(array.shape)
            for buffer, array in zip(self._outputs, self._like, strict=True)
        ]


class NcnnModel:
    """A model in ncnn on its Vulkan path, float32 throughout."""

    def __init__(self, files: Path, inputs: Sequence[np.ndarray], gpu: int, threads: int) -> None:
        """``files`` are a .param and a .bin; inputs are channels last, as the other engines have them."""
        with quiet():
            self._net = ncnn.Net()
            self._net.opt.use_vulkan_compute = True
            self._net.opt.num_threads = threads
            for option in dir(self._net.opt):
                if option.startswith(("use_fp16_", "use_bf16_", "use_int8_")):
                    setattr(self._net.opt, option, False)
            self._net.set_vulkan_device(gpu)
            began = time.perf_counter_ns()
            if self._net.load_param(str(files.with_suffix(".param"))) or self._net.load_model(
                str(files.with_suffix(".bin"))
            ):
                raise RuntimeError(f"ncnn does not load {files}")
            self.prepare_ns = time.perf_counter_ns() - began
        self._arrays = [_planes(array) for array in inputs]  # a Mat doesn't own them
        self._inputs = list(zip(self._net.input_names(), map(ncnn.Mat, self._arrays), strict=True))
        self._results: list[Any] = []
        self.run()

    def run(self) -> None:
        """From inputs to outputs."""
        extractor = self._net.create_extractor()
        for name, mat in self._inputs:
            extractor.input(name, mat)
        self._results = []
        for name in self._net.output_names():
            status, result = extractor.extract(name)
            if status:
                raise RuntimeError(f"ncnn fails to compute: {status}")
            self._results.append(result)

    @property
    def outputs(self) -> list[np.ndarray]:
        """The outputs of the last run, channels last."""
        arrays = [np.array(result) for result in self._results]
        return [array.transpose(1, 2, 0) if array.ndim == 3 else array for array in arrays]


def _planes(array: np.ndarray) -> np.ndarray:
    """Without the batch, which ncnn has not, and channels first."""
    one = array[0] if array.ndim > 1 and len(array) == 1 else array
    return np.ascontiguousarray(one.transpose(2, 0, 1) if one.ndim == 3 else one)


def ncnn_layer(
    kind: str, parameters: Mapping[int, int | float], weights: Sequence[np.ndarray], data: np.ndarray, gpu: int
) -> NcnnModel:
    """A model of one layer. ``weights`` are written to its file as they are; ``data`` is the input, channels last."""
    values = " ".join(f"{key}={value}" for key, value in parameters.items())
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "layer")
        files.with_suffix(".param").write_text(
            f"7767517\n2 2\nInput data 0 1 data\n{kind} layer 1 1 data out {values}\n"
        )
        files.with_suffix(".bin").write_bytes(b"".join(array.tobytes() for array in weights))
        # Threads only pack on the way in and out, and one is a little faster so on two cores.
        return NcnnModel(files, [data], gpu, threads=1)


def ncnn_gpu(device: nnvk.Device) -> int | None:
    """The number that ncnn has for a device of nnvk; None where it doesn't see it."""
    with quiet():
        names = [ncnn.get_gpu_info(number).device_name() for number in range(ncnn.get_gpu_count())]
    return next((number for number, name in enumerate(names) if device.version.startswith(name)), None)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop what C++ libraries print on standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def random_input(type_: nnvk.OperandType, seed: int = 0) -> np.ndarray:
    """Values of a plausible range: floats from -1 to 1, any quantised value, 0 for indexes."""
    generator = np.random.default_rng(seed)
    if type_.dtype.kind == "f":
        return generator.uniform(-1, 1, type_.dimensions).astype(type_.dtype)
    if type_.scale:
        limits = np.iinfo(type_.dtype)
        return generator.integers(limits.min, limits.max, type_.dimensions, type_.dtype, endpoint=True)
    return np.zeros(type_.dimensions, type_.dtype)
