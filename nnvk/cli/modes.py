"""The options ``--verified`` and ``--reproducible`` of the commands that run models."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from nnvk.base.settings import override, settings

Verified = Annotated[
    bool,
    typer.Option(
        "--verified",
        help="Have the device verify everything that it computes, and fail where a result is wrong.",
        show_default=False,
    ),
]
Reproducible = Annotated[
    bool,
    typer.Option(
        "--reproducible",
        help="Compute floats to the same bits on every device, and refuse operations whose bits are not defined.",
        show_default=False,
    ),
]
_OPTIONS = {"verified": Verified, "reproducible": Reproducible}


def has_modes(command: Callable[..., None]) -> Callable[..., None]:
    """The command with both options, which are NNVK_VERIFIED=1 and NNVK_REPRODUCIBLE=1 while the command runs."""
    signature = inspect.signature(command)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
        for name, option in _OPTIONS.items()
    ]

    @functools.wraps(command)
    def in_modes(*, verified: bool = False, reproducible: bool = False, **arguments: Any) -> None:
        checks = "1" if verified else settings().verified
        with override(verified=checks, reproducible=reproducible or settings().reproducible):
            command(**arguments)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in signature.parameters.values()]
    # typer reads the signature.
    vars(in_modes)["__signature__"] = inspect.Signature([*parameters, *options])
    in_modes.__annotations__ = {**command.__annotations__, **_OPTIONS}
    return in_modes
