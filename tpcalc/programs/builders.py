"""Builders: from a network, an optimizer and a depth scaling to the Tensor Program of its training."""

from __future__ import annotations

import sympy as sp

from .._checks import exact, flag, instance, short, symbolic
from ..parametrizations import DepthScaling, Parametrization, Scaling
from .backprop import backpropagate
from .blocks import named, vector
from .clipped import Clipped
from .indices import BATCH, POSITIONS, L, T, i, j, l, m, o, p, t
from .language import Family, LossDerivative, Mat, Moment, Scal, Vec
from .networks import NETWORKS, Network
from .optimizers import SGD
from .positions import at_positions
from .program import Assign, Loop, Program, Statement
from .updates import Optimizer, Trainable, rates, require_optimizer, start, title, update

MOST = 10**5   # outputs of a program that is written out
UNIT = sp.Symbol("eps", positive=True)  # the branch multiplier, while the backward pass is derived


def program(net: Network, opt: Optimizer | Clipped, scale: Scaling, batch: bool = False, d_in: int = 1, d_out: int = 1,
            probes: int = 0) -> Program:
    """The training of ``net`` by ``opt`` at ``scale``, on one sample a step, or a batch of B.

    d_in, d_out: dimensions of a sample's input and output. Several add an index to what is given and read: the stream
    starts as sum_j xi[t, i, j] U[j], outputs are f[t, i, o] = mean(nV[o] x) and targets y[t, i, o]. probes: how many
    samples are carried forward at every step and never trained on, as samples B, B + 1, ... of it; with ``batch``.
    The samples of a tp.Transformer are sequences of P positions p, each with a stream, an output and a target of its
    own; the loss of a sample is the sum over them.

    scale: with a ``tp.Parametrization`` every matrix, and the ends where they are trained, may have an update exponent
    of its own; powers of the width must be muP's, in which the language writes them.

    alpha, gamma and the learning rate may be symbols or numbers; a schedule becomes a family eta_t of given
    scalars. The backward pass is derived from the forward one. Source: Tensor Programs VI, Program 1
    [tensor_programs_vi/program_1], with the depth scaling of its section 4 and the updates of appendix F
    [tensor_programs_vi/parameter_update].

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> program = tp.program(net, opt, scale)
    >>> [v.name for v in program.matrices]
    ['W']
    """
    instance("net", net, Network, NETWORKS)
    whole = branch_scaling(net, opt, scale)
    clipped, opt = (opt, opt.opt) if isinstance(opt, Clipped) else (None, opt)
    require_optimizer(opt)
    batch = flag("batch", batch)
    _require_sizes(batch, d_in, d_out, probes)
    require_ends(net, opt, scale, d_in, d_out)
    eps = exact("branch", whole.branch) * (L / exact("base_depth", whole.base_depth)) ** -whole.alpha
    sample: tuple[sp.Expr, ...] = (t, *([i] if batch else []), *([p] if net.positions else []))
    x, dx = vector("x"), vector("dx")
    U, nV = Family(Vec, "U"), Family(Vec, "nV")
    xi, f, chi = Family(Scal, "xi", r"\xi"), Family(Scal, "f"), Family(Scal, "chi", r"\chi")
    trained = net.train_ends
    into, out = (j,) if d_in > 1 else (), (o,) if d_out > 1 else ()
    when = (t,) if trained else ()
    ties = net.ties_ends
    read_in, read_out = U[(*when, *into)], (U if ties else nV)[(*when, *out)]
    given, answer, signal = xi[(*sample, *into)], f[(*sample, *out)], chi[(*sample, *out)]
    answers = sp.Tuple(*(answer.subs(o, number) for number in range(d_out))) if out else answer

    blocks = net.layer(sample, UNIT)
    back = backpropagate(blocks, x[(*sample, l)], dx[(*sample, l)], [x[(*sample, l - 1)]], gradient_name, UNIT)
    ahead, behind = (tuple(at_positions(Assign(a.target, a.value.subs(UNIT, eps)) for a in part))
                     for part in (blocks, back.statements))
    every = net.positions and POSITIONS  # as many as the size says, where there are any
    forward: list[Statement] = [
        *_each(p, every, Assign(x[(*sample, 0)], _total(given * read_in, j, d_in))),
        Loop(l, sp.Integer(1), L, ahead),
        *_each(p, every, *_each(o, d_out, Assign(answer, Moment(read_out * x[(*sample, L)]))))]
    backward: list[Statement] = [
        *_each(p, every, *_each(o, d_out, Assign(signal, LossDerivative(answers, *sample, *out)))),
        *_each(p, every, Assign(dx[(*sample, L)], _total(signal * read_out, o, d_out))),
        Loop(l, L, sp.Integer(1), behind, descending=True)]

    def mean(expression: sp.Expr) -> sp.Expr:
        """Over the batch, of sums over positions."""
        for index in sorted({p, m} & expression.free_symbols, key=str, reverse=True):
            expression = sp.Sum(expression, (index, 0, POSITIONS - 1))
        return sp.Sum(expression, (i, 0, BATCH - 1)) / BATCH if batch else expression

    gradients = _per_matrix(back.gradients)
    # a block's output enters the stream times eps, once: that much of a gradient is kept out of it, but for its sign
    matrices = [Trainable(_family(matrix), (l,), mean(whole.sign * outer), scale.step_size(matrix.name, L))
                for matrix, outer in gradients.items()]
    read, wrote = given * dx[(*sample, 0)], signal * x[(*sample, L)]
    reading = Trainable(U, into, mean(read + wrote.subs(o, j) if ties else read), scale.step_size("U", L))
    writing = Trainable(nV, out, mean(wrote), scale.step_size("nV", L))
    before: list[Statement] = []
    updates: list[Statement] = []
    if clipped is not None:
        updates, matrices, (reading, writing) = clipped.applied(matrices, (reading, writing))
    for kept, of in ((before, start), (updates, update)):
        statements = tuple(s for one in matrices for s in of(opt, one))
        kept += [Loop(l, sp.Integer(1), L, statements)] if statements else []
        for index, size, one in ((j, d_in, reading), *(() if ties else ((o, d_out, writing),))) if trained else ():
            kept += _each(index, size, *of(opt, one))
    body: tuple[Statement, ...] = (*forward, *backward, *updates)
    if probes:
        body = (Loop(i, sp.Integer(0), BATCH + probes - 1, tuple(forward)),
                Loop(i, sp.Integer(0), BATCH - 1, tuple(backward)), *updates)
    elif batch:
        body = (Loop(i, sp.Integer(0), BATCH - 1, (*forward, *backward)), *updates)
    looked_at = {index for s in (*blocks, *back.statements) for index in (*s.target.free_symbols, *s.bound)}
    roles = {t: "clock", l: "layer", **({i: "sample"} if batch else {}),
             **dict.fromkeys([*([j] if into else []), *([o] if out else [])], "width"),
             **dict.fromkeys([*([p] if every else []), *({m} & looked_at)], "position")}
    meaning = {L: "is the depth", T: "is the number of steps", **({BATCH: "is the batch"} if batch else {}),
               **({POSITIONS: "is the number of positions"} if every else {})}
    ends = (read_in,) if ties else (read_in, read_out)
    return Program(_title(net, opt) + (", clipped" if clipped else ""), tuple(end.subs(t, 0) for end in ends),
                   tuple(one.family[(0, l)] for one in matrices), (given, *rates(opt)),
                   (*before, Loop(t, sp.Integer(0), T - 1, body)),
                   (T, L, *([BATCH] if batch else []), *([POSITIONS] if every else [])), meaning, roles)


