"""The densities of the action principle: the formulas of any block, hand formulas of two, and their LaTeX."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.action.action import Acting, ChainRule, Field, Inner, Kernel, MultiplyOut, Saddle, a, at, b, c, delta, dt, x
from tpcalc.action.at_initialization import derive_initial_kernels
from tpcalc.action.block_kernels import C, P, Q, R, RP, RQ
from tpcalc.action.densities import PRINTED, derive_densities, derive_densities_of_kernels
from tpcalc.action.named_means import NamedMeans
from tpcalc.derivations.printing import latex
from tpcalc.gaussian.rules import gaussian_mean, overlap
from tpcalc.models.activations import H

r, e, C1, C1_own, e_own = (at(n, a, s) for n, s in (("r", b), ("e", b), ("C^1", b), ("C^1", a), ("e", a)))
SHIFTED = sp.sin(H + sp.Rational(1, 2))


def kernel(name: str, i: int, j: int, k: int) -> sp.Expr:
    return Kernel(sp.Symbol(name), i, j, k, C, P, Q)


def same(one: Any, two: Any) -> bool:
    return bool(sp.expand(one - two) == 0)


def test_symbols_are_those_of_the_kernels() -> None:
    assert (at("C", a, b), at("C", a, a), at("C", b, b)) == (C, P, Q)
    assert (at("rho", a, b), at("rho", a, a), at("rho", b, b)) == (R, RP, RQ)


@pytest.mark.parametrize("matrices", [("m",), ("W1", "W2")])
def test_densities_of_any_block(matrices: tuple[str, ...]) -> None:
    """Against the formulas as they were found by hand; index 12 is the derivative in C_ab, d_1 is 2 d/dC_aa."""
    found = derive_densities_of_kernels(matrices)
    kappa_12, kappa_1212 = kernel("kappa", 1, 0, 0), kernel("kappa", 2, 0, 0)
    d1_kappa, d1_kappa_12 = 2 * kernel("kappa", 0, 1, 0), 2 * kernel("kappa", 1, 1, 0)

    def learned(i: int, j: int) -> sp.Expr:
        return sp.Add(*(at(f"w^{m}", a, b) * kernel(f"theta^{m}", i, j, 0) for m in matrices))

    assert same(found.A, r * kappa_12 - learned(0, 0))
    assert same(found.B, e * kappa_12 + C1 * (r * kappa_1212 - learned(1, 0)))
    assert same(found.N0, kernel("kappa", 0, 0, 0)) and same(found.N1, C1 * kappa_12)
    assert same(found.past, e * d1_kappa + C1 * (r * d1_kappa_12 - 2 * learned(0, 1)))
    own = [Kernel(sp.Symbol("kappa"), *orders, P, P, P) for orders in ((1, 0, 0), (0, 1, 0), (0, 0, 0))]
    assert same(found.own, e_own * (own[0] + 2 * own[1]))
    assert same(found.N0_own, own[2]) and same(found.N1_own, C1_own * own[0])


def test_causality_leaves_nothing_else() -> None:
    zeros = derive_densities_of_kernels().zeros
    assert len(zeros) == 7 and set(zeros.values()) == {0}


def test_steps_can_be_made_again() -> None:
    derivation = derive_densities(tp.ResNet("tanh", "mlp")).derivation
    assert all(step.check() and step.reason and step.source and step.latex() for step in derivation.steps)
    assert [step.rule for step in derivation.steps].count("the block's kernels") == 7


def test_the_chain_rule_knows_slots() -> None:
    """d/dx_a of kappa_ab moves the first slot, twice its square; of kappa_aa the first of two copies."""
    u, v, w = (Inner(Field(f, i), Field(g, j)) for f, i, g, j in ((x, b, dt, a), (x, a, dt, a), (delta, a, delta, b)))
    theta = Acting(sp.Symbol("theta"), a, b, sp.Integer(1))
    expanded = ChainRule().apply(MultiplyOut().apply(theta))
    slopes = Saddle().apply(expanded.coeff(w).coeff(u)), Saddle().apply(expanded.coeff(w).coeff(v))
    assert slopes == (kernel("theta", 1, 0, 0), 2 * kernel("theta", 0, 1, 0))
    assert Inner(Field(x, a) + 2 * Field(dt, b), Field(x, b)) == Inner(Field(x, b), Field(x, a)) + 2 * Inner(
        Field(x, b), Field(dt, b))


def test_the_saddle_is_causal() -> None:
    mean = Saddle().apply
    assert mean(Inner(Field(x, a), Field(dt, b))) == r and mean(Inner(Field(x, b), Field(dt, a))) == 0
    assert mean(Inner(Field(x, a), Field(dt, c))) == mean(Inner(Field(x, a), Field(dt, a))) == 0
    assert mean(Inner(Field(dt, a), Field(dt, b))) == 0
    with pytest.raises(ValueError, match="nowhere"):
        mean(Inner(Field(x, a), Field(delta, b)))


def dual(f: sp.Expr, j: int, k: int, own: bool = False) -> sp.Expr:
    return overlap(f, f, j, k, *((RP * P,) * 3 if own else (R * C, RP * P, RQ * Q)))


@pytest.mark.parametrize("phi", [sp.tanh(H), SHIFTED, H**3 - H])
def test_post_is_the_hand_formula(phi: sp.Expr) -> None:
    """x + eps G phi(W x) with decay: with V = E phi' phi', M = Cov(phi, phi), K = E phi'' phi'' of u = rho W x, and
    a_ab = rho_ab r_ab - w_ab C_ab,

    A = V a, N0 = M, N1 = rho_ab V C1, B_ab = V (rho_ab e_ab - w_ab C1) + rho_ab a_ab C1 K,
    B_aa = rho_aa { V e_aa + sum_{c<=a} e_ac Cov(phi''_a, phi_c) + sum_{c<a} a_ac C1_ac E phi'''_a phi'_c }.

    Source: hand calculation of one matrix, by layers' noise and Stein's lemma, simulated before the action was known.
    """
    found, w = derive_densities(tp.ResNet(phi)), at("w^W", a, b)
    V, K = dual(phi, 1, 1), dual(phi, 2, 2)
    net = R * r - w * C
    assert same(found.A, V * net)
    assert same(found.N0, dual(phi, 0, 0) - gaussian_mean(phi, 0, RP * P) * gaussian_mean(phi, 0, RQ * Q))
    assert same(found.N1, R * V * C1)
    assert same(found.B, V * (R * e - w * C1) + R * net * C1 * K)
    bent = dual(phi, 2, 0) - gaussian_mean(phi, 2, RP * P) * gaussian_mean(phi, 0, RQ * Q)
    assert same(found.past, RP * (e * bent + net * C1 * dual(phi, 3, 1)))
    own_bent = dual(phi, 2, 0, own=True) - gaussian_mean(phi, 2, RP * P) * gaussian_mean(phi, 0, RP * P)
    assert same(found.own, RP * e_own * (dual(phi, 1, 1, own=True) + own_bent))


@pytest.mark.parametrize("phi", [sp.tanh(H), SHIFTED])
def test_two_matrices_are_the_hand_formula(phi: sp.Expr) -> None:
    """x + eps W2 phi(W1 x) with decay, Phi = E phi phi without the mean subtracted:

    a = rr r - w1 C0, A = rr V a - w2 Phi, N0 = rr Phi, N1 = rr^2 V C1, b = rr e - w2 C1,
    B_ab = V rr (b - w1 C1) + rr^2 a C1 K,
    B_aa = rho_a^2 { V b_aa + sum b_ac E phi''_a phi_c + sum a_ac rr C1 E phi'''_a phi'_c }, rr = rho_a rho_b.

    Source: as above, of two matrices.
    """
    found, w1, w2 = derive_densities(tp.ResNet(phi, "mlp")), at("w^W1", a, b), at("w^W2", a, b)
    Phi, V, K = (dual(phi, k, k) for k in range(3))
    ahead, back = R * r - w1 * C, R * e - w2 * C1
    assert same(found.A, R * V * ahead - w2 * Phi)
    assert same(found.N0, R * Phi) and same(found.N1, R**2 * V * C1)
    assert same(found.B, R * V * (back - w1 * C1) + R**2 * ahead * C1 * K)
    assert same(found.past, RP * (back * dual(phi, 2, 0) + ahead * R * C1 * dual(phi, 3, 1)))
    assert same(found.own, RP**2 * e_own * (dual(phi, 1, 1, own=True) + dual(phi, 2, 0, own=True)))


def test_linear_block() -> None:
    """A = rr GP - w C0, B = rr G'Q - w C1: as of the linear network; of a site with itself e_aa = 0 is all."""
    found, w = derive_densities(tp.ResNet()), at("w^W", a, b)
    assert (found.A, found.B, found.N0, found.N1) == (R * r - w * C, R * e - w * C1, R * C, R * C1)
    assert found.past == 0 and found.B_diagonal == RP * e_own


def test_latex_names_functions_and_variables() -> None:
    text = derive_densities(tp.ResNet("tanh")).latex()
    first, *_, phi, u = text.split(" \\\\\n")
    assert first == (r"A_{ab} &= r_{ab} \rho_{ab} {\left\langle \phi'(u_a) \, \phi'(u_b) \right\rangle} - "
                     r"w^{W}_{ab} C_{ab} {\left\langle \phi'(u_a) \, \phi'(u_b) \right\rangle}")
    assert phi == r"\phi(h) &= \tanh{\left(h \right)}"
    assert u == r"\left\langle u_a u_b \right\rangle &= C_{ab} \rho_{ab}"
    inner = derive_densities(tp.ResNet(SHIFTED, "mlp", matrices=3)).latex().split(" \\\\\n")[-2:]
    assert inner[0] == u and r"\left\langle v_a v_b \right\rangle &= \rho_{ab} {\left\langle \phi(u_a)" in inner[1]
    assert len(derive_densities_of_kernels().latex().split(" \\\\\n")) == len(PRINTED)


def test_latex_writes_powers_and_many_primes() -> None:
    """A first derivative has no exponent; more than three primes are a number."""
    inner = [Inner(Field(x, one), Field(x, two)) for one, two in ((a, b), (a, a), (b, b))]
    assert latex(Kernel("kappa", 1, 0, 2, *inner)) == r"\partial_{C_{ab}} \partial_{C_{bb}}^{2}\kappa_{ab}"
    for order, said in ((0, ""), (3, "'''"), (4, "^{(4)}")):
        mean = overlap(sp.tanh(H), sp.tanh(H), order, order % 2, C, P, Q)  # of even and odd functions it is 0
        assert rf"\phi{said}(u_a)" in NamedMeans([mean]).latex(mean)


@pytest.mark.parametrize("net, is_gaussian", [
    (tp.ResNet("tanh", "pre_nonlin"), True), (tp.ResNet("tanh", "mlp"), True), (tp.ResNet("linear"), True),
    (tp.ResNet("tanh"), False), (tp.ResNet("relu"), False)])
def test_what_a_block_adds_is_gaussian_behind_a_matrix(net: tp.ResNet, is_gaussian: bool) -> None:
    assert derive_initial_kernels(net)[1] is is_gaussian


def test_blocks_that_do_not_close_are_refused() -> None:
    with pytest.raises(ValueError, match="acts on the stream before"):
        derive_densities(tp.ResNet("tanh", "pre_nonlin"))
