"""nnvk's vendor extension: operations that models of other formats need and NNAPI's 106 can't say."""

from __future__ import annotations

from enum import Enum

from nnvk.base.errors import bad_data
from nnvk.types.codes import ExtensionCode, OperationCode

EXTENSION = "org.nnvk.operations"
"""The extension's name, for `Model.get_extension_operation_type` and `Device.get_extension_support`."""


class ExtendedOperationCode(Enum):
    """The operations of the extension, with their numbers within it.

    They are no `IntEnum`: as a number an operation of an extension has a prefix, which each model gives it.
    """

    GATHER_ND = 256
    SCATTER_ND = 257


KnownCode = OperationCode | ExtendedOperationCode
"""Operations that nnvk defines, and that its own devices run."""
AnyCode = KnownCode | ExtensionCode
"""What an operation of a model may be."""


def operation_of(extension: str, code: int) -> ExtendedOperationCode | ExtensionCode:
    """An extension's operation by its number; BAD_DATA if that is none of nnvk's own extension."""
    if extension != EXTENSION:
        return ExtensionCode(extension, code)
    try:
        return ExtendedOperationCode(code)
    except ValueError:
        raise bad_data(f"{EXTENSION} has no operation {code}") from None
