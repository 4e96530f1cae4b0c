"""Both losses with their gradients and Hessian-vector products, by row blocks and without overflow.

With S = A1 X A2^T, U = exp(S) entrywise, alpha = U 1, F = U / alpha, C = F - B and the row-wise dot product
rd(P, Q)_j = sum_k P_jk Q_jk (arXiv:2307.02419 for the objects; the derivatives are re-derived here and in
`replica.softmax.derivation`):

    normalized  G = F o (C - rd(F, C))
                W = F o (T - rd(F, T)),  Z = F o (W - rd(F, W)) + G o (T - rd(F, T)) - F o rd(G, T)
    rescaled    G = F o (C - rd(B, C))
                W = F o T - B o rd(F, T),  Z = F o (W - rd(B, W)) + G o T

    dL/dX = A1^T (w G) A2,  dL/dA1 = w G A2 X^T,  dL/dA2 = (w G)^T A1 X,  dL/dB = -w C
    Hessian in direction V, T = A1 V A2^T:  A1^T (w Z) A2

where w = 1 for the normalized loss and w = alpha^2, row by row, for the rescaled one: dividing its rows by
alpha first is what keeps every intermediate value finite. The weights enter through their logarithms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator
from scipy.special import logsumexp
from threadpoolctl import ThreadpoolController

from replica.exceptions import InputError
from replica.softmax.problem import Loss, Problem, loss_kind

VARIABLES = ("X", "A1", "A2", "B")
"""What a loss can be differentiated by."""

LARGEST, SMALLEST = np.log(np.finfo(float).max), np.log(np.finfo(float).tiny)


def log(value: Any) -> Any:
    """The natural logarithm with log 0 = -inf and no warning."""
    with np.errstate(divide="ignore"):
        return np.log(value)


def representable(log_value: float) -> bool:
    """Whether a double holds exp(log_value) with full precision, or it is exactly zero."""
    return log_value == -np.inf or SMALLEST < log_value < LARGEST


def exponential(log_value: float, name: str) -> float:
    """exp(log_value).

    Raises
    ------
    OverflowError: no double holds it; its logarithm is named.
    """
    if not representable(log_value):
        raise OverflowError(f"{name} is not representable; its logarithm is {log_value:.17g}")
    return float(np.exp(log_value))


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread: for a block that fits a cache, waking others costs more than they save."""
    with _threads().limit(limits=1, user_api="blas"):
        yield


@dataclass(frozen=True, eq=False)
class Scaled:
    """An array times exp(log_scale), for values beyond the range of a double."""

    name: str
    over_scale: np.ndarray
    log_scale: float

    @property
    def log_norm(self) -> float:
        """The logarithm of the Frobenius norm."""
        return float(log(np.linalg.norm(self.over_scale))) + self.log_scale

    @property
    def value(self) -> np.ndarray:
        """The array itself.

        Raises
        ------
        OverflowError: a double does not hold its norm; the logarithm of the norm is named.
        """
        if self.log_scale == 0:
            return self.over_scale
        if not representable(self.log_norm):
            raise OverflowError(
                f"{self.name} is not representable; the logarithm of its norm is {self.log_norm:.17g}"
            )
        # In two factors, because the scale alone may overflow where the product does not.
        return self.over_scale * np.exp(self.log_scale / 2) * np.exp(self.log_scale / 2)


class Block(NamedTuple):
    """Rows of a problem at given weights: labels B, softmax F, residual C = F - B, log alpha, max |S|."""

    rows: slice
    B: np.ndarray
    F: np.ndarray
    C: np.ndarray
    log_alpha: np.ndarray
    max_abs_logit: float


def forward(problem: Problem, X: np.ndarray, block_rows: int | None = None) -> Iterator[Block]:
    """The softmax and its residual, block after block.

    Raises
    ------
    OverflowError: a logit is not finite.
    """
    P = projected(problem.A1, X)
    for rows in problem.blocks(block_rows):
        S = logits(P[rows], problem.A2)
        max_abs = float(max(S.max(), -S.min()))
        B = problem.B[rows]
        F, log_alpha = softmax(S)
        yield Block(rows, B, F, F - B, log_alpha, max_abs)


