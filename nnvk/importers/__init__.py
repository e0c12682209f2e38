"""Importers: from other formats to NNAPI models."""

from nnvk.importers.user_functions import operator

__all__ = ["operator"]
