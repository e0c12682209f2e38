"""Quantised tensors in shaders: their numbers, and the floats that compute results of the reference's integers."""
