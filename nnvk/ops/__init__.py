"""The operations of NNAPI: signatures, shape inference and NumPy references, one module per operation or family.

Importing the package defines them all; `lookup` and `bind` are the way in.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
