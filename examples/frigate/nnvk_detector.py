"""A detector of Frigate: models of objects run on any GPU that has a Vulkan driver.

Frigate 0.16 loads it from its folder ``frigate/detectors/plugins``, as docs/deploy.md describes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from frigate.detectors.detection_api import DetectionApi
from frigate.detectors.detector_config import BaseDetectorConfig, ModelTypeEnum
from frigate.util.model import post_process_dfine, post_process_rfdetr, post_process_yolo
from pydantic import Field

import nnvk

ROWS = 20
"""The objects that Frigate takes of a frame: class, score, and the edges top, left, bottom and right from 0 to 1."""
KINDS = "ssd", "yologeneric", "dfine", "rfdetr"
LEAST_SCORE = 0.4


class NnvkDetectorConfig(BaseDetectorConfig):
    """A detector in the configuration of Frigate."""

    type: Literal["nnvk"]
    device: str = Field(default="gpu", title="The device, by a name that `nnvk devices` lists")
    relaxed: bool = Field(default=False, title="Whether 32-bit floats may be multiplied as 16-bit ones")


class NnvkDetector(DetectionApi):
    """A .tflite or .onnx model of objects: SSD, YOLO, D-FINE or RF-DETR."""

    type_key = "nnvk"
    supported_models: ClassVar = [getattr(ModelTypeEnum, name) for name in KINDS]

    def __init__(self, detector_config: NnvkDetectorConfig) -> None:
        """Loads the model of the configuration."""
        super().__init__(detector_config)
        model = detector_config.model
        if model.model_type not in self.supported_models:
            names = ", ".join(each.value for each in self.supported_models)
            raise ValueError(f"model_type must be one of {names} for nnvk, got {model.model_type.value}")
        self._type, self._width, self._height = model.model_type, model.width, model.height
        self._model = nnvk.load(model.path, device=detector_config.device, relaxed=detector_config.relaxed)

    def detect_raw(self, tensor_input: np.ndarray) -> np.ndarray:
        """The objects of a frame, which Frigate has brought to the size, layout and type that the model takes."""
        inputs: list[Any] = [tensor_input]
        if self._type is ModelTypeEnum.dfine:
            inputs.append(np.array([[self._height, self._width]], np.int64))
        outputs = list(self._model(*inputs, outputs=dict).values())
        if self._type is ModelTypeEnum.dfine:
            return post_process_dfine(outputs, self._width, self._height)
        if self._type is ModelTypeEnum.rfdetr:
            return post_process_rfdetr(outputs)
        if self._type is ModelTypeEnum.yologeneric:
            return post_process_yolo(outputs, self._width, self._height)
        boxes, classes, scores, count = outputs
        found = np.column_stack([classes[0], scores[0], boxes[0]])[: min(ROWS, int(count.item()))]
        detections = np.zeros((ROWS, 6), np.float32)
        kept = found[found[:, 1] >= LEAST_SCORE]
        detections[: len(kept)] = kept
        return detections
