"""Under NNVK_VALIDATION=1, a test fails for any message of the Vulkan validation layer (``make validate``)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nnvk.base.settings import settings
from nnvk.driver.vulkan import find_devices, take_validation_messages


def pytest_sessionstart() -> None:
    """Without a validated device there is nothing to validate: tests would just be skipped."""
    if settings().validation:
        found, reason = find_devices()
        if not found:
            raise pytest.UsageError(f"NNVK_VALIDATION=1, but {reason}")


@pytest.fixture(autouse=True)
def validation_is_silent() -> Iterator[None]:
    """Every test's messages are its own."""
    yield
    if settings().validation:
        assert take_validation_messages() == []
