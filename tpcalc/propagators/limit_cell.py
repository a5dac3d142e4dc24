"""What depth=tp.oo means at a point of the (alpha, gamma) plane, from a network's program and its block's kernels."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import sympy as sp

from .._checks import short
from ..action.densities import KAPPA, Derivative
from ..asymptotics import CHANGE, KET, Counted, SizeSolution, Unknown
from ..calculus import KetEquations, kets
from ..calculus.recursion import derive_recursion
from ..calculus.setting import Setting
from ..data import Task
from ..errors import Divergence, NotCovered
from ..limits import DepthLimit, LimitRegion, depth_limit
from ..limits.depth_limit import Obstacle
from ..limits.slow_streams import normal_form
from ..models import ResNet, Transformer
from ..models.convolution import Convolution
from ..models.gates import counted_as, linear_gates
from ..models.networks import Network, Residual
from ..optimizers import SGD, Muon
from ..programs.language import LossDerivative, Scalar
from ..programs.special import require_no_explosion
from ..programs.program import Program
from ..scaling import DepthScaling, Parametrization, Scaling
from ..scaling.depth import EMBEDDING_READOUT_FAMILIES
from ..training.builders import counted_training
from .blocks import BlockKernels, Pairs
from .laws.pair_laws import kernels_of
from .own_sublayers import require_kernels

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
PLAIN = ResNet()
MOST_MATRICES = 4  # of a block whose powers of L are counted: every one costs seconds


@dataclass(frozen=True)
class LimitCell:
    """Densities in layer time that survive: of the initial noise (L eps^2) and of the updates (L eps g)."""

    noise: float
    drift: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Regime:
    """What survives in the stream at infinite depth; obstacle: what grows where there is no limit, else empty.

    grows_inside: x and f converge, what matrices make of x does not.
    """

    noise: bool = False
    drift: bool = False
    obstacle: str = ""
    grows_inside: bool = False


def limit_cell(scale: DepthScaling, net: Network = PLAIN) -> LimitCell:
    """The infinite-depth problem of a residual network at ``scale``, as the powers of L in its own program have it.

    Noise survives where the stream keeps what independent layers add to it, drift where it keeps what updates add.
    Where there is no limit ``Divergence`` is raised, with what was given, what grows and what is allowed.
    """
    found = regime(net, scale.alpha, scale.gamma)
    if found.obstacle:
        given = f"alpha = {scale.alpha}, gamma = {scale.gamma} given with depth=tp.oo"
        raise Divergence(f"{given}: {found.obstacle}; a limit needs alpha >= 1/2 and alpha + gamma >= 1")
    notes = []
    if not found.drift:
        notes.append("trivial limit: updates of size L^-gamma add up to nothing, f stays f_0 and kernels stay at "
                     "initialization")
    elif found.grows_inside:
        notes.append("x and f converge, to the limit shared by all alpha > 1/2; h = W x does not: its change grows "
                     f"like L^({-scale.gamma})")
    return LimitCell(scale.noise_constant if found.noise else 0.0, scale.drift_constant if found.drift else 0.0,
                     tuple(notes))


def regime_by_matrix(net: Network, scale: Parametrization) -> Regime:
    """What survives where matrices have update exponents of their own, from the ket equations alone.

    Raises ``ValueError`` where powers of L are not counted, and for trained embedding and readout with exponents of
    their own.
    """
    for end in EMBEDDING_READOUT_FAMILIES if net.train_embedding_readout else ():
        if scale.update_exponent(end):
            raise NotCovered(f"depth: got {end} = {scale.update_exponent(end)}; expected at infinite depth is 0 for a "
                             "trained end")
    if net.positions:
        raise NotCovered(f"scale: got {short(scale)} with update exponents matrix by matrix for {net.title}; expected "
                         "a tp.DepthScaling")
    everywhere, found = counted(counted_as(net, linear_gates)[0], scale)
    return everywhere or _of_kets(found)


@lru_cache(maxsize=256)
def regime(net: Network, alpha: sp.Expr, gamma: sp.Expr) -> Regime:
    """Which terms of the stream survive: in the recursion of a plain linear network, in the ket equations of others.

    Trained ends change no power of L in the layers. Raises ``ValueError`` where powers of L are not counted, for blocks
    that do not close on kernels and for streams that forget what they are given.
    """
    stands_in, _ = counted_as(net)
    if stands_in != net:
        return regime(stands_in, alpha, gamma)
    if net.is_plain:
        return _of_recursion(alpha, gamma)
    if net.positions:
        return _of_sublayers(net, alpha, gamma)
    try:
        everywhere, found = counted(net, DepthScaling(alpha, gamma))
    except NotCovered:  # no fractions, a function without a rule, or too many parts
        if isinstance(net, Residual) and not net.is_added:
            raise
    else:
        return everywhere or _of_kets(found)
    # A block that closes on kernels enters through these alone, the noise times L eps^2, the drift times L eps g
    # [tpcalc/action_principle]. Kernels of order one: powers of L are those of the plain linear network, whose kernels
    # are the stream's own.
    kernels_of(net)
    return _of_recursion(alpha, gamma)


@lru_cache(maxsize=64)
def counted(net: Network, scale: Scaling) -> tuple[Regime | None, SizeSolution]:
    """The ket equations of a net's program with their powers of L, and what its layers do of themselves where they keep
    no stream. Raises ``ValueError`` where they are not counted."""
    names = net.trained_of_block
    powers = {"alpha": scale.alpha, **{f"gamma of {name}": scale.update_exponent(name) for name in names}}
    if not all(power.is_Rational for power in powers.values()) or len(net.matrices_of_block) > MOST_MATRICES:
        given = ", ".join(f"{name} = {power}" for name, power in powers.items())
        raise NotCovered(f"{given} given for {net!r}; powers of L of nonlinear blocks are counted at fractions, for at "
                         f"most {MOST_MATRICES} matrices")
    net.require_counted()
    one = counted_training(net, SGD(), scale)
    equations, everywhere = _equations(one)
    found = Counted(equations).settled({})
    found.require_gradients()
    require_no_explosion(one, bool(found.explosions) and not found.gradients_alone)
    return everywhere, found


@lru_cache(maxsize=1)
def _limits() -> DepthLimit:
    """The regions of the plane, derived once: no constant of the scaling moves them."""
    return depth_limit(derive_recursion(kets(counted_training(PLAIN, SGD(), DepthScaling(ALPHA, GAMMA)))))


def linear_region(alpha: sp.Expr, gamma: sp.Expr) -> LimitRegion:
    """The region of the plane that a point lies in, for the plain linear network."""
    return _limits().at(alpha=alpha, gamma=gamma)


def _of_recursion(alpha: sp.Expr, gamma: sp.Expr) -> Regime:
    """Covariances keep sums over hat-kets of all layers, or not; outputs move, or not."""
    region = linear_region(alpha, gamma)
    if region.obstacle is not None:
        return Regime(obstacle=region.obstacle.words({ALPHA: alpha, GAMMA: gamma}))
    noise = any(term.rule == "base layers" for term in region.kept)
    return Regime(noise, not region.is_trivial, grows_inside=not region.is_trivial and bool(gamma < 0))


def instead_of(net: Transformer) -> ResNet:
    """A residual network of one sublayer W tanh(x), with a transformer's norms, gains, biases and skip in their places.
    It ends with a fresh matrix, as attention and perceptrons do. Raises ``ValueError`` for skips of a user's own."""
    net.require_known_skip()
    around = {f.name: getattr(net, f.name) for f in fields(Residual)}
    return ResNet("tanh", "pre_nonlin", net.norm, **{**around, "biases": bool(net.biases)})


