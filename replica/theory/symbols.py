"""The symbols of the low-rank model, made once and with their assumptions."""

import sympy as sp

gamma, rho = sp.symbols("gamma rho", positive=True)
inverse_kappa = sp.Symbol("kappa_inv", nonnegative=True)
"""1/kappa, so that infinitely many tasks are an ordinary value."""
ridge, noise = sp.symbols("lambda sigma2", nonnegative=True)
"""Ridge penalty and label-noise variance sigma^2."""
eta, eta_test = sp.symbols("eta eta_test", nonnegative=True)
"""Implicit ridges (1 + sigma^2)/alpha and (1 + sigma^2)/alpha_test of finite contexts."""

q, m, chi = sp.symbols("q m chi", real=True)
q_hat, m_hat, chi_hat = sp.symbols("qhat mhat chihat", real=True)

xi = sp.Symbol("xi", nonnegative=True)
"""Effective ridge gamma ridge / q_hat."""
v = sp.Symbol("v", nonnegative=True)
"""Level of the fluctuations of W, chi_hat / q_hat^2."""

s = sp.Symbol("s", nonnegative=True)
"""Eigenvalue of R_k in its limiting law on all of R^D."""
s_range = sp.Symbol("s_P", nonnegative=True)
"""Eigenvalue of R_k in its limiting law on range(P)."""

z = sp.Symbol("z", positive=True)
"""Argument of the resolvent, eta + xi."""
u, t, n = sp.symbols("u t n", positive=True)
"""1/f(z), the renormalized eigenvalue u - z, and n = u^2 + z/kappa."""
y = sp.Symbol("y", nonnegative=True)
"""1/z, the resolvent off range(P)."""
off_range = sp.Symbol("rho_off", nonnegative=True)
"""1 - rho, the weight of the directions off range(P)."""
excess = sp.Symbol("gamma_excess", real=True)
"""gamma - 1."""

definitions = {
    t: u / (rho * (inverse_kappa + u)),
    n: u**2 + z * inverse_kappa,
    y: 1 / z,
    off_range: 1 - rho,
    excess: gamma - 1,
}
"""Intermediate quantities. Naming the two differences keeps sympy from merging their terms with others, as in
noise + 1 - rho, which would lose the digits of a small sum."""
