"""The errors of imports of ``.onnx`` files."""

from __future__ import annotations

from collections.abc import Sequence

from nnvk.importers import errors


class Malformed(errors.Malformed):
    """Raised where the file contradicts the format."""

    what = "malformed .onnx file"


class NoModel(Malformed):
    """Raised where the file is of another format."""

    what = "not an .onnx file"


class OnnxImportError(errors.ModelImportError):
    """A file that is not a valid model (``problems`` is empty), or has operators without a counterpart in NNAPI."""

    def __init__(
        self,
        what: str,
        source: str,
        problems: Sequence[errors.Problem] = (),
        detail: str = "",
        unknown: Sequence[str] = (),
    ) -> None:
        super().__init__(what, source, problems, detail)
        self.unknown = tuple(unknown)
        """Inputs whose values `load` would have to know, by ``constants``."""