def projected(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """P Q, whose overflow is left for the logits to show."""
    with np.errstate(over="ignore", invalid="ignore"):
        return P @ Q


def logits(P: np.ndarray, A2: np.ndarray) -> np.ndarray:
    """S = P A2^T for rows P of A1 X.

    Raises
    ------
    OverflowError: an entry is not finite.
    """
    S = projected(P, A2.T)
    # Extremes instead of isfinite: NaN and both infinities show in them, and no mask is made.
    if not (np.isfinite(S.max()) and np.isfinite(S.min())):
        raise OverflowError("logits not finite")
    return S


def softmax(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row softmax F and log alpha of logits S, which are overwritten."""
    top = S.max(axis=1, keepdims=True)
    with np.errstate(over="ignore", under="ignore"):
        S -= top
        np.exp(S, out=S)
        total = S.sum(axis=1, keepdims=True)
        S *= 1 / total
    return S, (top + np.log(total))[:, 0]


def row_dot(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """rd(P, Q) as a column."""
    return np.einsum("jk,jk->j", P, Q)[:, None]


def logit_gradient(kind: Loss, F: np.ndarray, C: np.ndarray, B: np.ndarray) -> np.ndarray:
    """G, the gradient in the logits over the row weights."""
    G = C - row_dot(F if kind is Loss.NORMALIZED else B, C)
    G *= F
    return G


def logit_hessian_product(
    kind: Loss, F: np.ndarray, G: np.ndarray, B: np.ndarray, T: np.ndarray
) -> np.ndarray:
    """Z, the Hessian in the logits times a direction T, over the row weights."""
    if kind is Loss.NORMALIZED:
        T = T - row_dot(F, T)
        W = F * T
        W -= row_dot(F, W)
        # rd(G, T) may take the centred T, because the rows of G sum to zero.
        W -= row_dot(G, T)
        W *= F
    else:
        W = F * T
        W -= B * row_dot(F, T)
        W -= row_dot(B, W)
        W *= F
    W += G * T
    return W


class ScaledSum:
    """A sum of arrays on a common logarithmic scale that grows with its largest term."""

    def __init__(self) -> None:
        self.log_scale = -np.inf
        self.value: Any = 0.0

    def add(self, term: np.ndarray, log_scale: float) -> None:
        """Add term exp(log_scale)."""
        if log_scale > self.log_scale:
            self.value = self.value * np.exp(self.log_scale - log_scale)
            self.log_scale = log_scale
        self.value = self.value + term * np.exp(log_scale - self.log_scale)

    def on(self, log_scale: float) -> np.ndarray:
        """The sum divided by exp(log_scale), which is at least the scale of every term."""
        return self.value * np.exp(self.log_scale - log_scale)


class RowWeights:
    """The weights alpha_j^2 of the rescaled loss in logarithms, or the ones of the normalized loss.

    A scale is chosen by the entries that are weighted: a row that vanishes must not set it, however large its
    alpha, because all others could underflow beside it.
    """

    def __init__(self, kind: Loss, rows: int) -> None:
        self.trivial = kind is Loss.NORMALIZED
        self.log = np.zeros(rows)
        self.log_peak = np.full(rows, -np.inf)

    def of(self, block: Block, entries: np.ndarray) -> tuple[float, Any]:
        """A scale for rows that multiply `entries`, and their weights over it, as a column."""
        if self.trivial:
            return 0.0, 1.0
        rows = block.rows
        self.log[rows] = 2 * block.log_alpha
        self.log_peak[rows] = self.log[rows] + log(np.maximum(entries.max(axis=1), -entries.min(axis=1)))
        scale = _finite_maximum(self.log_peak[rows])
        return scale, self._over(scale, rows)

    @property
    def log_scale(self) -> float:
        """The scale of the largest row met so far; 0 if there is none."""
        return 0.0 if self.trivial else _finite_maximum(self.log_peak)

    def on(self, log_scale: float) -> Any:
        """All weights over exp(log_scale), as a column."""
        return 1.0 if self.trivial else self._over(log_scale, slice(None))

    def _over(self, log_scale: float, rows: slice) -> np.ndarray:
        # Where all entries vanish the weight is of no consequence, but infinity times zero would be.
        seen = np.where(np.isfinite(self.log_peak[rows]), self.log[rows] - log_scale, -np.inf)
        return np.exp(np.minimum(seen, LARGEST))[:, None]


def _finite_maximum(values: np.ndarray) -> float:
    top = float(values.max())
    return top if np.isfinite(top) else 0.0


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A loss and its gradients at one point.

    Parameters
    ----------
    kind: the loss.
    log_loss: its logarithm, -inf for an exact fit.
    log_scale: the gradients are stored divided by exp(log_scale); 0 for the normalized loss.
    gradients: by variable, as `Scaled`.
    log_norm_B: the logarithm of |dL/dB|_F, known without storing that gradient.
    log_row_weight: the logarithm of the largest weight of a row, max_j alpha_j^2; 0 for the normalized loss.
    max_abs_logit: max |S|.
    """

    kind: Loss
    log_loss: float
    log_scale: float
    gradients: dict[str, Scaled]
    log_norm_B: float
    log_row_weight: float
    max_abs_logit: float

    @property
    def loss(self) -> float:
        """The loss itself.

        Raises
        ------
        OverflowError: a double does not hold it; its logarithm is named.
        """
        return exponential(self.log_loss, f"the {self.kind} loss")

    @property
    def log_gradient_norms(self) -> dict[str, float]:
        """Logarithms of the Frobenius norms of the gradients asked for, and of that in B."""
        return {name: scaled.log_norm for name, scaled in self.gradients.items()} | {"B": self.log_norm_B}


@one_thread()
def evaluate(
    problem: Problem,
    X: Any,
    kind: str = Loss.NORMALIZED,
    *,
    wrt: Collection[str] = VARIABLES,
    block_rows: int | None = None,
) -> Evaluation:
    """A loss and its gradients in one pass over the rows.

    Cost O(m n d + (m + n) d^2); memory O(block_rows n + (m + n) d), plus m n for the gradient in B.

    Parameters
    ----------
    problem: the data.
    X: (d1, d2). The weights.
    kind: "normalized" or "rescaled".
    wrt: which of X, A1, A2, B to differentiate by.
    block_rows: rows of S held at a time; left out, as many as fit a core's cache.

    Raises
    ------
    InputError: unfit X, unknown loss or variable, block_rows below 1.
    OverflowError: a logit is not finite.

    Examples
    --------
    >>> problem = Problem([[1.0], [2.0]], [[0.0], [1.0]], [[0.5, 0.5], [0.5, 0.5]])
    >>> result = evaluate(problem, [[0.3]], wrt=("X",))
    >>> print(f"{result.loss:.6f} {result.gradients['X'].value[0, 0]:.6f}")
    0.026757 0.169692
    """
    kind = loss_kind(kind)
    X = problem.weights(X)
    unknown = set(wrt) - set(VARIABLES)
    if unknown:
        raise InputError(f"wrt holds {', '.join(sorted(unknown))}; allowed are {', '.join(VARIABLES)}")
    m, n, d1, _ = problem.shape
    P = projected(problem.A1, X)
    row_loss, weights = np.empty(m), RowWeights(kind, m)
    sum_X, sum_A2 = ScaledSum(), ScaledSum()
    by_row = {name: np.empty((m, width)) for name, width in (("A1", d1), ("B", n)) if name in wrt}
    max_abs = 0.0
    for block in forward(problem, X, block_rows):
        rows, C = block.rows, block.C
        max_abs = max(max_abs, block.max_abs_logit)
        row_loss[rows] = np.einsum("jk,jk->j", C, C)
        scale, weight = weights.of(block, C)
        if "B" in wrt:
            np.negative(C, out=by_row["B"][rows])
        if not {"X", "A1", "A2"} & set(wrt):
            continue
        G = logit_gradient(kind, block.F, C, block.B)
        if "X" in wrt or "A1" in wrt:
            M = G @ problem.A2
            if "X" in wrt:
                sum_X.add(problem.A1[rows].T @ (weight * M), scale)
            if "A1" in wrt:
                by_row["A1"][rows] = M @ X.T
        if "A2" in wrt:
            sum_A2.add(G.T @ (weight * P[rows]), scale)
    log_scale = weights.log_scale
    for array in by_row.values():
        array *= weights.on(log_scale)
    gradients = by_row | {
        name: total.on(log_scale) for name, total in (("X", sum_X), ("A2", sum_A2)) if name in wrt
    }
    with np.errstate(divide="ignore"):
        log_row_loss = np.log(row_loss)
    return Evaluation(
        kind=kind,
        log_loss=float(logsumexp(weights.log + log_row_loss) - np.log(2)),
        log_scale=log_scale,
        gradients={
            name: Scaled(f"the gradient of the {kind} loss in {name}", gradients[name], log_scale)
            for name in VARIABLES
            if name in wrt
        },
        log_norm_B=float(logsumexp(2 * weights.log + log_row_loss) / 2),
        log_row_weight=float(weights.log.max()),
        max_abs_logit=max_abs,
    )


def log_loss(
    problem: Problem, X: Any, kind: str = Loss.NORMALIZED, *, block_rows: int | None = None
) -> float:
    """The logarithm of a loss, finite for every finite S that does not fit exactly; -inf where it does.

    Parameters and exceptions as in `evaluate`.
    """
    return evaluate(problem, X, kind, wrt=(), block_rows=block_rows).log_loss


def loss(problem: Problem, X: Any, kind: str = Loss.NORMALIZED, *, block_rows: int | None = None) -> float:
    """L_N = 1/2 |F - B|_F^2 or L_R = 1/2 |U - D B|_F^2.

    Parameters and exceptions as in `evaluate`, and

    Raises
    ------
    OverflowError: a double does not hold the rescaled loss; its logarithm is named.
    """
    return evaluate(problem, X, kind, wrt=(), block_rows=block_rows).loss


def gradient(
    problem: Problem,
    X: Any,
    kind: str = Loss.NORMALIZED,
    wrt: str = "X",
    *,
    block_rows: int | None = None,
) -> np.ndarray:
    """The gradient in one of X, A1, A2, B, of the shape of that variable.

    Parameters and exceptions as in `evaluate`, and

    Raises
    ------
    OverflowError: a double does not hold the gradient of the rescaled loss; the logarithm of its norm is
        named.
    """
    return evaluate(problem, X, kind, wrt=(wrt,), block_rows=block_rows).gradients[wrt].value


class Hessian(LinearOperator):
    """The Hessian in x = X.ravel() at one point, over exp(log_scale), as a scipy operator.

    Parameters
    ----------
    problem: the data.
    X: (d1, d2). The weights.
    kind: "normalized" or "rescaled".
    block_rows: rows of S held at a time. Left out, F and G are kept between products (2 m n numbers); given,
        they are formed anew for every product, in memory O(block_rows n).

    Raises
    ------
    InputError: unfit X, unknown loss, block_rows below 1.
    OverflowError: a logit is not finite.
    """

    def __init__(
        self, problem: Problem, X: Any, kind: str = Loss.NORMALIZED, *, block_rows: int | None = None
    ) -> None:
        self.problem, self.X, self.kind = problem, problem.weights(X), loss_kind(kind)
        self.block_rows = block_rows
        self._kept: list[tuple[Block, np.ndarray]] | None = None
        self.log_scale = 0.0
        kept = []
        for block, G in self._blocks():
            if self.kind is Loss.RESCALED:
                top = 2 * float(block.log_alpha.max())
                self.log_scale = top if block.rows.start == 0 else max(self.log_scale, top)
            if block_rows is None:
                kept.append((block._replace(C=G), G))
            elif self.kind is Loss.NORMALIZED:
                break
        self._kept = kept or None
        size = self.X.size
        super().__init__(dtype=np.dtype(np.float64), shape=(size, size))

    def _blocks(self) -> Iterator[tuple[Block, np.ndarray]]:
        for block in forward(self.problem, self.X, self.block_rows):
            yield block, logit_gradient(self.kind, block.F, block.C, block.B)

    @one_thread()
    def product(self, V: Any) -> Scaled:
        """The Hessian times a direction V (d1, d2), on a scale of its own."""
        V = self.problem.weights(V, "V")
        AV = self.problem.A1 @ V
        total = ScaledSum()
        weights = RowWeights(self.kind, len(AV))
        for block, G in self._kept or self._blocks():
            T = AV[block.rows] @ self.problem.A2.T
            Z = logit_hessian_product(self.kind, block.F, G, block.B, T)
            scale, weight = weights.of(block, Z)
            total.add(self.problem.A1[block.rows].T @ (weight * (Z @ self.problem.A2)), scale)
        name = f"the Hessian-vector product of the {self.kind} loss"
        return Scaled(name, total.on(weights.log_scale), weights.log_scale)

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        product = self.product(np.reshape(x, self.X.shape))
        return product.over_scale.ravel() * np.exp(product.log_scale - self.log_scale)

    def _adjoint(self) -> Hessian:
        return self


def hessian_product(
    problem: Problem, X: Any, V: Any, kind: str = Loss.NORMALIZED, *, block_rows: int | None = None
) -> Scaled:
    """The Hessian in X times a direction V (d1, d2); `.value` is the (d1, d2) array itself.

    Parameters and exceptions as in `Hessian`.

    Examples
    --------
    >>> problem = Problem([[1.0], [2.0]], [[0.0], [1.0]], [[0.5, 0.5], [0.5, 0.5]])
    >>> print(f"{hessian_product(problem, [[0.3]], [[1.0]]).value[0, 0]:.6f}")
    0.455177
    """
    return Hessian(problem, X, kind, block_rows=block_rows).product(V)
