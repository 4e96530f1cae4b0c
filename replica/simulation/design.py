"""The least-squares design as an operator: M rows `x_mu (x) what_mu` that are never formed."""

from __future__ import annotations

import numpy as np

from replica.simulation.rows import Rows


class Design:
    """Phi, which takes a matrix W to the predictions `x_mu^T W what_mu`, and its products.

    `(Phi W)_mu = x_mu^T W what_mu` and `Phi^T a = sum_mu a_mu x_mu what_mu^T`; each costs one product of an
    M x D and a D x D matrix, or of as many numbers.

    Parameters
    ----------
    queries, estimates: (M, D), the inputs x and the context estimates `what`.
    rows: M rows and the threads that work on them.
    """

    def __init__(self, queries: np.ndarray, estimates: np.ndarray, rows: Rows) -> None:
        self.queries = queries
        self.estimates = estimates
        self.rows = rows
        dim = queries.shape[1]
        self._block = rows.buffers(dim)
        self._term = np.empty((rows.threads, dim, dim))
        self._sums = np.empty((rows.strips, dim, dim))

    def forward(self, W: np.ndarray) -> np.ndarray:
        """Phi W: (D, D) -> (M,)."""
        predictions = np.empty(self.rows.count)

        def work(worker: int, strip: int, block: slice, first: bool) -> None:
            self._predict(worker, block, W, predictions[block])

        self.rows.each_block(work)
        return predictions

    def adjoint(self, a: np.ndarray) -> np.ndarray:
        """Phi^T a: (M,) -> (D, D)."""

        def work(worker: int, strip: int, block: slice, first: bool) -> None:
            self._collect(worker, strip, block, first, a[block])

        self.rows.each_block(work)
        return self._sum()

    def normal(self, W: np.ndarray) -> np.ndarray:
        """Phi^T Phi W: (D, D) -> (D, D), in one pass over the rows."""

        def work(worker: int, strip: int, block: slice, first: bool) -> None:
            predictions = np.empty(block.stop - block.start)
            self._predict(worker, block, W, predictions)
            self._collect(worker, strip, block, first, predictions)

        self.rows.each_block(work)
        return self._sum()

    def second_moment(self) -> np.ndarray:
        """The sample second moment of the context estimates, (1/M) sum_mu what_mu what_mu^T: (D, D)."""

        def work(worker: int, strip: int, block: slice, first: bool) -> None:
            what = self.estimates[block]
            self._accumulate(worker, strip, first, what, what)

        self.rows.each_block(work)
        return self._sum() / self.rows.count

    def kernel(self) -> np.ndarray:
        """K = Phi Phi^T = (X X^T) o (What What^T): (M, M)."""
        kernel = np.empty((self.rows.count, self.rows.count))

        def work(worker: int, strip: int, block: slice, first: bool) -> None:
            np.matmul(self.queries[block], self.queries.T, out=kernel[block])
            kernel[block] *= self.estimates[block] @ self.estimates.T

        self.rows.each_block(work)
        return kernel

    def _predict(self, worker: int, block: slice, W: np.ndarray, out: np.ndarray) -> None:
        product = self._block[worker, : len(out)]
        np.matmul(self.queries[block], W, out=product)
        np.einsum("ij,ij->i", product, self.estimates[block], out=out)

    def _collect(self, worker: int, strip: int, block: slice, first: bool, a: np.ndarray) -> None:
        weighted = self._block[worker, : len(a)]
        np.multiply(self.estimates[block], a[:, None], out=weighted)
        self._accumulate(worker, strip, first, self.queries[block], weighted)

    def _accumulate(self, worker: int, strip: int, first: bool, left: np.ndarray, right: np.ndarray) -> None:
        if first:
            np.matmul(left.T, right, out=self._sums[strip])
        else:
            np.matmul(left.T, right, out=self._term[worker])
            self._sums[strip] += self._term[worker]

    def _sum(self) -> np.ndarray:
        return np.add.reduce(self._sums, axis=0)
