"""The references of reproducible models: floats whose bits are the same on every device (docs/reproducible.md)."""

from nnvk.ops.reproducible.references import reference, refuse

__all__ = ["reference", "refuse"]
