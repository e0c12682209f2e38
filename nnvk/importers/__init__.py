"""Importers: from other formats to NNAPI models."""
