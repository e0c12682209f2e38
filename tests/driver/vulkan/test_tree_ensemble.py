"""TREE_ENSEMBLE on the GPU: the reference's sums, bit by bit."""

from __future__ import annotations

import pytest
from against_reference import check_like_the_reference

TREES = "(0,0,1,2,0;1,3,-1,-2,1;0,2,-3,-1,0) f32[3]~1 (0,2,-3,1) (0,1,3,4) (0,0,1,2) f32[4]"


@pytest.mark.parametrize("aggregate", [0, 1, 2])
@pytest.mark.parametrize("rows", [1, 3, 67, 1031])
def test_like_the_reference(vulkan, rows, aggregate):
    check_like_the_reference(vulkan, f"TREE_ENSEMBLE f32[{rows},2]~2 {TREES} 3 {aggregate} -> f32")


def test_open_rows_and_late_trees(vulkan):
    check_like_the_reference(vulkan, f"TREE_ENSEMBLE f32[5?,2]~2 {TREES} 3 -> f32")
    late = TREES.replace("(0,2,-3,1)", "@(0,2,-3,1)")
    check_like_the_reference(vulkan, f"TREE_ENSEMBLE f32[5,2]~2 {late} 3 -> f32")
