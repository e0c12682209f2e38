"""Devices say why data breaks a rule, and tests compare their messages."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode

_NUMBER = re.compile(r"-?(?:\b\d[\d.e+-]*|\binf\b|\bnan\b)")


def data_error(run: Callable[[], object]) -> str | None:
    """Return the message without its numbers, or None if there is no error.

    The numbers differ, since a GPU need not meet the first wrong element first.
    """
    try:
        with np.errstate(all="ignore"):
            run()
    except NnapiError as error:
        assert error.code in (ResultCode.BAD_DATA, ResultCode.OP_FAILED)
        return _NUMBER.sub("#", error.reason)
    return None
