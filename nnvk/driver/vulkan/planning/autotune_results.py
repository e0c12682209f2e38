"""Autotune results: a file keeps the candidates that were measured to be the fastest on a device, for all processes.

There is one file for a device, its driver and nnvk's shaders.
"""

from __future__ import annotations

import json

from nnvk.base.files import FileKind
from nnvk.base.kept_choices import KeptChoices
from nnvk.base.log import logger
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile, described

KIND = FileKind(b"nnvktune", 3)


class AutotuneResults(KeptChoices):
    """The autotune results by the tuning key that they answer (`Lowering.choose`)."""

    def __init__(self, version: str, profile: DeviceProfile, library: ShaderLibrary) -> None:
        content = {"device": version, "profile": described(profile), "shaders": library.digest}
        super().__init__(KIND, "strategies", json.dumps(content), logger("driver"))
