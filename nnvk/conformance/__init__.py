"""Conformance vectors: reading them, running them on a device, and judging the outputs."""