def _of_sublayers(net: Network, alpha: sp.Expr, gamma: sp.Expr) -> Regime:
    """The regime of a transformer: each sublayer meets the stream with fresh matrices and enters through kernels of
    order one, now of all positions. So powers of L are those of the plain linear network [tpcalc/action_principle];
    where the stream grows sublayers that are normalized do not grow with it. Where sublayers do more to the stream than
    add to it, or have gains or biases, powers are those of blocks of one matrix that do. A convolution is a sum of
    finitely many blocks of one matrix, whose powers of L are counted on one position. Raises ``ValueError`` for
    sublayers that users wrote and that do not meet the stream so, and for updates that grow inside.
    """
    if isinstance(net, Transformer) and net.at_one_position is not None:
        return regime(net.at_one_position, alpha, gamma)
    if not isinstance(net, Transformer) or isinstance(net.attention, Convolution):
        raise NotCovered(f"net: got {short(net)}; expected a transformer, or a convolution and mlp=None")
    require_kernels(net)
    if not (gamma.is_number and gamma >= 0):
        raise NotCovered(f"got gamma = {gamma} for {net.title}; expected numbers of at least 0, as scores that "
                         "grow with the depth have no limit")
    if not net.is_added:
        return regime(instead_of(net), alpha, gamma)
    for what, power in (("the stream grows at initialization", sp.Rational(1, 2) - alpha),
                        ("training moves the stream", 1 - alpha - gamma)):
        if net.norm is not None and power > 0:
            return Regime(obstacle=f"{what} like L^({power})")
    return _of_recursion(alpha, gamma)


