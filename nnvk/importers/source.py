"""The objects that a model is read from, as users have them."""

from __future__ import annotations

import os
from typing import Protocol

from nnvk.base.errors import bad_data


class OpenFile(Protocol):
    """A file that is open in binary mode, or an `io.BytesIO`."""

    def read(self) -> bytes:
        """All bytes from its position on."""


class Serializable(Protocol):
    """An ``onnx.ModelProto``."""

    def SerializeToString(self) -> bytes:
        """The bytes of a file."""


PathOrBytes = str | os.PathLike[str] | bytes
"""The path of a file, or its bytes."""
ModelSource = PathOrBytes | bytearray | memoryview | OpenFile | Serializable
"""A path, the bytes of a file, an open file, or a model of the ``onnx`` package."""


def path_or_bytes(source: ModelSource) -> PathOrBytes:
    """Return a path as it is, and the bytes of anything else.

    TypeError: nothing can be read from it. BAD_DATA: an ``onnx.ModelProto`` of more than 2 GiB. OSError: of the file.
    """
    if isinstance(source, (str, os.PathLike, bytes)):
        return source
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    if hasattr(source, "SerializeToString"):
        try:
            return source.SerializeToString()
        except Exception as error:  # of protocol buffers, which differ from version to version
            raise bad_data(
                f"a {type(source).__name__} can't be serialised ({error}): save it with external data, give the path"
            ) from error
    is_text = hasattr(source, "read") and hasattr(source, "encoding")  # it would decode the bytes of a model
    content = source.read() if hasattr(source, "read") and not is_text else None
    if isinstance(content, bytes):
        return content
    if is_text or isinstance(content, str):
        raise TypeError("a file with a model must be open in binary mode ('rb'), this one is in text mode")
    hint = "; torch.onnx.export writes an .onnx file of a module" if hasattr(source, "state_dict") else ""
    raise TypeError(
        "a model is read from a path, bytes, a file that is open in binary mode, or an onnx.ModelProto, "
        f"got {type(source).__name__}{hint}"
    )
