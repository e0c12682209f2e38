"""The command ``python -m nnvk.onnxruntime``: see `nnvk.onnxruntime.programs`."""

from __future__ import annotations

from nnvk.onnxruntime.programs import main

if __name__ == "__main__":
    main()
