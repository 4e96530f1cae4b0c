"""The spectrum of the Hessian: its density against the averages of the theory and against sampled tasks."""

import numpy as np
import pytest
import sympy as sp
from mpmath import mp, mpf
from quadrature import bulk_integral

from replica.parameters import Parameters
from replica.theory import hessian, spectrum
from replica.theory.symbols import inverse_kappa, rho, z

RICH, CRITICAL, POOR = (1.5, 0.6), (0.6, 0.6), (0.25, 0.6)
FULL = (2.0, 1.0)
REGIMES = pytest.mark.parametrize(("kappa", "rho_"), [RICH, CRITICAL, POOR, FULL])


def point(kappa: float, rho_: float, **changes: float) -> Parameters:
    return Parameters(**{"alpha": 3.0, "kappa": kappa, "rho": rho_, "gamma": 2.0, "sigma": 0.4} | changes)


@REGIMES
@pytest.mark.parametrize("fluctuations", [True, False])
def test_density_integrates_to_its_weight(kappa: float, rho_: float, fluctuations: bool) -> None:
    made = hessian(point(kappa, rho_), fluctuations=fluctuations)
    # The sum of 400 terms rounds at 1e-13.
    assert bulk_integral(made, np.ones_like) == pytest.approx(made.bulk_weight, rel=1e-12)
    assert made.bulk_weight + made.atom_weight == 1
    assert made.bulk_weight == min(kappa, rho_)


@REGIMES
@pytest.mark.parametrize(("power", "order"), list(spectrum._POSITIVE))
def test_moments_equal_the_averages_by_partial_fractions(
    kappa: float, rho_: float, power: int, order: int
) -> None:
    z_ = 0.37
    tasks = hessian(point(kappa, rho_), fluctuations=False)
    moment = bulk_integral(tasks, lambda s: s**power / (s + z_) ** order)
    f = 1 / spectrum.resolvent_inverse(z_, 1 / kappa, spectrum.gap(kappa, rho_))
    numbers = {sp.Symbol("f"): float(f), z: z_, inverse_kappa: 1 / kappa, rho: rho_}
    on_range = float(spectrum.by_partial_fractions(power, order).subs(numbers))
    null = z_**-order if power == 0 else 0.0
    # by_partial_fractions cancels a few digits of its 16 at moderate z.
    assert moment + tasks.atom_weight * null == pytest.approx(rho_ * on_range + (1 - rho_) * null, rel=1e-11)


@REGIMES
def test_fluctuations_move_the_spectrum_by_the_implicit_ridge(kappa: float, rho_: float) -> None:
    given = point(kappa, rho_)
    with_, without = hessian(given), hessian(given, fluctuations=False)
    eta = (1 + 0.4**2) / 3
    assert (with_.atom, without.atom) == (eta, 0)
    assert with_.edges == tuple(edge + eta for edge in without.edges)
    assert with_.smallest == without.smallest + eta
    assert without.smallest == (0 if rho_ < 1 else pytest.approx((1 - 1 / np.sqrt(2)) ** 2, rel=1e-15))
    x = np.linspace(*without.edges, 7)
    # The density is steep at the edges, where the shift has rounded x.
    np.testing.assert_allclose(with_.density(x + eta), without.density(x), rtol=1e-12, atol=1e-6)


def exact_cumulative(x: mpf, kappa: float, rho_: float) -> mpf:
    """Bulk weight below x by quadrature of the density with 30 digits."""
    with mp.workdps(30):
        roots = 1 / mp.sqrt(mpf(rho_)), 1 / mp.sqrt(mpf(kappa))
        low, high = (roots[0] - roots[1]) ** 2, (roots[0] + roots[1]) ** 2
        end = 2 * mp.asin(mp.sqrt((mpf(x) - low) / (high - low)))

        def integrand(angle: mpf) -> mpf:
            s = low + (high - low) * mp.sin(angle / 2) ** 2
            return mpf(kappa) * rho_ * ((high - low) / 2 * mp.sin(angle)) ** 2 / (2 * mp.pi * s)

        return mp.quad(integrand, [0, end / 2, end])


@pytest.mark.parametrize("kappa", [0.25, 0.6, 0.61, 5.9e3, 6.1e3, 1e10])
def test_cumulative_equals_the_integral_of_the_density(kappa: float) -> None:
    tasks = hessian(point(kappa, 0.6), fluctuations=False)
    low, high = tasks.edges
    for share in (0.01, 0.3, 0.9):
        x = low + share * (high - low)
        # x itself is rounded: the narrow bulk at large kappa magnifies that by its centre over its width.
        tolerance = 1e-13 * max(1.0, high / (high - low) / 100)
        exact = float(exact_cumulative(x, kappa, 0.6)) + tasks.atom_weight
        assert tasks.cumulative(x) == pytest.approx(exact, abs=tolerance)
    assert tasks.cumulative(np.nextafter(high, np.inf)) == 1
    assert tasks.cumulative(low) == pytest.approx(tasks.atom_weight, abs=1e-15)
    assert tasks.cumulative(-1e-300) == 0


def test_infinitely_many_tasks_make_two_atoms() -> None:
    made = hessian(point(np.inf, 0.25))
    eta = made.atom
    assert made.edges == (4 + eta, 4 + eta)
    np.testing.assert_array_equal(made.density([eta, 4 + eta, 5.0]), [0, np.inf, 0])
    np.testing.assert_array_equal(made.cumulative([0.0, eta, 1.0, 4 + eta, 9.0]), [0, 0.75, 0.75, 1, 1])


@pytest.mark.parametrize(("kappa", "rho_"), [RICH, CRITICAL, POOR])
def test_sampled_tasks_have_this_spectrum(kappa: float, rho_: float) -> None:
    dim = 300
    rng = np.random.default_rng(7)
    rank, count = round(rho_ * dim), round(kappa * dim)
    tasks = rng.standard_normal((count, rank)) * np.sqrt(dim / rank)
    eigenvalues = np.linalg.eigvalsh(tasks.T @ tasks / count)
    excited = np.sort(eigenvalues)[-min(rank, count) :]
    made = hessian(point(kappa, rho_), fluctuations=False)
    assert len(excited) == made.bulk_weight * dim
    edges = np.linspace(made.edges[0], made.edges[1], 13)
    counts = np.histogram(np.clip(excited, edges[0], edges[-1]), edges)[0]
    expected = dim * np.diff(made.cumulative(edges))
    # Eigenvalues are rigid: the count between two points fluctuates by about sqrt(2 log D)/pi = 1.1, not by
    # its square root, and is biased by O(1) next to the edges.
    assert np.abs(counts - expected).max() < 3


def test_a_grid_equals_its_points() -> None:
    grid = Parameters.grid(alpha=[1.0, 9.0], kappa=[0.3, 0.6, np.inf], rho=[0.6, 1.0], gamma=2, sigma=0.4)
    made = hessian(grid)
    for index in np.ndindex(grid.shape):
        alone = hessian(grid[index])
        for x in (0.1, 1.0, 4.0):
            assert np.broadcast_to(made.density(x), grid.shape)[index] == alone.density(x)
            assert np.broadcast_to(made.cumulative(x), grid.shape)[index] == alone.cumulative(x)
        assert np.broadcast_to(made.smallest, grid.shape)[index] == alone.smallest
