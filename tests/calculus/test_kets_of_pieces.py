"""Functions that are written in pieces depend on the kets in their conditions and values."""

import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Response

H = sp.Symbol("h", real=True)


def test_gradients_answer_through_functions_in_pieces() -> None:
    """leaky relu in pieces owes to the transposed matrix what it does with Max."""
    pieces, maximum = (tp.kets(tp.program(tp.ResNet(phi), tp.SGD(), tp.DepthScaling())) for phi in (
        sp.Piecewise((H, H > 0), (H / 10, True)), sp.Max(H, H / 10)))
    answers = [[len(e.value.atoms(Response)) for e in found.equations] for found in (pieces, maximum)]
    assert answers[0] == answers[1] and sum(answers[0]) == 2
