"""From a model to a plan: what the GPU runs, in which commands, where tensors lie, and where barriers are needed."""
