"""Builders: from a network, an optimizer and a depth scaling to the Tensor Program of its training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Callable, Iterable, Mapping

import sympy as sp

from .._checks import exact, flag, instance, short, symbolic
from ..errors import NotCovered
from ..scaling import DepthScaling, Parametrization, Scaling
from ..programs.backprop import Backward, Gradient, Trainable, backpropagate, in_blocks
from ..programs.blocks import named_family
from ..optimizers.clipped import Clipped
from ..programs.indices import BATCH, L, POSITIONS, T, VISITS, i, j, l, m, o, p, t
from ..programs.language import Family, LossDerivative, Matrix, Mean, Member, Scalar, Vector
from ..models.activations import activation
from ..models.network import NETWORKS, Layer, Network
from ..optimizers.normalized import NormalizedSGD
from ..optimizers.sgd import SGD, on_sphere
from ..optimizers.sphere import projected
from ..models.positions import at_positions
from ..programs.program import Assign, Loop, Program, Statement
from ..optimizers.updates import Optimizer, require_optimizer, schedule_rates, start, title, update
from ..models.skips import Way, visits_apart

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
    return followed_program(net, opt, scale, batch, d_in, d_out, probes)


def followed_program(net: Network, opt: Optimizer | Clipped, scale: Scaling, batch: bool, d_in: int, d_out: int,
                     probes: int, last: Statement | None = None) -> Program:
    """The ``program`` of a training with one statement more at its end."""
    instance("net", net, Network, NETWORKS)
    whole = branch_scaling(net, opt, scale)
    clipped, opt = (opt, opt.opt) if isinstance(opt, Clipped) else (None, opt)
    require_optimizer(opt)
    batch = flag("batch", batch)
    _require_sizes(batch, d_in, d_out, probes)
    require_embedding_readout(net, opt, scale, d_in, d_out)
    if net.visits == sp.oo:
        raise NotCovered(f"visits: got {net.visits}; a program loops over visits of a number; expected a whole number")
    way = Way.of(net)
    eps = exact("branch", whole.branch) * (L / exact("base_depth", whole.base_depth)) ** -whole.alpha / way.parts
    sample: tuple[sp.Expr, ...] = (t, *([i] if batch else []), *([p] if net.positions else []))
    U, nV = Family(Vector, "U"), Family(Vector, "nV")
    xi, f, chi = Family(Scalar, "xi", r"\xi"), Family(Scalar, "f"), Family(Scalar, "chi", r"\chi")
    trained = net.train_embedding_readout
    into, out = (j,) if d_in > 1 else (), (o,) if d_out > 1 else ()
    when = (t,) if trained else ()
    ties = net.ties_embedding_readout
    read_in, read_out = U[(*when, *into)], (U if ties else nV)[(*when, *out)]
    given, answer, signal = xi[(*sample, *into)], f[(*sample, *out)], chi[(*sample, *out)]
    answers = sp.Tuple(*(answer.subs(o, number) for number in range(d_out))) if out else answer

    visit = (*sample, *way.visits)
    layer, streams = net.layer(visit, UNIT), net.streams
    require_vectors_taken(net, opt, scale)
    back = _backward_pass(layer, streams, visit, trained)
    asked = [(stream, weight) for stream, weight in zip(streams, net.readout_weights)
             if gradient_name(stream[(*visit, l - 1)]) in {s.target for s in back.statements}]
    looped: Callable[[list[Assign]], Iterable[Statement]] = at_positions if net.positions else tuple
    upward, downward = (tuple(looped([way.placed(Assign(a.target, a.value.subs(UNIT, eps))) for a in part]))
                        for part in (layer.statements, back.statements))
    every = net.positions and POSITIONS  # as many as the size says, where there are any
    at_every = partial(_each, p, every)
    read = net.read((*sample, *way.last))
    total, to_read = _total(signal * read_out, o, d_out), list[Assign]()
    from_read = [Assign(gradient_name(stream[(*sample, *way.last)]), weight * total) for stream, weight in asked]
    if not net.reads_stream:
        to_read, from_read = _through_readout(net, sample, way.last, [stream for stream, _ in asked], total)
        read = to_read[0].target
    forward: list[Statement] = [
        *_each(p, every, *(Assign(stream[(*sample, *way.first)], _total(given * read_in, j, d_in))
                           for stream in streams)),
        *way.forward(upward, streams, sample, at_every), *to_read]
    overlap = Mean(read_out * read)
    if net.zero_readout:
        first = FirstPass(tuple(forward), frozenset({U.name, nV.name, *(one.name for one in layer.vectors)}))
        forward += first.statements
        overlap -= first.value(overlap)
    forward += _each(p, every, *_each(o, d_out, Assign(answer, overlap)))
    backward: list[Statement] = [
        *_each(p, every, *_each(o, d_out, Assign(signal, LossDerivative(answers, *sample, *out)))),
        *_each(p, every, *from_read),
        *way.backward(downward, [_gradients(stream) for stream, _ in asked], sample, at_every)]

    def mean(expression: sp.Expr) -> sp.Expr:
        """Over the batch, of sums over positions."""
        for index in sorted({p, m} & expression.free_symbols, key=str, reverse=True):
            expression = sp.Sum(expression, (index, 0, POSITIONS - 1))
        return sp.Sum(expression, (i, 0, BATCH - 1)) / BATCH if batch else expression

    def size_of(name: str, power: int) -> sp.Expr:
        """The size of one update. What enters the stream times eps, once, has that kept out of its gradient, and moves
        by g; what does times another power moves so that it changes the stream by eps g as well."""
        return scale.step_size(net.whole(name), L) * (whole.sign * eps) ** (1 - power)

    def over_visits(total: sp.Expr) -> sp.Expr:
        return mean(way.total(way.at(total.subs(UNIT, eps)))) / way.parts

    trainables = _in_blocks(net, [_trainable(one, parts, over_visits, size_of, whole.sign, layer.starts)
                                  for one, parts in _per_parameter(back.gradients).items()])
    start_of_all = sp.Add(*(way.of_start(stream, _gradients(stream), sample) for stream, _ in asked))
    into_stream, out_of_it = given * start_of_all, signal * read
    reading = Trainable(U, into, mean(into_stream + out_of_it.subs(o, j) if ties else into_stream),
                        scale.step_size("U", L))
    writing = Trainable(nV, out, mean(out_of_it), scale.step_size("nV", L))
    before: list[Statement] = []
    updates: list[Statement] = []
    if clipped is not None:
        updates, trainables, (reading, writing) = clipped.applied(trainables, (reading, writing))
    if isinstance(opt, NormalizedSGD):
        before, updates, trainables = opt.applied(trainables)
    moving = opt.linear if isinstance(opt, NormalizedSGD) else opt
    changes = [Assign(one.at(t + 1, l), one if change is None else one + change.by(over_visits(change.of)))
               for one, change in layer.keeps.items()]
    zero = [Assign(one.at(0, l), sp.Integer(0)) for one in layer.keeps]
    for kept, of, others in ((before, start, zero), (updates, update, changes)):
        statements = tuple(s for one in trainables for s in of(moving, one))
        if of is update and on_sphere(opt):
            statements = tuple(projected(statements, trainables))
        statements += tuple(others)
        kept += [Loop(l, sp.Integer(1), L, statements)] if statements else []
        for index, size, one in ((j, d_in, reading), *(() if ties else ((o, d_out, writing),))) if trained else ():
            kept += _each(index, size, *of(moving, one))
    body: tuple[Statement, ...] = (*forward, *backward, *updates)
    if probes:
        body = (Loop(i, sp.Integer(0), BATCH + probes - 1, tuple(forward)),
                Loop(i, sp.Integer(0), BATCH - 1, tuple(backward)), *updates)
    elif batch:
        body = (Loop(i, sp.Integer(0), BATCH - 1, (*forward, *backward)), *updates)
    looked_at = {index for s in (*layer.statements, *back.statements) for index in (*s.target.free_symbols, *s.bound)}
    roles = {t: "clock", l: "layer", **({i: "sample"} if batch else {}),
             **dict.fromkeys(way.visits, "visit"),
             **dict.fromkeys([*([j] if into else []), *([o] if out else [])], "width"),
             **dict.fromkeys([*([p] if every else []), *({m} & looked_at)], "position")}
    meaning = {L: "is the depth", T: "is the number of steps", **({BATCH: "is the batch"} if batch else {}),
               **({POSITIONS: "is the number of positions"} if every else {}),
               **({VISITS: "is the number of visits"} if way.visits else {})}
    ends = (read_in,) if ties else (read_in, read_out)
    named = f"{net.title}, {title(opt)}" + (", clipped" if clipped else "")
    drawn = [one.family[(0, l)] for one in trainables if one.initial is None]
    return Program(named, (*(end.subs(t, 0) for end in ends), *(one for one in drawn if isinstance(one, Vector))),
                   tuple(one for one in drawn if isinstance(one, Matrix)),
                   (given, *schedule_rates(opt)),
                   (*before, Loop(t, sp.Integer(0), T - 1, body), *([] if last is None else [last])),
                   (T, L, *(size for size, one in ((BATCH, batch), (POSITIONS, every), (VISITS, way.visits)) if one)),
                   meaning, roles)


def counted_training(net: Network, opt: Optimizer | Clipped, scale: Scaling) -> Program:
    """The training in which powers of L are counted: visits of layers, where there are several, are two, each with
    vectors of its own; more of them are alike."""
    return visits_apart(program(net.at_infinite_width, opt, scale), 2)


def branch_scaling(net: Network, opt: object, scale: Scaling) -> DepthScaling:
    """The scaling of a network's branches; raises ``ValueError`` for what is none, for names of matrices that are not
    the network's, and for powers of the width other than muP's."""
    if isinstance(scale, DepthScaling):
        return scale
    instance("scale", scale, Parametrization, "a tp.DepthScaling or a tp.Parametrization")
    how = isinstance(opt, SGD), net.train_embedding_readout
    scale.over(net.trained_of_block, *how)
    scale.require_mup(*how)
    return scale.scaling


def require_vectors_taken(net: Network, opt: Optimizer, scale: Scaling) -> None:
    """Raise ``ValueError`` for trained vectors beside powers of n other than muP's, and for these and trained
    embedding and readout with an optimizer of matrices."""
    if getattr(opt, "of_matrices_alone", False):
        net.require_no_vectors(f"{opt!r}, which moves matrices,")
        if net.train_embedding_readout:
            raise NotCovered(f"opt: got {opt!r} with train_embedding_readout=True; {type(opt).__name__} moves "
                             "matrices, embedding and readout are vectors; expected frozen ones")
    if isinstance(scale, Parametrization) and not scale.is_mup(isinstance(opt, SGD), net.train_embedding_readout):
        net.require_no_vectors(f"{short(scale)}, with powers of n other than muP's,")


def require_embedding_readout(net: Network, opt: object, scale: Scaling, d_in: int, d_out: int) -> None:
    """Raise ``ValueError`` for what embedding and readout cannot differ in where they are one."""
    if not net.ties_embedding_readout:
        return
    if d_in != d_out:
        raise ValueError(f"tied: got True with {d_in} inputs and {d_out} outputs; the readout is the embedding; "
                         "expected as many of both")
    if isinstance(scale, Parametrization) and not scale.is_mup(isinstance(opt, SGD), net.train_embedding_readout):
        raise NotCovered(f"scale: got {short(scale)} with tied=True; one array cannot have the powers of n of an "
                         "embedding and of a readout; expected 'muP' in width, where they are alike")
    if scale.update_exponent("U") != scale.update_exponent("nV"):
        raise NotCovered(f"scale: got {short(scale)} with tied=True, and update exponents of embedding and "
                         "readout that differ; expected the same for both")


def _require_sizes(batch: bool, d_in: int, d_out: int, probes: int) -> None:
    for name, size, least in (("d_in", d_in, 1), ("d_out", d_out, 1), ("probes", probes, 0)):
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise ValueError(f"{name}: got {size!r}; expected a whole number of at least {least}")
        if size > MOST:
            raise ValueError(f"{name}: got {short(size)}; a program has a statement for each; expected {MOST}")
    if probes and not batch:
        raise ValueError(f"probes: got {probes} with batch=False; expected probes beside a batch (of 1, too)")


def gradient_name(v: Vector | Scalar) -> sp.Expr:
    """dx[t, l] for x[t, l]."""
    return named_family(type(v), "d" + v.name)[v.indices]


def _gradients(stream: Family) -> Family:
    """The family dx of x."""
    return named_family(Vector, "d" + stream.name)


def _total(value: sp.Expr, index: sp.Symbol, size: int) -> sp.Expr:
    """The sum over inputs or outputs, where there are several."""
    return sp.Sum(value, (index, 0, size - 1)) if size > 1 else value


def _each(index: sp.Symbol, size: int | sp.Symbol | None, *statements: Statement) -> list[Statement]:
    """The statements for all inputs, outputs or positions, where there are several."""
    return [Loop(index, sp.Integer(0), symbolic(size) - 1, statements)] if size not in (None, 1) and statements else [
        *statements]


def _backward_pass(layer: Layer, streams: tuple[Family, ...], sample: tuple[sp.Expr, ...],
                   trained_embedding_readout: bool) -> Backward:
    """The backward pass of a layer; with frozen ends, of those streams alone whose gradients layers learn from."""
    before, after = (tuple(stream[(*sample, at)] for stream in streams) for at in (l - 1, l))
    back = backpropagate(layer.statements, {v: gradient_name(v) for v in after}, before, gradient_name, UNIT,
                         layer.vectors, layer.keeps)
    met = {one.name for s in layer.statements for one in s.value.atoms(Matrix)} | {one.name for one in layer.vectors}
    unread = sorted(met - {one.of.name for one in back.gradients})
    if unread:
        raise ValueError(f"block: got {', '.join(unread)}, whose gradient is 0: what is added to the stream has no "
                         "derivative in what they make; expected matrices and trained vectors that learn")
    if trained_embedding_readout or len(streams) == 1:
        return back
    makes: dict[sp.Expr, set[sp.Expr]] = {}
    for s in back.statements:
        makes.setdefault(_at_own_position(s.target), set()).update(map(_at_own_position, s.value.atoms(Vector, Scalar)))
    onwards = {gradient_name(new): gradient_name(old) for new, old in zip(after, before)}
    wanted, open_ = set(), [_at_own_position(v) for one in back.gradients for v in one.value.atoms(Vector, Scalar)]
    while open_:
        v = open_.pop()
        if v not in wanted:
            wanted.add(v)
            open_ += [*makes.get(v, ()), *([onwards[v]] if v in onwards else [])]
    return Backward([s for s in back.statements if _at_own_position(s.target) in wanted], back.gradients)


def _at_own_position(member: Vector | Scalar) -> sp.Expr:
    """What is sent to a state from the next position, or from behind the last one, at the own."""
    return member.at(*(p if index in (p + 1, POSITIONS) else index for index in member.indices))


def _through_readout(net: Network, sample: tuple[sp.Expr, ...], last: tuple[sp.Expr, ...], streams: list[Family],
                     signal: sp.Expr) -> tuple[list[Assign], list[Assign]]:
    """What the readout acts on where that is an activation of the stream, and the way back from it; signal: of it."""
    ends = [stream[(*sample, *last)] for stream in streams]
    features, back = Family(Vector, "r")[sample], Family(Vector, "dr", r"\delta r")[sample]
    forward = [Assign(features, activation(net.readout)(net.read((*sample, *last))))]
    return forward, [Assign(back, signal), *backpropagate(forward, {features: back}, ends, gradient_name,
                                                          UNIT).statements]


def _per_parameter(gradients: list[Gradient]) -> dict[Matrix | Vector, list[Gradient]]:
    """The gradients of every matrix and trained vector, one for every place where it stands, in forward order."""
    found: dict[Matrix | Vector, list[Gradient]] = {}
    for one in reversed(gradients):
        found.setdefault(one.of, []).append(one)
    return found


def _in_blocks(net: Network, trainables: list[Trainable]) -> list[Trainable]:
    """Parts of wide hidden layers' matrices, with the wholes."""
    wholes: dict[str, list[Trainable]] = {}
    for one in trainables:
        wholes.setdefault(net.whole(one.family.name), []).append(one)
    known = {one.family.name: one for parts in wholes.values() for one in in_blocks(parts)}
    return [known[one.family.name] for one in trainables]


