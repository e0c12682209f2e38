"""Objects that belong to one process and its devices."""

from __future__ import annotations

from typing import ClassVar, NoReturn


class Pinned:
    """Base class of objects that cannot be copied or pickled: they own threads, memory or objects of a driver."""

    __slots__ = ()
    _alternative: ClassVar[str] = "make another one where it is needed"
    """The advice in the error."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """TypeError. `copy` and `pickle` call this."""
        name = type(self).__name__
        raise TypeError(
            f"a {name} belongs to its process and devices, and can't be copied or pickled: {self._alternative}"
        )
