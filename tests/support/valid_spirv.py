"""The validator that builds use, where it is installed."""

from __future__ import annotations

from glslang import TARGET, GlslangError, check_installed, validate


def _is_installed() -> bool:
    try:
        check_installed()
    except GlslangError:
        return False
    return True


HAS_VALIDATOR = _is_installed()


def check_valid(module: bytes, environment: str = TARGET) -> None:
    """Check a module against the rules of an environment, if there is a validator."""
    if HAS_VALIDATOR:
        validate(module, environment)
