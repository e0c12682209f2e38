"""Attributes of ONNX that are left out: their defaults, and how they are tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx_case import Case, F


@dataclass
class Default:
    """An operator, and by the name of each attribute its default and other values."""

    kind: str
    inputs: Mapping[str, Any]
    values: Mapping[str, Sequence[Any]]
    given: Mapping[str, Any] = field(default_factory=dict)
    """The attributes that the node has in any case."""
    opset: int = 18
    domain: str = ""
    outputs: str = "y"


def drawn(*shape: int, dtype: Any = F, seed: int = 1) -> np.ndarray:
    """A constant whose elements differ."""
    count = int(np.prod(shape))
    return (np.random.default_rng(seed).permutation(count) + 1).reshape(shape).astype(dtype)


def small(*shape: int, seed: int = 1) -> np.ndarray:
    return drawn(*shape, seed=seed) / F(np.prod(shape))


def parameters(defaults: Sequence[Default]) -> list[Any]:
    """A test of each attribute."""
    return [
        pytest.param(one, name, id=f"{number}-{one.kind}-{name}")
        for number, one in enumerate(defaults)
        for name in one.values
    ]


def check_default(default: Default, name: str) -> None:
    """The default, written, gives the same model, and each other value another one."""
    case = Case(default.kind, default.inputs, "", default.given, {}, default.outputs, default.opset, default.domain)
    written, *others = default.values[name]
    absent = case.encoded()
    assert case.encoded(**{name: written}) == absent
    made = [case.encoded(**{name: other}) for other in others]
    assert len({absent, *made}) == 1 + len(others)
