"""Reductions along axes: the elements that a result depends on, and the invocations that share them."""
