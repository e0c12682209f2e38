"""A device in another process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from remote import Remote, remote

import nnvk


@pytest.fixture(scope="module")
def shared() -> Iterator[Remote]:
    """One that tests share which leave it alive."""
    made = remote()
    yield made
    made.connection.close()


@pytest.fixture
def own() -> Iterator[Remote]:
    """One for this test alone."""
    made = remote()
    yield made
    made.connection.close()


@pytest.fixture
def cpu() -> nnvk.Device:
    """The same device in this process."""
    return nnvk.get_device("nnapi-reference")
