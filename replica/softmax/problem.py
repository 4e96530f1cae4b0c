"""Attention regression problems: the data, its validation, what is reported of it, and random instances."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from scipy.linalg import norm

from replica.exceptions import InputError

BLOCK_ENTRIES = 1 << 17
"""Entries of a row block when none is asked for: 1 MiB of doubles, which stays in a core's cache."""

ROW_SUM_TOLERANCE = 1e-9
"""Rows of B that sum to one within this count as stochastic: printed labels rarely carry all digits."""


class Loss(StrEnum):
    """Which residual is squared."""

    NORMALIZED = "normalized"
    """L_N = 1/2 |F - B|_F^2, F the row softmax of the logits."""
    RESCALED = "rescaled"
    """L_R = 1/2 |U - D B|_F^2 with U = exp(S), D = diag(U 1): the same zeros, row j weighted by alpha_j^2."""


def loss_kind(kind: str) -> Loss:
    """The loss of that name.

    Raises
    ------
    InputError: no such loss.
    """
    try:
        return Loss(kind)
    except ValueError:
        raise InputError(f"loss = {kind!r} is not one of {', '.join(Loss)}") from None


def matrix(name: str, value: Any) -> np.ndarray:
    """Cast a real, finite, non-empty matrix to a read-only float64 array.

    An array that is already read-only and float64 is kept as it is, anything else is copied, so that a
    problem cannot change under its own checks.

    Raises
    ------
    InputError: not two-dimensional, empty, not real numbers, NaN or infinite; array and shape are named.
    """
    try:
        raw = np.asarray(value)
    except ValueError:
        raise InputError(f"{name} is not a matrix: its rows differ in length") from None
    check_header(name, raw.dtype, raw.shape)
    frozen = raw if raw.dtype == np.float64 and not raw.flags.writeable else raw.astype(np.float64)
    check_finite(name, frozen, raw.shape)
    frozen.flags.writeable = False
    return frozen


