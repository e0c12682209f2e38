"""Operators of other runtimes than TensorFlow Lite's own, which importing the package registers.

tflite-micro's operators on signals and Coral's decoder of poses are functions in Python, as users register them with
`nnvk.importers.operator`; MediaPipe's operators, which stand amid networks, are mapped to NNAPI's operations. The
importer of ``.tflite`` files imports the package when a file has a custom operator that nobody else has registered.
"""

from nnvk.contrib import mediapipe, posenet, signal, signal_states

__all__ = ["mediapipe", "posenet", "signal", "signal_states"]
