"""The effects of operations are those that their kernels have."""

from __future__ import annotations

from functools import cache

import pytest
from profiles import GPU
from random_graph import random_graph

from nnvk.base.errors import NnapiError
from nnvk.driver.vulkan.graph.builder import NeedsValue
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.ops import registry
from nnvk.ops.internal import InternalCode, traits_of
from nnvk.ops.traits import Effect
from nnvk.types.extension import KnownCode

SEEDS = range(12)
CODES = [code for code in kernels() if code in registry.definitions()]
"""The operations of models; passes make others."""


@cache
def library() -> ShaderLibrary:
    return ShaderLibrary()


@pytest.mark.parametrize("code", CODES, ids=lambda code: f"{type(code).__name__}.{code.name}")
def test_effects_are_those_of_the_kernel(code: KnownCode) -> None:
    found, plans = Effect.NONE, 0
    for seed in SEEDS:
        model = random_graph(seed, 1, [code]).frozen
        shapes = [type_.dimensions for type_ in model.input_types()]
        try:
            plan = lower(model, shapes, GPU, library())
        except (NeedsValue, NnapiError):  # a parameter is an input
            continue
        plans += 1
        found |= Effect.CHECKS_DATA if plan.flags else Effect.NONE
        found |= Effect.RANDOM if plan.entropy else Effect.NONE
    assert plans
    assert found == registry.lookup(code).traits.effects


@pytest.mark.parametrize("code", [code for code, kernel in kernels().items() if kernel.checks_data])
def test_kernels_that_run_without_outputs_check_data(code: KnownCode | InternalCode) -> None:
    assert Effect.CHECKS_DATA in traits_of(code).effects
