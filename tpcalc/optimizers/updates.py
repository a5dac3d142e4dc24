"""Optimizer steps as statements of the language."""

from __future__ import annotations

from typing import Any, Union

import sympy as sp

from .._checks import exact, short
from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.apart import Apart
from .entrywise import Entrywise, is_entrywise
from ..programs.indices import t
from ..programs.language import Family, Mean, NonlinearOuter, Outer, Scalar, Vector
from .muon import Muon
from .normalized import NormalizedSGD
from .sgd import SGD, kept, on_sphere
from .spectral import Spectral, in_whole
from ..programs.program import Assign
from ..programs.trainable import Trainable, buffer_of

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
