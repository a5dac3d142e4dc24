"""Builders: from a network, an optimizer and a depth scaling to the Tensor Program of its training."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from .._checks import exact
from ..parametrizations import DepthScaling
from .activations import activation, is_linear
from .backprop import backpropagate
from .entrywise import SignSGD
from .language import Family, LossDerivative, Mat, MatVec, Moment, NonlinearOuter, Outer, Scal, Vec
from .networks import ResNet
from .optimizers import SGD
from .program import Assign, Loop, Program, Statement

T, L, BATCH = sp.symbols("T L B", integer=True, positive=True)
t, l, i = sp.symbols("t l i", integer=True, nonnegative=True)
UNIT = sp.Symbol("eps", positive=True)  # the branch multiplier, while the backward pass is derived


@dataclass(frozen=True)
class Trainable:
    """A family under training, a matrix or an end: its normalised gradient and the size g of an update."""

    family: Family
    at: tuple[sp.Expr, ...]
    gradient: sp.Expr
    size: sp.Expr


def program(net: ResNet, opt: SGD | SignSGD, scale: DepthScaling, batch: bool = False) -> Program:
    """The training of ``net`` by ``opt`` at ``scale``, with one output, and one input a step or a batch of B.

    alpha, gamma and the learning rate may be symbols or numbers; a schedule becomes a family eta_t of given
    scalars. The backward pass is derived from the forward one. Source: paper B, Program 1
    [tensor_programs_vi/program_1], with the depth scaling of its section 4 and the updates of appendix F
    [tensor_programs_vi/parameter_update].
    """
    for name, value, allowed in (("net", net, (ResNet,)), ("opt", opt, (SGD, SignSGD)),
                                 ("scale", scale, (DepthScaling,))):
        if not isinstance(value, allowed):
            names = " or ".join(f"tp.{kind.__name__}" for kind in allowed)
            raise ValueError(f"{name}: {value!r} given; allowed is a {names}")
    base = exact("base_depth", scale.base_depth)
    eps = exact("branch", scale.branch) * (L / base) ** -scale.alpha
    g = (L / base) ** -scale.gamma
    sample: tuple[sp.Expr, ...] = (t, i) if batch else (t,)
    x, dx = vector("x"), vector("dx")
    U, nV = Family(Vec, "U"), Family(Vec, "nV")
    xi, f, chi = Family(Scal, "xi", r"\xi"), Family(Scal, "f"), Family(Scal, "chi", r"\chi")
    trained = net.train_ends
    read_in, read_out = (U[t], nV[t]) if trained else (U(), nV())

    blocks = block(net, x[(*sample, l - 1)], x[(*sample, l)], sample, UNIT)
    back = backpropagate(blocks, x[(*sample, l)], dx[(*sample, l)], [x[(*sample, l - 1)]], gradient_name, UNIT)
    ahead, behind = (tuple(Assign(a.target, a.value.subs(UNIT, eps)) for a in part)
                     for part in (blocks, back.statements))
    forward: list[Statement] = [
        Assign(x[(*sample, 0)], xi[sample] * read_in),
        Loop(l, sp.Integer(1), L, ahead),
        Assign(f[sample], Moment(read_out * x[(*sample, L)])),
        Assign(chi[sample], LossDerivative(f[sample], *sample)),
        Assign(dx[(*sample, L)], chi[sample] * read_out),
        Loop(l, L, sp.Integer(1), behind, descending=True)]

    def mean(expression: sp.Expr) -> sp.Expr:
        return sp.Sum(expression, (i, 0, BATCH - 1)) / BATCH if batch else expression

    matrices = [Trainable(_family(matrix), (l,), mean(outer), g) for matrix, outer in reversed(back.gradients)]
    ends = [Trainable(U, (), mean(xi[sample] * dx[(*sample, 0)]), sp.Integer(1)),
            Trainable(nV, (), mean(chi[sample] * x[(*sample, L)]), sp.Integer(1))] if trained else []
    start: list[Statement] = []
    updates: list[Statement] = []
    for group in (matrices, ends):
        statements = [s for one in group for s in update(opt, one)]
        zeros = tuple(Assign(buffer_of(one.family)[(0, *one.at)], sp.Integer(0)) for one in group
                      if isinstance(opt, SGD) and opt.momentum)
        layered = group is matrices
        if statements:
            updates += [Loop(l, sp.Integer(1), L, tuple(statements))] if layered else list(statements)
        if zeros:
            start += [Loop(l, sp.Integer(1), L, zeros)] if layered else list(zeros)
    body: tuple[Statement, ...] = (*forward, *updates)
    if batch:
        body = (Loop(i, sp.Integer(0), BATCH - 1, tuple(forward)), *updates)
    eta = Family(Scal, "eta", r"\eta")
    given = (xi[sample], eta[t]) if isinstance(opt, SGD) and isinstance(opt.lr, tuple) else (xi[sample],)
    meaning = {L: "is the depth", T: "is the number of steps", **({BATCH: "is the batch"} if batch else {})}
    return Program(_title(net, opt), (U[0], nV[0]) if trained else (U(), nV()),
                   tuple(one.family[(0, l)] for one in matrices), given,
                   (*start, Loop(t, sp.Integer(0), T - 1, body)), (T, L, BATCH) if batch else (T, L), meaning)


def vector(name: str) -> Family:
    """A family of vectors over steps and layers; gradients are written with a delta."""
    latex = name.replace("d", r"\delta ", 1) if name.startswith("d") else name
    return Family(Vec, name, latex, layered=True)


def gradient_name(v: Vec) -> Vec:
    """dx[t, l] for x[t, l]."""
    return vector("d" + v.name)[v.indices]


def block(net: ResNet, x: Vec, new: Vec, sample: tuple[sp.Expr, ...], eps: sp.Expr) -> list[Assign]:
    """The statements of one residual branch, from x^(l-1) to x^l."""
    phi, linear = activation(net.phi), is_linear(net.phi)
    statements: list[Assign] = []

    def named(name: str, value: sp.Expr) -> Vec:
        v = vector(name)[(*sample, l)]
        statements.append(Assign(v, value))
        return v

    def weights(number: int = 0) -> Mat:
        latex = "{W_%d}" % number if number else "W"
        return Family(Mat, f"W{number or ''}", latex, layered=True)[t, l]

    stream = x
    if net.norm == "rms":
        x = named("n", x * Moment(x**2) ** sp.Rational(-1, 2))
    if linear and net.block in ("post", "pre"):
        branch = MatVec(weights(), x)
    elif net.block == "post":
        z = named("z", phi(named("h", MatVec(weights(), x))))
        branch = z - Moment(z)
    elif net.block == "pre":
        branch = MatVec(weights(), named("z", phi(x)))
    elif net.block == "mlp":
        h = named("z" if linear else "h", MatVec(weights(1), x))
        branch = MatVec(weights(2), h if linear else named("z", phi(h)))
    else:
        h, v = named("h", MatVec(weights(1), x)), named("v", MatVec(weights(2), x))
        branch = MatVec(weights(3), named("z", phi(h) * v))
    return [*statements, Assign(new, stream + sp.expand(eps * branch))]


def update(opt: SGD | SignSGD, one: Trainable) -> list[Assign]:
    """The statements of one optimizer step for a family."""
    return _linear_update(opt, one) if isinstance(opt, SGD) else _entrywise_update(opt, one)


def _entrywise_update(opt: SignSGD, one: Trainable) -> list[Assign]:
    """W_{t+1} = W_t - lr g sign(gradient), entry by entry."""
    direction = sp.sign(one.gradient)
    moved = NonlinearOuter(direction) if direction.has(Outer) else direction
    return [Assign(one.family[(t + 1, *one.at)],
                   one.family[(t, *one.at)] - exact("lr", opt.lr) * one.size * moved)]


def _linear_update(opt: SGD, one: Trainable) -> list[Assign]:
    rate = Family(Scal, "eta", r"\eta")[t] if isinstance(opt.lr, tuple) else exact("lr", opt.lr)
    momentum, dampening, decay = (
        exact(name, getattr(opt, name)) for name in ("momentum", "dampening", "weight_decay"))
    weights, new = one.family[(t, *one.at)], one.family[(t + 1, *one.at)]
    statements = []
    gradient = one.size * one.gradient + (decay * weights if not opt.decoupled else 0)
    if momentum:
        buffer = buffer_of(one.family)
        kept = 1 - dampening * (1 - sp.KroneckerDelta(t, 0)) if dampening else sp.Integer(1)
        statements.append(Assign(buffer[(t + 1, *one.at)], momentum * buffer[(t, *one.at)] + kept * gradient))
        direction = buffer[(t + 1, *one.at)]
        gradient = gradient + momentum * direction if opt.nesterov else direction
    shrink = 1 - rate * decay if opt.decoupled else sp.Integer(1)
    statements.append(Assign(new, sp.expand(shrink * weights - rate * gradient)))
    return statements


def buffer_of(family: Family) -> Family:
    """The momentum buffer of a family."""
    return Family(family.kind, f"m{family.name}", rf"\mathrm{{m}}{family.latex}", family.layered)


def _family(matrix: Mat) -> Family:
    return Family(Mat, matrix.name, str(matrix.args[1]), layered=bool(int(matrix.args[2])))


def _title(net: ResNet, opt: SGD | SignSGD) -> str:
    name = net.phi if isinstance(net.phi, str) else "nonlinear"
    depth = "" if net.block == "post" else f" with {net.block} blocks"
    if not isinstance(opt, SGD):
        return f"{name} residual network{depth}, {type(opt).__name__}"
    extras = [word for word, there in (("momentum", opt.momentum), ("Nesterov", opt.nesterov),
                                       ("weight decay", opt.weight_decay)) if there]
    return f"{name} residual network{depth}, SGD" + (" with " + ", ".join(extras) if extras else "")
