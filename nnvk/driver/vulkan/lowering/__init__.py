"""The code that kernels share: a room for each family; here the interface, registry, types and costs for all rooms."""
