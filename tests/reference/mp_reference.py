"""The low-rank model in multiple precision, by quadrature over the spectrum of the task covariance.

An oracle for `replica.solve` that takes another road: no resolvent, no closed form, no symbolic algebra.
Every average is a plain sum over the modes of R_k of an integrand without cancellation. On range(P) the
eigenvalues s follow the Marchenko-Pastur law of aspect c = rho/kappa stretched by 1/rho,

    rho s = (1 - sqrt(c))^2 + 4 sqrt(c) sin(phi/2)^2,  weight (2/pi) sin(phi)^2 / (rho s) dphi,  0 < phi < pi,

with an atom at 0 of weight 1 - kappa/rho when kappa < rho; off range(P), with weight 1 - rho, s = 0.

In t = log tan(phi/2) every singularity of every integrand (s = -z, s = 0, sin(phi) = inf) lies on the lines
|Im t| = pi/2, whatever the parameters. The trapezoidal rule of step h in t therefore errs by about
exp(-pi^2/h), at a hard edge (rho = kappa) and at a vanishing ridge as anywhere else.

`python tests/reference/mp_reference.py` checks itself against doubled precision, against the tanh-sinh rule
in phi and against the derivatives of the action, then rewrites `random_points.json`.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from mpmath import mp

Point = Mapping[str, float]

HERE = Path(__file__).parent
STORE = HERE / "random_points.json"
PUBLIC = HERE / "low_rank_icl_points.json"

NAMES = ("alpha", "alpha_test", "kappa", "rho", "gamma", "sigma", "ridge")
PROTOCOLS = ("TM", "IDG", "ODG")

# Correct digits asked of every value, and those carried on top for sums of thousands of terms.
DIGITS = 30
GUARD = 10
# Digits written: float64 needs 17 to be told apart from its neighbours.
WRITTEN = 20


@cache
def _angle(k: int, dps: int) -> tuple[Any, Any]:
    """h sin(phi)^3 and sin(phi/2)^2 at the node t = k h, to `dps` digits."""
    with mp.workdps(dps):
        h = mp.pi**2 / (dps * mp.log(10))
        odds = mp.exp(2 * k * h)
        half = odds / (1 + odds)
        # sin(phi) = sech(t), and dphi = sin(phi) dt.
        return h * mp.sech(k * h) ** 3, half


def modes(kappa: Any, rho: Any, floor: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Quadrature nodes for averages over the eigenvalues s of R_k on R^D.

    Parameters
    ----------
    kappa, rho: the shape of the task family.
    floor: a lower bound of the ridge z that will be added to s; sets how deep the nodes reach into s -> 0.

    Returns
    -------
    `(s, weight, inside)`: object arrays of mpf; `inside` is 1 on range(P) and 0 off it.
    """
    c = rho / kappa
    columns: list[tuple[Any, Any, Any]] = []
    if c == 0:
        columns.append((1 / rho, rho, mp.one))
    else:
        root = mp.sqrt(c)
        # 1 - sqrt(c) from the exact difference: rho and kappa may share all but their last bits.
        gap = ((kappa - rho) / kappa / (1 + root)) ** 2
        # Averages of 1/(s + z)^2 weigh the smallest s by up to (rho z)^-2 against the bulk.
        depth = mp.eps * min(mp.one, (gap + rho * floor) ** 2)
        if depth == 0:
            raise ArithmeticError("no lower bound on s + z: the depth of the quadrature is unknown")
        # The weight falls as tan(phi/2)^3 / gap, or as tan(phi/2) where the gap is closed.
        left = max(mp.cbrt(depth * gap / 8), depth * root / 2)
        step = mp.pi**2 / (mp.dps * mp.log(10))
        first, last = int(mp.floor(mp.log(left) / step)), int(mp.ceil(mp.log(8 / mp.eps) / (3 * step)))
        for k in range(first, last + 1):
            measure, half = _angle(k, mp.dps)
            stretched = gap + 4 * root * half
            columns.append((stretched / rho, rho * 2 / mp.pi * measure / stretched, mp.one))
        if kappa < rho:
            columns.append((mp.zero, rho - kappa, mp.one))
    if rho < 1:
        columns.append((mp.zero, 1 - rho, mp.zero))
    s, weight, inside = np.array(columns, dtype=object).T
    return s, weight, inside