def _equations(one: Program) -> tuple[KetEquations, Regime | None]:
    """The ket equations of a program's normal form, and what its layers do of themselves where they keep no stream."""
    depth = Setting.of(one).depth
    assert depth is not None
    found = normal_form(one, depth)
    if found.explodes or found.forgets:
        kind, what = ("explodes", found.explodes) if found.explodes else ("decays", found.forgets)
        return kets(one), Regime(obstacle=Obstacle(kind, what, 0, sp.Integer(1)).words())
    return kets(found.program), None


def _of_kets(found: SizeSolution) -> Regime:
    """What is added to the stream: by independent layers at the first step, coherently at later ones."""
    equations = found.counted.equations
    outputs = [e.target.name for e in equations.equations
               if isinstance(e.target, Scalar) and not e.value.has(LossDerivative)]
    grows = obstacle_of(found, outputs)
    if grows is not None:
        return Regime(obstacle=grows.words())
    stream = min(found.counted.reading.accumulating)
    to_stream = {t: found.terms(Unknown(KET, t, stream)) for t in range(found.steps)}
    noise = [one.value for one in to_stream[0] if one.rule == "independent layers"]
    drift = [one.value for t in range(1, found.steps) for one in to_stream[t] if one.rule == "layers"]
    moved = [value for t in range(1, found.steps) if (value := found.value_of(Unknown(CHANGE, t, stream))) is not None]
    for what, values in (("the stream grows at initialization", [one.value for one in to_stream[0]]),
                         ("training moves the stream", moved)):
        power = found.power(max(values, default=None)).exponent
        if power > 0:
            return Regime(obstacle=f"{what} like L^({power})")
    return Regime(*(found.power(max(values, default=None)).exponent == 0 for values in (noise, drift)))


def obstacle_of(found: SizeSolution, outputs: list[str]) -> Obstacle | None:
    """What stands in the way of a limit; None where there is one."""
    families = found.counted.equations.setting.families

    def named(key: Unknown) -> str:
        return key.name if isinstance(key.name, str) else families[key.name].name

    if found.explosions:
        key, _ = found.explosions[0]
        rates = [found.rate(v) for other, v in found.explosions if other.step == key.step]
        return Obstacle("explodes", named(key), key.step, max(rates))
    if found.forgets:
        found.require_forgotten()
        key, rate = next(iter(found.forgets.items()))
        return Obstacle("decays", named(key), key.step, found.power(rate).exponent)
    powers = [(t, name, found.size(name, t).exponent) for t in range(found.steps) for name in outputs]
    if found.grows:
        for (t, name, before), (_, other, after) in zip(powers, powers[1:]):
            if name == other and before < after < sp.oo:
                return Obstacle("accelerates", name, t + 1, after - before)
        return Obstacle("accelerates", "", found.steps - 1, None)
    return next((Obstacle("grows", name, t, power) for t, name, power in powers if power > 0), None)


def infinite_depth_problem(net: ResNet, task: Task, opt: SGD | Muon, scale: DepthScaling
                           ) -> tuple[LimitCell, BlockKernels]:
    """Which densities survive at ``scale``, and the kernels through which the block enters them.

    What survives is read off the powers of L in the net's own program (``limit_cell``). Below alpha = 1 the stream
    stays Gaussian, and training closes on kernels.

    Raises ``ValueError`` where a nonlinear network does not close (alpha >= 1, blocks that act on the stream
    first, weights that decay to 0, inputs too large for quadrature), ``Divergence`` where there is no limit.
    """
    block = kernels_of(net)
    if block.is_linear:
        return limit_cell(scale), block
    if scale.alpha >= 1:
        raise NotCovered(f"alpha: got {scale.alpha} with depth=tp.oo for {net!r}; this solver takes alpha < 1: from "
                         "1 on updates move arguments of functions as much as initial matrices do, and nothing closes "
                         "on kernels; expected 'particles' at finite depth")
    cell = limit_cell(scale, net)
    if np.any(opt.memory(task.steps)[0] == 0):
        raise NotCovered(f"opt: got {opt!r}; nonlinear blocks at depth=tp.oo take weight decay that leaves something "
                         "of the initial matrices at every step")
    inputs = [task.inputs.reshape(-1, task.d_in)] + ([] if task.probes is None else [task.probes])
    largest = np.array([max(float(np.max(np.sum(x**2, axis=1))) for x in inputs)])
    kappa, = block.derivatives(Pairs(largest[:, None], largest, largest, 1.0), (Derivative(KAPPA),))
    if not np.all(np.isfinite(kappa)):
        raise NotCovered(f"task: got inputs with |xi|^2 up to {largest[0]:.3g}; quadrature does not resolve {net!r} "
                         "at such variances; expected smaller inputs, or activations with closed forms")
    return cell, block
