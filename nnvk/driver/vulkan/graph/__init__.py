"""The graph of operations: the form of a model that passes rewrite before kernels lower it."""