def check_header(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """Refuse what no real, non-empty matrix can have as type and shape."""
    if dtype.kind not in "iuf":
        raise InputError(f"{name} of shape {shape} has dtype {dtype}; allowed are real numbers")
    if len(shape) != 2 or 0 in shape:
        raise InputError(f"{name} has shape {shape}; allowed are two non-empty dimensions")


def check_finite(name: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuse NaN and infinite entries of (a part of) the array of that shape."""
    if not np.isfinite(values).all():
        offender = values[~np.isfinite(values)][0]
        raise InputError(f"{name} of shape {shape} holds {offender}; allowed are finite numbers")


def check_integer(name: str, value: Any, least: int) -> None:
    """Refuse what is not an integer of at least `least`."""
    if not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} = {value!r} is outside the allowed range: integers from {least}")


def frobenius(X: np.ndarray) -> float:
    """|X|_F; scipy's norm of a vector scales its squares, so that they do not overflow."""
    return float(norm(X.ravel(), check_finite=False))


class StoredMatrix:
    """A matrix in an `.npy` file of which only the rows asked for are read.

    Every read maps the file anew and copies its rows, so that the resident memory is that of one block: pages
    of a mapping that stays open would add up to the whole file.

    Parameters
    ----------
    path: an `.npy` file of a two-dimensional array of real numbers; it must not change while it is in use.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        header = self._map()
        self.dtype, self.shape = header.dtype, header.shape

    def _map(self) -> np.ndarray:
        try:
            return np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            raise InputError(f"{self.path} is not a readable .npy file of numbers") from None

    def __getitem__(self, rows: slice) -> np.ndarray:
        return np.array(self._map()[rows], dtype=np.float64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The whole matrix, mapped, so that `save` copies it file to file, a buffer at a time."""
        return self._map().astype(dtype or self.dtype, copy=bool(copy))


class Labels(NamedTuple):
    """What the bounds need of the rows b_j of B: osc(b_j) = max - min, |b_j|_2, |b_j|_inf, each (m,)."""

    oscillation: np.ndarray
    norm: np.ndarray
    max_abs: np.ndarray
    row_stochastic: bool


@dataclass(frozen=True, eq=False)
class Problem:
    """An attention regression: labels B for the rows of softmax(A1 X A2^T).

    The sizes are general; arXiv:2307.02419 has m = n and d1 = d2. All quantities are dimensionless.

    Parameters
    ----------
    A1: (m, d1). Features of the queries.
    A2: (n, d2). Features of the keys.
    B: (m, n). Labels, an array or a `StoredMatrix`; rows on the simplex are usual but not required.

    Raises
    ------
    InputError: an array that is not a finite real matrix, or shapes that do not fit.

    Examples
    --------
    >>> problem = Problem([[1.0], [2.0]], [[0.0], [1.0]], [[0.5, 0.5], [0.2, 0.8]])
    >>> problem.shape, problem.labels.row_stochastic
    ((2, 2, 1, 1), True)
    """

    A1: Any
    A2: Any
    B: Any
    labels: Labels = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "A1", matrix("A1", self.A1))
        object.__setattr__(self, "A2", matrix("A2", self.A2))
        if isinstance(self.B, StoredMatrix):
            check_header("B", self.B.dtype, self.B.shape)
        else:
            object.__setattr__(self, "B", matrix("B", self.B))
        (m, _), (n, _) = self.A1.shape, self.A2.shape
        if self.B.shape != (m, n):
            raise InputError(
                f"B of shape {self.B.shape} does not fit A1 of shape {self.A1.shape} and A2 of shape "
                f"{self.A2.shape}; allowed is shape {(m, n)}"
            )
        object.__setattr__(self, "labels", self._scan())

    def _scan(self) -> Labels:
        """One pass over B: its finiteness and what the bounds need of each row."""
        m, _, _, _ = self.shape
        oscillation, length, max_abs = np.empty(m), np.empty(m), np.empty(m)
        stochastic = True
        for rows in self.blocks():
            block = self.B[rows]
            check_finite("B", block, self.B.shape)
            low, high = block.min(axis=1), block.max(axis=1)
            oscillation[rows] = high - low
            length[rows] = np.linalg.norm(block, axis=1)
            max_abs[rows] = np.maximum(high, -low)
            sums = np.abs(block.sum(axis=1) - 1)
            stochastic &= bool((low >= 0).all() and (sums <= ROW_SUM_TOLERANCE).all())
        return Labels(oscillation, length, max_abs, stochastic)

    def has_labels(self, B: Any) -> bool:
        """Whether B, a matrix or a `StoredMatrix`, holds the labels of this problem."""
        return B.shape == self.B.shape and all(np.array_equal(B[r], self.B[r]) for r in self.blocks())

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(m, n, d1, d2)."""
        return (*self.B.shape, self.A1.shape[1], self.A2.shape[1])

    @cached_property
    def norms(self) -> dict[str, float]:
        """Spectral norms of A1 and A2; their product is that of kron(A1, A2)."""
        return {name: float(np.linalg.norm(getattr(self, name), 2)) for name in ("A1", "A2")}

    @property
    def kronecker_norm(self) -> float:
        """|K| = |A1| |A2|, the spectral norm of kron(A1, A2)."""
        return self.norms["A1"] * self.norms["A2"]

    def weights(self, X: Any, name: str = "X") -> np.ndarray:
        """X as a float64 matrix of shape (d1, d2).

        Raises
        ------
        InputError: not a finite real matrix of that shape.
        """
        X = matrix(name, X)
        if X.shape != self.shape[2:]:
            raise InputError(
                f"{name} of shape {X.shape} does not fit A1 of shape {self.A1.shape} and A2 of shape "
                f"{self.A2.shape}; allowed is shape {self.shape[2:]}"
            )
        return X

    def blocks(self, block_rows: int | None = None) -> Iterator[slice]:
        """Slices that cover the m rows, `block_rows` at a time; left out, as many as fit a core's cache.

        Raises
        ------
        InputError: `block_rows` is not a positive integer.
        """
        m, n = self.B.shape
        if block_rows is None:
            block_rows = max(1, BLOCK_ENTRIES // n)
        check_integer("block_rows", block_rows, 1)
        return (slice(start, min(start + block_rows, m)) for start in range(0, m, block_rows))

    def radius(self, norms: Mapping[str, float], R: float | None = None) -> float:
        """R, the number that bounds |K| and other norms, as the R-forms of the bounds assume.

        Parameters
        ----------
        norms: what R must bound beside |K|, by name.
        R: a value of one's own; left out, the smallest admissible one.

        Raises
        ------
        InputError: R is below one of them, or not a finite number.
        """
        sizes = {"|K|": self.kronecker_norm, **norms}
        name = max(sizes, key=sizes.__getitem__)
        if R is None:
            return sizes[name]
        # Norms carry rounding errors of a few eps; an R printed from one of them must be accepted again.
        if not sizes[name] * (1 - 1e-12) <= R < np.inf:
            raise InputError(
                f"R = {R:g} is outside the allowed range [{sizes[name]:.12g}, inf): the R-form assumes that "
                f"R bounds {name} = {sizes[name]:.12g}"
            )
        return float(R)

    def report(self, X: Any = None) -> dict[str, Any]:
        """Sizes, spectral norms of A1 and A2, |X|_F, the smallest admissible R, whether B is stochastic."""
        sizes = dict(zip(("m", "n", "d1", "d2"), self.shape, strict=True))
        norms = {} if X is None else {"X": frobenius(self.weights(X))}
        return {
            "shape": sizes,
            "norms": self.norms | norms,
            "R": self.radius({f"|{name}|_F": size for name, size in norms.items()}),
            "row_stochastic": self.labels.row_stochastic,
        }


def read_arrays(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Those of A1, A2, B and X that an `.npz` file or a folder of `.npy` files holds.

    From a folder B comes as a `StoredMatrix`, so that it may exceed the memory.

    Raises
    ------
    InputError: nothing readable there.
    """
    path = Path(path)
    names = ("A1", "A2", "B", "X")
    if path.is_dir():
        files = {name: path / f"{name}.npy" for name in names if (path / f"{name}.npy").exists()}
        if not files:
            raise InputError(f"{path} holds none of {', '.join(f'{name}.npy' for name in names)}")
        return {
            name: StoredMatrix(file) if name == "B" else StoredMatrix(file)._map()
            for name, file in files.items()
        }
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in names if name in stored.files}
    except FileNotFoundError:
        raise InputError(
            f"{path} does not exist; allowed are an .npz file or a folder of .npy files"
        ) from None
    except (OSError, ValueError, EOFError, AttributeError, BadZipFile):
        raise InputError(f"{path} is neither an .npz file of numbers nor a folder of .npy files") from None


