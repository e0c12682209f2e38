"""Short runs of NNAPI operations that operators of several formats become."""
