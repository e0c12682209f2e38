"""Logging under Android's tags: the logger of a tag is ``nnvk.<tag>``.

``NNVK_VLOG=compilation,driver`` (or ``all``) prints these tags to standard error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nnvk.base.settings import TAGS, settings, tags


def logger(tag: str) -> logging.Logger:
    """The logger of one of `TAGS`."""
    if tag not in TAGS:
        raise ValueError(f"no log tag {tag!r}; there are {', '.join(TAGS)}")
    return logging.getLogger(f"nnvk.{tag}")


NOTABLE_S = 1.0
"""Whatever takes this many seconds or longer is logged."""


@contextmanager
def timed(log: logging.Logger, what: str, *arguments: object) -> Iterator[None]:
    """Log how long a ``with`` block takes, if that is at least `NOTABLE_S`. ``what`` is a format of ``arguments``."""
    begin = time.monotonic()
    yield
    seconds = time.monotonic() - begin
    if seconds >= NOTABLE_S:
        log.info(f"{what} took %.1f s", *arguments, seconds)


def configure() -> None:
    """Print the tags that ``NNVK_VLOG`` names, between commas, colons or spaces; called when nnvk is imported."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    for tag in tags(settings().vlog):
        tagged = logger(tag)
        if not tagged.handlers:
            tagged.setLevel(logging.DEBUG)
            tagged.addHandler(handler)
            tagged.propagate = False
