"""The operations of nnvk's vendor extension, defined as NNAPI's are.

Importing the package defines them all.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
