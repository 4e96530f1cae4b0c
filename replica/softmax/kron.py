"""The tensor trick: the logits as a linear map of the vectorized weights, without the Kronecker matrix."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.sparse.linalg import LinearOperator

from replica.exceptions import InputError
from replica.softmax.problem import matrix

Order = Literal["row-major", "column-major"]


class KroneckerOperator(LinearOperator):
    """vec(X) -> vec(A1 X A2^T) without the Kronecker matrix, which at n = 2000, d = 64 would take 131 GB.

    Source: the vectorization of arXiv:2307.02419. With `row-major`, vec(X) = X.ravel() and the map is
    kron(A1, A2); rows j n .. (j + 1) n - 1 are the single softmax regression of row j. With `column-major`,
    vec(X) = X.ravel(order="F") and the map is kron(A2, A1).

    Parameters
    ----------
    A1: (m, d1). A2: (n, d2).
    order: how vec() orders the entries, of both sides.

    Raises
    ------
    InputError: an array that is not a finite real matrix, or an unknown order.

    Examples
    --------
    >>> A1, A2 = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]])
    >>> KroneckerOperator(A1, A2) @ np.ones(4)
    array([21., 33.])
    """

    def __init__(self, A1: np.ndarray, A2: np.ndarray, order: Order = "row-major") -> None:
        if order not in ("row-major", "column-major"):
            raise InputError(f"order = {order!r} is not one of row-major, column-major")
        self.A1, self.A2, self.order = matrix("A1", A1), matrix("A2", A2), order
        (m, d1), (n, d2) = self.A1.shape, self.A2.shape
        super().__init__(dtype=np.dtype(np.float64), shape=(m * n, d1 * d2))

    def _apply(self, left: np.ndarray, right: np.ndarray, vector: np.ndarray) -> np.ndarray:
        letter: Literal["C", "F"] = "C" if self.order == "row-major" else "F"
        unravelled = np.reshape(vector, (left.shape[1], right.shape[1]), order=letter)
        return (left @ unravelled @ right.T).ravel(order=letter)

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self._apply(self.A1, self.A2, x)

    def _rmatvec(self, x: np.ndarray) -> np.ndarray:
        return self._apply(self.A1.T, self.A2.T, x)
