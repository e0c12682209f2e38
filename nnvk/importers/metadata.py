"""What a file's author says of its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """What is said of one input or output."""

    name: str = ""
    description: str = ""
    labels: tuple[str, ...] = ()
    """Names of the classes along the last axis; empty where there are none."""
    mean: tuple[float, ...] = ()
    """What to subtract from a pixel of 0 to 255, once or per channel; empty where there is no normalisation."""
    std: tuple[float, ...] = ()
    """What to divide the difference by, once or per channel."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a file says of itself. Inputs and outputs are in the order of the model's, or empty."""

    name: str = ""
    description: str = ""
    version: str = ""
    author: str = ""
    license: str = ""
    inputs: tuple[TensorMetadata, ...] = ()
    outputs: tuple[TensorMetadata, ...] = ()