def load(path: str | os.PathLike[str]) -> tuple[Problem, np.ndarray | None]:
    """A problem from an `.npz` file or a folder of `.npy` files, and its X where there is one.

    Parameters
    ----------
    path: holds A1, A2, B and optionally X under these names; other names are left alone.

    Raises
    ------
    InputError: an array is missing or unfit, or nothing is readable there.
    """
    arrays = read_arrays(path)
    missing = [name for name in ("A1", "A2", "B") if name not in arrays]
    if missing:
        raise InputError(f"{path} holds {', '.join(arrays) or 'no array'}; missing: {', '.join(missing)}")
    problem = Problem(arrays["A1"], arrays["A2"], arrays["B"])
    return problem, problem.weights(arrays["X"]) if "X" in arrays else None


def save(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write arrays to an `.npz` file, beside it first and renamed when complete.

    Raises
    ------
    InputError: there is no such folder, or it cannot be written.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            np.savez(file, **arrays)
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


class Instance(NamedTuple):
    """A problem with weights to evaluate it at, and the weights its labels come from, if any are known."""

    problem: Problem
    X: np.ndarray
    planted: np.ndarray | None

    def arrays(self) -> Mapping[str, Any]:
        """What is stored of it, as `load` reads it."""
        stored = {"A1": self.problem.A1, "A2": self.problem.A2, "B": self.problem.B, "X": self.X}
        return stored if self.planted is None else stored | {"X_planted": self.planted}


def random_instance(
    n: int, d: int, *, seed: int = 0, radius: float = 1.0, planted: bool = False, m: int | None = None
) -> Instance:
    """A random instance: rows of A1 and A2 of mean square one, |X|_F = radius, labels on the simplex.

    Parameters
    ----------
    n, d: positive integers; A2 is (n, d), X is (d, d).
    seed: non-negative integer.
    radius: [0, inf). |X|_F, and that of the planted weights.
    planted: whether B is the row softmax at planted weights, so that the smallest loss is zero; otherwise the
        rows of B are uniform on the simplex.
    m: rows of A1 and B; left out, n.

    Raises
    ------
    InputError: a value outside its range.

    Examples
    --------
    >>> instance = random_instance(5, 2, seed=1, radius=3.0)
    >>> round(float(np.linalg.norm(instance.X)), 12), instance.problem.labels.row_stochastic
    (3.0, True)
    """
    m = n if m is None else m
    for name, value, least in (("n", n, 1), ("m", m, 1), ("d", d, 1), ("seed", seed, 0)):
        check_integer(name, value, least)
    if not 0 <= radius < np.inf:
        raise InputError(f"radius = {radius!r} is outside the allowed range [0, inf)")
    generator = np.random.default_rng(np.random.SeedSequence([seed, m, n, d]))
    A1, A2 = (generator.standard_normal((rows, d)) / np.sqrt(d) for rows in (m, n))
    X, other = (on_sphere(generator, (d, d), radius) for _ in range(2))
    if not planted:
        return Instance(Problem(A1, A2, generator.dirichlet(np.ones(n), size=m)), X, None)
    S = A1 @ other @ A2.T
    U = np.exp(S - S.max(axis=1, keepdims=True))
    return Instance(Problem(A1, A2, U / U.sum(axis=1, keepdims=True)), X, other)


def on_sphere(generator: np.random.Generator, shape: tuple[int, int], radius: float) -> np.ndarray:
    """A matrix drawn uniformly from the sphere |X|_F = radius."""
    X = generator.standard_normal(shape)
    return radius * X / np.linalg.norm(X)
