"""The bottom layer: errors, settings and logging. It imports nothing of nnvk."""
