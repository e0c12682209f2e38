"""The passes that rewrite a model and its commands on the way to a plan, in order, and how they are switched off."""

from __future__ import annotations

from enum import Enum

DISABLE_PASSES = "NNVK_DISABLE_PASSES"
"""The variable that names the disabled passes."""
ALL = "all"
"""The name of all passes that fuse operations, in `DISABLE_PASSES`."""


class Pass(Enum):
    """A pass, by its name. Some, such as `cse`, run at several places; the first one determines the order."""

    description: str
    """A sentence on what the pass does."""

    def __new__(cls, name: str, description: str) -> Pass:
        """A pass with the value ``name``."""
        made = object.__new__(cls)
        made._value_ = name
        made.description = description
        return made

    CONSTANTS = "constants", "Operations read the first of all constants that have the same type and bytes."
    CSE = "cse", "Commands whose results nobody reads go, and equal commands become one."
    INDICES = "indices", "GATHER counts indices below 0 from the end itself."
    FP16 = "fp16", "A relaxed model computes GEMMs, and what follows them, with 16-bit floats."
    CHANNELS = "channels", "Channels of a convolution whose result is the same for all inputs get filters of zeros."
    HORIZONTAL = "horizontal", "Several GEMMs that read the same tensor, or rows of it, become one GEMM."
    PAD = "pad", "Convolutions and pools pad their input themselves."
    ROW_NORM = "row_norm", "The operations of a layer normalisation become one command."
    SOFTMAX = "softmax", "A softmax scales and masks its input itself."
    ATTENTION = "attention", "The operations of attention become one command."
    HEADS = "heads", "GEMMs read and write the matrices of attention heads in place, instead of transposed copies."
    TRANSPOSES = "transposes", "Transpositions move past other commands, cancel each other, or become one."
    CONVERTS = "converts", "GEMMs convert between 16-bit and 32-bit floats themselves."
    EPILOGUE = "epilogue", "GEMMs compute the elementwise operations that follow them."
    ELEMENTWISE = "elementwise", "Elementwise operations that follow each other become one command."
    DEPTHWISE = "depthwise", "A 1 x 1 convolution computes the depthwise convolution before it, where that saves time."
    IN_PLACE = "in_place", "Commands read and write the channels of larger tensors in place, instead of copies."
    COALESCE = "coalesce", "A tensor that would be copied whole lies where its copy would."
    OUTPUTS = "outputs", "A small output is written where the host reads it, instead of a copy."


FUSIONS = frozenset(each.value for each in Pass) - {Pass.CONSTANTS.value, Pass.FP16.value, Pass.CHANNELS.value}
"""The names of the passes that compute several operations together or let tensors share memory."""
_MAY_CHANGE_BITS = "channels", "horizontal", "pad", "row_norm", "softmax", "attention", "converts", "depthwise"
MAY_CHANGE_BITS = frozenset(_MAY_CHANGE_BITS)
"""The names of the passes after which floats may have other bits, so that reproducible plans do without."""


def check_names(names: frozenset[str]) -> None:
    """Raise ValueError if there is no pass of a name; the message has the first such name and all valid names."""
    known = [each.value for each in Pass]
    unknown = sorted(names.difference(known))
    if unknown:
        raise ValueError(f"must name passes, of {', '.join(known)}, got {unknown[0]!r}")


def parse_passes(text: str) -> frozenset[str]:
    """The names of the passes that a value of `DISABLE_PASSES` switches off.

    ``text`` has names separated by commas; ``all`` stands for `FUSIONS`. ValueError: there is no pass of a name.
    """
    names = frozenset(name.strip() for name in text.split(",")) - {""}
    chosen = names - {ALL}
    check_names(chosen)
    return chosen | FUSIONS if ALL in names else chosen