def effective_ridge(s: np.ndarray, weight: np.ndarray, eta: Any, gamma: Any, ridge: Any) -> Any:
    """The root xi of gamma = <(s + eta)/(s + eta + xi)> + gamma ridge / xi: the right side falls with xi."""
    if ridge == 0 and gamma >= 1:
        return mp.zero

    def excess(log_xi: Any) -> Any:
        xi = mp.exp(log_xi)
        return weight @ ((s + eta) / (s + eta + xi)) + gamma * ridge / xi - gamma

    # The average lies between eta/(eta + xi) and, since <s> = 1, (1 + eta)/xi.
    high = mp.log(ridge + (1 + eta) / gamma)
    low = max(ridge, eta * (1 - gamma) / gamma)
    low = mp.log(low) if low > 0 else high - 1
    while excess(low) <= 0:
        low -= 4
    slack = mp.mpf(10) ** (GUARD - 2 - mp.dps)
    log_xi = mp.findroot(excess, (low, high), solver="illinois", tol=slack / 10**4, maxsteps=60, verify=False)
    if not excess(log_xi - slack) > 0 > excess(log_xi + slack):
        raise ArithmeticError(f"effective ridge exp({mp.nstr(log_xi)}) is not bracketed to {slack}")
    return mp.exp(log_xi)


def well_posed(point: Point) -> bool:
    """Whether ridge -> 0 and alpha -> inf commute where both are asked."""
    if point["alpha"] < math.inf or point["ridge"] > 0:
        return True
    return point["gamma"] < min(point["kappa"], point["rho"]) or (point["rho"] == 1 and point["kappa"] > 1)


def solve(point: Point, digits: int = DIGITS) -> dict[str, Any]:
    """Everything `replica.solve` reports at one point, to `digits` digits.

    Parameters
    ----------
    point: the seven parameters as floats, used exactly; alpha, alpha_test and kappa may be inf.
    digits: correct significant digits of every value (of the total, for the memorization part of TM).

    Returns
    -------
    effective_ridge, training_error, order_parameters {name: value}, errors {protocol: value},
    decomposition {protocol: [algorithmic, memorization, structural]}, prediction {protocol: [m_p, q_p]}.
    """
    if not well_posed(point):
        raise ValueError(f"ill-posed: the limits of no ridge and of long contexts do not commute at {point}")
    with mp.workdps(digits + GUARD):
        alpha, alpha_test, kappa, rho, gamma, sigma, ridge = (mp.mpf(point[name]) for name in NAMES)
        eta, eta_test = (1 + sigma**2) / alpha, (1 + sigma**2) / alpha_test
        # xi >= ridge; at eta = ridge = 0 the unknown xi or the gap keeps s + z away from 0.
        s, weight, inside = modes(kappa, rho, max(eta + ridge, mp.mpf(10) ** -digits))
        xi = effective_ridge(s, weight, eta, gamma, ridge)
        z = eta + xi

        def mean(values: np.ndarray) -> Any:
            return weight @ values

        # W = diag(kept) + sqrt(v) Z diag(spread)^(1/2) in the eigenbasis of R_k.
        kept, lost, spread = s / (s + z), z / (s + z), (s + eta) / (s + z) ** 2

        def error(tasks: np.ndarray, noise: Any, v: Any) -> Any:
            return (
                sigma**2 + mean(tasks * lost**2) + noise * mean(kept**2) + v * mean((tasks + noise) * spread)
            )

        q_hat = gamma * ridge / xi if xi > 0 else gamma - 1
        # gamma v = e_TM(alpha_test = alpha): gamma less the factor of v there is a positive sum.
        v = error(s, eta, 0) / (q_hat + xi * mean(spread))
        chi_hat = v * q_hat**2

        # f = <1/(s + z)> on range(P): the projector keeps a = 1 - z f, and kept - a = z (f - 1/(s + z)).
        f = mean(inside / (s + z)) / rho
        a, deviation = mean(inside * kept) / rho, z * (f - 1 / (s + z))
        algorithmic = {
            "TM": sigma**2 + (z * f) ** 2 + eta_test * rho * a**2,
            "ODG": sigma**2 + (1 - rho) + rho * (z * f) ** 2 + eta_test * rho * a**2,
        }
        algorithmic["IDG"] = algorithmic["TM"]
        tasks = {"TM": s, "IDG": inside / rho, "ODG": np.ones_like(s)}
        errors, decomposition, prediction = {}, {}, {}
        for protocol, b in tasks.items():
            errors[protocol] = error(b, eta_test, v)
            memorization = mean(inside * (b + eta_test) * (deviation**2 + v * spread))
            if protocol == "TM":
                memorization -= 2 * z * f * mean(inside * s * deviation)
            structural = v * mean((1 - inside) * (b + eta_test) * spread)
            decomposition[protocol] = [algorithmic[protocol], memorization, structural]
            prediction[protocol] = [mean(b * kept), mean((b + eta_test) * (kept**2 + v * spread))]
        return {
            "effective_ridge": xi,
            "training_error": chi_hat / gamma,
            "order_parameters": {
                "q": mean((s + eta) * (kept**2 + v * spread)),
                "m": mean(s * kept),
                "chi": mean((s + eta) / (s + z)) / q_hat if q_hat > 0 else mp.inf,
                "q_hat": q_hat,
                "m_hat": q_hat,
                "chi_hat": chi_hat,
            },
            "errors": errors,
            "decomposition": decomposition,
            "prediction": prediction,
        }


