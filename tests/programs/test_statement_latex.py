"""Statements as TeX reads them: no index above an index above, and powers of sums in parentheses."""

import re

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.derivations.printing import latex, statement_latex
from tpcalc.programs.blocks import vector
from tpcalc.programs.language import Mean

SCALE = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
x, (t, l) = vector("x"), sp.symbols("t l", integer=True)
DOUBLE = re.compile(r"\^\{(?:[^{}]|\{[^{}]*\})*\}\s*\^")  # two indices above each other, which TeX refuses


@pytest.mark.parametrize("net", [
    tp.ResNet("tanh", norm="rms"), tp.ResNet("relu", "mlp", norm="layer"), tp.ResNet(sp.Symbol("h")**3),
    tp.Transformer(head_dim=2, positions=2, norm="layer")], ids=str)
@pytest.mark.parametrize("opt", [tp.SGD(1.0, momentum=0.5), tp.Adam(0.1, eps=0.1)], ids=str)
def test_programs_have_no_two_indices_above_each_other(net: tp.ResNet, opt: object) -> None:
    text = tp.program(net, opt, SCALE).latex()  # type: ignore[arg-type]
    assert "^{" in text and not DOUBLE.search(text), DOUBLE.search(text)


def test_kets_of_a_normed_network_have_none_either() -> None:
    text = tp.kets(tp.program(tp.ResNet("tanh", norm="rms"), tp.SGD(), SCALE)).latex()
    assert "^{" in text and not DOUBLE.search(text), DOUBLE.search(text)


@pytest.mark.parametrize("printed", [latex, statement_latex])
def test_powers_of_what_has_parts_are_in_parentheses(printed) -> None:
    mean = Mean(x[t, l]**2)
    assert printed(x[t, l]**2) == r"\left(x_{t}^{l}\right)^{2}"
    assert printed(mean**sp.Rational(3, 2)) == rf"\left({printed(mean)}\right)^{{\frac{{3}}{{2}}}}"
    assert printed(sp.Symbol("c")**2) == "c^{2}"
    assert DOUBLE.search("x_{t}^{l - 1}^{2}") and DOUBLE.search(r"x^{\frac{1}{2}}^{2}")
