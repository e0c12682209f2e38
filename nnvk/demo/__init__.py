"""The demo: handwritten digits, recognised by a float and by an int8 network, on a device of your choice."""

from __future__ import annotations

from nnvk.demo.run import run_demo

__all__ = ["run_demo"]
