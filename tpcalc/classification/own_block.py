"""Named recipes on their own blocks, as far as there are verdicts on these, each matrix with what is set for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Iterable, Mapping

import sympy as sp

from .._shown import Short
from .._text import Aligned
from ..derivations.printing import latex
from ..orders import Region
from ..parametrizations import DepthChoices, Parametrization, Scaling
from ..parametrizations.recipes import IN, MLP, ONE, OUT, POST_NORM, NamedRecipe
from ..programs import ResNet
from .advice import BEST, of_block, of_matrix, power
from .classify import classify
from .exponents import exponents_by_matrix
from .faithful import decay_power, faithful_rate
from .matrices import MatrixVerdicts
from .recipe import MEANING, named, realise, visible_decay
from .resolved import gradient_exponent, resolved
from .verdict import Verdict, judge

SETTINGS = {"lr": "learning rate"}  # of a matrix that is named
# Behind a branch that is homogeneous, a norm scales what it finds and nothing else: x <- norm(x + eps branch(x)) is
# x <- x + eps branch(x) with one norm at the end, which changes no power of L of a stream of order one.
BLOCKS = {ONE: ResNet(), MLP: ResNet("relu", "mlp", norm="rms"), POST_NORM: ResNet("relu", "mlp")}


@dataclass(frozen=True, repr=False)
class RecipeAudit(Short, Aligned):
    """What the powers of L of a named recipe come to on its own block.

    block: in words; choices: what is set, {matrix: DepthChoices}; alpha, gammas: the exponents that they are; decays:
    one step of weight decay takes a share L^-decay of a matrix, None without one; verdict: of all matrices together;
    warnings: what falls short of Depth-muP; changes: the least that makes it that; caveat: what of the source's block
    is not judged; width: the power of n by which updates of square matrices exceed those that keep activations of order
    one, of recipes that multiply updates with a factor of their own, else 0.

    >>> import tpcalc as tp
    >>> found = tp.named_recipes()["gpt-2"]
    >>> found.block, found.verdict.where, found.verdict.name
    ('MLP behind a norm', 'alpha = 1/2, gamma of W1 = 1/2, gamma of W2 = -1/2', 'unstable in training')
    """

    name: str
    block: str
    choices: Mapping[str, DepthChoices]
    alpha: sp.Expr
    gammas: Mapping[str, sp.Expr]
    decays: Mapping[str, sp.Expr | None]
    verdict: Verdict
    warnings: tuple[str, ...]
    changes: tuple[str, ...]
    source: str = ""
    caveat: str = ""
    width: sp.Expr = sp.Integer(0)

    @property
    def gamma(self) -> sp.Expr | None:
        """The update exponent that all matrices have, None where they differ."""
        return next(iter(self.gammas.values())) if len(set(self.gammas.values())) == 1 else None

    @property
    def decay(self) -> sp.Expr | None:
        """The share of the weight decay where it is that of all matrices, else None."""
        return next(iter(self.decays.values())) if len(set(self.decays.values())) == 1 else None

    @property
    def optimizer(self) -> str:
        return next(iter(self.choices.values())).optimizer

    @property
    def scaling(self) -> Scaling:
        """The exponents to give to ``tp.train``, with ``net``."""
        return Parametrization(depth={"alpha": self.alpha, **self.gammas}).over(self.gammas, ends=False)

    @property
    def net(self) -> ResNet:
        """The network that is judged; of norms that stand behind a branch without them, as ``BLOCKS`` says why."""
        return BLOCKS[self.block]

    def latex(self) -> str:
        """What was set, and what it comes to, as lines of an ``aligned`` environment."""
        lines = [rf"\text{{{MEANING[key]} of {name}}} &\propto L^{{{latex(size)}}}"
                 for name, one in self.choices.items() for key, size in one.powers.items()]
        return " \\\\\n".join([*lines, self.verdict.latex()])

    def __str__(self) -> str:
        lines = [f"{self.name}, {self.optimizer}: {self.block}"]
        for name, one in self.choices.items():
            lines.append(f"{name}: " + ", ".join(f"{key} {power(size)}" for key, size in one.powers.items()))
        lines += [f"{self.verdict.where}: {self.verdict.name}", *(f"warning: {one}" for one in self.warnings),
                  *self.changes]
        return "\n".join([*lines, *([f"but: {self.caveat}"] if self.caveat else [])])


def audit_on_mlp(name: str, optimizer: str = "adam") -> RecipeAudit:
    """Audit a named recipe on a transformer's MLP, x + eps W2 relu(W1 x / rms(x)), whatever its own block is.

    Both matrices have the recipe's rate, eps and branch multiplier; an initialisation that goes down with the depth is
    that of the last matrix of a branch alone, as sources have it. The norm is that of root mean squares, without gains;
    attention is another block. Behind a norm the stream of a branch of order one grows like a power of the depth and
    does not explode. optimizer: for recipes that are solved for one, such as "depth-mup".

    Raises ``ValueError`` for unknown names, and for recipes that no power of L for one matrix can say. Source:
    ``tp.recipe(name).source``.

    >>> print(audit_on_mlp("gpt-2").verdict.where)
    alpha = 1/2, gamma of W1 = 1/2, gamma of W2 = -1/2
    """
    return audit_on_block(replace(named(name), block=MLP), optimizer)


def audit_on_block(entry: NamedRecipe, optimizer: str = "adam") -> RecipeAudit:
    """The audit of a recipe on its own block; ``ValueError`` where powers of L cannot say the recipe."""
    if entry.outside:
        raise ValueError(f"name: {entry.name!r} given, {entry.outside}")
    each = realise(entry.target, optimizer) if entry.target is not None else entry.choices
    assert each is not None
    names = BLOCKS[entry.block].matrices_of_block
    choices = {name: each if entry.scaled == "all" or name == names[-1] else replace(each, init=sp.Integer(0))
               for name in names}
    found = resolved(Parametrization(depth=choices))
    alpha, gammas = found.alpha, {name: found.update_exponent(name) for name in names}
    decays = {name: _lost(one, alpha) for name, one in choices.items()}
    seen = {name: replace(one, gradient=-gradient_exponent(one, alpha)) for name, one in choices.items()}
    said = [*of_block(each.branch, _total(choices), alpha), *(
        f"{', '.join(own)}: {warning}" if len(names) > 1 else warning for warning, own in _with_names(
            {name: of_matrix(one, alpha, gammas[name], decays[name]) for name, one in seen.items()}).items())]
    verdict = _verdict(entry.block, alpha, tuple(gammas.items()))
    return RecipeAudit(entry.name, entry.block, choices, alpha, gammas, decays, verdict, tuple(said),
                       _changes(choices), entry.source, entry.caveat, width_of(entry.factor))


@lru_cache(maxsize=128)
def _verdict(block: str, alpha: sp.Expr, gammas: tuple[tuple[str, sp.Expr], ...]) -> Verdict:
    net, own = BLOCKS[block], dict(gammas)
    if len(own) == 1:
        return classify(alpha, *own.values())
    common = next(iter(own.values())) if len(set(own.values())) == 1 else None
    scale = Parametrization(depth={"alpha": alpha, **own}).over(own, ends=False)
    return judge(alpha, common, Region(0), exponents_by_matrix(net, alpha, own), MatrixVerdicts(net, scale), ())


def _total(choices: Mapping[str, DepthChoices]) -> sp.Expr:
    return sp.Add(*(one.init for one in choices.values()))


def _lost(one: DepthChoices, alpha: sp.Expr) -> sp.Expr | None:
    """The share L^-(this) of a matrix that one step's weight decay takes."""
    if one.weight_decay is None:
        return None
    eps = None if one.eps is None else -one.eps
    return decay_power(one.optimizer, -one.lr, -one.weight_decay, gradient_exponent(one, alpha), eps, -one.init,
                       one.decay)


