"""The device is what shaders take it for: docs/shaders.md. A device that is not is found."""

import re
from pathlib import Path

import numpy as np
import pytest

from nnvk.driver.vulkan.running.assumptions import assumptions, difference
from nnvk.driver.vulkan.shaders.assumptions import ASSUMPTIONS, assumption
from nnvk.driver.vulkan.shaders.library import ShaderLibrary

LIBRARY = ShaderLibrary()
GUIDE = Path(__file__).parents[3] / "docs" / "shaders.md"


@pytest.mark.parametrize("variant", ASSUMPTIONS.variants, ids=lambda variant: variant.name)
def test_the_device_keeps_to_it(vulkan, variant):
    if variant not in assumptions(vulkan.gpu, LIBRARY):
        pytest.skip("the device has no elements of 16 bits")
    assert difference(vulkan.gpu, LIBRARY, variant) == ""


@pytest.mark.parametrize("variant", ASSUMPTIONS.variants, ids=lambda variant: variant.name)
def test_what_is_off_is_found(variant):
    """A result that is off by eight units in the last place is found."""
    expected = assumption(variant)
    right = expected.expected.view(np.uint32)
    assert not expected.wrong(right).size
    off = right + np.uint32(8)
    places = expected.wrong(off)
    with np.errstate(invalid="ignore"):
        is_number = ~np.isnan(expected.expected.astype(np.float64))
    np.testing.assert_array_equal(places, np.flatnonzero(is_number))
    assert re.fullmatch(r"of operands (0x[0-9a-f]{8}(, )?){4}: expected .*, got .*", expected.describe(0, off))


def test_each_is_in_the_guide():
    text = GUIDE.read_text()
    named = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert named == {assumption(variant).kind for variant in ASSUMPTIONS.variants}
