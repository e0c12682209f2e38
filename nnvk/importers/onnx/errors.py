"""The errors of imports of ``.onnx`` files."""

from __future__ import annotations

from nnvk.importers import errors


class Malformed(errors.Malformed):
    """Raised where the file contradicts the format."""

    what = "malformed .onnx file"


class NoModel(Malformed):
    """Raised where the file is of another format."""

    what = "not an .onnx file"


class Inexpressible(errors.Inexpressible, Malformed):
    """Raised where the file is in order, and has what NNAPI has nothing for."""

    what = errors.Inexpressible.what


class UnknownVersion(Malformed):
    """Raised where the file is of a version that is not known here."""

    what = "an .onnx file of an unknown version"


class OnnxImportError(errors.ModelImportError):
    """A file that is not a valid model (``problems`` is empty), or has operators without a counterpart in NNAPI."""
