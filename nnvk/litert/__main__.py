"""The command ``python -m nnvk.litert``: see `nnvk.litert.programs`."""

from __future__ import annotations

from nnvk.litert.programs import main

if __name__ == "__main__":
    main()
