"""Recurrent cells: the operands of all gates together, their sums of bytes, and products of all time steps at once."""
