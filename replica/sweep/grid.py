"""The points of a sweep in one fixed order, and the boxes they are solved in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np


@dataclass(frozen=True)
class Box:
    """A block of a grid whose points are also neighbours in its flat order.

    Parameters
    ----------
    start, stop: its points, counted in C order over the whole grid.
    index: one slice per axis.
    """

    start: int
    stop: int
    index: tuple[slice, ...]

    @property
    def size(self) -> int:
        """How many points it holds."""
        return self.stop - self.start

    @property
    def shape(self) -> tuple[int, ...]:
        """How many points it holds along each axis."""
        return tuple(part.stop - part.start for part in self.index)


class Boxed:
    """Results over a box of a grid."""

    box: Box

    @property
    def start(self) -> int:
        """The first of its points, in the flat order of the grid."""
        return self.box.start

    @property
    def stop(self) -> int:
        """The point after its last."""
        return self.box.stop


@dataclass(frozen=True)
class Grid:
    """The outer product of named axes; no axis at all is a single point.

    Examples
    --------
    >>> grid = Grid({"kappa": np.array([0.5, 1.5]), "rho": np.array([0.1, 0.5, 0.9])})
    >>> grid.box(1, 6)
    Box(start=1, stop=3, index=(slice(0, 1, None), slice(1, 3, None)))
    >>> grid.values(grid.box(3, 6))
    {'kappa': array([1.5]), 'rho': array([0.1, 0.5, 0.9])}
    """

    axes: Mapping[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def size(self) -> int:
        """How many points there are."""
        return prod(self.shape)

    def box(self, start: int, stop: int) -> Box:
        """The largest box that begins at point `start` and ends at or before point `stop`."""
        if not self.shape:
            return Box(0, 1, ())
        place = [int(i) for i in np.unravel_index(start, self.shape)]
        axis, step = len(self.shape) - 1, 1
        # Whole later axes fit only while the box begins at their first value.
        while axis > 0 and place[axis] == 0 and step * self.shape[axis] <= stop - start:
            step *= self.shape[axis]
            axis -= 1
        count = min((stop - start) // step, self.shape[axis] - place[axis])
        index = [slice(i, i + 1) for i in place[:axis]]
        index += [slice(place[axis], place[axis] + count)]
        index += [slice(0, length) for length in self.shape[axis + 1 :]]
        return Box(start, start + count * step, tuple(index))

    def boxes(self, points: int, start: int = 0, stop: int | None = None) -> Iterator[Box]:
        """Boxes of at most `points` points that tile the points from `start` to `stop`, by default all."""
        stop = self.size if stop is None else stop
        while start < stop:
            box = self.box(start, min(stop, start + points))
            yield box
            start = box.stop

    def values(self, box: Box) -> dict[str, np.ndarray]:
        """The values of each axis inside a box."""
        return {name: axis[part] for (name, axis), part in zip(self.axes.items(), box.index, strict=True)}

    def told(self) -> dict[str, dict[str, float]]:
        """Each axis by its number of values and its ends."""
        return {
            name: {"num": len(axis), "first": axis[0].item(), "last": axis[-1].item()}
            for name, axis in self.axes.items()
        }

    def point(self, number: int) -> dict[str, float]:
        """The values of each axis at one point of the flat order."""
        return {name: axis.item() for name, axis in self.values(self.box(number, number + 1)).items()}
