"""Logging under Android's tags: the logger of a tag is ``nnvk.<tag>``.

``NNVK_VLOG=compilation,driver`` (or ``all``) prints these tags to standard error.
"""

from __future__ import annotations

import logging

from nnvk.base.settings import TAGS, settings, tags


def logger(tag: str) -> logging.Logger:
    """The logger of one of `TAGS`."""
    if tag not in TAGS:
        raise ValueError(f"no log tag {tag!r}; there are {', '.join(TAGS)}")
    return logging.getLogger(f"nnvk.{tag}")


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
