"""Each driver of this machine, asked directly, as the runtime would."""

from __future__ import annotations

import pytest

import nnvk
from nnvk.hal import IDevice


@pytest.fixture(params=[device.name for device in nnvk.get_devices()])
def driver(request: pytest.FixtureRequest) -> IDevice:
    """Each driver in turn."""
    return nnvk.get_device(request.param).driver
