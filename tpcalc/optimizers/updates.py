"""Optimizers: their names, what their updates are of gradients, and their steps as statements of the language.

Steps whose size is that of whole matrices go with the rank of gradients, which powers of the width rest on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

import sympy as sp

from .._checks import exact, short
from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.apart import Apart
from ..programs.backprop import Trainable, buffer_of
from ..programs.indices import t
from ..programs.language import Family, Mean, NonlinearOuter, Outer, Scalar, Vector
from ..programs.program import Assign
from .entrywise import Adam, AdamW, Entrywise, Lion, SignSGD, is_entrywise
from .muon import Muon
from .normalized import NormalizedSGD
from .sgd import SGD, kept, on_sphere
from .shampoo import Shampoo
from .soap import SOAP
from .spectral import Spectral, in_whole

Optimizer = Union[SGD, NormalizedSGD, Muon, Entrywise]
ETA = Family(Scalar, "eta", r"\eta")


def require_optimizer(opt: object) -> None:
    """Raise ``ValueError`` for what is neither a tp.SGD nor a tp.NormalizedSGD nor what ``Entrywise`` asks for."""
    if not isinstance(opt, (SGD, NormalizedSGD)) and not is_entrywise(opt):
        raise ValueError(f"opt: got {short(opt)}; expected a tp.SGD, tp.SignSGD, tp.Lion, tp.Adam or tp.Muon, a "
                         "tp.NormalizedSGD, or what has an lr, a weight_decay, a schedule and a direction as they do")


def kind_of_updates(opt: Any) -> str:
    """What an update is of the gradients so far: "linear", "entrywise", "spectral", a function of whole matrices,
    "orthogonal", that of tp.Muon, "normalized" or "clipped", linear but for numbers made of norms.

    >>> from .entrywise import Adam
    >>> [kind_of_updates(opt) for opt in (SGD(), Adam(), Muon(), NormalizedSGD())]
    ['linear', 'entrywise', 'orthogonal', 'normalized']
    """
    declared: str | None = getattr(opt, "updates_are", None)
    if declared is not None:
        return declared
    u, v = Family(Vector, "u"), Family(Vector, "v")
    return "spectral" if opt.direction(lambda k: Outer(u[k], v[k]), t).has(Spectral) else "entrywise"


def unclipped(opt: Any) -> Any:
    """The optimizer that sees the gradients, clipped or not."""
    return opt.opt if getattr(opt, "updates_are", None) == "clipped" else opt


def schedule_rates(opt: Optimizer) -> tuple[Scalar, ...]:
    """The learning rates that the program is given: those of a schedule."""
    return (ETA[t],) if isinstance(opt.lr, tuple) else ()


def start(opt: Optimizer, one: Trainable) -> list[Assign]:
    """What is set before the first step."""
    has_buffer = isinstance(opt, SGD) and opt.momentum
    own = [] if one.initial is None else [Assign(one.family[(0, *one.at)], one.initial)]
    return [*own, *([Assign(buffer_of(one.family)[(0, *one.at)], sp.Integer(0))] if has_buffer else [])]


def update(opt: Optimizer, one: Trainable) -> list[Assign]:
    """The statements of one optimizer step for a family; raises ``ValueError`` for a tp.NormalizedSGD, whose numbers
    ``NormalizedSGD.applied`` writes first."""
    if isinstance(opt, NormalizedSGD):
        raise NotCovered(f"opt: got {opt!r}; norms of gradients are written for the matrices of a tp.ResNet or a "
                         "tp.Transformer; expected a tp.SGD, tp.SignSGD, tp.Lion or tp.Adam")
    rate = one.rate * (ETA[t] if isinstance(opt.lr, tuple) else exact("lr", opt.lr))
    return _linear_update(opt, rate, one) if isinstance(opt, SGD) else [_directed_update(opt, rate, one)]


def _directed_update(opt: Muon | Entrywise, rate: sp.Expr, one: Trainable) -> Assign:
    """W_{t+1} = (1 - lr decay) W_t - lr g direction, or 1 - decay in front, entry by entry, or of whole matrices."""
    def along(gradient: sp.Expr) -> sp.Expr:
        return opt.direction(lambda k: gradient.subs(t, k), t)

    direction = along(one.gradient)
    if direction.xreplace({node: sp.Dummy() for node in direction.atoms(Spectral)}).has(Apart):
        raise NotCovered(f"opt: got {short(opt)}, whose direction has gradients_so_far(...) outside of a tp.theory."
                         "Spectral; gradients step by step are no sum; expected a sympy.Sum")
    if one.blocks is not None and direction.has(Spectral):
        whole = one.blocks
        direction = whole.root * in_whole([along(whole.root * g) for g in whole.gradients], whole.part, whole.how)
    elif one.blocks is not None and direction.has(Mean) and not one.gradient.has(Mean):
        raise NotCovered(f"opt: got {short(opt)} for {one.family.name}, a part of a matrix of a wide hidden layer; its "
                         "direction is made of averages over rows or columns, which are those of the whole; expected "
                         "mlp_ratio=1")
    moved = NonlinearOuter(direction) if direction.has(Outer) and not direction.has(Spectral) else direction
    left = multiplied_out(kept(opt, rate, exact("weight_decay", opt.weight_decay)) * one.family[(t, *one.at)])
    return Assign(one.family[(t + 1, *one.at)], left - rate * one.size * moved)


def _linear_update(opt: SGD, rate: sp.Expr, one: Trainable) -> list[Assign]:
    statements: list[Assign] = []
    buffer, at = buffer_of(one.family), one.at

    def named(value: sp.Expr) -> sp.Expr:
        statements.append(Assign(buffer[(t + 1, *at)], value))
        return buffer[(t + 1, *at)]

    new, _ = opt.step(1 - sp.KroneckerDelta(t, 0), rate, one.family[(t, *at)], one.size * one.gradient,
                      buffer[(t, *at)], lambda _, name: exact(name, getattr(opt, name)), named)
    return [*statements, Assign(one.family[(t + 1, *at)], sp.expand(new))]


def title(opt: Optimizer) -> str:
    """An optimizer in words."""
    extras = [word for word, there in (
        ("momentum", getattr(opt, "momentum", 0)), ("Nesterov", getattr(opt, "nesterov", False)),
        ("weight decay", opt.weight_decay), ("weights on spheres", on_sphere(opt))) if there]
    return type(opt).__name__ + (" with " + ", ".join(extras) if extras else "")


BY_NAME: dict[str, Optimizer] = {
    "sgd": SGD(), "momentum": SGD(momentum=0.9), "signsgd": SignSGD(), "lion": Lion(), "adam": Adam(), "adamw": AdamW(),
    "muon": Muon(), "normalizedsgd": NormalizedSGD(), "shampoo": Shampoo(), "soap": SOAP()}
# on Frobenius spheres by steps relative to the norm, W <- |W_0| (W - lr |W_0| U / |U|) over its norm: along whose U
RELATIVE = {"muonh": Muon(sphere=True), "adamh": Adam(sphere=True)}
OPTIMIZERS = tuple(BY_NAME)


class NameWithDirection(str):
    """The name of an optimizer that was written elsewhere, with the optimizer, whose direction says how large it is."""

    opt: Entrywise

    def __new__(cls, opt: Entrywise) -> NameWithDirection:
        found = super().__new__(cls, type(opt).__name__)
        found.opt = opt
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NameWithDirection) and other.opt == self.opt

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.opt)

    def __reduce__(self) -> tuple[type, tuple[Entrywise]]:
        return type(self), (self.opt,)


def optimizer_name(optimizer: object) -> str:
    """The name of an optimizer given by name or as an object; ``ValueError`` for what is none, with those allowed.

    What was written elsewhere and has a direction takes it along: the same name may stand for another direction.
    """
    if isinstance(optimizer, NameWithDirection):
        return optimizer
    if is_entrywise(optimizer) and not type(optimizer).__module__.startswith(f"{__package__}."):
        return NameWithDirection(optimizer)  # type: ignore[arg-type]
    if isinstance(optimizer, SGD):
        return "momentum" if optimizer.momentum else "sgd"
    name = optimizer if isinstance(optimizer, str) else type(optimizer).__name__
    if name.lower() not in OPTIMIZERS:
        raise ValueError(f"optimizer: got {short(optimizer)}; expected {', '.join(map(repr, OPTIMIZERS))}, or an "
                         "object such as tp.SGD() or one with a direction: only of these the size of an update is "
                         "known")
    return name.lower()


HALF = sp.Rational(1, 2)
DIRECTIONS = {"fixed": sp.Integer(0), "width": sp.Integer(1)}  # of samples: the power of n that a batch's rank is

UNITS = {"orthogonal": "singular values", "normalized": "norms"}


@dataclass(frozen=True)
class RankPowers:
    """Powers of a gradient's rank r with which steps do the same to every vector that they act on.

    rate: of the learning rate; step: of the Frobenius norm of what the rate makes, beside which that of the weights
    is n^(1/2); unit: what of a step at rate 1 has a fixed size, in a word.
    """

    rate: sp.Expr
    step: sp.Expr
    unit: str

    def in_width(self, data: str) -> dict[str, sp.Expr]:
        """Powers of n of the learning rate, and of a step's norm over that of the weights: of samples of a "fixed"
        number of directions, or of as many as the "width"."""
        rank = DIRECTIONS[data]
        return {"lr": self.rate * rank, "relative step": self.step * rank - HALF}


def rank_powers(optimizer: Any) -> RankPowers | None:
    """The powers of the rank for an optimizer or its name, None where a step has its size entry by entry and weights
    are free, and where directions are other functions of whole matrices.

    r singular values of one size make a Frobenius norm that is r^(1/2) as large. An orthogonal step has the size of the
    former, a normalized one, and one of entries of a fixed size, that of the latter; what a vector meets is the former.

    >>> rank_powers("muon"), rank_powers("adam")
    (RankPowers(rate=0, step=1/2, unit='singular values'), None)
    """
    opt = unclipped(optimizer)
    if isinstance(optimizer, NameWithDirection):
        opt = optimizer.opt
    elif isinstance(optimizer, str):
        opt = BY_NAME[optimizer_name(optimizer)]
    kind = kind_of_updates(opt)
    if kind not in ("orthogonal", "normalized") and not on_sphere(opt):
        return None
    norm = HALF if kind == "orthogonal" else sp.Integer(0)
    rate = HALF - norm
    return RankPowers(rate, rate + norm, UNITS.get(kind, "entries"))


def finite_batches(optimizer: Any) -> tuple[str, ...]:
    """What powers of the width take for granted of batches, in a sentence; nothing where they do not rest on a rank.

    >>> print(*finite_batches("muon"))
    gradients have a fixed rank as the width n grows, as those of finitely many samples; batches in practice have \
more: of rank r, a step's norm over that of the weights is to go like (r/n)^(1/2), and a learning rate of steps' \
singular values stays
    """
    found = rank_powers(optimizer)
    if found is None:
        return ()
    rate = f"is to go like r^({found.rate})" if found.rate else "stays"
    return ("gradients have a fixed rank as the width n grows, as those of finitely many samples; batches in practice "
            f"have more: of rank r, a step's norm over that of the weights is to go like (r/n)^({found.step}), and a "
            f"learning rate of steps' {found.unit} {rate}",)
