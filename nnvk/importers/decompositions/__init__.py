"""Decompositions of operators of several formats into NNAPI operations."""