def _trainable(of: Matrix | Vector, parts: list[Gradient], mean: Callable[[sp.Expr], sp.Expr],
               size: Callable[[str, int], sp.Expr], sign: int, starts: Mapping[str, sp.Expr | None]) -> Trainable:
    """A parameter under training, without the power of the branch multiplier that all its gradient's parts share."""
    power = min(sp.degree(one.factor, UNIT) for one in parts)
    total = sp.Add(*(one.factor / UNIT**power * one.value for one in parts))
    initial = None if isinstance(of, Matrix) else starts[of.name]
    family = Family(type(of), of.name, str(of.args[1]), layered=bool(int(of.args[2])))
    return Trainable(family, (l,), mean(sign**power * total), size(of.name, int(power)), initial=initial)


@dataclass(frozen=True)
class FirstPass:
    """A forward pass with the weights of step 0. forward: the pass with those of step t; trained: names of vectors that
    are trained, as matrices are."""

    forward: tuple[Statement, ...]
    trained: frozenset[str]

    @property
    def statements(self) -> list[Statement]:
        """What it makes has names of its own."""
        return [self._mapped(one) for one in self.forward]

    def value(self, expression: sp.Expr) -> sp.Expr:
        """An expression of what the pass makes, and of weights."""
        made = set(_made(self.forward))
        members = expression.atoms(Member)
        return expression.xreplace({
            **{one: _first(one) for one in members if one.name in made},
            **{one: one.func(*one.args[:3], sp.Integer(0), *one.args[4:]) for one in members
               if (isinstance(one, Matrix) or one.name in self.trained) and one.indices[:1] == (t,)}})

    def _mapped(self, one: Statement) -> Statement:
        if isinstance(one, Loop):
            return Loop(one.index, one.first, one.last, tuple(map(self._mapped, one.body)), one.descending)
        return Assign(self.value(one.target), self.value(one.value))


def _first(one: Member) -> Member:
    """x[t, l] as the first weights make it."""
    name, latex = str(one.args[0]), str(one.args[1])
    return Family(type(one), f"{name}_first", rf"{{{latex}^{{0}}}}", layered=bool(int(one.args[2])))[one.indices]


def _made(statements: Iterable[Statement]) -> Iterable[str]:
    for one in statements:
        if isinstance(one, Loop):
            yield from _made(one.body)
        elif isinstance(one.target, (Vector, Scalar)):
            yield one.target.name
