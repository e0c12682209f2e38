"""The options of custom operators that are FlexBuffers maps."""

from __future__ import annotations

from collections.abc import Mapping

from flatbuffers import flexbuffers

from nnvk.importers.errors import Unmapped

_MOST_INTEGERS = 4096
"""The most integers of an option, so that nothing in a file can be endless."""


class FlexOptions:
    """Numbers and integers in a FlexBuffers map; only those asked for are read. `Unmapped`: an option is not there."""

    def __init__(self, data: bytes, defaults: Mapping[str, float] | None = None) -> None:
        try:
            self._map = flexbuffers.GetRoot(data).AsMap
        except (TypeError, ValueError) as error:
            raise Unmapped(f"the options must be a FlexBuffers map ({error})") from error
        self._defaults = defaults or {}

    def __contains__(self, name: str) -> bool:
        """Whether the map has an option."""
        try:
            return self._map[name] is not None
        except KeyError:
            return False

    def __getitem__(self, name: str) -> float:
        """A number."""
        reference = self._reference(name)
        if reference is None:
            return self._defaults[name]
        if not (reference.IsInt or reference.IsFloat or reference.IsBool):
            raise Unmapped(f"the option {name} must be a number")
        number: float = reference.Value
        return number

    def positive(self, name: str) -> float:
        """A number above 0."""
        number = self[name]
        if not number > 0:
            raise Unmapped(f"the option {name} must be above 0, got {number}")
        return number

    def whole(self, name: str, least: int, most: int) -> int:
        """A whole number within bounds."""
        number = self[name]
        if not least <= number <= most or number != int(number):
            raise Unmapped(f"the option {name} must be a whole number from {least} to {most}, got {number}")
        return int(number)

    def integers(self, name: str) -> list[int]:
        """A vector of integers."""
        reference = self._reference(name)
        if reference is not None and (reference.IsTypedVector or reference.IsFixedTypedVector or reference.IsVector):
            which = "AsTypedVector" if reference.IsTypedVector else "AsVector"
            vector = getattr(reference, "AsFixedTypedVector" if reference.IsFixedTypedVector else which)
            if len(vector) <= _MOST_INTEGERS:
                elements = [vector[position] for position in range(len(vector))]
                if all(element.IsInt for element in elements):
                    return [element.AsInt for element in elements]
        raise Unmapped(f"the option {name} must be a vector of at most {_MOST_INTEGERS} integers")

    def _reference(self, name: str) -> flexbuffers.Ref | None:
        try:
            return self._map[name]
        except KeyError:
            if name in self._defaults:
                return None
            raise Unmapped(f"the option {name} is missing") from None
