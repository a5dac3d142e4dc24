"""What kets make of a layer against the action of its kernels: two derivations that share no step."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.references.overlap_values import number

import tpcalc as tp
from tpcalc.action.action import a, at, b
from tpcalc.action.densities import derive_densities
from tpcalc.limits.kets.nodes import Density
from tpcalc.limits.kets.passes import Passes
from tpcalc.limits.kets.reading import EquationReading, Here
from tpcalc.theory import MatVec

h = sp.Symbol("h", real=True)
SINE = sp.sin(h + sp.Rational(1, 2))


def gate(branch: tp.Branch) -> sp.Expr:
    """A product of functions of two products."""
    u, v = (branch.let(name, MatVec(branch.weights(matrix), branch.x)) for name, matrix in (("u", "A"), ("v", "B")))
    return MatVec(branch.weights("O"), branch.let("g", branch.phi(u) * sp.cos(v)))


def label(net: tp.ResNet) -> str:
    block = net.block if isinstance(net.block, str) else net.block.__name__
    return f"{net.phi} {block} {net.norm} {net.matrices}"


THREE = tp.ResNet("tanh", "mlp", matrices=3)
NETS = [tp.ResNet(), tp.ResNet("tanh", gate), tp.ResNet("tanh"), tp.ResNet(SINE, "mlp"), tp.ResNet("tanh", "glu"),
        tp.ResNet(SINE, norm="rms"), tp.ResNet(h**2 / 2 + h)]
LARGE = [tp.ResNet("gelu", "mlp"), tp.ResNet(SINE, "mlp", matrices=3), tp.ResNet("silu", "glu", norm="rms"),
         tp.ResNet("tanh", "mlp", norm="rms", norm_position="output"),
         tp.ResNet(SINE, "mlp", norm="layer", norm_scale=2)]


def agree(net: tp.ResNet, seed: int) -> None:
    """A, B and both parts of B_aa at drawn overlaps, answers and decays, as both derivations have them."""
    rng = np.random.default_rng(seed)
    root, other = rng.standard_normal((2, 2, 5)) / 2
    C0, C1 = root @ root.T, other @ other.T
    r, e, own, w = rng.uniform(-1, 1, 4)
    rho = rng.uniform(.5, 1, 2)
    found = tp.depth_limit(tp.kets(tp.program(net, tp.SGD(weight_decay=0.25), tp.DepthScaling())))
    setting, equations = found.kets.setting, found.regions[0].equations
    here = Here({(name, name, i, j): C[1 - i, 1 - j] for name, C in (("x", C0), ("dx", C1))
                 for i in (0, 1) for j in (0, 1)}, {("r", 1, 0): r, ("e", 1, 0): e, ("e", 1, 1): own})
    for matrix in {m.name for m in setting.program.matrices}:
        here.memory |= {(f"rho_{matrix}", i): rho[1 - i] for i in (0, 1)} | {(f"w_{matrix}", 1, 0): w}
    reading = EquationReading(equations, Passes(setting.time, setting.past))
    steps = {setting.time.name: 1, setting.past.name: 0}  # site a is step 1, site b step 0
    ours = {(str(one.target.args[0]), one.target.args[1] == one.target.args[2]): reading.number(one.value)(here, steps)
            for one in equations if isinstance(one.target, Density)}

    known = {at(name, i, j): C[p, q] for name, C in (("C", C0), ("C^1", C1), ("rho", np.outer(rho, rho)))
             for i, p in ((a, 0), (b, 1)) for j, q in ((a, 0), (b, 1)) if str(i) <= str(j)}
    known |= {at("r", a, b): r, at("e", a, b): e, at("e", a, a): own}
    derived = derive_densities(net)
    known |= {s: w for s in derived.A.free_symbols | derived.B.free_symbols if str(s).startswith("w^")}
    theirs = {("A", False): derived.A, ("B", False): derived.B, ("B", True): derived.own + derived.past}
    for key, value in theirs.items():
        if key == ("B", True) and net.is_linear:
            continue  # of a linear block a gradient answers itself by what solves its own equation: nothing
        assert ours.get(key, 0.0) == pytest.approx(number(value, known), abs=1e-9, rel=1e-7), key


def test_means_of_every_matrix_have_letters() -> None:
    """The second matrix's Gaussians have a covariance that is a mean itself."""
    region, = tp.depth_limit(tp.kets(tp.program(THREE, tp.SGD(), tp.DepthScaling()))).regions
    texts = [str(equation) for equation in region.equations]
    assert "E[v[s]*v[t]] = E[phi(u[s])*phi(u[t])]" in texts and "E[y[s]*y[t]] = E[phi(v[s])*phi(v[t])]" in texts
    assert not any("(u)" in text or "(v)" in text for text in texts)


@pytest.mark.parametrize("net", NETS, ids=label)
def test_kets_and_the_action_agree(net: tp.ResNet) -> None:
    agree(net, 0)


@pytest.mark.slow
@pytest.mark.parametrize("net", LARGE, ids=label)
def test_of_larger_blocks(net: tp.ResNet) -> None:
    agree(net, 0)


@settings(max_examples=3, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.sampled_from([h**2 / 2, sp.cos(h), sp.tanh(h), h * sp.tanh(h), sp.sin(2 * h), sp.erf(h)]),
       st.sampled_from([sp.Integer(0), h / 3, h / 2 + sp.Rational(1, 4)]),
       st.sampled_from(["post_nonlin", "mlp", "glu"]), st.sampled_from([None, "rms"]), st.integers(0, 99))
def test_of_drawn_blocks(first: sp.Expr, second: sp.Expr, block: str, norm: str | None, seed: int) -> None:
    agree(tp.ResNet(first + second, block, norm=norm), seed)