def action(point: Point, order: Iterable[Any]) -> Any:
    """The free energy Phi at any (q, m, chi, q_hat, m_hat, chi_hat), for ridge > 0 or gamma > 1."""
    alpha, _, kappa, rho, gamma, sigma, ridge = (mp.mpf(point[name]) for name in NAMES)
    q, m, chi, q_hat, m_hat, chi_hat = order
    eta = (1 + sigma**2) / alpha
    s, weight, _ = modes(kappa, rho, eta + ridge)
    average = weight @ ((m_hat**2 * s**2 + chi_hat * (s + eta)) / (q_hat * (s + eta) + gamma * ridge))
    energy = gamma / 2 * (1 + sigma**2 - 2 * m + q) / (1 + chi)
    return (q * q_hat - chi * chi_hat) / 2 - m * m_hat + average / 2 - energy


def leaves(value: Any) -> Iterator[Any]:
    """The numbers of a nested result, in order."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from leaves(item)


def text(value: Any) -> Any:
    """A nested result with every number as a string of `WRITTEN` digits."""
    if isinstance(value, Mapping):
        return {name: text(item) for name, item in value.items()}
    if isinstance(value, list):
        return [text(item) for item in value]
    return "inf" if value == mp.inf else mp.nstr(value, WRITTEN, strip_zeros=False)


def load(path: Path) -> list[dict[str, Any]]:
    """A file of points, with the parameters as floats (`"inf"` included)."""
    points = json.loads(path.read_text())
    for point in points:
        point["parameters"] = {name: float(value) for name, value in point["parameters"].items()}
    return points


def draw(seed: int = 2510) -> list[dict[str, float]]:
    """Random points over the whole allowed range, then points within 1e-6 of rho = kappa."""
    rng = np.random.default_rng(seed)

    def log_uniform(low: float, high: float) -> float:
        # Seven digits, so that the last bit of a platform's pow does not matter.
        return float(f"{10 ** rng.uniform(math.log10(low), math.log10(high)):.7g}")

    def mostly(usual: Callable[[], float], chance: float, special: float) -> float:
        return special if rng.random() < chance else usual()

    def gamma(low: float, high: float) -> float:
        if rng.random() < 0.15:
            side = float(rng.choice([side for side, end in ((1, high), (-1, low)) if end != 1]))
            return 1 + side * log_uniform(1e-3, 3e-2)
        return log_uniform(low, high)

    def point(ridge: float, gammas: tuple[float, float]) -> dict[str, float]:
        alpha = mostly(lambda: log_uniform(1e-3, 1e6), 0.25, math.inf)
        return {
            "alpha": alpha,
            "alpha_test": mostly(lambda: mostly(lambda: log_uniform(1e-3, 1e6), 0.1, math.inf), 0.25, alpha),
            "kappa": mostly(lambda: log_uniform(1e-2, 1e4), 0.1, math.inf),
            "rho": mostly(lambda: log_uniform(1e-3, 1), 0.2, 1.0),
            "gamma": gamma(*gammas),
            "sigma": mostly(lambda: round(rng.uniform(0, 3), 4), 0.15, 0.0),
            "ridge": ridge,
        }

    def allowed(p: Point) -> bool:
        return well_posed(p) and abs(p["gamma"] - 1) >= 1e-3 and p["kappa"] >= 1e-2 and p["rho"] <= 1

    points: list[dict[str, float]] = []
    while len(points) < 330:
        ridge = mostly(lambda: log_uniform(1e-12, 1e3), 0.5, 0.0)
        candidate = point(ridge, (0.1, 100.0))
        if allowed(candidate):
            points.append(candidate)
    # Exactly equal, one unit in the last place apart, and up to 1e-6 apart, on both sides.
    for penalized, gammas in ((True, (0.1, 100.0)), (False, (1.0, 100.0)), (False, (0.1, 1.0))):
        for distance in (
            0.0,
            0.0,
            2**-52,
            -(2**-52),
            *np.outer([1, -1], [1e-14, 1e-12, 1e-10, 1e-8, 9e-7]).flat,
        ):
            while True:
                candidate = point(log_uniform(1e-12, 1e3) if penalized else 0.0, gammas)
                candidate["kappa"] = mostly(lambda: log_uniform(1e-2, 1), 0.2, 1.0)
                candidate["rho"] = candidate["kappa"] * (1 + float(distance))
                if allowed(candidate):
                    points.append(candidate)
                    break
    return points


def disagreement(result: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Largest relative difference of two results; the memorization part of TM on the scale of the total."""
    total = result["errors"]["TM"]
    memorization = result["decomposition"]["TM"][1]
    worst = mp.zero
    for x, y in zip(leaves(result), leaves(other), strict=True):
        if x != y:
            worst = max(worst, abs(x - y) / (abs(total) if x is memorization else abs(x)))
    return float(worst)


