"""Programs with TensorFlow Lite's interpreters on nnvk's devices: ``python -m nnvk.litert PROGRAM.py``."""
