"""Verdicts on transformers: sizes of streams, scores and updates, matrix by matrix, over the first update."""

from __future__ import annotations

from dataclasses import replace
from math import isclose
from typing import Sequence

import sympy as sp

from ..errors import NotCovered
from ..asymptotics import CHANGE, KET, SizeSolution
from ..orders import Region
from ..scaling import DepthScaling, Scaling
from ..programs.indices import copied_from
from ..optimizers import SGD
from ..optimizers.updates import Optimizer
from .counted import BY_TABLE, FromZero, Judged, require_untied
from .verdict import FROZEN, SAMPLE, Verdict, by_network, by_optimizer, by_updates, by_visits, in_words, judge_exponents
from .counting import Counting, as_gradient_descent, training_terms
from .network_sizes import MatrixVerdicts, NetworkSize, NetworkSizes, size_of
from .ket_exponents import Exponents

DECAYING = SGD(weight_decay=0.1, decoupled=True)  # a share of order one, whose number counts as nothing
SCORES = {"score at initialization": KET, "change of score": CHANGE}


def of_transformer(net: Judged, scale: Scaling, opt: Optimizer, updates: int = 1) -> Verdict:
    """The verdict on a transformer whose ends are not trained, with a sentence a matrix and what it takes for granted.

    Raises ``ValueError`` for what cannot be counted, naming it: exponents that are not rational, weight decay that
    leaves nothing of initial matrices, tied embedding and readout, one position alone, attention of a user's own with
    functions that have no rule.
    """
    require_untied(net)
    alpha, gamma = scale.alpha, scale.gamma if isinstance(scale, DepthScaling) else None
    linear, same = as_gradient_descent(net, opt, scale, updates)
    descent = DECAYING if linear.weight_decay else SGD()
    if isclose(share_of_decay(opt), 1):
        raise NotCovered(f"opt: got {opt!r}, which leaves nothing of initial matrices; expected a weight decay "
                         "that takes another share of them than all")
    if isinstance(net, FromZero) and linear.weight_decay:
        raise NotCovered(f"from_zero: got {net.zero} with weight_decay: {linear.weight_decay}; what starts at 0 is "
                         "counted where nothing but updates changes it; expected 0")
    terms, matrices = training_terms(net, same, descent), MatrixVerdicts(net, same, updates)
    solution, exponents = terms.together(updates)
    found = judge_exponents(alpha, gamma, Region(0), exponents, matrices, ())
    counted = found.stable_at_init  # a stream that grows before training is no place for updates to start from
    sizes = _scores(solution, exponents, exponents.after if counted else 0)
    scores = {name: size.L for name, size in sizes.items()}
    bounds = found.bounds.union(name for name, size in sizes.items() if size.at_most)
    said = [f"{name}: {'at most ' * (name in bounds)}{power}" for name, power in scores.items()]
    if net.chooses:
        start, change = map(scores.get, SCORES)
        even = BY_TABLE if any(one.table is not None for one in net.chooses) else "uniform"
        said = [uniformity(start, change, "change of score" in bounds, exponents.after, even)]
    if linear.weight_decay and counted:
        said.append(by_decay(terms.alone(None)))
    of_matrices = map(str, matrices.values()) if counted else ()
    if isinstance(net, FromZero):
        said.append(starting_at_zero(net, terms))
        if net.is_uniform and scores.get("change of score", -sp.oo) > 0:
            raise NotCovered(f"from_zero: got {net.zero}; scores, from 0, come to L^({scores['change of score']}), "
                             "beyond where softmax is linear; expected updates that leave them of order one")
    names = net.trained_of_block
    taken = (*by_network(net), *by_visits(net), FROZEN, SAMPLE, *by_optimizer(opt, scale, same, names),
             by_updates(exponents, updates, counted))
    return replace(found, exponents={**found.exponents, **scores}, bounds=bounds,
                   sizes=NetworkSizes(net, same, counted, descent, updates),
                   reasons=(*found.reasons, *said, *of_matrices), assumptions=taken)


def share_of_decay(opt: Optimizer) -> float:
    """The share of an initial matrix that the first step's weight decay takes."""
    rate, decay = opt.lr, float(opt.weight_decay)
    first = rate[0] if isinstance(rate, Sequence) else rate
    return decay if getattr(opt, "independent", False) else float(first) * decay


def by_decay(alone: Exponents) -> str:
    """What weight decay does by itself, in a sentence."""
    h, x, f = (in_words(getattr(alone, name).at(()), 1) for name in ("dh", "dx", "df"))
    return ("weight decay: a share of order one of every initial matrix is gone after a step, which by itself changes "
            f"h by {h}, x by {x} and f by {f}")


def starting_at_zero(net: FromZero, terms: Counting) -> str:
    """What starts at 0, and which gradients vanish with it, in a sentence."""
    still = [name for name, moves in terms.gradients(0).items() if moves == -sp.oo]
    return f"from zero: {', '.join(net.zero)}" + bool(still) * (
        f"; gradients of {', '.join(still)} vanish at the first step, the only one that is counted")


def uniformity(start: sp.Expr, change: sp.Expr | None = None, at_most: bool = False, updates: int = 1,
               even: str = "uniform") -> str:
    """Is softmax attention uniform before training, and by how much does the first update move it? From powers of L.

    start: of the score at initialization, -oo where it vanishes; change: of the score's change, None where no update is
    counted, after some updates; at_most: is that an upper bound alone? even: what it is where scores are 0. Softmax
    moves as its scores do where they fall with the depth, or are of order one.

    >>> half = sp.Rational(1, 2)
    >>> print(uniformity(sp.Integer(0), -half))
    attention: not uniform at initialization, scores are of order one; the first update changes them by L^(-1/2)
    >>> print(uniformity(-sp.oo, -half))
    attention: uniform at initialization, scores are 0; the first update makes them differ by L^(-1/2)
    >>> print(uniformity(-half, sp.Integer(0)))
    attention: uniform at initialization as L grows, scores are L^(-1/2); the first update makes them differ by 1
    """
    uniform = bool(start < 0)
    found = (f"attention: {'' if uniform else 'not '}{even} at initialization"
             f"{' as L grows' if uniform and start.is_finite else ''}, scores are {in_words(start)}")
    if change is None:
        return found
    many, s = ("the first update", "s") if updates == 1 else (f"the first {updates} updates", "")
    moved = f"make{s} them differ" if uniform else f"change{s} them"
    return f"{found}; {many} {moved} by {'at most ' * at_most}{in_words(change, 1)}"


def name_on_transformer(net: Judged, scale: Scaling) -> str:
    """The name of the verdict by plain gradient descent, for which no matrix needs to be counted by itself.

    >>> from tpcalc import Transformer
    >>> name_on_transformer(Transformer(mlp=None), DepthScaling(1, 0))
    'ODE limit'
    """
    _, exponents = training_terms(net, scale).together()
    return judge_exponents(scale.alpha, None, Region(0), exponents, None, ()).name


def _scores(solution: SizeSolution, exponents: Exponents, update: int) -> dict[str, NetworkSize]:
    """Sizes of the score that softmax acts on, where there is one, and of its change after an update, 0 for none."""
    families = solution.counted.equations.setting.families
    numbers = [number for number, v in enumerate(families) if copied_from(v.name) == "score"]
    return {name: size_of(solution, exponents, sort, update if sort == CHANGE else 0, numbers)
            for name, sort in SCORES.items() if sort == KET or update} if numbers else {}
