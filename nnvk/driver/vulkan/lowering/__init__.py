"""What kernels are made of: the registry, data types, and what several of them do alike."""
