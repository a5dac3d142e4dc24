"""What fluctuations decide at infinite width: choices between numbers that tie, averages that a few coordinates make,
and steps of a router, whose gradient vanishes, where their size does not follow it."""

from __future__ import annotations

from .._checks import short
from ..errors import NotCovered
from ..optimizers.sign_ambiguity import depends_on_sign
from ..optimizers.updates import kind_of_updates, unclipped
from ..programs.language import Mean
from ..programs.mask import require_no_choice, require_no_ties
from ..programs.tails import require_light_tails
from ..training.problem import Problem
from .normalized import FELT, FLUCTUATION


def require_decided(problem: Problem) -> None:
    """Raise ``NotCovered`` for a network and an optimizer whose limit fluctuations would decide, naming what they do.

    A number that a trained vector reads off others is 0 at infinite width until training has made the two overlap, and
    so is the number that the vector's gradient is made of: real networks have fluctuations of order n^(-1/2) there.
    """
    net, opt = problem.net, unclipped(problem.opt)
    what = f"net: got {short(net)}"
    require_no_choice(what, net.statements, of_vectors=problem.layers is None)
    require_no_ties(what, net.statements, net.readouts_of_block)
    if any(one.value.has(Mean) for one in net.statements):
        require_light_tails(what, net.statements)
    if not net.readouts_of_block or kind_of_updates(opt) == "linear":
        return
    if depends_on_sign(opt, FLUCTUATION) > FELT:
        raise NotCovered(f"opt: got {short(problem.opt)} for {', '.join(net.readouts_of_block)}, which read numbers "
                         "off vectors; their first gradients vanish at infinite width, and fluctuations have the "
                         "signs of their first steps; expected a tp.SGD, an eps that is felt, or a finite width")
