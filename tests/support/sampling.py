"""A sample of conformance vectors that is the same in every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from nnvk.conformance.vectors import Case

SEED = 1
"""Another seed draws other vectors."""


def sample(cases: Sequence[Case], count: int) -> list[Case]:
    """Draw ``count`` vectors, in the order of their names.

    The operations take turns: each gives one vector before any gives a second one. Which vectors an operation gives
    depends on their names alone, so neither the order of the files nor other operations' vectors change it.
    ValueError: there are fewer vectors, or more operations.
    """
    operations = len({case.operation for case in cases})
    if not operations <= count <= len(cases):
        raise ValueError(
            f"a sample must have {operations} (one for each operation) to {len(cases)} vectors, got {count}"
        )
    ranked = sorted(cases, key=lambda case: sha256(f"{SEED}/{case.name}".encode()).digest())
    taken: Counter[str] = Counter()
    turns = []
    for case in ranked:
        turns.append((taken[case.operation], len(turns), case))
        taken[case.operation] += 1
    return sorted((case for _, _, case in sorted(turns)[:count]), key=lambda case: case.name)
