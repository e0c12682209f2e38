"""The versions that tests run with: every library and tool that nnvk's tests need has exactly one."""

from __future__ import annotations

from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

CONSTRAINTS = Path(__file__).parents[2] / "scripts" / "constraints.txt"


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_every_requirement_has_one_version(python: str) -> None:
    environment = {"python_version": python, "extra": "test"}
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]
    pinned = {}
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            assert requirement.name not in pinned
            (specifier,) = requirement.specifier
            assert specifier.operator == "==", requirement
            pinned[requirement.name] = specifier.version
    needed = [
        requirement
        for requirement in map(Requirement, requires("nnvk") or [])
        if requirement.marker is None or requirement.marker.evaluate(environment)
    ]
    assert {"numpy", "pytest", "ruff"} <= {requirement.name for requirement in needed}
    for requirement in needed:
        assert requirement.name in pinned, f"{requirement} has no version in {CONSTRAINTS}"
        assert requirement.specifier.contains(pinned[requirement.name]), requirement