def check_precision(point: Point, result: Mapping[str, Any]) -> float:
    """Disagreement with twice the digits, hence other nodes too: the step of the rule depends on them."""
    return disagreement(result, solve(point, 2 * DIGITS))


def check_sums(point: Point, result: Mapping[str, Any]) -> float:
    """Largest relative gap of the identities between the separately averaged numbers."""
    gaps = []
    with mp.workdps(DIGITS):
        noise = mp.mpf(point["sigma"]) ** 2
        for protocol in PROTOCOLS:
            total = result["errors"][protocol]
            covariance, variance = result["prediction"][protocol]
            gaps.append((mp.fsum(result["decomposition"][protocol]) - total) / total)
            # The difference cancels where the error is small: judged on the scale of its terms.
            gaps.append((noise + 1 - 2 * covariance + variance - total) / (1 + noise + variance))
        order = result["order_parameters"]
        gaps.append(order["m"] / result["prediction"]["TM"][0] - 1)
        if point["alpha"] == point["alpha_test"]:
            gaps.append(order["q"] / result["prediction"]["TM"][1] - 1)
        return float(max(abs(gap) for gap in gaps))


def check_stationary(point: Point, result: Mapping[str, Any]) -> float:
    """Largest derivative of the action by the logarithm of a variable, relative to its own term."""
    order = list(result["order_parameters"].values())
    q, m, chi, q_hat, m_hat, chi_hat = order
    # The part of the action that holds the variable and its conjugate.
    terms = 2 * [q * q_hat, m * m_hat, chi * chi_hat]

    def slope(i: int) -> Any:
        # Central difference of fourth order; the step balances its error against rounding.
        h = mp.mpf(10) ** (-mp.dps / 6)
        far_left, left, right, far_right = (
            action(point, [x * mp.exp(n * h) if j == i else x for j, x in enumerate(order)])
            for n in (-2, -1, 1, 2)
        )
        return (far_left - 8 * left + 8 * right - far_right) / (12 * h)

    with mp.workdps(DIGITS + GUARD):
        return float(max(abs(slope(i) / terms[i]) for i in range(6)))


