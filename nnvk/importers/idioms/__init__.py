"""What several operators of several formats become: short runs of NNAPI operations."""
