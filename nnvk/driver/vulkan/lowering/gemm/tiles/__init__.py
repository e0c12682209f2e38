"""Tiles of gemm.comp: the ways in which a workgroup computes its share of a GEMM.

Each module here has one tile, a subclass of `Strategy`. The shader of the module ``name`` is
``shaders/include/gemm/name.glsl``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module

from nnvk.driver.vulkan.lowering.gemm import epilogue
from nnvk.driver.vulkan.lowering.gemm.strategy import ARITHMETICS, DTYPES, Strategy
from nnvk.driver.vulkan.shaders.declaration import Shader

TILES: dict[str, type[Strategy]] = {
    each.tile: each
    for module in [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Strategy) and each.__module__ == module.__name__
}
"""The tiles, by their names."""


def _exists(choice: Mapping[str, str]) -> bool:
    """Whether gemm.comp has a variant."""
    tile, kind, arithmetic, sums = TILES[choice["TILE"]], choice["DTYPE"], choice["ARITHMETIC"], choice["SUMS"]
    if not epilogue.exists(choice) or kind not in tile.dtypes or arithmetic not in tile.arithmetics:
        return False
    if (sums.startswith("split") and not tile.splits_k) or (sums.endswith("checked") and kind != "q8"):
        return False  # sums of other types aren't exact
    if arithmetic == "none":
        return kind != "q8"
    return kind in {"int8": ("f32",), "half": ("f16",)}.get(arithmetic, ("q8", "q16"))


GEMM = Strategy.shader = Shader(
    "gemm",
    where=_exists,
    needs=lambda choice: TILES[choice["TILE"]].needs,
    DTYPE=DTYPES,
    TILE=tuple(TILES),
    ARITHMETIC=ARITHMETICS,
    SUMS=("whole", "split", "whole_checked", "split_checked"),
    EPILOGUE=epilogue.EPILOGUES,
)