def check_quadrature(point: Point, result: Mapping[str, Any]) -> float:
    """Largest relative difference to averages by the tanh-sinh rule in the angle phi."""
    kappa, rho, sigma = (mp.mpf(point[name]) for name in ("kappa", "rho", "sigma"))
    with mp.workdps(DIGITS):
        z = (1 + sigma**2) / mp.mpf(point["alpha"]) + result["effective_ridge"]
        s, weight, _ = modes(kappa, rho, z)
        null = 1 - min(kappa, rho)
        root, gap = mp.sqrt(rho / kappa), ((kappa - rho) / kappa / (1 + mp.sqrt(rho / kappa))) ** 2

        def integrand(average: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def at(phi: Any) -> Any:
                stretched = gap + 4 * root * mp.sin(phi / 2) ** 2
                return average(stretched / rho) * rho * 2 / mp.pi * mp.sin(phi) ** 2 / stretched

            return at

        # Where s becomes comparable to z, or to the edge of the law, the integrand bends.
        bends = sorted(
            {mp.zero, mp.pi, *(min(mp.pi / 2, mp.sqrt(x / root)) for x in (gap, rho * z) if x > 0)}
        )
        worst = mp.zero
        for average in (lambda s: 1 / (s + z), lambda s: 1 / (s + z) ** 2, lambda s: s**2 / (s + z)):
            expected = mp.quad(integrand(average), bends, maxdegree=9)
            if null > 0:
                expected += null * average(mp.zero)
            worst = max(worst, abs(weight @ average(s) / expected - 1))
        return float(worst)


# What each check may find, and on every how many points it is made. All ask for more than WRITTEN digits. The
# sums carry DIGITS and a few roundings; twice the digits leave five of DIGITS for parts that nearly cancel;
# the tanh-sinh rule stops at its degree; a fourth-order difference keeps two thirds of DIGITS + GUARD.
CHECKS = {
    check_sums: (1e-28, 1),
    check_precision: (1e-25, 4),
    check_quadrature: (1e-20, 10),
    check_stationary: (1e-20, 10),
}


def applies(check: Callable[..., float], point: Point) -> bool:
    """Whether a check has a meaning: the law must have a density, the conjugate variables must be finite."""
    if check is check_quadrature:
        return point["kappa"] < math.inf
    if check is check_stationary:
        return point["ridge"] > 0 or (point["gamma"] > 1 and point["alpha"] < math.inf)
    return True


def main() -> None:
    """Solve every drawn point, check, and rewrite the store; raises where a check fails."""
    points = draw()
    results = []
    worst = {check.__name__: 0.0 for check in CHECKS}
    made = dict.fromkeys(worst, 0)
    for i, point in enumerate(points):
        result = solve(point)
        for check, (tolerance, stride) in CHECKS.items():
            if i % stride == 0 and applies(check, point):
                found = check(point, result)
                made[check.__name__] += 1
                worst[check.__name__] = max(worst[check.__name__], found)
                if not found <= tolerance:
                    raise ArithmeticError(f"{check.__name__} found {found:.1e} > {tolerance:.0e} at {point}")
        results.append(
            {"parameters": {n: "inf" if v == math.inf else v for n, v in point.items()}, **text(result)}
        )
    for name, found in worst.items():
        print(f"{name}: {found:.1e} at worst of {made[name]} points")
    temporary = STORE.with_suffix(".tmp")
    temporary.write_text("[\n" + ",\n".join(map(json.dumps, results)) + "\n]\n")
    temporary.replace(STORE)


if __name__ == "__main__":
    main()
