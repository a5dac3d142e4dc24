"""A layer as lines of terms that read this layer and earlier ones, and its reverse, written by hand.

What ``backpropagate`` derives for one block is done here for a sweep whose layers read several layers back and carry
several families on: the loop is reversed, and what a layer sends further back than to its neighbor is a message that
waits for the layer that needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy as sp

from tpcalc.programs.blocks import vector
from tpcalc.programs.indices import L, l, t
from tpcalc.programs.language import Family, Matrix, MatVec, Outer, Transpose, Vector
from tpcalc.programs.program import Assign, Loop, Statement

UNIT = sp.Symbol("eps", positive=True)


@dataclass(frozen=True)
class Term:
    """c eps^power W phi(v^(l - lag)), a part of one line; c may depend on t and l, phi on one symbol.

    matrix: its name, "" for none; turned: its transpose; source: the family v; phi: None for the identity. A matrix
    acts on a vector that has a name, so that a term has a matrix or a function, not both.
    """

    source: str
    lag: int = 0
    factor: sp.Expr = sp.Integer(1)
    power: int = 0
    matrix: str = ""
    turned: bool = False
    phi: sp.Lambda | None = None


@dataclass(frozen=True)
class Line:
    """``target[l]`` := the sum of terms; it reads lines before it in its own layer, and any of earlier layers."""

    target: str
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class LayerSweep:
    """Lines for every layer from ``first`` on; layers below it hold the input. tied: matrices without a layer index.

    The output is read from the family x, which no line of its own layer may read.
    """

    lines: tuple[Line, ...]
    tied: frozenset[str] = frozenset()
    carried: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        carried = {term.source for line in self.lines for term in line.terms if term.lag} | {"x"}
        object.__setattr__(self, "carried", frozenset(carried))
        if any(term.source == "x" and not term.lag for line in self.lines for term in line.terms):
            raise ValueError("lines: got a line that reads x of its own layer; expected lags of at least 1")

    @property
    def first(self) -> int:
        """The first layer that is computed: as many layers before it as the longest lag needs."""
        return max(term.lag for line in self.lines for term in line.terms)

    @property
    def matrices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term.matrix for line in self.lines for term in line.terms if term.matrix))

    def weights(self, name: str, step: sp.Expr = t, layer: sp.Expr = l) -> Matrix:
        return Family(Matrix, name)[step] if name in self.tied else Family(Matrix, name, layered=True)[step, layer]

    def forward(self, eps: sp.Expr, entry: sp.Expr) -> list[Statement]:
        """The statements of a forward pass; ``entry`` is what the layers below the first hold."""
        before = [Assign(vector(name)[t, layer], entry)
                  for layer in range(self.first) for name in self.in_order(self.carried)]
        body = tuple(Assign(vector(line.target)[t, l], sp.Add(*(self._value(term, eps) for term in line.terms)))
                     for line in self.lines)
        return [*before, Loop(l, sp.Integer(self.first), L, body)]

    def _value(self, term: Term, eps: sp.Expr) -> sp.Expr:
        v = vector(term.source)[t, l - term.lag]
        value = v if term.phi is None else term.phi(v)
        if term.matrix:
            value = MatVec(self.matrix(term), value)
        return term.factor * eps**term.power * value

    def matrix(self, term: Term, back: bool = False) -> sp.Expr:
        matrix = self.weights(term.matrix)
        return Transpose(matrix) if term.turned != back else matrix

    def in_order(self, names: frozenset[str]) -> list[str]:
        return [line.target for line in self.lines if line.target in names]

    def backward(self, eps: sp.Expr, signal: sp.Expr) -> list[Statement]:
        """The statements of a backward pass that starts with ``signal`` at x^L.

        The gradient of a vector that lives in one layer is kept without the power of eps that all its terms share; of
        a vector that layers carry on it is whole.
        """
        return _Reverse(self, eps).statements(signal)

    def gradients(self) -> dict[str, sp.Expr]:
        """For every matrix the sum of its outer products in one layer, powers of eps left out."""
        found: dict[str, sp.Expr] = {name: sp.Integer(0) for name in self.matrices}
        for line in self.lines:
            for term in line.terms:
                if term.matrix:
                    d, v = vector("d" + line.target)[t, l], vector(term.source)[t, l - term.lag]
                    found[term.matrix] += term.factor * (Outer(v, d) if term.turned else Outer(d, v))
        return found


@dataclass
class _Reverse:
    """The reverse of one sweep, while it is being written."""

    sweep: LayerSweep
    eps: sp.Expr
    powers: dict[str, int] = field(default_factory=dict)       # of eps, kept out of a family's gradient
    messages: dict[str, sp.Expr] = field(default_factory=dict)  # by name: what layer l sends further back
    ahead: dict[str, int] = field(default_factory=dict)        # how far families are read beyond layer L: they are 0

    def statements(self, signal: sp.Expr) -> list[Statement]:
        sweep, body, late = self.sweep, [], []
        for line in reversed(sweep.lines):
            name = line.target
            self.powers[name] = 0 if name in sweep.carried else min(p for p, _ in self._pulls(name, 0))
        for line in reversed(sweep.lines):
            if self._is_used_here(line.target):
                near = [self._from(pull, self.powers[line.target]) for pull in self._pulls(line.target, 0)]
                far = [self._later(line.target, lag, lag) for lag in range(1, sweep.first + 1)]
                body.append(Assign(self._gradient(line.target, l), sp.Add(*near, *far)))
        for name in sweep.in_order(sweep.carried):
            if not self._is_used_here(name):
                near = [self._from(pull, 0) for pull in self._pulls(name, 1)]
                far = [self._later(name, lag, lag - 1) for lag in range(2, sweep.first + 1)]
                late.append(Assign(self._gradient(name, l - 1), sp.Add(*near, *far)))
        sent = [Assign(vector(name)[t, l], value) for name, value in self.messages.items()]
        ends = [Assign(vector(name)[t, L + beyond], sp.Integer(0)) for name in sorted(self.ahead)
                for beyond in range(1, self.ahead[name] + 1)]
        start = [Assign(self._gradient(name, L), signal if name == "x" else sp.Integer(0))
                 for name in sweep.in_order(sweep.carried) if not self._is_used_here(name)]
        return [*start, *ends, Loop(l, L, sp.Integer(sweep.first), (*body, *sent, *late), descending=True)]

    def _is_used_here(self, name: str) -> bool:
        """Does a line read this family of its own layer?"""
        return bool(self._terms(name, 0))

    def _terms(self, name: str, lag: int) -> list[tuple[str, Term]]:
        return [(line.target, term) for line in self.sweep.lines for term in line.terms
                if term.source == name and term.lag == lag]

    def _pulls(self, name: str, lag: int) -> list[tuple[int, sp.Expr]]:
        """(power of eps, vector) for what layer l sends to ``name`` of layer l - lag."""
        found = []
        for target, term in self._terms(name, lag):
            d: sp.Expr = self._gradient(target, l)
            if term.matrix:
                d = MatVec(self.sweep.matrix(term, back=True), d)
            if term.phi is not None:
                (symbol,), body = term.phi.variables, term.phi.expr
                d *= sp.diff(body, symbol).xreplace({symbol: vector(name)[t, l - lag]})
            found.append((term.power + self.powers[target], term.factor * d))
        return found

    def _from(self, pull: tuple[int, sp.Expr], shared: int) -> sp.Expr:
        power, value = pull
        return self.eps ** (power - shared) * value

    def _later(self, name: str, lag: int, shift: int) -> sp.Expr:
        """What layer l + shift, an earlier iteration, sends ``lag`` layers back to this family's gradient."""
        value = sp.Add(*(self._from(pull, 0) for pull in self._pulls(name, lag)))
        if value == 0:
            return value
        if value.has(MatVec):
            message = f"d{name}{lag}"
            self.messages[message], value = value, vector(message)[t, l]
        for v in value.atoms(Vector):
            self.ahead[v.name] = max(shift, self.ahead.get(v.name, 0))
        return value.subs(l, l + shift)

    @staticmethod
    def _gradient(name: str, layer: sp.Expr) -> Vector:
        return vector("d" + name)[t, layer]
