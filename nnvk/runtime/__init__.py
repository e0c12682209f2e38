"""The runtime: what an application calls. It knows drivers only through `nnvk.hal`."""
