"""Verdicts on blocks that add nothing at first: a matrix starts at zero, or a trained number in front of all."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import sympy as sp

from .._types import Fields
from ..errors import NotCovered
from ..asymptotics import KET, SCALAR, Unknown
from ..orders import Exponent, Region
from ..scaling import DepthScaling, Parametrization
from ..optimizers import SGD
from ..models import ResNet
from ..programs.blocks import Branch, named_family
from ..training.builders import counted_training
from ..programs.from_zero import from_zero
from ..programs.indices import L, l, t
from ..programs.language import Matrix, Mean, Scalar, Vector
from ..programs.program import Assign, Statement, mapped
from .counting import ALPHA, GAMMA, Counting
from .ket_exponents import Exponents, exponent_of_value, exponents_of_kets, larger
from .network_sizes import MatrixVerdict, MatrixVerdicts
from .verdict import Verdict, judge_exponents

UPDATES = 2  # the first moves what starts at zero, which brings the gradients of all the others


class JointVerdicts(MatrixVerdicts):
    """The matrices of a block that adds nothing at first, with their exponents: alone, none of them does a thing."""

    def __getitem__(self, name: str) -> MatrixVerdict:
        raise NotCovered(f"matrices: {name} asked for; of a block that adds nothing at first one matrix alone is not "
                         "judged, because the others have no gradient without what starts at zero")


@lru_cache(maxsize=32)
def of_zero(net: ResNet, scale: Parametrization, names: tuple[str, ...]) -> Verdict:
    """The verdict on a network in which matrices of these names start at zero, after as many updates as reach all
    others, trained by plain gradient descent with updates of size L^-gamma.

    >>> import tpcalc as tp
    >>> scale = tp.Parametrization(depth={"alpha": 0.5, "W1": -0.5, "W2": 0.5})
    >>> of_zero(tp.ResNet("relu", "mlp"), scale, ("W2",)).name
    'ODE limit'
    """
    terms = Counting.of(from_zero(counted_training(net, SGD(), scale), *names))
    solution = terms.after(UPDATES + 1)
    exponents = exponents_of_kets(solution, terms.source, solution.steps - 1, terms.exact)
    found = judge_exponents(scale.alpha, None, Region(0), exponents, JointVerdicts(net, scale), ())
    return replace(found, reasons=(*found.reasons, f"counted: over {UPDATES} updates, the first of which moves "
                                   f"{', '.join(names)} alone, because all other gradients carry what starts at zero"))


@lru_cache(maxsize=8)
def gate_gradient(net: ResNet) -> Exponent:
    """The power of L of the gradient of a number in front of a branch at the first step, where it is 0: the mean over
    coordinates of what the branch computes times the stream's gradient.

    >>> import tpcalc as tp
    >>> gate_gradient(tp.ResNet("relu", "mlp")).vanishes
    True
    """
    return _closed(net)[1]


def of_gate(net: ResNet, gammas: dict[str, sp.Expr]) -> Verdict:
    """The verdict on branches behind a trained number that starts at 0, where no gradient is other than 0.

    Raises ``ValueError`` where that number's gradient does not vanish at the first step.
    """
    exponents, gradient = _closed(net)
    if not gradient.vanishes:
        raise NotCovered(f"net: got {net!r}; the gradient of the number in front of a branch does not vanish at the "
                         "first step, so that it moves; expected networks that stay where they start")
    scale = Parametrization(depth={"alpha": 0, **gammas})
    found = judge_exponents(sp.Integer(0), None, Region(0), exponents, JointVerdicts(net, scale), ())
    return replace(found, reasons=(*found.reasons, "counted: gradients of matrices carry the number in front, which "
                                   "is 0, and its own gradient, a mean of products of independent vectors, is 0 at "
                                   "infinite width: nothing ever moves"))


@lru_cache(maxsize=8)
def _closed(net: ResNet) -> tuple[Exponents, Exponent]:
    """The exponents of a network whose branches add nothing, and of a branch's mean product with the stream's gradient.
    """
    def behind(b: Branch) -> sp.Expr:
        return b.let("branch", net.block_function(b))

    one = counted_training(replace(net, block=behind), SGD(), DepthScaling(ALPHA, GAMMA))
    x, gradient, value = (named_family(Vector, name) for name in ("x", "dx", "branch"))
    mean = named_family(Scalar, "gate")[t, l]

    def closed(s: Assign) -> list[Statement]:
        if isinstance(s.target, Matrix):
            return []
        first = {one: one.func(*one.args[:3], sp.Integer(0), *one.indices[1:]) for one in s.value.atoms(Matrix)}
        written = Assign(s.target, sp.expand(s.value).subs(L**-ALPHA, 0).xreplace(first))
        ends = s.target == gradient[t, l - 1]
        return [written, *([Assign(mean, Mean(gradient[t, l] * value[t, l]))] if ends else [])]

    terms = Counting.of(replace(one, body=mapped(one.body, closed)))
    solution = terms.after(1)
    families = terms.equations.setting.families

    made = {n for n, v in enumerate(families) for p in terms.equations.setting.products
            if not p.transposed and p.location.statement.target.same_family(v)}
    stream = {n for n, v in enumerate(families) if v.same_family(x[t, l])}
    x_init, h_init = (exponent_of_value(solution,
                                        larger(solution.value_of(Unknown(KET, 0, number)) for number in chosen))
                      for chosen in (stream, made))
    nothing: Fields = {one.name: Exponent() for one in Exponents.sizes()}
    still = replace(Exponents(**nothing, exact=False), x_init=x_init, h_init=h_init)
    return still, exponent_of_value(solution, solution.value_of(Unknown(SCALAR, 0, "gate")))
