"""The folder of plans that are kept for the user by default, so that the next process need not make them again.

It is `plans` in the user's cache folder or NNVK_CACHE_DIR, with one file for each model, device and version of nnvk.
The files are those of `nnvk.driver.vulkan.planning.cache`, with its checks. The folder is bounded: the plans that were
not used for the longest time are removed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nnvk.base.files import cache_folder
from nnvk.base.log import logger
from nnvk.base.settings import settings
from nnvk.driver.vulkan.planning.cache import PlanCache
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.types.constant import Constant, QuantisedConstant
from nnvk.types.model import Model
from nnvk.types.operand import Shape

_log = logger("driver")

LEAST_OPERATIONS = 8
"""The operations from which on a model's plan is kept. Smaller models are planned as fast as a file is read."""
MOST_PLAN_BYTES = 64 << 20
"""The most bytes of constants of a plan that is kept."""
MOST_BYTES = 256 << 20
"""The most bytes of all kept plans."""
_SUFFIX = ".nnvk"


@dataclass(frozen=True, slots=True)
class PlanFolder:
    """A folder of plans, which need not exist."""

    path: Path

    def cache(self, key: Mapping[str, str]) -> KeptPlan:
        """The cache of the plan with this key (`key_of`)."""
        digest = hashlib.sha256("\0".join(f"{part}={key[part]}" for part in sorted(key)).encode()).hexdigest()
        return KeptPlan(self.path / f"{digest}{_SUFFIX}", key, logging.DEBUG, folder=self)

    def bound(self) -> None:
        """Remove the plans that were not used for the longest time until the others have at most `MOST_BYTES`."""
        files = []
        with suppress(OSError):  # another process may have removed the folder
            for entry in os.scandir(self.path):
                with suppress(OSError):  # another process may have removed the file
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(_SUFFIX) and stat.S_ISREG(status.st_mode):
                        files.append((status.st_mtime_ns, status.st_size, entry.path))
        total = 0
        for _, size, path in sorted(files, reverse=True):
            total += size
            if total > MOST_BYTES:
                with suppress(OSError):
                    os.unlink(path)


@dataclass(frozen=True, slots=True)
class KeptPlan(PlanCache):
    """A file of a `PlanFolder`."""

    folder: PlanFolder = field(kw_only=True)

    def load(
        self, model: Model, shapes: Sequence[Shape], profile: DeviceProfile, library: ShaderLibrary
    ) -> Plan | None:
        """`PlanCache.load`, which counts as a use of the plan."""
        plan = PlanCache.load(self, model, shapes, profile, library)
        if plan is not None:
            with suppress(OSError):
                os.utime(self.path)
        return plan

    def store(self, plan: Plan) -> None:
        """Keep a plan that is not too large. A folder that cannot be written is not an error."""
        if sum(data.nbytes for _, data in plan.constants) > MOST_PLAN_BYTES:
            return
        try:
            self.folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            _log.debug("plans can't be kept in %s: %s", self.folder.path, error)
            return
        PlanCache.store(self, plan)
        self.folder.bound()


def plan_folder(model: Model) -> PlanFolder | None:
    """The folder that keeps a model's plan; None if no plan is kept.

    A plan is not kept of a model with few operations, nor of one with so many constants that the plan will be too
    large, whose digest would be in vain. It is not kept either if passes are to be checked, because that needs them to
    run.
    """
    if not settings().keep_plans or settings().verify_graph or len(model.operations) < LEAST_OPERATIONS:
        return None
    if _packed_bytes(model) > MOST_PLAN_BYTES:
        return None
    folder = cache_folder()
    return None if folder is None else PlanFolder(folder / "plans")


def _packed_bytes(model: Model) -> int:
    """About the bytes that a plan has of a model's constants: 8 bits stay 8 bits, and relaxed real numbers take 16."""
    constants = {id(operand.constant): operand.constant for operand in model.operands if operand.constant is not None}
    return sum(_packed(constant, model.relaxed) for constant in constants.values())


def _packed(constant: Constant, relaxed: bool) -> int:
    if isinstance(constant, QuantisedConstant):
        return constant.levels.nbytes
    return constant.nbytes // 2 if relaxed and constant.dtype == np.float32 else constant.nbytes
