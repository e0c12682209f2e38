"""The demo's models, and the way to call a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from nnvk.cli.main import app


@pytest.fixture
def nnvk_command() -> Callable[..., Any]:
    """Runs ``nnvk`` with these arguments; the result has exit_code, stdout and stderr."""

    def command(*arguments: object) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return command
