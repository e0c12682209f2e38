"""Elementwise operations: their programs, the dispatch that runs a program, and operands that broadcast."""
