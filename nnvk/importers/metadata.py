"""The metadata of a file: its author's statements about inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """The metadata of one input or output."""

    name: str = ""
    description: str = ""
    labels: tuple[str, ...] = ()
    """Names of the classes along the last axis; empty where there are none."""
    mean: tuple[float, ...] = ()
    """The number to subtract from a pixel of 0 to 255, one or one per channel; empty without normalisation."""
    std: tuple[float, ...] = ()
    """The divisor of the difference, one or one per channel."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of a file. Inputs and outputs are in the order of the model's, or empty."""

    name: str = ""
    description: str = ""
    version: str = ""
    author: str = ""
    license: str = ""
    inputs: tuple[TensorMetadata, ...] = ()
    outputs: tuple[TensorMetadata, ...] = ()