def _changes(choices: Mapping[str, DepthChoices]) -> tuple[str, ...]:
    """What to change for Depth-muP with the same optimizer and initialisation, matrix by matrix."""
    found: dict[str, list[str]] = {}
    for name, one in choices.items():
        best = _best(one, _total(choices)).powers
        found[name] = [f"{SETTINGS.get(key, MEANING[key])} from {power(one.powers[key])} to {power(size)}"
                       for key, size in best.items() if size != one.powers[key]]
    said = [f"{', '.join(names)}: {change}" for change, names in _with_names(found).items()]
    return ("for Depth-muP: change " + "; ".join(said),) if said else ("it is Depth-muP: nothing to change",)


def _with_names(said: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Who says a sentence, by sentence, in the order in which they come."""
    found: dict[str, list[str]] = {}
    for name, sentences in said.items():
        for one in sentences:
            found.setdefault(one, []).append(name)
    return found


def _best(one: DepthChoices, total: sp.Expr) -> DepthChoices:
    """One matrix's settings at Depth-muP: eps stays where it may, weight decay becomes visible."""
    size = -(BEST.alpha + one.init) if one.gradient is None else one.gradient
    kept = size if one.eps is None or one.eps > size else one.eps
    rate = faithful_rate(one.optimizer, BEST.gamma - one.init, -size, -kept)
    best = replace(one, branch=-(BEST.alpha + total), lr=-rate, eps=None if one.eps is None else kept, gradient=size)
    if one.weight_decay is None:
        return best
    visible = visible_decay(best, one.decay)
    return best if visible is None else replace(best, weight_decay=visible)


def width_of(factor: sp.Expr | None) -> sp.Expr:
    """The power of n by which updates of n x n matrices exceed spectral norm 1, which keeps activations of order one.

    factor: of an orthogonal matrix, whose norm is 1, by fan-out and fan-in; None: nothing to count.

    >>> width_of(sp.sqrt(sp.Max(OUT, IN))), width_of(sp.sqrt(OUT / IN)), width_of(None)
    (1/2, 0, 0)
    """
    if factor is None:
        return sp.Integer(0)
    n = sp.Symbol("n", positive=True)
    square = factor.subs({OUT: n, IN: n})
    return sp.simplify(n * sp.diff(square, n) / square)
