"""The functions of a loaded model by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.base.pinned import Pinned
from nnvk.base.text import did_you_mean, printable
from nnvk.importers.errors import NAME_SHOWN
from nnvk.importers.ports import Port, Signature


class Subgraph(Protocol):
    """A subgraph that computes: a `LoadedModel`."""

    def compute(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """All outputs for all inputs."""


class LoadedSignature(Pinned):
    """A function of a model: ``model["serving_default"](x=array)`` gives its outputs by name.

    Calls of the signatures of one subgraph share its compilation and its states.
    """

    def __init__(self, model: Subgraph, signature: Signature) -> None:
        self.model = model
        """The subgraph that it is."""
        self.key = signature.key
        self.inputs: Mapping[str, Port] = signature.inputs
        """Its inputs by their names in the signature."""
        self.outputs: Mapping[str, Port] = signature.outputs
        """Its outputs by their names in the signature."""
        self._signature = signature

    def __repr__(self) -> str:
        """``<nnvk.LoadedSignature 'serving_default'(x) -> (y)>``."""
        return f"<nnvk.Loaded{self._signature!r}>"

    def __call__(self, **inputs: Any) -> dict[str, np.ndarray]:
        """Compute once. Inputs are as in a call of the model; BAD_DATA names one that is unknown, missing or unfit."""
        for name in inputs:
            if name not in self.inputs:
                known = ", ".join(repr(printable(each, NAME_SHOWN)) for each in self.inputs)
                hint = did_you_mean(name, self.inputs)
                raise bad_data(f"{self._named} has no input {printable(name, NAME_SHOWN)!r}, it has [{known}]{hint}")
        for name in self.inputs:
            if name not in inputs:
                raise bad_data(f"{self._named}: input {printable(name, NAME_SHOWN)!r} is missing")
        ordered = [inputs[name] for name in self._signature.input_order]
        outputs = self.model.compute(ordered)
        return {name: outputs[place] for name, place in self._signature.output_places.items()}

    @property
    def _named(self) -> str:
        return f"signature {printable(self.key, NAME_SHOWN)!r}"
