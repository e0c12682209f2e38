"""Tiles: the ways in which a workgroup computes its share of a GEMM."""
