"""What devices say about data that breaks a rule."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode

_NUMBER = re.compile(r"-?(?:\b\d[\d.e+-]*|\binf\b|\bnan\b)")


def data_error(run: Callable[[], object]) -> str | None:
    """What is said, without the numbers, since a GPU need not meet the first wrong one first; None for nothing."""
    try:
        with np.errstate(all="ignore"):
            run()
    except NnapiError as error:
        assert error.code in (ResultCode.BAD_DATA, ResultCode.OP_FAILED)
        return _NUMBER.sub("#", error.reason)
    return None
