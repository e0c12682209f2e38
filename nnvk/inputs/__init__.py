"""Inputs of models: images, arrays in files, and random numbers."""