def branch_scaling(net: Network, opt: object, scale: Scaling) -> DepthScaling:
    """The scaling of a network's branches; raises ``ValueError`` for what is none, for names of matrices that are not
    the network's, and for powers of the width other than muP's."""
    if isinstance(scale, DepthScaling):
        return scale
    instance("scale", scale, Parametrization, "a tp.DepthScaling or a tp.Parametrization")
    how = isinstance(opt, SGD), net.train_ends
    scale.over(net.matrices_of_block, *how)
    scale.require_mup(*how)
    return scale.scaling


def require_ends(net: Network, opt: object, scale: Scaling, d_in: int, d_out: int) -> None:
    """Raise ``ValueError`` for what read-in and read-out cannot differ in where they are one."""
    if not net.ties_ends:
        return
    if d_in != d_out:
        raise ValueError(f"tied: True given with {d_in} inputs and {d_out} outputs; the read-out is the read-in, "
                         "allowed are as many of both")
    if isinstance(scale, Parametrization) and not scale.is_mup(isinstance(opt, SGD), net.train_ends):
        raise ValueError(f"scale: {short(scale)} given with tied=True; one array cannot have the powers of n of a "
                         "read-in and of a read-out, allowed is 'muP' in width, where they are alike")
    if scale.update_exponent("U") != scale.update_exponent("nV"):
        raise ValueError(f"scale: {short(scale)} given with tied=True, and update exponents of read-in and read-out "
                         "that differ; allowed is the same for both")


def _require_sizes(batch: bool, d_in: int, d_out: int, probes: int) -> None:
    for name, size, least in (("d_in", d_in, 1), ("d_out", d_out, 1), ("probes", probes, 0)):
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise ValueError(f"{name}: {size!r} given; allowed is a whole number of at least {least}")
        if size > MOST:
            raise ValueError(f"{name}: {short(size)} given; a program has a statement for each, allowed are {MOST}")
    if probes and not batch:
        raise ValueError(f"probes: {probes} given with batch=False; allowed are probes beside a batch (of 1, too)")


def gradient_name(v: Vec | Scal) -> sp.Expr:
    """dx[t, l] for x[t, l]."""
    return named(type(v), "d" + v.name)[v.indices]


def _total(value: sp.Expr, index: sp.Symbol, size: int) -> sp.Expr:
    """The sum over inputs or outputs, where there are several."""
    return sp.Sum(value, (index, 0, size - 1)) if size > 1 else value


def _each(index: sp.Symbol, size: int | sp.Symbol | None, *statements: Statement) -> list[Statement]:
    """The statements for all inputs, outputs or positions, where there are several."""
    return [Loop(index, sp.Integer(0), symbolic(size) - 1, statements)] if size not in (None, 1) and statements else [
        *statements]


def _per_matrix(gradients: list[tuple[Mat, sp.Expr]]) -> dict[Mat, sp.Expr]:
    """One gradient for every matrix, in forward order: the sum over its products."""
    found: dict[Mat, sp.Expr] = {}
    for matrix, outer in reversed(gradients):
        found[matrix] = found.get(matrix, sp.Integer(0)) + outer
    return found


def _family(matrix: Mat) -> Family:
    return Family(Mat, matrix.name, str(matrix.args[1]), layered=bool(int(matrix.args[2])))


def _title(net: Network, opt: Optimizer) -> str:
    return f"{net.title}, {title(opt)}"
