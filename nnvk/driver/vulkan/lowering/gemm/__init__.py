"""GEMMs: the problem, its weights, strategies and their costs, the epilogue, and the dispatches."""
