"""Kernels: one module per operation or family, each with its shaders' declarations and how it is lowered.

Importing the package registers them all.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
