"""Engines that compute a model and can show its inner values: devices, and other engines if they are installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from nnvk.api import Device, Model, run
from nnvk.importers.ports import ImportedModel
from nnvk.insight.placement import device_of_operations, prepare
from nnvk.types.model import Model as FrozenModel

litert: Any = import_module("ai_edge_litert.interpreter") if find_spec("ai_edge_litert") else None
onnxruntime: Any = import_module("onnxruntime") if find_spec("onnxruntime") else None
onnx: Any = import_module("onnx") if find_spec("onnx") else None

PEERS = {"litert": ".tflite", "onnxruntime": ".onnx"}
"""Names of the engines that are not devices, and the files that they run."""

Values = dict[int, np.ndarray]
"""Arrays by the operand of the model."""


class Engine(ABC):
    """Something that computes a model."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def results(self, imported: ImportedModel, inputs: Sequence[np.ndarray], *, inside: bool) -> Values:
        """The model's outputs, and with ``inside`` whatever is known of what its operations give.

        ``inputs`` are the file's.
        """


class OnDevice(Engine):
    """A device; the CPU runs what it does not."""

    def __init__(self, device: Device) -> None:
        super().__init__(device.name)
        self.device = device

    def results(self, imported: ImportedModel, inputs: Sequence[np.ndarray], *, inside: bool) -> Values:
        """The results of the device; all results are outputs of the model that is computed ``inside``."""
        model = imported.model.with_all_outputs() if inside else imported.model
        compilation, _ = prepare(model, self.device)
        return dict(zip(model.frozen.outputs, run(compilation, imported.encode(inputs)), strict=True))

    def part(self, model: FrozenModel, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of a part of a model."""
        compilation, _ = prepare(Model.of(model), self.device)
        return run(compilation, inputs)

    def places(self, model: Model) -> list[str]:
        """The name of the device that runs each operation, in the order of execution."""
        compilation, _ = prepare(model, self.device)
        return device_of_operations(compilation)


class LiteRt(Engine):
    """LiteRT's kernels on the CPU: the reference ones, or where these lack an operator the others.

    Operators that the default delegate alone has leave nothing to be seen inside: only the outputs are known then.

    Raises ModuleNotFoundError where it is not installed.
    """

    def __init__(self, path: Path) -> None:
        super().__init__("litert")
        if litert is None:
            raise ModuleNotFoundError("to compare with litert, install it: pip install ai-edge-litert")
        self._path = path

    def results(self, imported: ImportedModel, inputs: Sequence[np.ndarray], *, inside: bool) -> Values:
        """The tensors of the file that are operands of the model. Raises ValueError where LiteRT fails."""
        interpreter, shows_inside = self._interpreter(inputs, inside)
        try:
            for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
                interpreter.set_tensor(detail["index"], array)
            interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"litert: {error}") from error
        values: Values = {}
        details = interpreter.get_tensor_details() if shows_inside else interpreter.get_output_details()
        for detail in details:
            operand = imported.tensors.get(detail["index"])
            if operand is None:
                continue
            try:
                values[operand] = np.array(interpreter.get_tensor(detail["index"]))
            except ValueError:  # one that an invocation does not leave behind
                continue
        return values

    def _interpreter(self, inputs: Sequence[np.ndarray], inside: bool) -> tuple[Any, bool]:
        """LiteRT with its memory, and whether it keeps what is inside."""
        kinds = litert.OpResolverType
        failure: Exception | None = None
        for kind in (kinds.BUILTIN_REF, kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES, kinds.AUTO):
            shows_inside = inside and kind is not kinds.AUTO
            try:
                interpreter = litert.Interpreter(
                    str(self._path), experimental_op_resolver_type=kind, experimental_preserve_all_tensors=shows_inside
                )
                for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
                    if tuple(detail["shape"]) != array.shape:
                        interpreter.resize_tensor_input(detail["index"], array.shape)
                interpreter.allocate_tensors()
            except (ValueError, RuntimeError) as error:
                failure = error
            else:
                return interpreter, shows_inside
        raise ValueError(f"litert: {failure}")


class OnnxRuntime(Engine):
    """ONNX Runtime on the CPU, without its optimisations. ModuleNotFoundError where it is not installed."""

    def __init__(self, path: Path) -> None:
        super().__init__("onnxruntime")
        if onnxruntime is None or onnx is None:
            raise ModuleNotFoundError("to compare with onnxruntime, install it: pip install onnxruntime onnx")
        self._path = path

    def results(self, imported: ImportedModel, inputs: Sequence[np.ndarray], *, inside: bool) -> Values:
        """The tensors of the file that are operands of the model. Raises ValueError where ONNX Runtime fails."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        given = {port.name: array for port, array in zip(imported.inputs, inputs, strict=True)}
        try:
            model = onnx.load(str(self._path))
            own = {output.name for output in model.graph.output}
            written = {name for node in model.graph.node for name in node.output}
            wanted = [name for name in imported.tensors if name in own or (inside and name in written)]
            model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in own)
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
            arrays = session.run(wanted, given)
        except Exception as error:  # of its own kinds, and of protobuf's
            raise ValueError(f"onnxruntime: {str(error).strip().splitlines()[0]}") from error
        return {imported.tensors[name]: array for name, array in zip(wanted, arrays, strict=True)}
