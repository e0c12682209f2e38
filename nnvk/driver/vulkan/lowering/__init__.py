"""The parts of kernels: the registry, data types, and lowering that several kernels share."""
