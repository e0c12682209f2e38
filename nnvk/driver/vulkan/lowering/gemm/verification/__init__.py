"""Verification of GEMMs without a second GEMM of their kind: checksums, and other shaders that give the same bits."""
