"""``classify``: what a depth scaling (alpha, gamma), or exponents matrix by matrix, do."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from inspect import signature
from typing import Any, Sequence, overload

import sympy as sp

from .._checks import choice, exponent, positive_integer, short
from ..errors import NotCovered
from ..orders import Region
from ..scaling import DepthScaling, Parametrization, Scaling
from ..optimizers import SGD, Adam
from ..models import ResNet, Transformer
from ..models.network import Network
from ..training.builders import require_vectors_taken
from ..training.by_parameter import exponents_of_powers, require_what_is_counted, settings_in_layers
from ..optimizers.clipped import Clipped
from ..programs.program import Program
from ..optimizers.updates import DIRECTIONS, Optimizer, unclipped
from ..width.sizes.verdict import width_verdict
from .counted import WIDE, BranchesApart, FromZero, apart_of, by_gates, require_frozen_embedding_readout
from .verdict import CLIPPED, FOLDED, FROZEN, SAMPLE, Verdict, by_optimizer, by_updates, by_visits, judge_exponents
from .counting import (OwnLayers, as_gradient_descent, gradients_change, is_plain, optimizer_or_default, training_terms,
                       without_clipping)
from .exponents import in_every_depth, region_of
from .horizon import judge_horizon
from .network_sizes import MatrixVerdicts, NetworkSizes
from .post_norms import POST, require_normalized, without_post_norms
from .transformers import of_transformer


Net = Network | Program | None


@overload
def classify(alpha: Any, gamma: Any, net: Net = None, opt: Any = None, from_zero: Sequence[str] = (),
             updates: int = 1, batch_size: Any = None, steps: Any = None, data: str = "fixed") -> Verdict: ...


@overload
def classify(scale: Scaling, net: Net = None, opt: Any = None, from_zero: Sequence[str] = (),
             updates: int = 1, batch_size: Any = None, steps: Any = None, data: str = "fixed") -> Verdict: ...


def classify(*given: Any, **named: Any) -> Verdict:
    """The verdict on branch multipliers L^-alpha and updates L^-gamma, from the derived recursion's exponents.

    Called as ``classify(alpha, gamma, net, opt, from_zero)`` or as ``classify(scale, net, opt, from_zero)``. alpha,
    gamma: real numbers (0.1 means 1/10); scale: a ``tp.DepthScaling`` or a ``tp.Parametrization``, which has both.

    net: default the linear residual network; a tp.ResNet is trained by ``opt``, so is a tp.Transformer, whose first
    update is counted, in a program that stands for all positions; a tp.Program by what it says, with its symbols alpha
    and gamma as the depth scaling. opt: an optimizer or its name, default plain SGD: its memory and its decay are
    counted, and sizes of directions that are no linear functions of gradients; a schedule is of order one; powers by
    parameter are read with a negligible eps, ``tp.audit`` has both regimes. from_zero: names of a tp.Transformer's
    matrices that start at 0, as W_q often does. updates: after how many updates exponents are, 1 for the first;
    ``verdict.assumptions`` says what is known of later ones, and what stands for the network and its training.

    batch_size, steps: powers b, t of batches of L^b fresh samples and of L^t steps, or symbols for them;
    ``verdict.horizon`` then has what all steps add up to, as drift and as noise, in which regimes, and after how many
    steps decay, the projection to a sphere, and what one update leaves out are of order one. data: do samples have a
    "fixed" number of directions, or as many as the "width"? A batch then has a gradient of the rank min(B, n).

    ``verdict.matrices`` has what the updates of each matrix of a block do by themselves.

    Raises ``ValueError`` for anything that is not a real number, for a network that no rule covers, naming what and
    why, and for parametrizations that are not muP in width, with what becomes of a perceptron. Source: Tensor Programs
    VI, section 5 and appendices H and K.3; its claims for relu [tensor_programs_vi/claims_relu], tanh
    [tensor_programs_vi/claims_tanh], two matrices a block [tensor_programs_vi/claims_two_matrices] and attention
    [tensor_programs_vi/claims_attention].

    >>> import tpcalc as tp
    >>> tp.classify(1, 0).name
    'ODE limit'
    >>> tp.classify(tp.DepthScaling(1, 0), opt=tp.Adam()).name
    'ODE limit'
    >>> found = tp.classify(tp.Parametrization(depth={"alpha": 1, "W1": 0, "W2": 1}), tp.ResNet("linear", "mlp"))
    >>> found.name, found.matrices["W1"].name, found.matrices["W2"].name
    ('ODE limit', 'learns', 'lazy')
    >>> found = tp.classify(1, "1/2", opt=tp.Adam(), batch_size=1, steps=1).horizon
    >>> for regime in found.regimes:
    ...     print(regime.name, regime.where, "drift", regime.drift, "noise", regime.noise)
    signal, learned, above the critical batch (2*s >= -1,) drift 0 noise -s - 3/4
    signal, training, below the critical batch (Eq(s, -1),) drift s + 1 noise 0
    noise, training, below the critical batch (s < -1,) drift s + 1 noise 0
    signal, learned, below the critical batch (2*s < -1, s > -1) drift 0 noise -s/2 - 1/2
    """
    if "scale" in named or given and isinstance(given[0], (DepthScaling, Parametrization)):
        return judge_scaling(*given, **named)
    return _judge_powers(*given, **named)


def _judge_powers(alpha: Any, gamma: Any = None, net: Net = None, opt: Any = None,
                  from_zero: Sequence[str] = (), updates: int = 1, batch_size: Any = None, steps: Any = None,
                  data: str = "fixed") -> Verdict:
    scale = DepthScaling(exponent("alpha", alpha), exponent("gamma", gamma))
    return judge_scaling(scale, net, opt, from_zero, updates, batch_size, steps, data)


classify.__signature__ = signature(_judge_powers)  # type: ignore[attr-defined]  # what help() shows


def judge_scaling(scale: Scaling, net: Net = None, opt: Any = None, from_zero: Sequence[str] = (), updates: int = 1,
                  batch_size: Any = None, steps: Any = None, data: str = "fixed") -> Verdict:
    """The verdict on a depth scaling, or on exponents matrix by matrix; ``classify`` with two numbers comes here."""
    if not isinstance(scale, (DepthScaling, Parametrization)):
        raise ValueError(f"scale: got {short(scale)}; expected a tp.DepthScaling or a tp.Parametrization")
    data = choice("data", data, DIRECTIONS)
    if batch_size is None and steps is None:
        if data != "fixed":
            raise ValueError(f"data: got {data!r} without batch_size and steps, beside which alone it says something; "
                             "expected one of them")
        return _of_updates(scale, net, opt, from_zero, updates)
    if isinstance(net, Program):
        raise NotCovered(f"batch_size, steps: got {batch_size} and {steps} with a tp.Program, which does not say by "
                         "which optimizer it is trained; expected a tp.ResNet or a tp.Transformer")
    optimizer = optimizer_or_default(opt)
    if isinstance(optimizer, Clipped):
        raise NotCovered(f"opt: got {optimizer!r}; how clipped gradients answer a batch is not known; expected "
                         f"{optimizer.opt!r}")
    decays = bool(optimizer.weight_decay)  # its share is a power of its own over many steps
    if decays and not is_dataclass(optimizer):
        raise NotCovered(f"opt: got {short(optimizer)}, which is no dataclass, so that its steps without the decay are "
                         "not to be had; expected one that is, or no weight decay")
    alone = replace(optimizer, weight_decay=0.0) if decays else optimizer  # type: ignore[type-var]
    found = _of_updates(scale, net, alone, from_zero, updates)
    judged = ResNet() if net is None else net
    return replace(found, horizon=judge_horizon(found, judged, optimizer, batch_size, steps, data))


def _of_updates(scale: Scaling, net: Net, opt: Any, from_zero: Sequence[str], updates: int) -> Verdict:
    many = positive_integer("updates", updates)
    assert many is not None
    net = ResNet() if net is None else net
    if not isinstance(net, (Network, Program)):
        raise ValueError(f"net: got {short(net)}; expected a tp.ResNet, a tp.Transformer, a tp.Program or None")
    if not isinstance(net, Program) and net.narrow is not net:
        found = judge_scaling(scale, net.narrow, opt, from_zero, updates)
        return replace(found, assumptions=(WIDE, *found.assumptions))
    if not isinstance(from_zero, tuple) or from_zero:
        if not isinstance(net, Transformer):
            raise ValueError(f"from_zero: got {short(from_zero)}; expected () but for a tp.Transformer")
        net = FromZero.of(net, from_zero)
    optimizer = optimizer_or_default(opt)
    inside = unclipped(optimizer)
    if isinstance(scale, Parametrization) and scale.parameters is not None and not isinstance(net, Program):
        given = settings_in_layers(scale, net, inside)
        require_what_is_counted(given, inside)
        if isinstance(net, Transformer) and len(set(given.alphas)) > 1:
            return _of_branches_apart(scale, net, given.alphas, optimizer, many)
        scale = exponents_of_powers(scale, net, inside)
        if not from_zero and any(given.of(name, kind) for name in given.powers for kind in ("init", "multiplier")):
            found = judge_scaling(scale, net, opt, updates=updates)
            return replace(found, assumptions=(FOLDED, *found.assumptions))
    if isinstance(scale, Parametrization):
        scale = _reduced(scale, net)
    powers = {"alpha": scale.alpha, **({"gamma": scale.gamma} if isinstance(scale, DepthScaling) else scale.own)}
    for name, value in powers.items():
        if not value.is_number:
            raise ValueError(f"{name}: got {value}; expected a real number")
    if isinstance(net, Program):
        return _of_program(net, scale, opt, many)
    require_frozen_embedding_readout(net)
    require_vectors_taken(net, inside, scale)
    counted = net if net.is_usual else without_post_norms(net)
    try:
        moved = without_clipping(counted, optimizer, scale) if isinstance(optimizer, Clipped) else scale
        judge = of_transformer if net.positions else _of_resnet
        found = judge(counted, moved, inside, many)
        if counted is not net:
            require_normalized(found)
            found = replace(found, assumptions=(POST, *found.assumptions))
    except NotCovered as error:
        said = str(error).replace(repr(counted), repr(net))
        if said == str(error) and (net.is_usual or repr(net) in said):
            raise
        raise NotCovered(said if repr(net) in said else f"net: got {net!r}; {said}") from None
    found = replace(found, assumptions=(*by_gates(net), *found.assumptions))
    gamma = scale.gamma if isinstance(scale, DepthScaling) else None
    return found if inside is optimizer else replace(found, gamma=gamma, assumptions=(*found.assumptions, CLIPPED))


def _of_branches_apart(scale: Parametrization, net: Transformer, alphas: tuple[sp.Expr, ...],
                       opt: Optimizer | Clipped, updates: int) -> Verdict:
    """The verdict on branches of different sizes: that of the least alpha, with multipliers in the other branches.

    Gradients carry these multipliers, and updates of gradient descent are said for gradients without them.
    """
    if isinstance(net, FromZero):
        raise NotCovered(f"from_zero: got {net.zero} beside branches of different sizes; expected ()")
    inside = unclipped(opt)
    given = exponents_of_powers(scale, net, inside, alpha=min(alphas))
    there = BranchesApart.of(net, alphas)
    moved = {name: given.update_exponent(name) - (power if isinstance(inside, SGD) else 0)
             for name, power in apart_of(there).items()}
    if isinstance(inside, Adam):
        inside = replace(inside, eps=0.0)  # which is negligible beside gradients of any size
    found = judge_scaling(given.with_exponents(given.alpha, moved), there,
                          replace(opt, opt=inside) if isinstance(opt, Clipped) else inside, (), updates)
    return replace(found, gamma=None)


def _of_program(net: Program, scale: Scaling, opt: object, updates: int) -> Verdict:
    if opt is not None:
        raise ValueError(f"opt: got {short(opt)} with a tp.Program, which says how it is trained; expected None")
    if not isinstance(scale, DepthScaling):
        raise NotCovered(f"alpha: got {short(scale)} with a tp.Program, whose sizes of updates are its symbols alpha "
                         "and gamma; expected one gamma for all matrices")
    region, exponents = region_of(net, scale.alpha, scale.gamma, updates)
    found = judge_exponents(scale.alpha, scale.gamma, region, exponents)
    return replace(found, assumptions=(by_updates(exponents, updates, found.stable_at_init),))


def _of_resnet(net: Network, scale: Scaling, opt: Optimizer, updates: int) -> Verdict:
    """By regions of the plane where they were found, by the program at hand else."""
    alpha, gamma = scale.alpha, scale.gamma if isinstance(scale, DepthScaling) else None
    linear, counted = as_gradient_descent(net, opt, scale, updates)
    alone = not isinstance(opt, SGD) and gradients_change(net, counted)  # later updates are of another size
    if net.vectors_of_block and not (alpha.is_Rational and all(
            counted.update_exponent(name).is_Rational for name in net.trained_of_block)):
        net.require_no_vectors("a verdict at irrational exponents")
    rational = all(one.is_Rational for one in (counted.alpha, *map(counted.update_exponent, net.trained_of_block)))
    if not rational and is_plain(linear) and isinstance(counted, DepthScaling):
        region, exponents = region_of(net, counted.alpha, counted.gamma, updates, alone)
        point: tuple[sp.Expr, ...] = (counted.alpha, counted.gamma)
    else:
        for name in net.trained_of_block:
            if not (counted.alpha.is_Rational and counted.update_exponent(name).is_Rational):
                raise NotCovered(f"{name}: got alpha = {counted.alpha}, gamma = {counted.update_exponent(name)}; "
                                 "expected rational numbers, beside other exponents or optimizers with a memory")
        region, point = Region(0), ()
        try:
            exponents = training_terms(net, counted, linear).exponents(updates, alone or updates > 1)
        except OwnLayers as regime:
            exponents = in_every_depth(regime, 0)
    matrices, descent = MatrixVerdicts(net, counted, updates), linear if linear.weight_decay else SGD()
    found = judge_exponents(alpha, gamma, region, exponents, matrices, point)
    assumed = (*by_visits(net), FROZEN, SAMPLE, *by_optimizer(opt, scale, counted, net.trained_of_block),
               by_updates(exponents, updates, found.stable_at_init, alone))
    return replace(found, sizes=NetworkSizes(net, counted, found.stable_at_init, descent, updates), assumptions=assumed)


def _reduced(scale: Parametrization, net: Network | Program) -> Scaling:
    """A tp.DepthScaling where it is one; refused where it is not muP in width."""
    names = tuple(dict.fromkeys(m.name for m in net.matrices)) if isinstance(
        net, Program) else net.trained_of_block
    if not scale.is_mup(ends=False):
        try:
            said = str(width_verdict(scale.width_scaling))
        except NotCovered as error:
            said = f"not known ({error})"
        raise NotCovered(f"width: got {short(scale.width)}, which is not muP in width, so that there are no kets "
                         f"whose powers of L could be counted; a perceptron of these powers of n: {said}")
    return scale.over(names, ends=False)
