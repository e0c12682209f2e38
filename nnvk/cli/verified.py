"""The option ``--verified`` of the commands that run models."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from nnvk.base.settings import override, settings

_OPTION = Annotated[
    bool,
    typer.Option(
        "--verified",
        help="Have the device verify everything that it computes, and fail where a result is wrong.",
        show_default=False,
    ),
]


def may_verify(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option ``--verified``, which is NNVK_VERIFIED=1 while the command runs."""
    signature = inspect.signature(command)
    option = inspect.Parameter("verified", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_OPTION)

    @functools.wraps(command)
    def verifying(*, verified: bool = False, **arguments: Any) -> None:
        with override(verified="1" if verified else settings().verified):
            command(**arguments)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in signature.parameters.values()]
    # typer reads the signature.
    vars(verifying)["__signature__"] = inspect.Signature([*parameters, option])
    verifying.__annotations__ = {**command.__annotations__, "verified": _OPTION}
    return verifying
