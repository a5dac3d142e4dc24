"""The stochastic integral equations of infinite width and depth, and their kernels', as expressions."""

from __future__ import annotations

import sympy as sp

from tpcalc.ledger import Equation, Equations

from .._fields import Average, Slope, fields

tau, sigma, c, L, ell, k = sp.symbols("tau sigma c L ell k")
t, s, r_, v = sp.symbols("t s r v", integer=True)


# phi, dphi: of h; u, r: Brownian; Ch, Cg: kernels of the drifts; J, R: what h and g anticipate of their noise
h, g, phi, dphi, u, r, Phi, G, H, A, B, Ch, Cg, J, R, ddphi, f = fields(
    "h g phi dphi u r Phi G H A B Ch Cg J R ddphi f")
Delta = sp.IndexedBase(r"\Delta")
G.commutes = True   # a kernel of gradients is symmetric in its steps


def _sum(body: sp.Expr, index: sp.Symbol = s, end: sp.Expr = t - 1) -> sp.Expr:
    return sp.Sum(body, (index, 0, end))


class Pair(Equation):
    """An equation whose sides can be taken apart."""

    def as_pair(self) -> tuple[sp.Expr, sp.Expr]:
        return self.target, self.value


FORWARD = Pair(h(t, tau), h(t, 0) + u(t, tau) + c * sp.Integral(_sum(Ch(t, s, sigma) * g(s, sigma)), (sigma, 0, tau)))
_noise = sp.Integral(dphi(t, sigma) * r(t, sigma).diff(sigma), (sigma, tau, 1))
BACKWARD = Pair(g(t, tau), g(t, 1) + _noise + c * sp.Integral(
    dphi(t, sigma) * _sum(Cg(t, s, sigma) * phi(s, sigma), s, t), (sigma, tau, 1)))
DRIFTS = (Pair(Ch(t, s, tau), Phi(t, s, tau) * Delta[s] + A(t, s, tau)),
          Pair(Cg(t, s, tau), (1 - sp.KroneckerDelta(t, s)) * G(t, s, tau) * Delta[s] + B(t, s, tau)))
KERNELS = (Pair(Phi(t, s, tau), Average(phi(t, tau) * phi(s, tau))), Pair(G(t, s, tau), Average(g(t, tau) * g(s, tau))))
RESPONSES = Pair(A(t, s, tau), Average(Slope(phi(t, tau), r(s, tau))) / c)
OUTPUT = Pair(f(t, 1), sp.Symbol("eta_0") * _sum(A(t, s, 1)))
ANSWERS = (RESPONSES, Pair(B(t, s, tau), Average(Slope(g(t, tau), u(s, tau))) / c))
EQUATIONS = Equations((FORWARD, BACKWARD, *DRIFTS, *KERNELS, *ANSWERS, OUTPUT))


def mirrored(target: sp.Expr, own: sp.Expr, twice: sp.Expr) -> Pair:
    """An equation of a kernel (t, s): terms of their own, and others that come again with t and s exchanged."""
    return Pair(target, own + twice + twice.xreplace({t: s, s: t}))


_last = sp.Max(t, s)   # sums over all steps that are there
_ito = _sum(_sum(Phi(r_, v, tau) * Average(Slope(phi(t, tau) * phi(s, tau), h(r_, tau), h(v, tau))), r_, _last), v,
            _last) / 2
_bent = Slope(dphi(t, tau) * phi(s, tau), h(r_, tau))
_early = _sum(_sum(Phi(t, v, tau) * Average(_bent * J(r_, v, tau)), r_, _last), v, _last)
_pushed = c * _sum(Ch(t, v, tau) * Average(g(v, tau) * dphi(t, tau) * phi(s, tau)), v)
_late = _sum(G(t, v, tau) * Average(dphi(t, tau) * R(s, v, tau)), v, s)
_own = -Average(dphi(t, tau) * dphi(s, tau)) * G(t, s, tau)
_pulled = -c * _sum(Cg(t, v, tau) * Average(dphi(t, tau) * phi(v, tau) * g(s, tau)), v, t)
KERNEL_SLOPE = mirrored(Phi(t, s, tau).diff(tau), _ito, _pushed + _early)
GRADIENT_SLOPE = mirrored(G(t, s, tau).diff(tau), _own, _pulled - _late)
# as (64) and (65) are printed, the latter with fields in each other's places
ADAPTED = mirrored(KERNEL_SLOPE.target, _ito, _pushed)
SWAPPED = mirrored(GRADIENT_SLOPE.target, _own, _pulled.xreplace({phi(v, tau): phi(s, tau), g(s, tau): g(v, tau)}))
DRIFT = Pair(h(t, ell), h(t, 1) + sp.Sum(u(t, k), (k, 2, ell)) / sp.sqrt(L) + c / L * sp.Sum(_sum(
    Ch(t, s, k) * g(s, k + 1)), (k, 1, ell - 1)))
H_KERNEL = Pair(H(t, s, tau), Average(h(t, tau) * h(s, tau)))
FINITE_RESPONSE = Pair(B(t, s, ell), Average(Slope(g(t, ell + 1), u(s, ell + 1))))
LAST_OUTPUT = Pair(A(t, s, L), Average(Slope(phi(t, L), r(s, L))) / c)
