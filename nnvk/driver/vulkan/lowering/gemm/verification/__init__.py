"""Verification of GEMMs without a second GEMM of their kind: checksums, exact integers, and bounds on floats."""
