"""Strided views: a dispatch may read or write a column range of a larger tensor in place.

Shaders go from row to row by pitches in their push constants. Loads and stores stay what they are, so that columns of
whole vec4s are for shaders that take vec4s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from nnvk.driver.vulkan.shaders.commands import Access, Dispatch, StridedView

Views = Mapping[str, StridedView]
"""Strided views, in elements, by the names of tensors."""
Constants = tuple[Mapping[str, bool], Mapping[str, int]]
"""Specialisation constants and push constants."""
Pitches = Callable[[Views], Constants | None]
"""A function that gives the constants for some views, or for dense tensors; None if the shader can't take the views."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a tensor, from one to the next of which a shader goes by a pitch."""

    itemsize: int
    """Bytes of an element."""
    width: int | None = None
    """The elements of a row; None: as many as a view has."""
    multiple: int = 4
    """The elements that the shader loads or stores at once."""

    def taken(self, view: StridedView) -> StridedView | None:
        """A view in elements; None if it has other rows, or cuts what is loaded or stored at once."""
        taken = view.elements(self.itemsize)
        if taken is None or (self.width is not None and taken.width != self.width):
            return None
        return taken if taken.are_multiples(self.multiple) else None


@dataclass(frozen=True, slots=True)
class RowAccess(Access):
    """The rows of tensors, and the constants by which a shader goes through them. ``|`` joins two of them."""

    rows: Mapping[str, Rows | None] = field(default_factory=dict)
    """The rows of each tensor that can be a view, by its name; None if the shader binds the tensor for nothing."""
    pitches: tuple[Pitches, ...] = ()

    def __or__(self, other: RowAccess) -> RowAccess:
        return RowAccess({**self.rows, **other.rows}, self.pitches + other.pitches)

    def constants(self, views: Views) -> Constants | None:
        """The constants for some views, or for dense tensors; None if the shader can't take the views."""
        spec: dict[str, bool] = {}
        push: dict[str, int] = {}
        for each in self.pitches:
            constants = each(views)
            if constants is None:
                return None
            spec |= constants[0]
            push |= constants[1]
        return spec, push

    def on_views(self, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
        """See `Access`."""
        taken: dict[str, StridedView] = {}
        for name, view in views.items():
            if name not in self.rows:
                return None
            if (rows := self.rows[name]) is not None:
                within = rows.taken(view)
                if within is None:
                    return None
                taken[name] = within
        constants = self.constants(taken)
        if constants is None:
            return None
        spec, push = constants
        words = dispatch.shader.with_constants(dispatch.specialization, **spec)
        return replace(dispatch, push={**dispatch.push, **push}, specialization=words)


def pitch_of(views: Views, name: str, dense: int) -> int:
    """The pitch of a tensor, which is ``dense`` if the tensor is no view."""
    return views[name].pitch if name in views else dense


def common_width(views: Views) -> int | None:
    """The elements of the rows of all views; None if the rows of one are shorter than those of another one."""
    first, *others = (view.width for view in views.values())
    return first if all(other == first for other in others) else None


def access_by(constant: str, tensor: str, itemsize: int, width: int, multiple: int) -> RowAccess:
    """The access to a tensor whose pitch is a push constant; the last three arguments are those of `Rows`."""
    rows = {tensor: Rows(itemsize, width, multiple)}
    return RowAccess(rows, (lambda views: ({}, {constant: pitch_of(views, tensor, width)}),))


def access_to_pixels(channels: int, itemsize: int) -> RowAccess:
    """The access of pools and RESIZE. Only a shader that takes four channels of a pixel at once can take views."""
    source, target = (access_by(f"{name}_pitch", name, itemsize, channels, 4) for name in ("src", "dst"))
    both = source | target
    return both if channels % 4 == 0 else RowAccess(pitches=both.pitches)
