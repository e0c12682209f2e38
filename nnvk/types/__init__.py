"""NNAPI's vocabulary: enumerations, operand types, the frozen model, requests."""
